"""How a number, an interval and a misplaced model are written, the same in the terminal and in the HTML page.

    0.0323   0.0311 to 0.0335   ▲2   ▽1   –

▲2: the scheme puts the model above 2 models that the reference places higher; ▼1: below 1 that it places lower. A hollow mark (△, ▽) says
that all of it is within the intervals, so that the difference does not hang on a colour.
"""

import math

from eval_engine.report.estimate_row import EstimateRow, defined
from eval_engine.report.orders import Agreement, in_clear_flip, misplaced
from eval_engine.report.panel import TRADITIONAL, Panel, Scheme

UNDEFINED = "–"
MIN_DIGITS, MAX_DIGITS = 4, 9


def digits(panel: Panel, scheme: Scheme) -> int:
    """Decimals of a column: four, or more where the largest value would show fewer than three significant ones."""
    largest = max((abs(panel.value(scheme, model) or 0.0) for model in panel.models), default=0.0)
    return MIN_DIGITS if largest == 0.0 else min(max(MIN_DIGITS, 2 - math.floor(math.log10(largest))), MAX_DIGITS)


def value_text(x: float | None, decimals: int) -> str:
    """The number, or an en dash if there is none."""
    return f"{x:.{decimals}f}" if defined(x) else UNDEFINED


def interval_text(row: EstimateRow | None, decimals: int) -> str:
    """`low to high`, or an en dash if either is missing."""
    if row is None or not (defined(row.low) and defined(row.high)):
        return UNDEFINED
    return f"{row.low:.{decimals}f} to {row.high:.{decimals}f}"


def mark_text(held: Agreement, model: str) -> str:
    """How many models it is wrongly above and below; empty if it stands right."""
    too_high, too_low = misplaced(held).get(model, (0, 0))
    up, down = "▲▼" if in_clear_flip(held, model) else "△▽"
    return " ".join(([f"{up}{too_high}"] if too_high else []) + ([f"{down}{too_low}"] if too_low else []))


def count_text(n: int | None) -> str:
    """A count with thousands separated."""
    return UNDEFINED if n is None else f"{n:,}"


def percent_text(share: float) -> str:
    """A share as a percentage: 0.95 is `95 %`."""
    return f"{100 * share:g} %"


def best_value(panel: Panel, scheme: Scheme) -> float | None:
    """The largest value of a column, to be set in bold; None if fewer than two models have one."""
    values = [v for model in panel.models if (v := panel.value(scheme, model)) is not None]
    return max(values) if len(values) > 1 else None


def users_text(panel: Panel) -> str:
    """How many users each column rests on and how many were left out; a range if models differ."""
    schemes_of: dict[str, list[str]] = {}
    for scheme in panel.schemes:
        rows = [panel.rows[scheme, model] for model in panel.models if (scheme, model) in panel.rows]
        used, left_out = _range([r.n_users for r in rows]), _range([r.n_left_out for r in rows])
        text = f"{used} users" if left_out in (UNDEFINED, "0") else f"{used} users, {left_out} left out"
        if unknown := max((r.n_unknown for r in rows), default=0):
            text += f", up to {unknown:,} not known from partial lists"
        schemes_of.setdefault(text, []).append(str(scheme) if scheme.estimator == TRADITIONAL else scheme.label)
    return ". ".join(f"{', '.join(names)}: {text}" for text, names in schemes_of.items()) + "."


def _range(counts: list[int | None]) -> str:
    known = [n for n in counts if n is not None]
    if not known:
        return UNDEFINED
    low, high = min(known), max(known)
    return count_text(low) if low == high else f"{count_text(low)} to {count_text(high)}"
