"""Slices of a run: the best estimate of every model for each value of a slicing (category=toys, segment=new).

The scheme is the first, in the order of the best estimate, that has a value in some slice: an estimate that is not
computed by slice leaves it to the next. Models come in the order of the whole.

A slice contradicts the whole in a pair of models when the slice decides for one of them and the whole for the other.
The family of tests is one scheme and one slicing: all pairs of models x (slices + whole), adjusted by Holm. A pair
without p decides nothing. Whether the best model of the whole is decided depends on the whole alone, as elsewhere.
"""

import re
from collections.abc import Iterator, Mapping
from itertools import combinations
from typing import NamedTuple

import numpy as np

from eval_engine.plain_text import plain_names
from eval_engine.report.cell import decimals_for, interval_text, value_text
from eval_engine.report.comparison_row import ComparisonRow
from eval_engine.report.estimate_row import EstimateRow, defined
from eval_engine.report.panel import Panel
from eval_engine.report.scheme import ESTIMATE, NAIVE, TRUTH, Scheme
from eval_engine.report.slice_name import ALL, WHOLE, SliceName
from eval_engine.statistics.multiplicity import holm

UNKNOWN = "unknown"


class Contradiction(NamedTuple):
    """The slice decides that `slice_row.model_a` is better than its model_b, the whole decides the reverse."""

    slice_row: ComparisonRow
    whole_row: ComparisonRow  # of the same models in the same order: its difference is negative


class SliceRow(NamedTuple):
    """One value of a slicing, or the whole."""

    value: str  # as it is shown
    estimates: Mapping[str, EstimateRow]  # by model
    best: str | None  # the model with the highest value; None if there are no two values, or a tie
    decided: bool  # whether the best model is better than every other one beyond chance
    contradictions: tuple[Contradiction, ...] = ()

    @property
    def n_users(self) -> int | None:
        """Users that the estimates rest on; the most, if models differ."""
        return max((row.n_users for row in self.estimates.values() if row.n_users is not None), default=None)

    def estimate(self, model: str) -> float | None:
        """The model's value; None if it has none."""
        row = self.estimates.get(model)
        return row.value if row and defined(row.value) else None

    def misplaced(self, model: str) -> tuple[int, int]:
        """How many models it is above, and how many below, against the whole and beyond chance."""
        pairs = [one.slice_row for one in self.contradictions]
        return sum(row.model_a == model for row in pairs), sum(row.model_b == model for row in pairs)


class Slicing(NamedTuple):
    """All values of one slicing under one scheme."""

    name: str  # as it is shown
    scheme: Scheme
    models: tuple[str, ...]  # best first in the whole
    whole: SliceRow
    rows: tuple[SliceRow, ...]  # by value; unknown last
    failed: tuple[str, ...]  # checks of the data that the scheme rests on

    @property
    def contradicted(self) -> tuple[SliceRow, ...]:
        """The slices that contradict the whole."""
        return tuple(row for row in self.rows if row.contradictions)

    def largest(self, most: int) -> tuple[SliceRow, ...]:
        """The slices with the most users, by value as before."""
        kept = sorted(range(len(self.rows)), key=lambda n: (-(self.rows[n].n_users or 0), n))[:most]
        return tuple(self.rows[n] for n in sorted(kept))


def slicings(panel: Panel) -> list[Slicing]:
    """Every slicing of the panel in which some scheme has a value."""
    names = plain_names(sorted({name.slicing for name in panel.slices}))
    made = (_slicing(panel, slicing, shown) for slicing, shown in names.items())
    return [one for one in made if one is not None]


def _slicing(panel: Panel, slicing: str, shown: str) -> Slicing | None:
    parts = {name: part for name, part in panel.slices.items() if name.slicing == slicing}
    scheme = _scheme(parts, panel)
    if scheme is None:
        return None
    values = _shown_values(parts)
    adjusted = _adjusted({WHOLE: panel, **parts}, scheme)
    whole = _row(ALL, panel, scheme, _compared(panel, scheme))
    rows = []
    for name in sorted(parts, key=lambda name: _natural(name.value)):
        row = _row(values[name], parts[name], scheme, adjusted[name])
        rows.append(row._replace(contradictions=tuple(_contradictions(adjusted[name], adjusted[WHOLE]))))
    models = tuple(sorted(panel.models, key=lambda model: _best_first(whole, model)))
    failed = panel.failed if scheme.rests_on_random else ()
    return Slicing(shown, scheme, models, whole, tuple(rows), failed)


def _scheme(parts: Mapping[SliceName, Panel], panel: Panel) -> Scheme | None:
    schemes = (scheme for role in (ESTIMATE, TRUTH, NAIVE) for scheme in panel.of(role))
    return next((s for s in schemes if any(part.has_value(s) for part in parts.values())), None)


def _shown_values(parts: Mapping[SliceName, Panel]) -> dict[SliceName, str]:
    """Each value as it is shown; values that differ are shown differently."""
    names = plain_names(name.value for name in parts if name.value is not None)
    unknown = UNKNOWN if UNKNOWN not in names.values() else f"{UNKNOWN} (NULL)"
    return {name: unknown if name.value is None else names[name.value] or '""' for name in parts}


def _compared(part: Panel, scheme: Scheme) -> dict[tuple[str, str], ComparisonRow]:
    """The comparisons of a panel, model_a before model_b by name."""
    pairs = ((a, b, part.pair(scheme, a, b)) for a, b in combinations(sorted(part.models), 2))
    return {(a, b): row for a, b, row in pairs if row is not None}


def _adjusted(
    parts: Mapping[SliceName, Panel], scheme: Scheme
) -> dict[SliceName, dict[tuple[str, str], ComparisonRow]]:
    """The comparisons of each slice, p_holm adjusted over all of them together."""
    rows = {(name, a, b): row for name, part in parts.items() for (a, b), row in _compared(part, scheme).items()}
    p = holm(np.array([row.p if defined(row.p) else np.nan for row in rows.values()]))
    adjusted: dict[SliceName, dict[tuple[str, str], ComparisonRow]] = {name: {} for name in parts}
    for (name, a, b), row, p_holm in zip(rows, rows.values(), p, strict=True):
        adjusted[name][a, b] = row._replace(p_holm=None if np.isnan(p_holm) else float(p_holm))
    return adjusted


def _row(value: str, part: Panel, scheme: Scheme, pairs: Mapping[tuple[str, str], ComparisonRow]) -> SliceRow:
    estimates = {model: part.rows[scheme, model] for model in part.models if (scheme, model) in part.rows}
    values = sorted(((v, model) for model in estimates if (v := part.value(scheme, model)) is not None), reverse=True)
    best = values[0][1] if len(values) > 1 and values[0][0] > values[1][0] else None
    others = [model for _, model in values if model != best]
    decided = best is not None and all(_better(pairs, best, other) for other in others)
    return SliceRow(value, estimates, best, decided)


def _better(pairs: Mapping[tuple[str, str], ComparisonRow], a: str, b: str) -> bool:
    """Whether a is better than b beyond chance."""
    row = pairs.get((a, b)) or ((turned := pairs.get((b, a))) and turned.turned()) or None
    return bool(row and row.clear and defined(row.difference) and row.difference > 0)


def _contradictions(
    of_slice: Mapping[tuple[str, str], ComparisonRow], of_whole: Mapping[tuple[str, str], ComparisonRow]
) -> Iterator[Contradiction]:
    for (a, b), row in of_slice.items():
        for first, second, one in ((a, b, row), (b, a, row.turned())):
            if _better(of_slice, first, second) and _better(of_whole, second, first):
                whole = of_whole[a, b]
                yield Contradiction(one, whole if first == a else whole.turned())


def _best_first(whole: SliceRow, model: str) -> tuple[bool, float, str]:
    value = whole.estimate(model)
    return value is None, -(value or 0.0), model


def _natural(value: str | None) -> tuple[bool, list[tuple[bool, int, str]]]:
    """Sorts 9 before 10, and what is unknown last."""
    parts = re.findall(r"\d+|\D+", value or "")
    numbers = [part.lstrip("0") if part.isdecimal() else None for part in parts]
    keys = [(True, 0, part) if n is None else (False, len(n), n) for part, n in zip(parts, numbers, strict=True)]
    return value is None, keys


def contradictions_text(slicing: Slicing, most: int) -> list[str]:
    """A sentence for each contradiction, slice by slice; of more than `most` those with the largest difference in the
    slice.
    """
    every = [(row, one) for row in slicing.rows for one in row.contradictions]
    largest = sorted(range(len(every)), key=lambda n: (-abs(every[n][1].slice_row.difference or 0.0), n))[:most]
    return [_sentence(slicing, *every[n]) for n in sorted(largest)]


def left_out_text(n_values: int, n_models: int) -> str:
    """How many values and models are left out; empty if there are none."""
    values = [f"{n_values:,} more {'value' if n_values == 1 else 'values'} with fewer users"] if n_values else []
    models = [f"{n_models:,} more {'model' if n_models == 1 else 'models'}"] if n_models else []
    return " and ".join([*values, *models])


def _sentence(slicing: Slicing, row: SliceRow, one: Contradiction) -> str:
    decimals = decimals_for([one.slice_row.difference, one.whole_row.difference])
    here, whole = one.slice_row, one.whole_row.turned()
    return (
        f"{slicing.name}={row.value}: {here.model_a} is better than {here.model_b} by "
        f"{value_text(here.difference, decimals)} ({interval_text(here, decimals)}); in the whole {whole.model_a} is "
        f"better than {whole.model_b} by {value_text(whole.difference, decimals)} ({interval_text(whole, decimals)})."
    )
