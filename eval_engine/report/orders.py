"""The order of models that each scheme gives, and the pairs it orders differently from the reference.

A pair (a, b) is flipped when the scheme has a strictly above b and the reference b strictly above a. It is undecided
when either side has the two equal or one of them undefined: that is no error, and is counted separately.

A flip is clear when neither side is noise: the difference of the two models is beyond chance both in the scheme and in
the reference. Where the two were compared user by user, that is p below 1 - confidence, adjusted over all pairs (Holm).
Where they were not, both differences must be beyond their intervals,

    |v_a - v_b| > sqrt(h_a^2 + h_b^2),     h = max(high - value, value - low), the half-width of an interval

which treats the models' errors as independent. They share users and their errors are mostly correlated, so the true
interval of a difference is usually narrower: the test is conservative. A truth without an interval is exact; any other
scheme without one is never clear.
"""

import math
from collections.abc import Iterator
from itertools import combinations
from typing import NamedTuple

from eval_engine.report.estimate_row import defined
from eval_engine.report.panel import Panel
from eval_engine.report.scheme import ESTIMATE, NAIVE, TRUTH, Scheme


class Order(NamedTuple):
    """Models best first; the models of one group have the same value."""

    scheme: Scheme
    groups: tuple[tuple[str, ...], ...]
    undefined: tuple[str, ...]


class Flip(NamedTuple):
    """The scheme puts `above` over `below`, the reference the other way round; both gaps are positive."""

    above: str
    below: str
    gap: float
    reference_gap: float
    clear: bool
    paired: bool  # whether users were compared one by one to say so


class Agreement(NamedTuple):
    """A scheme's order compared with the reference's, pair by pair; clear flips first, then the widest."""

    scheme: Scheme
    reference: Scheme
    n_pairs: int
    flips: tuple[Flip, ...]
    undecided: tuple[tuple[str, str], ...]


def order(panel: Panel, scheme: Scheme) -> Order:
    """The models by this scheme's value, descending."""
    groups: dict[float, list[str]] = {}
    undefined = []
    for model in panel.models:
        value = panel.value(scheme, model)
        if value is None:
            undefined.append(model)
        else:
            groups.setdefault(value, []).append(model)
    return Order(scheme, tuple(tuple(groups[value]) for value in sorted(groups, reverse=True)), tuple(undefined))


def prefers(panel: Panel, scheme: Scheme, a: str, b: str) -> str | None:
    """Which of the two the scheme puts first; None if they are equal or one is undefined."""
    value_a, value_b = panel.value(scheme, a), panel.value(scheme, b)
    if value_a is None or value_b is None or value_a == value_b:
        return None
    return a if value_a > value_b else b


def agreements(panel: Panel) -> tuple[Agreement, ...]:
    """Every scheme that is compared with the reference: the naive ones, and with a truth the estimates too."""
    reference = panel.reference
    if reference is None or reference.role == NAIVE:
        return ()
    compared = panel.of(NAIVE, ESTIMATE) if panel.has_truth else panel.of(NAIVE)
    return tuple(agreement(panel, scheme, reference) for scheme in compared)


def agreement(panel: Panel, scheme: Scheme, reference: Scheme) -> Agreement:
    """The pairs that scheme and reference order differently, and those that one of them leaves open."""
    flips = sorted(_flips(panel, scheme, reference), key=lambda f: (not f.clear, -f.reference_gap, f.above, f.below))
    undecided = tuple(
        (a, b)
        for a, b in combinations(panel.models, 2)
        if prefers(panel, scheme, a, b) is None or prefers(panel, reference, a, b) is None
    )
    return Agreement(scheme, reference, math.comb(len(panel.models), 2), tuple(flips), undecided)


def misplaced(compared: Agreement) -> dict[str, tuple[int, int]]:
    """Of each model in a flip: how many models it is wrongly above, and how many it is wrongly below."""
    above, below = [f.above for f in compared.flips], [f.below for f in compared.flips]
    return {model: (above.count(model), below.count(model)) for model in sorted({*above, *below})}


def in_clear_flip(compared: Agreement, model: str) -> bool:
    """Whether a flip of this model is clear."""
    return any(f.clear for f in compared.flips if model in (f.above, f.below))


def _flips(panel: Panel, scheme: Scheme, reference: Scheme) -> Iterator[Flip]:
    for pair in combinations(panel.models, 2):
        first, other = prefers(panel, scheme, *pair), prefers(panel, reference, *pair)
        if first is None or other is None or first == other:
            continue
        paired = [_paired_clear(panel, s, *pair) for s in (scheme, reference)]
        clear = [
            _beyond_interval(panel, s, *pair) if known is None else known
            for s, known in zip((scheme, reference), paired, strict=True)
        ]
        yield Flip(
            first, other, _gap(panel, scheme, *pair), _gap(panel, reference, *pair), all(clear), None not in paired
        )


def _gap(panel: Panel, scheme: Scheme, a: str, b: str) -> float:
    value_a, value_b = panel.value(scheme, a), panel.value(scheme, b)
    return abs(value_a - value_b) if value_a is not None and value_b is not None else math.nan


def _paired_clear(panel: Panel, scheme: Scheme, a: str, b: str) -> bool | None:
    row = panel.pair(scheme, a, b)
    return row.clear if row else None


def _beyond_interval(panel: Panel, scheme: Scheme, a: str, b: str) -> bool:
    half_a, half_b = _half_width(panel, scheme, a), _half_width(panel, scheme, b)
    return _gap(panel, scheme, a, b) > math.hypot(half_a, half_b)


def _half_width(panel: Panel, scheme: Scheme, model: str) -> float:
    row = panel.rows[scheme, model]
    if defined(row.value) and defined(row.low) and defined(row.high):
        return max(row.high - row.value, row.value - row.low)  # of an interval cut at 0 or 1, the side that is not cut
    return 0.0 if scheme.role == TRUTH else math.inf
