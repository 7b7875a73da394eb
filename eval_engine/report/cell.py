"""How a number, an interval and a misplaced model are written, the same in the terminal and in the HTML page.

    0.0323   0.0311 to 0.0335   ▲2   ▽1   –

▲2: the scheme puts the model above 2 models that the reference places higher; ▼1: below 1 that it places lower. A
hollow mark (△, ▽) means that all of it may be noise, so that no meaning depends on colour alone.
"""

import math
from collections.abc import Iterable, Sequence

from eval_engine.report.comparison_row import ComparisonRow
from eval_engine.report.estimate_row import EstimateRow, defined
from eval_engine.report.orders import Agreement, in_clear_flip, misplaced
from eval_engine.report.panel import Panel
from eval_engine.report.scheme import Scheme

UNDEFINED = "–"
MIN_DIGITS, MAX_DIGITS = 4, 9


def digits(panel: Panel, scheme: Scheme) -> int:
    """Decimals of a column: four, or more where the largest value would show fewer than three significant ones."""
    return decimals_for(panel.value(scheme, model) for model in panel.models)


def decimals_for(values: Iterable[float | None]) -> int:
    """Decimals by that rule."""
    largest = max((abs(value) for value in values if defined(value)), default=0.0)
    return MIN_DIGITS if largest == 0.0 else min(max(MIN_DIGITS, 2 - math.floor(math.log10(largest))), MAX_DIGITS)


def value_text(x: float | None, decimals: int) -> str:
    """The number, or an en dash if there is none."""
    return f"{x:.{decimals}f}" if defined(x) else UNDEFINED


def p_text(p: float | None) -> str:
    """A p-value to four decimals; the smallest is written <0.0001, never 0."""
    return "<0.0001" if defined(p) and p < 0.0001 else value_text(p, MIN_DIGITS)


def interval_text(row: EstimateRow | ComparisonRow | None, decimals: int) -> str:
    """`low to high`, or an en dash if either is missing."""
    if row is None or not (defined(row.low) and defined(row.high)):
        return UNDEFINED
    return f"{row.low:.{decimals}f} to {row.high:.{decimals}f}"


def mark_text(compared: Agreement, model: str) -> str:
    """How many models it is wrongly above and below; empty if its place is right."""
    too_high, too_low = misplaced(compared).get(model, (0, 0))
    up, down = "▲▼" if in_clear_flip(compared, model) else "△▽"
    return " ".join(([f"{up}{too_high}"] if too_high else []) + ([f"{down}{too_low}"] if too_low else []))


def count_text(n: int | None) -> str:
    """A count with thousands separated."""
    return UNDEFINED if n is None else f"{n:,}"


def percent_text(share: float) -> str:
    """A share as a percentage: 0.95 is `95 %`."""
    return f"{100 * share:g} %"


def best_value(panel: Panel, scheme: Scheme) -> float | None:
    """The largest value of a column, to be set in bold; None if fewer than two models have one, or none is better."""
    values = [v for model in panel.models if (v := panel.value(scheme, model)) is not None]
    return max(values) if len(values) > 1 and scheme.judges else None


def users_text(panel: Panel) -> str:
    """How many users each column rests on and how many were left out; a range if models differ."""
    schemes_of: dict[str, list[str]] = {}
    for scheme in panel.schemes:
        rows = [panel.rows[scheme, model] for model in panel.models if (scheme, model) in panel.rows]
        used, left_out = _range([r.n_users for r in rows]), _range([r.n_left_out for r in rows])
        text = (
            f"{used} users"
            if left_out in (UNDEFINED, "0")
            else f"{used} users, {left_out} left out{_left_out_words(rows)}"
        )
        if unknown := max((r.n_unknown for r in rows if not r.reason), default=0):
            text += f", up to {unknown:,} not known from partial lists"
        schemes_of.setdefault(text, []).append(scheme.name)
    return ". ".join(f"{', '.join(names)}: {text}" for text, names in schemes_of.items()) + "."


def reasons(panel: Panel) -> list[str]:
    """Why numbers are missing, once per column."""
    lines = []
    for scheme in panel.schemes:
        rows = [panel.rows[scheme, model] for model in panel.models if (scheme, model) in panel.rows]
        missing = [
            row for row in rows if row.reason and not (defined(row.value) and defined(row.low) and defined(row.high))
        ]
        if missing:
            of = "" if len(missing) == len(rows) else f" of {names_text([row.model for row in missing])}"
            also = "" if len({row.reason for row in missing}) == 1 else f" ({missing[0].model}; the others likewise)"
            lines.append(f"{scheme.name}{of}: {missing[0].reason}{also}.")
    return lines


def open_ties(panel: Panel) -> list[str]:
    """Where equal scores move a value beyond its interval, once per column."""
    lines, targets = [], {panel.own_target(scheme) for scheme in panel.schemes}
    for scheme in (s for s in panel.schemes if s not in targets):
        ranges = []
        for model in panel.models:
            row = panel.rows.get((scheme, model))
            if row and (_beyond(row.low, row.ties_low) or _beyond(row.ties_high, row.high)):
                ranges.append(f"{model} {ties_text(row, digits(panel, scheme))}")
        if ranges:
            more = f", and {len(ranges) - 3} more" if len(ranges) > 3 else ""
            ordered = "equal scores ordered against or for the model"
            lines.append(f"{scheme.name}, {ordered}: {', '.join(ranges[:3])}{more}.")
    return lines


def _beyond(larger: float | None, smaller: float | None) -> bool:
    return defined(larger) and defined(smaller) and larger > smaller


def ties_text(row: EstimateRow | None, decimals: int) -> str:
    """`low to high` of the ways to order equal scores; empty if that shows no difference."""
    low, high = (value_text(x, decimals) for x in (row.ties_low, row.ties_high)) if row else (UNDEFINED, UNDEFINED)
    return "" if low == high or UNDEFINED in (low, high) else f"{low} to {high}"


def names_text(names: Sequence[str], most: int = 3, things: str = "models") -> str:
    """`a, b and c`; beyond a few, their number."""
    if len(names) > most:
        return f"{len(names)} {things}"
    return " and ".join([*([", ".join(names[:-1])] if names[1:] else []), *names[-1:]])


def _left_out_words(rows: list[EstimateRow]) -> str:
    words = {row.left_out for row in rows}
    return f" ({(words.pop() or '').removeprefix('users ')})" if len(words) == 1 and None not in words else ""


def _range(counts: list[int | None]) -> str:
    known = [n for n in counts if n is not None]
    if not known:
        return UNDEFINED
    low, high = min(known), max(known)
    return count_text(low) if low == high else f"{count_text(low)} to {count_text(high)}"
