"""Names cut to fit a picture stay apart, whatever they are, and say where they differ."""

from hypothesis import given
from hypothesis import strategies as st

from eval_engine.report.short_names import MAX_NAME, short_names

PART = st.text("ab…1_", max_size=12)
ALIKE = st.builds(
    lambda head, middle, tail: f"{head}{middle}{tail}",
    st.sampled_from(["", "ranker_2026-11-1", "a" * 30]),
    PART,
    st.sampled_from(["", "_candidate", "b" * 30]),
)


@given(st.sets(ALIKE | st.text(max_size=40), max_size=40))
def test_no_two_names_get_one_label_and_every_label_fits(names: set[str]) -> None:
    short = short_names(names)
    assert set(short) == names
    assert len(set(short.values())) == len(names)
    assert all(len(label) <= MAX_NAME for label in short.values())
    assert all(short[name] == name for name in names if len(name) <= MAX_NAME)


@given(st.lists(ALIKE, unique=True))
def test_labels_do_not_depend_on_the_order_of_names(names: list[str]) -> None:
    assert short_names(names) == short_names(names[::-1])


def test_names_that_differ_in_the_middle_show_their_middle() -> None:
    names = ["ranker_2026-11-14_candidate", "ranker_2026-11-15_candidate", "mf"]
    assert list(short_names(names).values()) == ["mf", "ranker_…11-14_c…", "ranker_…11-15_c…"]


def test_names_that_differ_at_the_end_show_both_ends() -> None:
    assert short_names(["two_tower_of_a_grid_017"]) == {"two_tower_of_a_grid_017": "two_towe…rid_017"}


def test_names_that_differ_in_two_places_show_both() -> None:
    names = [f"{'a' * 20}{i}{'b' * 20}{j}{'c' * 20}" for i in range(3) for j in range(3)]
    assert [short_names(names)[name][-3:] for name in names] == [f"{i}…{j}" for i in range(3) for j in range(3)]


def test_a_cut_name_is_not_taken_for_a_whole_one() -> None:
    whole, long = "abcdefgh…tuvwxyz", "abcdefghijklmnopqrstuvwxyz"
    assert short_names([long])[long] == whole
    assert short_names([long, whole])[long] != whole


def test_many_names_that_nothing_short_tells_apart_are_numbered() -> None:
    names = [f"{'x' * 20}{n:07b}".replace("0", "y" * 20).replace("1", "z" * 20) for n in range(128)]
    short = short_names(names)
    assert len(set(short.values())) == 128
    assert max(map(len, short.values())) <= MAX_NAME
