"""Text from outside is printable, whatever its characters, and names that differ look different."""

import io

from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from rich.text import Text

from eval_engine.plain_text import plain, plain_lines, plain_names

ODD = st.characters() | st.sampled_from("\x1b\x07\n\r\t\\[]x1bnu\u202e\u200b\u2028\ud800\x9b\x00\xa0")


@given(st.text(ODD))
def test_every_character_is_printable_and_a_second_time_changes_nothing(text: str) -> None:
    assert plain(text).isprintable()
    assert plain(plain(text)) == plain(text)


@given(st.text(st.characters(exclude_categories=["C", "Z"]) | st.just(" ")))
def test_printable_text_is_left_as_it_is(text: str) -> None:
    assert plain(text) == text


@given(st.sets(st.text(st.sampled_from("\x1b\n\\x1bn")), min_size=1))
def test_names_that_differ_are_shown_differently(names: set[str]) -> None:
    shown = plain_names(names)
    assert set(shown) == names
    assert len(set(shown.values())) == len(names)


@given(st.text(ODD))
def test_a_terminal_gets_the_text_and_nothing_else(text: str) -> None:
    file = io.StringIO()
    Console(file=file, width=100, soft_wrap=True, force_terminal=True, color_system="truecolor").print(
        Text(plain(text))
    )
    assert file.getvalue() == f"{plain(text)}\n"


def test_lines_of_a_message_stay_lines() -> None:
    assert plain_lines("run.yaml: a\nrun.yaml: \x1b]0;b\x07") == "run.yaml: a\nrun.yaml: \\x1b]0;b\\x07"
