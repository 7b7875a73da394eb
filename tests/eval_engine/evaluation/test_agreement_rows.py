"""Rows of estimator_agreement from bucket sums: which reference, which numbers, what is missing and why."""

from typing import Any

import numpy as np
import pytest

from eval_engine.estimators.estimator import Estimator
from eval_engine.estimators.registry import ESTIMATORS
from eval_engine.evaluation.agreement_rows import NO_REFERENCE, SHARED, Bootstrap, Valued, agreement_rows
from eval_engine.statistics.agreement import agreement, kendall_difference
from eval_engine.statistics.bucket_sums import N_BUCKETS, N_COARSE
from eval_engine.statistics.paired import paired
from eval_engine.statistics.steiger import steiger
from eval_engine.tables import ESTIMATOR_AGREEMENT

ASKING = Bootstrap(0.95, 200, 0)
TRUE = np.linspace(0.1, 0.5, 12)
MODELS = tuple(f"m{n:02}" for n in range(12))


def valued(name: str, values: Any, noise: float = 0.002, seed: int = 0, models: tuple[str, ...] = MODELS) -> Valued:
    """Bucket sums whose ratios are these values, with noise over buckets."""
    rng = np.random.default_rng([seed, *name.encode()])
    b = np.full((len(models), N_BUCKETS), 4.0)
    a = b * (np.asarray(values)[:, None] + noise * 16 * rng.normal(size=b.shape))
    estimator = ESTIMATORS.get(name) or Estimator(name, name, "estimate", "full_micro", frozenset({"heldout"}))
    return Valued(estimator, models, a.sum(axis=1) / b.sum(axis=1), a, b)


def rows_of(*every: Valued, asking: Bootstrap = ASKING) -> dict[tuple[str, str], dict[str, Any]]:
    rows = agreement_rows("recall", 10, every, asking)
    for row in rows:
        assert set(row) == set(ESTIMATOR_AGREEMENT.names) - {"run_id"}
    return {(row["estimator"], row["reference"]): row for row in rows}


def test_truth_is_the_reference_and_the_numbers_are_those_of_the_statistics() -> None:
    rng = np.random.default_rng(4)
    truth, micro = valued("full_macro", TRUE), valued("full_micro", TRUE + 0.1)
    snips, holdout = valued("snips", TRUE + 0.1), valued("holdout", 0.3 + 0.2 * rng.permutation(TRUE))
    rows = rows_of(truth, micro, snips, holdout, valued("ure_macro", TRUE))
    pairs = {("snips", "full_macro"), ("snips", "full_micro"), ("holdout", "full_macro"), ("ure_macro", "full_macro")}
    assert set(rows) == pairs  # full_selected, which URE macro estimates, is not there
    row = rows["snips", "full_macro"]
    expected = agreement(snips.values, truth.values)
    assert (row["kendall"], row["pearson"], row["n_models"], row["n_flipped"], row["n_tied"]) == (
        expected.kendall, expected.pearson, 12, expected.n_flipped, 0,
    )  # fmt: skip
    assert row["kendall_low"] <= row["kendall"] <= row["kendall_high"] <= 1
    assert row["bias_squared"] == pytest.approx(0.01, rel=0.1)
    assert rows["snips", "full_micro"]["bias_squared"] == pytest.approx(0, abs=1e-5)
    assert abs(row["error_spread"]) < 1e-5 < rows["holdout", "full_macro"]["error_spread"]
    assert row["baseline"] == "holdout"
    difference = kendall_difference(truth.values, snips.values, holdout.values)
    assert (row["kendall_difference"], row["kendall_difference_p"]) == pytest.approx((difference.value, difference.p))
    r = [float(np.corrcoef(*pair)[0, 1]) for pair in (
        (truth.values, snips.values), (truth.values, holdout.values), (snips.values, holdout.values),
    )]  # fmt: skip
    test = steiger(r[0], r[1], r[2], 12)
    assert (row["steiger_t"], row["steiger_p"], row["steiger_p_one_sided"]) == pytest.approx(test[:3])
    assert row["steiger_kendall_p"] == pytest.approx(2 * row["steiger_kendall_p_one_sided"])
    assert rows["holdout", "full_macro"]["baseline"] is None
    assert row["remark"] is None


def test_random_exposure_is_the_reference_without_truth_and_shared_errors_are_told() -> None:
    rows = rows_of(valued("holdout", TRUE[::-1]), valued("ure_macro", TRUE), valued("ure_micro", TRUE))
    assert set(rows) == {("holdout", "ure_macro"), ("ure_micro", "ure_macro")}
    assert rows["ure_micro", "ure_macro"]["remark"] == SHARED
    assert rows["holdout", "ure_macro"]["remark"] is None
    assert rows["holdout", "ure_macro"]["kendall"] < -0.9


def test_with_neither_estimators_are_compared_with_each_other() -> None:
    rows = rows_of(valued("holdout", TRUE), valued("snips", TRUE), valued("clipped", TRUE))
    assert set(rows) == {("clipped", "holdout"), ("snips", "holdout"), ("clipped", "snips")}
    assert {row["remark"] for row in rows.values()} == {NO_REFERENCE}


def test_an_estimator_of_strata_is_compared_on_32_buckets() -> None:
    truth, plain = valued("full_macro", TRUE), valued("ure_macro", TRUE)
    coarse = [x.reshape(12, -1, N_COARSE).sum(axis=1) for x in (plain.a, plain.b)]
    strata = Valued(ESTIMATORS["ure_balanced"], MODELS, plain.values, *coarse, paired(*coarse).errors)
    rows = rows_of(truth, plain, strata)
    one, other = rows["ure_balanced", "full_macro"], rows["ure_macro", "full_macro"]
    assert one["kendall"] == other["kendall"]
    assert one["noise"] == pytest.approx(other["noise"], rel=0.5)
    assert one["interval_reason"] is None


def test_what_is_missing_has_a_reason() -> None:
    truth = valued("full_macro", TRUE)
    noisy = rows_of(truth, valued("holdout", TRUE, noise=0.2))["holdout", "full_macro"]
    assert noisy["kendall_low"] is None
    assert "where the interval does not cover" in noisy["interval_reason"]
    none = rows_of(truth, valued("holdout", TRUE), asking=ASKING._replace(replicates=0))["holdout", "full_macro"]
    assert none["kendall"] is not None
    assert "bootstrap replicates" in none["interval_reason"]
    assert none["bias_squared"] is None
    two = rows_of(*(valued(name, [0.1, 0.2], models=("a", "b")) for name in ("full_macro", "holdout")))
    assert "2 models have both values" in two["holdout", "full_macro"]["reason"]
    assert agreement_rows("recall", 10, [], ASKING) == []


def test_models_without_a_value_are_left_out() -> None:
    truth, holdout = valued("full_macro", TRUE), valued("holdout", TRUE)
    unknown = holdout._replace(values=np.where(np.arange(12) == 3, np.nan, holdout.values), a=holdout.a.copy())
    unknown.a[3] = np.nan
    rest = tuple(model for n, model in enumerate(MODELS) if n != 3)
    without = Valued(
        holdout.estimator, rest, *(np.delete(x, 3, axis=0) for x in (holdout.values, holdout.a, holdout.b))
    )
    rows = [rows_of(truth, one)["holdout", "full_macro"] for one in (unknown, without)]
    assert rows[0] == rows[1]
    assert rows[0]["n_models"] == 11
