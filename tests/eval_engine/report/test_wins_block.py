"""Which model beats which, in the terminal and on the page: short, whole, and with names as they are."""

import io
from itertools import combinations
from xml.etree import ElementTree

import pytest
from rich.console import Console

from eval_engine.report import plot, plot_wins
from eval_engine.report.answers import Answers
from eval_engine.report.comparison_row import ComparisonRow
from eval_engine.report.estimate_row import EstimateRow
from eval_engine.report.html import save_html
from eval_engine.report.panel import Panel, panels
from eval_engine.report.plot import save_plot
from eval_engine.report.wins_block import QUESTION, wins_block, wins_html

EVIL = '<script>alert("x")</script> & $title [bold]'


def answers_of(names: list[str], wins: int | None = 88) -> Answers:
    """The first is the best; neighbours are not decided."""
    rows = [
        EstimateRow(
            m,
            "ure_balanced",
            "recall",
            10,
            1 - 0.01 * i,
            0.01,
            0.0,
            0.2,
            1174,
            826,
            "",
            chance_best=0.5 if i < 2 else 0.0,
        )
        for i, m in enumerate(names)
    ]
    pairs = []
    for i, j in combinations(range(len(names)), 2):
        verdict, p, d = ("not decided", 0.4, 0.01) if j == i + 1 else ("a better", 0.00001, 0.01 * (j - i))
        pairs.append(
            ComparisonRow(
                "ure_balanced",
                "recall",
                10,
                names[i],
                names[j],
                d,
                d - 0.02,
                d + 0.02,
                0.95,
                p,
                p,
                verdict,
                wins,
                1026,
                60,
                0.01,
                4069,
                0.8,
            )
        )
    return Answers(rows, pairs)


def panel_of(names: list[str], wins: int | None = 88) -> Panel:
    return panels(answers_of(names, wins))[0]


def printed(panel: Panel, width: int = 80) -> list[str]:
    file = io.StringIO()
    block = wins_block(panel, width)
    assert block is not None
    Console(file=file, width=width).print(block)
    return [line.rstrip() for line in file.getvalue().splitlines()]


def test_four_models_take_a_dozen_lines():
    lines = printed(panel_of(["mf_ips", "mf", "popularity", "random"]))
    assert len(lines) <= 12
    text = "\n".join(lines)
    in_one = " ".join(lines)
    assert in_one.startswith(
        f"{QUESTION}, by URE balanced recall@10: mf_ips leads, but its lead over mf is not decided and it beats "
        "popularity and random"
    )
    assert "mf_ips     mf         0.0100 -0.0100 to 0.0300 not decided   88–1,026–60  4,069" in text
    assert "Chance to be the best: mf_ips 50 %, mf 50 %, the other 2 <1 %." in in_one


def test_columns_without_anything_are_left_out():
    assert "won" not in "\n".join(printed(panel_of(["a", "b", "c"], wins=None), 120)).lower()
    assert "88–1,026–60" in "\n".join(printed(panel_of(["a", "b", "c"]), 120))
    assert wins_block(panel_of(["a"]), 80) is None
    assert wins_html(panel_of(["a"])) == ""


@pytest.mark.parametrize("width", [80, 120])
def test_twenty_models_and_long_names_fit(width):
    lines = printed(panel_of([f"a_model_of_a_grid_{i}" for i in range(20)]), width)
    assert max(map(len, lines)) <= width
    assert sum(" to 0." in line for line in lines) == 2 * 20 - 3
    assert not any("…" in line for line in lines)


def test_names_are_printed_as_they_are_and_escaped_on_the_page(tmp_path):
    panel = panel_of([EVIL, "[/]", "b"])
    assert EVIL in "\n".join(printed(panel, 250))
    page = wins_html(panel)
    assert "<script" not in page
    assert EVIL in "".join(ElementTree.fromstring(page).itertext())
    assert QUESTION in save_html(answers_of([EVIL, "b"]), {}, None, tmp_path / "r.html").read_text()


@pytest.mark.parametrize("n", [2, 4, 20])
def test_the_page_has_every_pair_folded_where_there_are_many(n):
    page = ElementTree.fromstring(wins_html(panel_of([f"m{i}" for i in range(n)])))
    (pairs,) = [table for table in page.iter("table") if table.get("class") == "pairs"]
    assert len(list(pairs.iter("tr"))) == 1 + n * (n - 1) // 2
    assert bool(list(page.iter("details"))) is (n > 6)
    (chances,) = [table for table in page.iter("table") if table.get("class") == "chances"]
    assert len(list(chances.iter("tr"))) == 1 + n


@pytest.mark.parametrize(
    "names", [["a", "b"], ["a" * 40, "$x^{$", "<&>"], [f"m{i}" for i in range(9)], [f"model_{i}" for i in range(14)]]
)
def test_the_picture_grows_by_the_matrix_and_is_the_same_for_the_same_rows(tmp_path, monkeypatch, names):
    for module in (plot, plot_wins):
        monkeypatch.setattr(module, "MOST", 11)  # models in the picture: the last case has more
    answers = answers_of(names)
    with_pairs = save_plot(answers, tmp_path / "1.png").read_bytes()
    turned = answers._replace(
        estimates=answers.estimates[::-1], comparisons=[row.turned() for row in answers.comparisons[::-1]]
    )
    assert save_plot(turned, tmp_path / "2.png").read_bytes() == with_pairs
    assert len(save_plot(answers._replace(comparisons=()), tmp_path / "3.png").read_bytes()) < len(with_pairs)


def test_beside_an_estimate_stands_the_true_difference_where_there_is_a_truth():
    answers = answers_of(["a", "b"])
    truth = [
        row._replace(estimator="full_macro", value=v) for row, v in zip(answers.estimates, (0.3, 0.2), strict=True)
    ]
    (pair,) = answers.comparisons
    for p_holm, text in ((0.001, "0.1000"), (0.4, "0.1000 ?")):
        true_pair = pair._replace(estimator="full_macro", difference=0.1, low=0.05, high=0.15, p_holm=p_holm)
        both = Answers([*answers.estimates, *truth], [pair, true_pair])
        lines = printed(panels(both)[0], 120)
        assert [line for line in lines if f" {text} " in line]
        assert any("Truly: the difference by the truth" in line for line in lines)
        assert f"<td>{text}<small>0.0500 to 0.1500</small></td>" in wins_html(panels(both)[0])
    assert "truly" not in "".join(printed(panels(answers)[0])).lower()


def test_a_column_without_room_is_named():
    names = ["a_name_of_some_length", "another_name_of_some_length"]
    assert "88–1,026–60" not in "\n".join(printed(panel_of(names)))
    assert "won–tied–lost: on the page." in " ".join(printed(panel_of(names)))
