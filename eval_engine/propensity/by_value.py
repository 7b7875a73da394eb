"""Propensities from rating values: naive Bayes [simpson; Schnabel et al. 2016].

    p(r) = P(r | logged) P(logged) / P(r)

P(r | logged) from all logged pairs, P(logged) = logged pairs / (users with one x items), P(r) from the random
exposures, each weighted by 1 / exposure_probability where it has one. The estimate is above 1 only by chance, and is
then taken as 1.

Over binary labels every positive has the same propensity, and weighting by it changes nothing: SNIPS equals holdout.
So two values or fewer are refused. So is a logged value that random exposures never have (P(r) = 0), and a value
outside the scale, where the config gives one.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from eval_engine.errors import DataError
from eval_engine.positive import Positive


class ValueCount(NamedTuple):
    """How often a rating value occurs."""

    logged: int  # pairs
    random: float  # exposures, by 1 / probability


def naive_bayes(
    counts: Mapping[float, ValueCount], density: float, scale: tuple[float, ...] | None = None
) -> dict[float, float]:
    """The propensity of each logged value; density: P(logged).

    >>> counts = {1.0: ValueCount(10, 60), 3.0: ValueCount(30, 30), 5.0: ValueCount(60, 10)}
    >>> {value: round(p, 4) for value, p in naive_bayes(counts, 0.05).items()}
    {1.0: 0.0083, 3.0: 0.05, 5.0: 0.3}
    """
    for value in sorted(set(counts) - set(scale or counts)):
        n = counts[value]
        raise DataError(
            f"propensity: the value {value:g} ({n.logged:,} logged pairs, {n.random:g} random exposures) is outside "
            f"the scale {', '.join(f'{step:g}' for step in scale or ())}. Fix the job that makes the tables, or "
            "propensity.scale."
        )
    logged, random = {v: n.logged for v, n in counts.items() if n.logged}, sum(n.random for n in counts.values())
    if len(logged) < 3:
        raise DataError(
            f"propensity: naive_bayes over {len(logged)} different values "
            f"({', '.join(f'{value:g}' for value in sorted(logged)) or 'none'}): all positives would have one "
            "propensity, so that weighting by it changes nothing. Use another method, or labels with three values or "
            "more."
        )
    for value in sorted(logged):
        if not counts[value].random:
            raise DataError(
                f"propensity: {logged[value]:,} logged pairs have the value {value:g}, but no random exposure has it, "
                "so that P(value) is 0 and the propensity undefined. Give more random exposures, or a coarser scale."
            )
    total = sum(logged.values())
    return {
        value: min(1.0, logged[value] / total * density / (counts[value].random / random)) for value in sorted(logged)
    }


def of_values(by_value: Mapping[float, float], values: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """The propensity of pairs with these values; NaN for a value that has none.

    >>> of_values({1.0: 0.01, 5.0: 0.3}, [5, 1, 2]).tolist()
    [0.3, 0.01, nan]
    """
    known = np.array(sorted(by_value))
    p = np.array([by_value[value] for value in known] + [np.nan])
    asked = np.asarray(values, float)
    place = np.searchsorted(known, asked)
    hit = (place < known.size) & (known[np.minimum(place, known.size - 1)] == asked)
    return p[np.where(hit, place, known.size)]


def one_weight(by_value: Mapping[float, float], positive: Positive) -> bool:
    """Whether all positive values have one propensity, so that weights change nothing."""
    return len({p for value, p in by_value.items() if positive.of(value)}) <= 1
