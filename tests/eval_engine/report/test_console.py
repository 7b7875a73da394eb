"""What stands in the terminal: the right cells, at any width, with names printed as they are."""

import io
import re

import pytest
from rich.console import Console

from eval_engine.report.console import print_report
from eval_engine.report.estimate_row import EstimateRow


def column(estimator: str, k: int, values: dict[str, float | None], half: float | None = None) -> list[EstimateRow]:
    return [
        EstimateRow(
            model, estimator, "recall", k, v, None,
            None if half is None or v is None else v - half, None if half is None or v is None else v + half, 1234, 56, "",
        )
        for model, v in values.items()
    ]  # fmt: skip


ROWS = [
    *column("full_macro", 10, {"popularity": 0.0237, "mf_ips": 0.0312, "mf": 0.0257}),
    *column("traditional", 5, {"popularity": 0.5288, "mf_ips": 0.4801, "mf": 0.4859}, half=0.001),
    *column("ure_macro", 10, {"popularity": 0.0225, "mf_ips": 0.0288, "mf": None}, half=0.0011),
    *column("full_selected", 10, {"popularity": 0.0221, "mf_ips": 0.0291, "mf": 0.0240}),
]


def printed(rows, width=120, colours=False):
    file = io.StringIO()
    print_report(rows, Console(file=file, width=width, force_terminal=colours, color_system="truecolor" if colours else None))
    return file.getvalue()


def test_a_row_holds_truth_marks_interval_and_target_best_model_first():
    lines = [line.split() for line in printed(ROWS).splitlines()]
    assert ["mf_ips", "0.0312", "0.4801", "▼2", "0.0288", "0.0277–0.0299", "0.0291"] in lines
    assert ["popularity", "0.0237", "0.5288", "▲2", "0.0225", "0.0214–0.0236", "0.0221"] in lines
    assert ["mf", "0.0257", "0.4859", "▲1", "▼1", "–", "–", "0.0240"] in lines
    first = [line[0] for line in lines if line and line[0] in ("mf_ips", "mf", "popularity")]
    assert first[:3] == ["mf_ips", "mf", "popularity"]


def test_orders_and_conclusion_follow():
    text = printed(ROWS)
    assert re.search(r"truth\s+mf_ips → mf → popularity", text)
    assert re.search(r"traditional recall@5\s+popularity → mf → mf_ips\s+3 of 3 pairs differ", text)
    assert re.search(r"URE macro\s+mf_ips → popularity; undefined: mf", text)
    assert "Traditional recall@5 puts popularity above mf_ips; the truth at 10 is the other way round." in text
    assert "1,234 users, 56 left out" in text


def test_ties_are_written_with_an_equals_sign():
    assert "b = c → a" in printed(column("ure_macro", 10, {"a": 0.1, "b": 0.2, "c": 0.2}))


def test_the_best_value_of_a_column_is_bold():
    text = printed(ROWS, colours=True)
    assert re.search(r"\x1b\[1m0\.5288", text)
    assert not re.search(r"\x1b\[1m0\.4859", text)


@pytest.mark.parametrize("width", [80, 100, 140, 200])
def test_nothing_is_cut_or_too_wide(width):
    text = printed(ROWS, width)
    assert max(len(line) for line in text.splitlines()) <= width
    assert "…" not in text
    for number in ("0.0312", "0.4801", "0.0277–0.0299", "0.0291"):
        assert number in text


def test_markup_in_a_model_name_is_printed_as_it_is():
    assert "[bold]x[/bold]" in printed(column("ure_macro", 10, {"[bold]x[/bold]": 0.1, "[/]": 0.2}))


def test_no_rows():
    assert printed([]).strip() == "There are no estimates to report."
