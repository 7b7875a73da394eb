"""Rows of reversals from rows of estimates and comparisons."""

from itertools import combinations
from typing import Any

import pytest

from eval_engine.evaluation.reversals import reversal_rows
from eval_engine.tables import REVERSALS

Values = dict[str, dict[str, float]]


def rows_of(
    by_slice: Values, p: float = 1e-9, estimator: str = "holdout", sizes: dict[str, dict[str, int]] | None = None
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Estimates and comparisons of models with these values in each slice, every pair with this p."""
    estimates, comparisons = [], []
    key = {"estimator": estimator, "metric": "recall", "k": 10}
    for name, values in by_slice.items():
        for model in values:
            estimates.append(key | {"slice": name, "model": model, "n_users": 10} | (sizes or {}).get(name, {}))
        for a, b in combinations(sorted(values), 2):
            own = {"slice": name, "model_a": a, "model_b": b, "difference": values[a] - values[b]}
            comparisons.append(key | own | {"p": p, "p_holm": p, "confidence": 0.95})
    return estimates, comparisons


PARADOX = {
    "all": {"a": 0.37, "b": 0.36, "c": 0.1},
    "propensity=1": {"a": 0.33, "b": 0.35, "c": 0.1},
    "propensity=2": {"a": 0.69, "b": 0.41, "c": 0.1},
}
SIZES = {"propensity=1": {"n_pairs": 990}, "propensity=2": {"n_pairs": 10}}
ITEMS = {"propensity=1": 3445, "propensity=2": 4}


def test_a_flag_names_slices_shares_items_and_what_random_exposure_says() -> None:
    estimates, comparisons = rows_of(PARADOX, sizes=SIZES)
    random = rows_of({"all": {"a": 0.16, "b": 0.17, "c": 0.1}}, estimator="ure_macro")
    (row,) = reversal_rows([*estimates, *random[0]], [*comparisons, *random[1]], 0.95, ITEMS)
    assert set(row) == set(REVERSALS.names) - {"run_id"}
    assert (row["flag"], row["model_a"], row["model_b"], row["slicing"]) == ("reversed", "b", "a", "propensity")
    assert row["difference"] == pytest.approx(-0.01)
    assert (row["slices"], row["shares"], row["share"], row["items"]) == (["propensity=1"], [0.99], 0.99, [3445])
    assert row["differences"] == [pytest.approx(0.02)]
    assert row["share_of"] == "pairs"
    assert (row["random_estimator"], row["random_says"]) == ("ure_macro", "as the slices")
    assert row["random_difference"] == pytest.approx(0.01)
    assert [row[f"n_{name}"] for name in ("model_pairs", "reversed", "vanishes", "weak")] == [3, 1, 0, 0]
    assert row["p_holm"] == pytest.approx(9e-9)


@pytest.mark.parametrize(("p", "flag"), [(1e-9, "reversed"), (0.02, "weak")])
def test_holm_over_slices_and_whole(p: float, flag: str) -> None:
    """Nine tests: p = 0.02 alone would be decided."""
    (row,) = reversal_rows(*rows_of(PARADOX, p, sizes=SIZES), 0.95)
    assert row["flag"] == flag
    assert row["random_says"] is None


def test_users_are_counted_where_pairs_are_not_known_and_none_is_a_row_too() -> None:
    estimates, comparisons = rows_of(PARADOX)  # 10 users in each slice: neither holds most
    (row,) = reversal_rows(estimates, comparisons, 0.95)
    assert (row["flag"], row["model_a"], row["slices"], row["n_model_pairs"]) == ("none", None, None, 3)
    assert set(row) == set(REVERSALS.names) - {"run_id"}
    more = [one | {"n_users": 30} if one["slice"] == "propensity=1" else one for one in estimates]
    (row,) = reversal_rows(more, comparisons, 0.95)
    assert (row["flag"], row["share"], row["share_of"], row["items"]) == ("reversed", 0.75, "users", None)


def test_slicings_are_families_of_their_own_and_undefined_slices_decide_nothing() -> None:
    values = PARADOX | {"segment=new": {"a": 0.4, "b": 0.3, "c": 0.1}, "segment=NULL": {"a": 0.4, "b": 0.3, "c": 0.1}}
    estimates, comparisons = rows_of(values, sizes=SIZES)
    rows = reversal_rows(estimates, comparisons, 0.95)
    assert [(row["slicing"], row["flag"]) for row in rows] == [("propensity", "reversed"), ("segment", "none")]
    missing = [
        row | {"difference": None, "p": None, "p_holm": None} if row["slice"] == "propensity=1" else row
        for row in comparisons
    ]
    assert {row["flag"] for row in reversal_rows(estimates, missing, 0.95)} == {"none"}
    assert reversal_rows(*rows_of({"all": PARADOX["all"]}), 0.95) == []
