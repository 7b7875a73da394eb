"""Which offline number may be trusted here, how far, and why: one sentence for a run, from its agreement rows.

It speaks of the first metric that has agreement rows, and of estimators from logged feedback; where there are none, of
all that share no errors with the reference. The number with the highest tau is named. It may be trusted with the order
of models if the interval over users of its tau is above 0.
"""

import math
from collections.abc import Sequence

from eval_engine.estimators.registry import ESTIMATORS
from eval_engine.metric import Metric
from eval_engine.report.agreement_row import AgreementRow
from eval_engine.report.cell import percent_text
from eval_engine.report.check_line import doubt
from eval_engine.report.estimate_row import defined
from eval_engine.report.scheme import TRUTH

LOGGED = "heldout"


def first_target(rows: Sequence[AgreementRow], metrics: Sequence[Metric]) -> list[AgreementRow]:
    """The rows of the metric that was asked for first."""
    order = [str(metric) for metric in metrics]
    targets = sorted(
        {row.target for row in rows},
        key=lambda m: (order.index(str(m)) if str(m) in order else len(order), m.name, m.k, str(m)),
    )
    return [row for row in rows if targets and row.target == targets[0]]


def trust_sentence(rows: Sequence[AgreementRow], failed: tuple[str, ...] = ()) -> str:
    """The sentence; empty without rows. rows: of one metric and cutoff. failed: checks of the random exposures."""
    if not rows:
        return ""
    metric = rows[0].target
    if not any(_is_checkable(row) for row in rows):
        return _unchecked(rows)
    reference = next(row.reference for row in rows if _is_checkable(row))
    candidates = _candidates([row for row in rows if row.reference == reference])
    known = [row for row in candidates if defined(row.kendall)]
    judge = "the truth" if rows[0].against.role == TRUTH else rows[0].against.label
    if not known:
        reason = next((row.reason for row in candidates if row.reason), "no number is independent of the reference")
        return f"Which offline number of {metric} may be trusted cannot be told here: {reason}."
    best = max(known, key=lambda row: row.kendall if defined(row.kendall) else -math.inf)
    text = _verdict(best, judge, metric) + _why(best, known)
    on_random = rows[0].against.rests_on_random and rows[0].against.role != TRUTH
    return f"{doubt(failed).capitalize()}: {text}" if failed and on_random else text


def _is_checkable(row: AgreementRow) -> bool:
    """Whether the reference is complete labels or random exposure."""
    return row.against.role == TRUTH or row.against.rests_on_random


def _candidates(rows: Sequence[AgreementRow]) -> list[AgreementRow]:
    logged = [row for row in rows if LOGGED in _needs(row.estimator)]
    return logged or [row for row in rows if row.remark is None]


def _needs(estimator: str) -> frozenset[str]:
    known = ESTIMATORS.get(estimator)
    return known.needs if known else frozenset({LOGGED})


def _verdict(best: AgreementRow, judge: str, metric: Metric) -> str:
    label = best.scheme.label
    orders = f"orders {best.n_same:,} of {best.n_pairs:,} pairs of {best.n_models:,} models as {judge} does"
    tau = f"Kendall's tau {best.kendall:.2f}"
    if not (defined(best.kendall_low) and defined(best.kendall_high)):
        return (
            f"How far an offline number of {metric} may be trusted is not known here: {label} {orders} ({tau}, the "
            f"highest), but {best.interval_reason or 'there is no interval over users'}"
        )
    tau += f", {percent_text(best.confidence)} interval over users {best.kendall_low:.2f} to {best.kendall_high:.2f}"
    if best.kendall_low <= 0:
        return (
            f"No offline number of {metric} may be trusted here: at best, {label} {orders} ({tau}), which chance could "
            "give"
        )
    return f"For the order of models by {metric}, {label} may be trusted most here: it {orders} ({tau})"


def _why(best: AgreementRow, known: Sequence[AgreementRow]) -> str:
    """The baseline beside it, and how far values are off."""
    parts = []
    base = next((row for row in known if row.estimator == best.baseline), None)
    if base is not None and defined(best.kendall_difference_p):
        beyond = "beyond" if best.kendall_difference_p < 1 - best.confidence else "within"
        parts.append(
            f"{base.scheme.label} has {base.kendall:.2f}, a difference {beyond} chance over models "
            f"(p = {best.kendall_difference_p:.2g})"
        )
    elif len(known) > 1:
        parts.append(f"the other {len(known) - 1:,} agree no better")
    if defined(best.bias_squared):
        off = (
            f"off by {math.sqrt(best.bias_squared):.4f} on average"
            if best.bias_squared > 0
            else "off by no more than noise"
        )
        parts.append(f"its values are {off}")
    if text := _other_users(best):
        parts.append(text)
    return "".join(f"; {part}" for part in parts) + "."


def _other_users(best: AgreementRow) -> str:
    """Where the reference rests on other users, how many; empty if it does not, or if that is not known."""
    own, others, both = best.n_users, best.n_reference_users, best.n_shared_users
    if own is None or others is None or both is None or own == others == both:
        return ""
    return f"it rests on {own:,} users and the reference on {others:,}, of which {both:,} are the same"


def _unchecked(rows: Sequence[AgreementRow]) -> str:
    taus = [row.kendall for row in rows if defined(row.kendall)]
    text = (
        f"No offline number of {rows[0].target} can be checked here: the run has neither complete labels nor random "
        "exposures"
    )
    if not taus:
        return f"{text}."
    span = f"{min(taus):.2f}" if len(taus) == 1 else f"{min(taus):.2f} to {max(taus):.2f}"
    return f"{text}; its estimators agree with each other with Kendall's tau {span}, which says nothing of the truth."
