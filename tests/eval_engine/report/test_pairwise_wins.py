"""Which model beats which, on pairs made by hand."""

import math
from itertools import combinations

import pytest

from eval_engine.report.answers import Answers
from eval_engine.report.comparison_row import ComparisonRow
from eval_engine.report.estimate_row import EstimateRow
from eval_engine.report.pairwise_wins import (
    FEW,
    PairwiseWins,
    chance_text,
    chances_text,
    needed_text,
    outcome,
    pairwise_wins,
    verdict_text,
    wins_text,
)
from eval_engine.report.panel import Panel, panels


def panel_of(
    values: dict[str, float | None], verdicts: dict[tuple[str, str], str], estimator: str = "ure_balanced"
) -> Panel:
    """One estimator; pairs that have no verdict are `a better` for the larger value.

    Pairs are stored in the order of names, as the table has them.
    """
    rows = [
        EstimateRow(m, estimator, "recall", 10, v, None, None, None, 100, 5, "", chance_best=0.5)
        for m, v in values.items()
    ]
    pairs = []
    for a, b in combinations(sorted(values), 2):
        difference = None if values[a] is None or values[b] is None else values[a] - values[b]
        verdict = verdicts.get(
            (a, b), "not decided" if difference is None else "a better" if difference > 0 else "b better"
        )
        pairs.append(
            ComparisonRow(
                estimator,
                "recall",
                10,
                a,
                b,
                difference,
                None,
                None,
                0.95,
                0.01,
                0.02,
                verdict,
                1,
                2,
                3,
                0.01,
                400,
                0.8,
            )
        )
    (panel,) = panels(Answers(rows, pairs))
    return panel


def wins_of(values: dict[str, float | None], verdicts: dict[tuple[str, str], str] | None = None) -> PairwiseWins:
    wins = pairwise_wins(panel_of(values, verdicts or {}))
    assert wins is not None
    return wins


def test_best_first_and_every_pair_said_of_the_better_one():
    wins = wins_of({"a": 0.1, "b": 0.3, "c": 0.2, "d": None})
    assert wins.models == ("b", "c", "a")
    assert [(row.model_a, row.model_b, row.verdict, row.wins) for row in wins.pairs] == [
        ("b", "c", "a better", 1),
        ("b", "a", "a better", 3),
        ("c", "a", "a better", 3),
    ]
    assert all(row.difference > 0 for row in wins.pairs)
    assert wins.pair("a", "b").verdict == "b better"
    assert wins.pair("a", "d") is None


def test_nothing_where_nothing_was_compared():
    assert pairwise_wins(panel_of({"a": 0.1}, {})) is None
    assert pairwise_wins(panel_of({"a": 0.1, "b": None}, {})) is None
    assert pairwise_wins(panel_of({"a": None, "b": None}, {})) is None
    (panel,) = panels(
        Answers([EstimateRow(m, "ure_macro", "recall", 10, 0.1, None, None, None, 1, 0, "") for m in "ab"])
    )
    assert pairwise_wins(panel) is None


def test_the_best_estimate_speaks_and_the_truth_where_there_is_no_other():
    def speaker(*estimators: str, metric: str = "recall", undefined: str = "") -> str:
        rows = [
            EstimateRow(m, e, metric, 10, None if e == undefined else v, None, None, None, 1, 0, "")
            for e in estimators
            for m, v in (("a", 0.1), ("b", 0.2))
        ]
        pairs = [
            ComparisonRow(e, metric, 10, "a", "b", -0.1, None, None, 0.95, 0.1, 0.1, "not decided") for e in estimators
        ]
        wins = pairwise_wins(panels(Answers(rows, pairs))[0])
        return wins.by if wins else ""

    recall = ("full_macro", "traditional", "ure_micro", "ure_macro", "ure_balanced")
    assert speaker(*recall) == "URE balanced recall@10"
    assert speaker(*recall, undefined="ure_balanced") == "URE macro recall@10"
    assert speaker("full_mean", "ure_mean", metric="precision") == "URE precision@10"
    assert speaker("full_macro", "ure_macro", metric="map") == "URE map@10"
    assert speaker("full_mean", "ure_mean", metric="hit_rate", undefined="ure_mean") == "the truth hit_rate@10"


def test_the_outcome_in_words():
    three = {"a": 0.3, "b": 0.2, "c": 0.1}
    assert outcome(wins_of({"a": 0.3, "b": 0.2})) == "a beats b"
    assert outcome(wins_of(three)) == "a beats every other model"
    one_open = outcome(wins_of(three, {("a", "b"): "not decided"}))
    assert one_open == "a leads, but its lead over b is not decided and it beats c"
    equivalent = outcome(wins_of(three, {("a", "b"): "equivalent", ("a", "c"): "not decided"}))
    assert equivalent == "a leads, but its lead over c is not decided and it is equivalent to b"
    both_open = outcome(wins_of(three, {("a", "b"): "not decided", ("a", "c"): "not decided"}))
    assert both_open == "a leads, but its lead over b and c is not decided"


@pytest.mark.parametrize("n", [2, FEW, FEW + 1, 20])
def test_of_many_models_the_terminal_shows_neighbours_and_the_best_against_all(n):
    wins = wins_of({f"m{i:02}": 1 - i / 100 for i in range(n)})
    assert len(wins.pairs) == math.comb(n, 2)
    assert len(wins.shown) == (math.comb(n, 2) if n <= FEW else 2 * n - 3)
    assert set(wins.shown) <= set(wins.pairs)


def test_texts():
    pair = wins_of({"a": 0.3, "b": 0.2}).pairs[0]
    undecided = pair._replace(verdict="not decided")
    assert (verdict_text(pair), verdict_text(pair.turned()), verdict_text(undecided)) == (
        "better",
        "worse",
        "not decided",
    )
    assert (wins_text(pair._replace(ties=1234)), wins_text(pair._replace(wins=None))) == ("1–1,234–3", "–")
    assert needed_text(undecided, 100) == "400"
    assert needed_text(undecided._replace(users_needed=90_863_600), 100) == "9e7"
    assert needed_text(undecided, 400) == "–"  # there are as many: it is the number of pairs that leaves it open
    assert needed_text(pair, 100) == needed_text(undecided._replace(users_needed=None), 100) == "–"
    assert [chance_text(x) for x in (0.0, 0.004, 0.014, 0.5, 0.99, 1.0, None, math.nan)] == [
        "<1 %",
        "<1 %",
        "1 %",
        "50 %",
        "99 %",
        ">99 %",
        "–",
        "–",
    ]


def test_chances_leave_out_those_without():
    wins = wins_of({"a": 0.3, "b": 0.2, "c": 0.1})
    assert chances_text(wins._replace(chances=(0.9, 0.1, 0.001))) == "a 90 %, b 10 %, the other <1 %"
    assert chances_text(wins._replace(chances=(1.0, 0.0, 0.0))) == "a >99 %, the other 2 <1 %"
    assert chances_text(wins._replace(chances=(None, None, None))) == ""
