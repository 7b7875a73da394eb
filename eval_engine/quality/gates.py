"""Gates: whether the answers of a run keep the rules of its config (gate_rules.py); plain rows in, a verdict out.

An estimate, comparison, check or reversal that is missing or undefined fails, and the message says why: no answer is no
approval. A change against an approved run passes where no run has been approved yet, as a first run could never pass
otherwise.

Each bound of an interval has the confidence of the section on its own side: value -+ z se with the normal quantile z of
that confidence (one-sided), or the confidence sequence of statistics/confidence_sequences.py at alpha = 2 (1 -
confidence). Changes and leads are ratios less 1 with intervals by Fieller. The covariance of a run with its baseline
follows from the correlation of their errors over buckets of users (Shared); z is then Student's quantile of these
buckets. A confidence sequence takes them for independent, so that it is never too narrow: what both share moves them
alike. The covariance of two models of one run follows from the standard error of their difference, which is paired over
users.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from scipy.special import ndtri, stdtrit

from eval_engine.quality.gate_rules import (
    APPROVED,
    Bounded,
    BoundedRule,
    ChangeGate,
    ComparisonGate,
    EstimateGate,
    Gate,
    GateRule,
    QualityGate,
    ReversalGate,
)
from eval_engine.statistics.confidence_sequences import sequence_factor
from eval_engine.statistics.fieller import Moments, ratio_interval

Rows = Sequence[dict[str, Any]]


class Answers(NamedTuple):
    """The rows of a run that gates read."""

    run_id: str
    estimates: Rows
    comparisons: Rows = ()
    reversals: Rows = ()
    quality: Rows = ()


class Sureness(NamedTuple):
    """How intervals are made."""

    confidence: float  # of each bound
    tightest_at: int | None = None  # users at which a confidence sequence is tightest; None: intervals of one look

    def factor(self, n_users: float, degrees: float = math.inf) -> float:
        """Half-width over standard error; degrees: of freedom of that error."""
        if self.tightest_at is None:
            return float(ndtri(self.confidence) if math.isinf(degrees) else stdtrit(degrees, self.confidence))
        return float(sequence_factor(n_users, 2 * (1 - self.confidence), self.tightest_at))


class Shared(NamedTuple):
    """What two runs share of an estimate's errors, because users are in both."""

    correlation: float
    n_units: int  # buckets of users that it was taken over


class GateRow(NamedTuple):
    """A row of the table gates, without run_id."""

    gate: str
    kind: str
    status: str
    observed: float | None
    threshold: float | None
    low: float | None
    high: float | None
    confidence: float | None
    baseline: str | None
    message: str


class _Observed(NamedTuple):
    """A number with its bounds."""

    value: float
    low: float
    high: float


def judge(
    rule: GateRule, answers: Answers, baseline: Answers | None, sure: Sureness, shared: Shared | None = None
) -> GateRow:
    """The verdict of one gate. Of a change: baseline, the run that it is compared with (None: none is approved yet),
    and what the two runs share (None: nothing is known to be shared).
    """
    if isinstance(rule, QualityGate):
        return _judge_quality(rule, answers)
    if isinstance(rule, ReversalGate):
        return _judge_reversals(rule, answers)
    row, why = _estimate(answers, rule, rule.model)
    if row is None:
        return _without_answer(rule, why, baseline)
    if isinstance(rule, EstimateGate):
        return _judge_estimate(rule, row, sure)
    if isinstance(rule, ComparisonGate):
        return _judge_comparison(rule, row, answers, sure)
    return _judge_change(rule, row, baseline, sure, shared)


def has_estimate(answers: Answers, rule: BoundedRule) -> bool:
    """Whether a run has a value for what the rule is about."""
    return _estimate(answers, rule, rule.model)[0] is not None


def is_approved(rows: Sequence[GateRow]) -> bool:
    """Whether every gate passed."""
    return all(row.status == "pass" for row in rows)


def has_no(rows: Sequence[GateRow]) -> bool:
    """Whether a gate that stops failed."""
    return any(row.status == "fail" for row in rows)


def _judge_estimate(rule: EstimateGate, row: dict[str, Any], sure: Sureness) -> GateRow:
    value, error = row["value"], row["standard_error"]
    width = math.nan if error is None else sure.factor(row["n_users"]) * error
    told = f"{_what(rule, rule.model)} is {value:.4g}"
    return _bounded(rule, _Observed(value, value - width, value + width), sure, told, f"{rule.bound:g}", "{:.4g}")


def _judge_comparison(rule: ComparisonGate, row: dict[str, Any], answers: Answers, sure: Sureness) -> GateRow:
    other, why = _estimate(answers, rule, rule.than)
    if other is None:
        return _without_answer(rule, why, None)
    names = {rule.model, rule.than}
    pair = next(
        (one for one in answers.comparisons if _is_of(one, rule) and {one["model_a"], one["model_b"]} == names), None
    )
    if pair is None:
        return _without_answer(
            rule, f"run {answers.run_id} has no comparison of {rule.model} with {rule.than} by {_cell(rule)}", None
        )
    a, b = (_variance(one) for one in (row, other))
    both = (a + b - _variance(pair)) / 2
    of = Moments(row["value"], other["value"], a, b, both)
    told = f"{_what(rule, rule.model)} is {of.a:.4g}, {{}} {of.b:.4g} of {rule.than}"
    return _relative(rule, of, sure.factor(row["n_users"]), sure, told)


def _judge_change(
    rule: ChangeGate, row: dict[str, Any], baseline: Answers | None, sure: Sureness, shared: Shared | None
) -> GateRow:
    if baseline is None:
        message = (
            f"{_what(rule, rule.model)} is {row['value']:.4g}; no run with these settings has been approved before "
            "this one, so there is nothing to compare it with."
        )
        return _row(rule, "pass", rule.bound, message)
    there, why = _estimate(baseline, rule, rule.model)
    if there is None:
        return _without_answer(rule, why, baseline)
    a, b = _variance(row), _variance(there)
    named = "approved run" if rule.baseline == APPROVED else "run"
    told = (
        f"{_what(rule, rule.model)} is {row['value']:.4g}, {{}} {there['value']:.4g} in the {named} {baseline.run_id}"
    )
    if shared is None or sure.tightest_at is not None:
        n_users = row["n_users"] * a / (a + b) if a + b > 0 else row["n_users"]
        factor, both = sure.factor(n_users), 0.0
    else:
        factor, both = sure.factor(math.nan, shared.n_units - 1), shared.correlation * math.sqrt(a * b)
    return _relative(rule, Moments(row["value"], there["value"], a, b, both), factor, sure, told, baseline.run_id)


def _relative(
    rule: BoundedRule, of: Moments, factor: float, sure: Sureness, told: str, baseline: str | None = None
) -> GateRow:
    """The verdict on a ratio less 1. factor: half-width over standard error. told: with a place for how far it is
    off.
    """
    if not of.b > 0:
        whose = f"its value there is {of.b:g}" if baseline else f"the other model's value is {of.b:g}"
        return _row(
            rule,
            _failed(rule),
            rule.bound,
            f"{told.format('against')}: {whose}, and a share of it is undefined.",
            baseline,
        )
    change = of.a / of.b - 1
    low, high = (end - 1 for end in ratio_interval(of, factor))
    words = f"{abs(change):.2%} {'below' if change < 0 else 'above'}" if round(change, 6) else "equal to"
    return _bounded(
        rule, _Observed(change, low, high), sure, told.format(words), f"{rule.bound:+.2%}", "{:+.2%}", baseline
    )


def _bounded(
    rule: BoundedRule, seen: _Observed, sure: Sureness, told: str, bound: str, form: str, baseline: str | None = None
) -> GateRow:
    """The verdict on a number with bounds."""
    lower = rule.at_least is not None
    value, near, far = (seen.value, seen.low, seen.high) if lower else (-seen.value, -seen.high, -seen.low)
    least = rule.bound if lower else -rule.bound
    failed = {
        "beyond": value < least,
        "surely_beyond": far < least,
        "unless_surely_within": not near >= least,  # an unknown bound is none
    }[rule.fails]
    known = not (math.isnan(seen.low) or math.isnan(seen.high))
    every = " at every look" if sure.tightest_at is not None else ""
    interval = f" ({form.format(seen.low)} to {form.format(seen.high)}, each with {sure.confidence:.4g}{every})"
    asked = f"{'at least' if lower else 'at most'} {bound} is asked for"
    why = {
        ("beyond", True): f"{asked}.",
        ("beyond", False): f"{asked}.",
        ("surely_beyond", True): f"{asked}, and it is surely beyond.",
        ("surely_beyond", False): f"{asked}, and it is not surely beyond.",
        ("unless_surely_within", True): f"{asked}, and that is not shown.",
        ("unless_surely_within", False): f"{asked}, and that is shown.",
    }[rule.fails, failed]
    message = f"{told}{interval if known else ' (its interval is not known)'}; {why}"
    status = _failed(rule) if failed else "pass"
    low, high = (seen.low, seen.high) if known else (None, None)
    return GateRow(rule.name, rule.kind, status, seen.value, rule.bound, low, high, sure.confidence, baseline, message)


def _judge_quality(rule: QualityGate, answers: Answers) -> GateRow:
    rows = [row for row in answers.quality if row["table"] == rule.table and row["rule"] == rule.rule]
    if not rows:
        known = sorted({f"{row['table']}.{row['rule']}" for row in answers.quality})
        why = f"run {answers.run_id} has no check or rule {rule.table}.{rule.rule}"
        return _without_answer(rule, f"{why}; it has {', '.join(known) or 'none'}", None)
    row = rows[0]
    what = f"{rule.table}: {rule.rule}"
    if row["verdict"] is None:
        failed = row["n_rows"] > rule.at_most
        message = f"{what}: {row['n_rows']:,} rows broke the rule; at most {rule.at_most:,} may."
        return _row(rule, _failed(rule) if failed else "pass", float(rule.at_most), message, observed=row["n_rows"])
    failed = row["verdict"] not in rule.verdicts
    asked = " or ".join(rule.verdicts)
    message = f"{what}: the check says {row['verdict']}; {asked} is asked for. {row['example'] or ''}".strip()
    return _row(rule, _failed(rule) if failed else "pass", None, message, observed=row["p"])


def _judge_reversals(rule: ReversalGate, answers: Answers) -> GateRow:
    of = [
        row
        for row in answers.reversals
        if (row["estimator"], row["metric"], row["k"], row["slicing"])
        == (rule.estimator, rule.metric.name, rule.metric.k, rule.slicing)
    ]
    what = f"{rule.metric} by {rule.estimator}, slices by {rule.slicing}"
    if not of:
        return _without_answer(rule, f"run {answers.run_id} has no reversals of {what}", None)
    n = sum(of[0][f"n_{flag}"] for flag in rule.flags)
    named = [row for row in of if row["flag"] in rule.flags][:1]
    first = f", first {named[0]['model_a']} and {named[0]['model_b']}" if named else ""
    flags, n_pairs = " or ".join(rule.flags), of[0]["n_model_pairs"]
    message = f"{what}: {n:,} of {n_pairs:,} pairs of models are {flags}{first}; at most {rule.at_most:,} may be."
    return _row(rule, _failed(rule) if n > rule.at_most else "pass", float(rule.at_most), message, observed=n)


def _estimate(answers: Answers, rule: BoundedRule, model: str) -> tuple[dict[str, Any] | None, str]:
    """The row of a model with a value, or None and why there is none."""
    what = f"{_what(rule, model)} in run {answers.run_id}"
    rows = [row for row in answers.estimates if row["model"] == model and _is_of(row, rule)]
    if not rows:
        models = {row["model"] for row in answers.estimates}
        known = f" (its models: {', '.join(sorted(models)[:20])})" if model not in models else ""
        return None, f"there is no estimate of {what}{known}"
    if rows[0]["value"] is None:
        return None, f"{what} has no value: {rows[0]['reason']}"
    return rows[0], ""


def _is_of(row: dict[str, Any], rule: BoundedRule) -> bool:
    """Whether a row is of the rule's estimator, metric, cutoff and slice; rows of older versions are of everything."""
    cell = (row["estimator"], row["metric"], row["k"], row.get("slice") or "all")
    return cell == (rule.estimator, rule.metric.name, rule.metric.k, rule.slice)


def _variance(row: dict[str, Any]) -> float:
    error = row["standard_error"]
    return math.nan if error is None else float(error) ** 2


def _cell(rule: BoundedRule) -> str:
    return f"{rule.estimator} {rule.metric}" + ("" if rule.slice == "all" else f" of {rule.slice}")


def _what(rule: BoundedRule, model: str) -> str:
    return f"{rule.metric} of {model} by {rule.estimator}" + ("" if rule.slice == "all" else f" on {rule.slice}")


def _failed(rule: Gate) -> str:
    return "fail" if rule.on_fail == "stop" else "warn"


def _without_answer(rule: GateRule, why: str, baseline: Answers | None) -> GateRow:
    """The row of a gate that has nothing to observe."""
    bound = rule.bound if isinstance(rule, Bounded) else None
    message = f"No answer, so no approval: {why}."
    return _row(rule, _failed(rule), bound, message, baseline.run_id if baseline else None)


def _row(
    rule: GateRule,
    status: str,
    threshold: float | None,
    message: str,
    baseline: str | None = None,
    observed: float | None = None,
) -> GateRow:
    seen = None if observed is None else float(observed)
    return GateRow(rule.name, rule.kind, status, seen, threshold, None, None, None, baseline, message)
