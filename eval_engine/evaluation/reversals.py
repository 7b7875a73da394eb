"""Rows of the table `reversals` from rows of estimates and comparisons: Simpson's paradox in every slicing
(statistics/simpson.py).

The rows must hold all estimators of a metric and cutoff: beside a flag stands what random exposure says of the pair.
A slice's size is its number of test pairs (`n_pairs` of estimates) where that is known, else its number of users.
"""

from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np

from eval_engine.estimators.registry import ESTIMATORS
from eval_engine.evaluation.spec import ALL
from eval_engine.statistics.simpson import FLAGS, NONE, Reversals, simpson

RANDOM = (
    "open_loop",
    "ure_macro",
    "ure_mean",
    "ure_micro",
    "ure_balanced",
)  # estimators from random exposure, best first
AS_SLICES, AGAINST, OPEN = "as the slices", "against the slices", "not decided"
Row = Mapping[str, Any]
Rows = list[dict[str, Any]]
Pair = tuple[str, str]


class _Family(NamedTuple):
    """One estimator, metric, cutoff and slicing."""

    key: tuple[str, str, int]
    slicing: str
    slices: list[str]
    pairs: list[Pair]
    rows: list[Mapping[Pair, Row]]  # of the whole, then of each slice
    sizes: list[int]
    share_of: str
    items: list[int] | None


def reversal_rows(
    estimates: Iterable[Row], comparisons: Iterable[Row], confidence: float, n_items: Mapping[str, int] | None = None
) -> Rows:
    """The rows of reversals, without run_id; none for a run without slices. n_items: of slices of items or pairs."""
    sliced: dict[tuple[str, str, int], dict[str, dict[Pair, Row]]] = {}
    for row in comparisons:
        by_slice = sliced.setdefault((row["estimator"], row["metric"], row["k"]), {})
        by_slice.setdefault(row["slice"], {})[row["model_a"], row["model_b"]] = row
    sizes = _sizes(estimates)
    rows: Rows = []
    for key in sorted(sliced):
        names = sorted(name for name in sliced[key] if name != ALL)
        for slicing, members in groupby(names, key=_slicing):
            family = _family(key, slicing, list(members), sliced[key], sizes, n_items or {})
            rows += _family_rows(family, _random_rows(key, sliced), confidence)
    return rows


def _slicing(name: str) -> str:
    return name.partition("=")[0]


def _sizes(estimates: Iterable[Row]) -> dict[tuple[str, str, int, str], dict[str, int | None]]:
    """Pairs and users of each slice; of models that differ, the largest."""
    sizes: dict[tuple[str, str, int, str], dict[str, int | None]] = {}
    for row in estimates:
        own = sizes.setdefault((row["estimator"], row["metric"], row["k"], row["slice"]), {})
        for name in ("n_pairs", "n_users"):
            own[name] = max((n for n in (own.get(name), row.get(name)) if n is not None), default=None)
    return sizes


def _family(
    key: tuple[str, str, int],
    slicing: str,
    slices: list[str],
    by_slice: Mapping[str, Mapping[Pair, Row]],
    sizes: Mapping[tuple[str, str, int, str], Mapping[str, int | None]],
    n_items: Mapping[str, int],
) -> _Family:
    whole = by_slice.get(ALL, {})
    own = [sizes.get((*key, name), {}) for name in slices]
    pairs_known = all(one.get("n_pairs") is not None for one in own)
    counts = [one.get("n_pairs" if pairs_known else "n_users") or 0 for one in own]
    items = [n_items[name] for name in slices if name in n_items]
    return _Family(
        key,
        slicing,
        slices,
        sorted(whole),
        [whole, *(by_slice[name] for name in slices)],
        counts,
        "pairs" if pairs_known else "users",
        items if len(items) == len(slices) else None,
    )


def _random_rows(
    key: tuple[str, str, int], sliced: Mapping[tuple[str, str, int], Mapping[str, Mapping[Pair, Row]]]
) -> Mapping[Pair, Row]:
    """What random exposure says of every pair; nothing of an estimator that is itself from random exposure."""
    own = ESTIMATORS.get(key[0])
    if own is None or "random" not in own.needs:
        for name in RANDOM:
            rows = sliced.get((name, *key[1:]), {}).get(ALL, {})
            if any(row["difference"] is not None for row in rows.values()):
                return rows
    return {}


def _family_rows(family: _Family, random: Mapping[Pair, Row], confidence: float) -> Rows:
    difference, p = (
        np.array([[_number(rows.get(pair), name) for pair in family.pairs] for rows in family.rows])
        for name in ("difference", "p")
    )
    reversals = simpson(difference, p, np.array(family.sizes, np.float64), 1 - confidence)
    estimator, metric, k = family.key
    counts = {f"n_{flag}": reversals.flags.count(flag) for flag in FLAGS}
    shared = {
        "estimator": estimator,
        "metric": metric,
        "k": k,
        "slicing": family.slicing,
        "n_model_pairs": len(family.pairs),
        **counts,
        "confidence": confidence,
    }
    rows = [
        shared | _flag_row(family, reversals, difference, n, random)
        for n in range(len(family.pairs))
        if reversals.flags[n] != NONE
    ]
    return rows or [shared | dict.fromkeys(FLAG_COLUMNS) | {"flag": NONE}]


def _number(row: Row | None, name: str) -> float:
    value = None if row is None else row[name]
    return float("nan") if value is None else float(value)


FLAG_COLUMNS = (
    "flag", "model_a", "model_b", "difference", "p_holm", "slices", "differences", "slices_p_holm", "shares", "share",
    "share_of", "items", "random_estimator", "random_difference", "random_p_holm", "random_says",
)  # fmt: skip


def _flag_row(
    family: _Family, reversals: Reversals, difference: Any, n: int, random: Mapping[Pair, Row]
) -> dict[str, Any]:
    """The columns of one flagged pair; model_a is the one that the slices favour."""
    side = int(reversals.favoured[n])
    first, second = family.pairs[n][::side]
    chosen = sorted(np.flatnonzero(reversals.slices[:, n]), key=lambda x: (-family.sizes[x], family.slices[x]))
    total = sum(family.sizes)
    row = {
        "flag": reversals.flags[n],
        "model_a": first,
        "model_b": second,
        "difference": side * float(difference[0, n]),
        "p_holm": _known(reversals.p_holm[0, n]),
        "slices": [family.slices[x] for x in chosen],
        "differences": [side * float(difference[x + 1, n]) for x in chosen],
        "slices_p_holm": [_known(reversals.p_holm[x + 1, n]) for x in chosen],
        "shares": [family.sizes[x] / total for x in chosen],
        "share": float(reversals.share[n]),
        "share_of": family.share_of,
        "items": None if family.items is None else [family.items[x] for x in chosen],
    }
    return row | _random_says(random.get(family.pairs[n]), side)


def _random_says(row: Row | None, side: int) -> dict[str, Any]:
    """What random exposure says of the pair; NULL where it says nothing."""
    if row is None or row["difference"] is None:
        return dict.fromkeys(("random_estimator", "random_difference", "random_p_holm", "random_says"))
    difference, p_holm = side * row["difference"], row["p_holm"]
    decided = p_holm is not None and p_holm < 1 - row["confidence"] and difference != 0
    return {
        "random_estimator": row["estimator"],
        "random_difference": difference,
        "random_p_holm": p_holm,
        "random_says": OPEN if not decided else AS_SLICES if difference > 0 else AGAINST,
    }


def _known(x: float) -> float | None:
    return None if np.isnan(x) else float(x)
