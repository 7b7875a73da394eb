"""What stands in the terminal: the right cells, at any width, with names printed as they are."""

import io
import re

import pytest
from rich.console import Console

from eval_engine.report.answers import Answers
from eval_engine.report.comparison_row import ComparisonRow
from eval_engine.report.console import print_report
from eval_engine.report.estimate_row import EstimateRow


def column(estimator: str, k: int, values: dict[str, float | None], half: float | None = None) -> list[EstimateRow]:
    return [
        EstimateRow(
            model, estimator, "recall", k, v, None, None if half is None or v is None else v - half,
            None if half is None or v is None else v + half, 1234, 56, "",
        )
        for model, v in values.items()
    ]  # fmt: skip


ROWS = [
    *column("full_macro", 10, {"popularity": 0.0237, "mf_ips": 0.0312, "mf": 0.0257}),
    *column("traditional", 5, {"popularity": 0.5288, "mf_ips": 0.4801, "mf": 0.4859}, half=0.001),
    *column("ure_macro", 10, {"popularity": 0.0225, "mf_ips": 0.0288, "mf": None}, half=0.0011),
    *column("full_selected", 10, {"popularity": 0.0221, "mf_ips": 0.0291, "mf": 0.0240}),
]


def printed(rows, width=120, colours=False, comparisons=()):
    file = io.StringIO()
    print_report(
        Answers(rows, comparisons),
        Console(file=file, width=width, force_terminal=colours, color_system="truecolor" if colours else None),
    )
    return file.getvalue()


def test_a_row_holds_truth_marks_interval_and_target_best_model_first():
    lines = [line.split() for line in printed(ROWS).splitlines()]
    assert ["mf_ips", "0.0312", "0.4801", "▼2", "0.0288", "0.0277–0.0299", "0.0291"] in lines
    assert ["popularity", "0.0237", "0.5288", "▲2", "0.0225", "0.0214–0.0236", "0.0221"] in lines
    assert ["mf", "0.0257", "0.4859", "▲1", "▼1", "–", "0.0240"] in lines
    first = [line[0] for line in lines if line and line[0] in ("mf_ips", "mf", "popularity")]
    assert first[:3] == ["mf_ips", "mf", "popularity"]


def test_orders_and_conclusion_follow():
    text = printed(ROWS)
    assert re.search(r"^truth\n  mf_ips → mf → popularity *$", text, re.MULTILINE)
    flipped = r"^traditional recall@5: 3 of 3 pairs differ from the truth\n  popularity → mf → mf_ips *$"
    assert re.search(flipped, text, re.MULTILINE)
    undefined = r"^URE macro: 2 of 3 pairs tied or undefined\n  mf_ips → popularity; undefined: mf *$"
    assert re.search(undefined, text, re.MULTILINE)
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


ALL = [
    *ROWS,
    *column("ure_balanced", 10, {"popularity": 0.0235, "mf_ips": 0.0302, "mf": 0.0260}, half=0.0022),
    *column("ure_micro", 10, {"popularity": 0.0215, "mf_ips": 0.0278, "mf": 0.0231}, half=0.0011),
    *column("full_micro", 10, {"popularity": 0.0211, "mf_ips": 0.0281, "mf": 0.0230}),
]


NUMBERS = ("0.0312", "0.4801", "0.0280–0.0324", "0.0277–0.0299", "0.0291", "0.0278", "0.0267–0.0289", "0.0281")


@pytest.mark.parametrize("width", [60, 80, 90, 100, 140])
def test_all_columns_fit_line_by_line_or_in_a_second_table_if_need_be(width):
    text = printed(ALL, width)
    assert max(len(line) for line in text.splitlines()) <= width
    assert all(number in text for number in NUMBERS)
    on_one_line = [line for line in text.splitlines() if "0.0302 0.0280–0.0324" in line and "0.0278 0.0267" in line]
    assert bool(on_one_line) is (width >= 120)
    assert len(re.findall(r"^ *model ", text, re.MULTILINE)) == (2 if width == 60 else 1)


def test_schemes_with_the_same_order_share_a_line():
    text = printed(ALL, 80)
    assert "truth, URE balanced, URE micro\n  mf_ips → mf → popularity" in text


LONG = ("ranker_2026-11-14_candidate_of_a_long_name", "x" * 70, "b[/]", "\x1b[31mred")


@pytest.mark.parametrize("n_estimators", [1, 3, 12])
def test_long_names_and_many_estimators_fit_into_80_columns_and_lose_nothing(n_estimators):
    estimators = ["full_macro", *(f"an_estimator_of_ones_own_{n}" for n in range(n_estimators))]
    rows = [
        row
        for n, name in enumerate(estimators)
        for row in column(name, 10, dict.fromkeys(LONG, 0.11 + 0.01 * n), half=0.001)
    ]
    text = printed(rows, 80)
    assert max(len(line) for line in text.splitlines()) <= 80
    assert "…" not in text
    packed = re.sub(r"\s", "", text)
    for name in ("ranker_2026-11-14_candidate_of_a_long_name", "x" * 70, "b[/]", r"\x1b[31mred"):
        assert name in packed
    for n in range(n_estimators):
        assert f"{0.12 + 0.01 * n:.4f}" in text


def test_a_missing_value_is_a_dash_and_its_reason_stands_below_once():
    missing = [
        row._replace(reason="of all users it cannot be known: [why]")
        for row in column("ure_mean", 5, dict.fromkeys("abc"))
    ]
    hit_rate = [
        row._replace(metric="hit_rate") for row in missing + column("full_mean", 5, {"a": 0.1, "b": 0.2, "c": 0.3})
    ]
    text = printed(hit_rate)
    assert ["a", "0.1000", "–"] in [line.split() for line in text.splitlines()]
    assert text.count("URE: of all users it cannot be known: [why].") == 1


@pytest.mark.parametrize(
    ("metric", "k", "truth", "ure"), [("auc", 0, "full_macro", "ure_macro"), ("precision", 10, "full_mean", "ure_mean")]
)
def test_panels_of_other_metrics(metric, k, truth, ure):
    rows = [
        r._replace(metric=metric)
        for r in column(truth, k, {"a": 0.8, "b": 0.7}) + column(ure, k, {"a": 0.79, "b": 0.71}, half=0.01)
    ]
    lines = [line.split() for line in printed(rows).splitlines()]
    assert any(line[:2] == ["model", "truth"] and line[-3:] == ["95", "%", "interval"] for line in lines)
    assert ["a", "0.8000", "0.7900", "0.7800–0.8000"] in lines
    assert ["truth,", "URE"] in lines
    assert ["a", "→", "b"] in lines


def test_a_flip_that_comparisons_decide_is_clear_and_the_legend_says_why():
    rows = column("full_macro", 10, {"a": 0.3, "b": 0.2}, half=0.2) + column(
        "traditional", 5, {"a": 0.5, "b": 0.6}, half=0.2
    )
    pairs = [
        ComparisonRow("full_macro", "recall", 10, "a", "b", 0.1, 0.05, 0.15, 0.95, 0.001, 0.001, "a better"),
        ComparisonRow("traditional", "recall", 5, "a", "b", -0.1, -0.15, -0.05, 0.95, 0.001, 0.001, "b better"),
    ]
    assert "0.5000 ▼1" in printed(rows, comparisons=pairs)
    assert "paired over users" in printed(rows, comparisons=pairs)
    assert "conservative" not in printed(rows, comparisons=pairs)
    assert "0.5000 ▽1" in printed(rows)
    assert "conservative" in printed(rows)


def test_markup_in_a_model_name_is_printed_as_it_is():
    assert "[bold]x[/bold]" in printed(column("ure_macro", 10, {"[bold]x[/bold]": 0.1, "[/]": 0.2}))


def test_no_rows():
    assert printed([]).strip() == "There are no estimates to report."


def test_what_describes_lists_has_no_best_model_and_no_order():
    rows = [row._replace(metric="gini") for row in column("lists", 10, {"a": 0.9, "b": 0.2})]
    text = printed([*rows, *column("ure_macro", 10, {"a": 0.1, "b": 0.2})], 120, colours=True)
    gini = text[text.index("gini@10 of 2 models") : text.index("recall@10 of 2 models")]
    assert "0.9000" in gini
    assert "\x1b[1m0.9000" not in gini
    assert "best first" not in gini
    assert "a higher value is neither better nor worse" in gini
    assert "best first" in text
