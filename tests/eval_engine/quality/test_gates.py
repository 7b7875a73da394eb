"""Gates on rows: bounds, sureness, what is missing, and sentences."""

import math
import re
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from eval_engine.quality.gate_rules import GateRule, Gates
from eval_engine.quality.gates import Answers, GateRow, Shared, Sureness, has_no, is_approved, judge

SURE = Sureness(0.95)
Z = 1.6448536269514722


def rule(**given: Any) -> Any:
    cell = {"model": "mf", "estimator": "ure_macro", "metric": "recall@10"}
    defaults = {"name": "g"} | (cell if given["kind"] in ("estimate", "change", "comparison") else {})
    return TypeAdapter(GateRule).validate_python(defaults | given)


def row(model: str = "mf", value: float | None = 0.1, error: float | None = 0.001, **other: Any) -> dict[str, Any]:
    cell = {"estimator": "ure_macro", "metric": "recall", "k": 10, "slice": "all"}
    return cell | {"model": model, "value": value, "standard_error": error, "n_users": 5000, "reason": None} | other


def run(*rows: dict[str, Any], run_id: str = "r", **tables: Any) -> Answers:
    return Answers(run_id, rows, **tables)


def verdict(given: Any, answers: Answers, baseline: Answers | None = None, sure: Sureness = SURE) -> GateRow:
    return judge(given, answers, baseline, sure)


@pytest.mark.parametrize(
    ("bound", "fails", "status"),
    [
        ({"at_least": 0.0999}, "beyond", "pass"),
        ({"at_least": 0.1001}, "beyond", "fail"),
        ({"at_least": 0.1 + 0.99 * Z * 0.001}, "surely_beyond", "pass"),
        ({"at_least": 0.1 + 1.01 * Z * 0.001}, "surely_beyond", "fail"),
        ({"at_least": 0.1 - 0.99 * Z * 0.001}, "unless_surely_within", "fail"),
        ({"at_least": 0.1 - 1.01 * Z * 0.001}, "unless_surely_within", "pass"),
        ({"at_most": 0.0999}, "beyond", "fail"),
        ({"at_most": 0.1 - 1.01 * Z * 0.001}, "surely_beyond", "fail"),
        ({"at_most": 0.1 - 0.99 * Z * 0.001}, "surely_beyond", "pass"),
        ({"at_most": 0.1 + 0.99 * Z * 0.001}, "unless_surely_within", "fail"),
        ({"at_most": 0.1 + 1.01 * Z * 0.001}, "unless_surely_within", "pass"),
    ],
)
def test_a_value_against_a_bound(bound: dict[str, float], fails: str, status: str) -> None:
    assert verdict(rule(kind="estimate", fails=fails, **bound), run(row())).status == status


def test_no_worse_than_one_per_cent_with_95_per_cent() -> None:
    """The decision is that of the one-sided test of a - 0.99 b, by hand, on both sides of its turning point."""
    gate = rule(kind="change", at_least=-0.01, fails="unless_surely_within", baseline="b")
    for value in (0.0995, 0.0999, 0.1003, 0.1007, 0.101, 0.102):
        z = (value - 0.99 * 0.1) / math.hypot(0.0008, 0.99 * 0.0009)
        found = verdict(gate, run(row(value=value, error=0.0008)), run(row(error=0.0009), run_id="b"))
        assert found.status == ("pass" if z > Z else "fail")
        assert found.observed == pytest.approx(value / 0.1 - 1)
        assert (found.threshold, found.baseline, found.confidence) == (-0.01, "b", 0.95)


def test_a_change_of_runs_that_share_users_is_paired() -> None:
    """The one-sided t-test of a - 0.99 b with the covariance, by hand, on both sides of its turning point."""
    gate = rule(kind="change", at_least=-0.01, fails="unless_surely_within", baseline="b")
    t = 1.6955187889  # Student, 31 degrees of freedom, 0.95
    for value in (0.0990, 0.0995, 0.0998, 0.1001, 0.1005, 0.101):
        variance = 0.0008**2 + (0.99 * 0.0009) ** 2 - 2 * 0.99 * 0.9 * 0.0008 * 0.0009
        z = (value - 0.99 * 0.1) / math.sqrt(variance)
        answers = run(row(value=value, error=0.0008)), run(row(error=0.0009), run_id="b")
        assert judge(gate, *answers, SURE, Shared(0.9, 32)).status == ("pass" if z > t else "fail")
    same = judge(gate, run(row()), run(row(), run_id="b"), SURE, Shared(1.0, 256))
    assert (same.low, same.high) == pytest.approx((0, 0), abs=1e-9)
    anytime = Sureness(0.95, 5000)
    assert judge(gate, *answers, anytime, Shared(0.9, 256)) == judge(gate, *answers, anytime)


def test_a_comparison_is_paired() -> None:
    """The same errors of both models: the difference is known better than the values."""
    pair = {"estimator": "ure_macro", "metric": "recall", "k": 10, "slice": "all", "model_a": "pop", "model_b": "mf"}
    of = run(row(value=0.102), row("pop"), comparisons=[pair | {"difference": -0.002, "standard_error": 0.0005}])
    gate = rule(kind="comparison", than="pop", at_least=0.0, fails="unless_surely_within")
    found = verdict(gate, of)
    assert found.status == "pass"
    assert found.observed == pytest.approx(0.02)
    low, high = found.low or 0, found.high or 0
    assert low == pytest.approx(0.02 - Z * 0.005, abs=3e-4)
    assert high == pytest.approx(0.02 + Z * 0.005, abs=3e-4)
    alone = of._replace(comparisons=[pair | {"difference": -0.002, "standard_error": 0.0014}])
    assert verdict(gate, alone).status == "fail"


def test_intervals_at_every_look_are_wider() -> None:
    gate = rule(kind="change", at_least=0.0, fails="surely_beyond", baseline="b")
    of, baseline = run(row(value=0.0965)), run(row(), run_id="b")
    assert verdict(gate, of, baseline).status == "fail"
    anytime = verdict(gate, of, baseline, Sureness(0.95, 5000))
    assert anytime.status == "pass"
    assert "at every look" in anytime.message


@pytest.mark.parametrize("on_fail", ["stop", "warn"])
@pytest.mark.parametrize(
    ("given", "answers", "told"),
    [
        ({"kind": "estimate", "at_least": 0.0}, run(), "there is no estimate of recall@10 of mf by ure_macro in run r"),
        ({"kind": "estimate", "at_least": 0.0}, run(row("pop")), r"\(its models: pop\)"),
        (
            {"kind": "estimate", "at_least": 0.0},
            run(row(value=None, reason="no user can be used")),
            "no user can be used",
        ),
        ({"kind": "change", "at_least": -1.0}, run(row(value=None, reason="unknown")), "has no value: unknown"),
        ({"kind": "comparison", "than": "x", "at_least": -1.0}, run(row()), "no estimate of recall@10 of x"),
        ({"kind": "comparison", "than": "x", "at_least": -1.0}, run(row(), row("x")), "no comparison of mf with x"),
        ({"kind": "quality", "rule": "overlap"}, run(), "no check or rule exposures.overlap; it has none"),
        ({"kind": "reversal", "estimator": "e", "metric": "auc", "slicing": "s"}, run(), "no reversals of auc by e"),
    ],
)
def test_no_answer_is_no_approval(given: dict[str, Any], answers: Answers, told: str, on_fail: str) -> None:
    found = verdict(rule(**given, on_fail=on_fail), answers, run(row(), run_id="b"))
    assert found.status == {"stop": "fail", "warn": "warn"}[on_fail]
    assert found.observed is None
    assert not is_approved([found])
    assert re.fullmatch(rf"No answer, so no approval: .*{told}.*\.", found.message)


def test_a_baseline_without_the_estimate_fails_a_named_one() -> None:
    gate = rule(kind="change", at_least=-0.5, baseline="b")
    found = verdict(gate, run(row()), run(row(value=None, reason="gone"), run_id="b"))
    assert found.status == "fail"
    assert "in run b has no value: gone" in found.message


def test_nothing_approved_yet_passes_and_a_missing_estimate_does_not() -> None:
    gate = rule(kind="change", at_least=0.0)
    assert verdict(gate, run(row())).status == "pass"
    assert verdict(gate, run()).status == "fail"


def test_a_share_of_nothing_is_undefined_and_fails() -> None:
    gate = rule(kind="change", at_least=-0.5, baseline="b")
    found = verdict(gate, run(row()), run(row(value=0.0, error=0.0), run_id="b"))
    assert found.status == "fail"
    assert "a share of it is undefined" in found.message


def test_an_estimate_without_an_interval_is_held_by_its_value_only() -> None:
    exact = run(row(error=None))
    assert verdict(rule(kind="estimate", at_least=0.09), exact).status == "pass"
    assert verdict(rule(kind="estimate", at_least=0.2, fails="surely_beyond"), exact).status == "pass"
    found = verdict(rule(kind="estimate", at_least=0.09, fails="unless_surely_within"), exact)
    assert (found.status, found.low) == ("fail", None)
    assert "its interval is not known" in found.message


def test_checks_and_rules_of_the_quality_table() -> None:
    def quality(verdict: str | None, n_rows: int = 3) -> Answers:
        checked = {"table": "exposures", "rule": "overlap", "verdict": verdict, "p": 0.2, "n_rows": n_rows}
        return run(quality=[checked | {"example": "figures."}])

    assert verdict(rule(kind="quality", rule="overlap"), quality("pass")).status == "pass"
    failed = verdict(rule(kind="quality", rule="overlap"), quality("warn"))
    assert (failed.status, failed.observed) == ("fail", 0.2)
    assert "the check says warn; pass or not applicable is asked for. figures." in failed.message
    assert verdict(rule(kind="quality", rule="overlap", verdicts=["pass", "warn"]), quality("warn")).status == "pass"
    assert verdict(rule(kind="quality", rule="overlap", at_most=3), quality(None)).status == "pass"
    assert verdict(rule(kind="quality", rule="overlap", at_most=2), quality(None)).status == "fail"


def test_reversals_are_counted_by_flag() -> None:
    one = {
        "estimator": "e",
        "metric": "auc",
        "k": 0,
        "slicing": "s",
        "flag": "reversed",
        "model_a": "a",
        "model_b": "b",
    }
    of = run(reversals=[one | {"n_reversed": 2, "n_vanishes": 3, "n_weak": 0, "n_model_pairs": 10}])
    gate = {"kind": "reversal", "estimator": "e", "metric": "auc", "slicing": "s"}
    assert verdict(rule(**gate, at_most=2), of).status == "pass"
    found = verdict(rule(**gate, flags=["reversed", "vanishes"], at_most=4), of)
    assert (found.status, found.observed, found.threshold) == ("fail", 5.0, 4.0)
    assert "5 of 10 pairs of models are reversed or vanishes, first a and b; at most 4 may be." in found.message


def test_a_sentence_of_a_change() -> None:
    gate = rule(kind="change", at_least=-0.01, fails="surely_beyond")
    found = verdict(gate, run(row(value=0.09)), run(row(), run_id="2026-11-14"))
    assert found.message == (
        "recall@10 of mf by ure_macro is 0.09, 10.00% below 0.1 in the approved run 2026-11-14 (-12.19% to -7.76%, "
        "each with 0.95); at least -1.00% is asked for, and it is surely beyond."
    )


def test_who_stops_and_who_approves() -> None:
    passed, warned, failed = (GateRow("g", "estimate", s, *[None] * 6, "") for s in ("pass", "warn", "fail"))
    assert is_approved([passed])
    assert not is_approved([passed, warned])
    assert has_no([passed, failed])
    assert not has_no([passed, warned])


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"kind": "estimate"}, "either at_least or at_most"),
        ({"kind": "estimate", "at_least": 0, "at_most": 1}, "either at_least or at_most"),
        ({"kind": "estimate", "at_least": float("nan")}, "finite"),
        ({"kind": "estimate", "at_leats": 0}, "Extra inputs"),
        ({"kind": "change", "at_least": 0, "baseline": "../x"}, "not usable"),
        ({"kind": "nothing"}, "does not match any of the expected tags"),
    ],
)
def test_rules_that_mean_nothing_are_errors(given: dict[str, Any], told: str) -> None:
    cell = {"model": "mf", "estimator": "ure_macro", "metric": "recall@10"}
    with pytest.raises(ValidationError, match=told):
        TypeAdapter(GateRule).validate_python({"name": "g"} | cell | given)


def test_two_gates_of_one_name_are_an_error() -> None:
    one = {"name": "g", "kind": "quality", "rule": "overlap"}
    with pytest.raises(ValidationError, match="g is the name of two gates"):
        Gates.model_validate({"rules": [one, one]})
