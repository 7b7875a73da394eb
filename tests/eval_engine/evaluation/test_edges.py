"""Estimates at the edges, from users to rows of the tables, without Spark: uneven exposure, lists as short as the
cutoff, no hit at all, users without positives, one user, and models that are evaluated beside others.
"""

from itertools import chain

import numpy as np
import pyarrow as pa
import pytest

from eval_engine.estimators.user_batch import LabelSet, UserBatch
from eval_engine.evaluation.bucket_statistics import statistics_rows
from eval_engine.evaluation.merged_statistics import added, merged_results
from eval_engine.evaluation.result_groups import InferenceSettings, described
from eval_engine.evaluation.results import results_of
from eval_engine.evaluation.slice_codes import SliceCodes
from eval_engine.evaluation.spec import EvaluationSpec
from eval_engine.evaluation.user_sums import UserSums
from eval_engine.kernels.rank_facts import rank_facts
from eval_engine.metric import Metric
from eval_engine.positive import Positive

SETTINGS = InferenceSettings(0.95, 0.01, 0.8, 50, 0)
ITEMS, SHOWN = 30, 5


def spec_of(metrics=("recall@5", "precision@5", "auc"), traditional=("recall@5", "recall@2", "precision@5")):
    return EvaluationSpec(
        tuple(map(Metric.parse, metrics)), tuple(map(Metric.parse, traditional)), Positive(">", 0), "expected",
        ("random", "truth"),
    )  # fmt: skip


def evaluated(models, spec, probability=False, liked=0.2, users=80, seed=0, merged=False, exposures=SHOWN):
    """The results of models, each a matrix of scores or a seed of one."""
    rng = np.random.default_rng(seed)
    values = (rng.random((users, ITEMS)) < liked).astype(float)
    shown = [np.sort(rng.permutation(ITEMS)[:exposures]) for _ in range(users)]
    hashes, packed = rng.integers(-(2**63), 2**63 - 1, users), []
    for name, scores in models.items():
        scores = np.random.default_rng(scores).random((users, ITEMS)) if isinstance(scores, int) else scores
        random = rank_facts(scores, shown, [values[u, s] for u, s in enumerate(shown)])
        if probability:
            random = random._replace(probability=np.random.default_rng(1).uniform(0.1, 0.3, random.value.size))
        truth = rank_facts(scores, np.tile(np.arange(ITEMS), (users, 1)), values)
        batch = UserBatch({"random": LabelSet(random), "truth": LabelSet(truth)}, spec.cutoffs())
        sums = UserSums(name, spec)
        nobody = SliceCodes(np.empty((0, users), np.int64), {}, None)
        for part in chain([sums.add(hashes, batch, nobody)], sums.packed()):
            packed += zip(*part.to_pydict().values(), strict=True)
    table = pa.Table.from_batches([statistics_rows(sorted(packed, key=lambda row: row[0]), spec)])
    return merged_results(added([table]), SETTINGS, described(spec)) if merged else results_of(
        table, SETTINGS, described(spec)
    )  # fmt: skip


def row_of(results, estimator, metric, k, model="a"):
    (row,) = [
        r for r in results.estimates
        if (r["model"], r["estimator"], r["metric"], r["k"]) == (model, estimator, metric, k)
    ]  # fmt: skip
    return row


def test_full_selected_is_unknown_where_exposure_is_uneven():
    even, uneven = (evaluated({"a": 1}, spec_of(), probability=p) for p in (False, True))
    for metric, k in (("recall", 5), ("auc", 0)):
        assert row_of(even, "full_selected", metric, k)["value"] is not None
        row = row_of(uneven, "full_selected", metric, k)
        assert (row["value"], row["low"], row["high"], row["standard_error"]) == (None,) * 4
        assert "exposure probabilities" in row["reason"]
        assert row_of(uneven, "full_macro", metric, k) == row_of(even, "full_macro", metric, k)
        assert row_of(uneven, "ure_macro", metric, k)["value"] is not None


def test_traditional_of_as_many_exposures_as_the_cutoff_is_undefined():
    found = evaluated({"a": 1, "b": 2}, spec_of())
    for metric in ("recall", "precision"):
        row = row_of(found, "traditional", metric, 5)
        assert row["value"] is None
        assert row["n_users"] == 0
        assert "any order gives the same value" in row["reason"]
        (pair,) = [r for r in found.comparisons if (r["estimator"], r["metric"], r["k"]) == ("traditional", metric, 5)]
        assert pair["verdict"] == "not decided"
        assert pair["difference"] is None
    assert row_of(found, "traditional", "recall", 2)["value"] is not None


@pytest.mark.parametrize("merged", [False, True])
def test_no_hit_is_not_certainty(merged):
    """Positives of user u are ranked last, so nobody has a hit."""
    rng = np.random.default_rng(0)
    values = (rng.random((80, ITEMS)) < 0.2).astype(float)
    found = evaluated({"a": -values}, spec_of(), merged=merged)
    recall, precision = row_of(found, "ure_macro", "recall", 5), row_of(found, "ure_mean", "precision", 5)
    assert (recall["value"], recall["low"]) == (0, 0)
    assert recall["high"] == pytest.approx(1 - 0.025 ** (1 / recall["n_users"]))
    assert (precision["value"], precision["low"], precision["high"]) == (0, 0, 1)
    assert row_of(found, "ure_balanced", "recall", 5)["high"] > 0.02


def test_intervals_lie_in_the_range_of_the_metric():
    for seed in range(5):
        for row in evaluated({"a": seed}, spec_of(), users=12, seed=seed).estimates:
            if row["low"] is not None:
                assert 0 <= row["low"] <= row["value"] <= row["high"] <= max(1, row["value"])


def test_users_without_positives_and_one_user_have_a_reason():
    nobody = evaluated({"a": 1}, spec_of(), liked=-1.0)
    for estimator in ("ure_macro", "ure_micro", "ure_balanced", "full_macro", "full_selected", "traditional"):
        row = row_of(nobody, estimator, "recall", 2 if estimator == "traditional" else 5)
        assert row["value"] is None
        assert row["reason"]
    alone = row_of(evaluated({"a": 1}, spec_of(), liked=0.9, users=1), "ure_macro", "recall", 5)
    assert alone["value"] is not None
    assert alone["low"] is None
    assert "one user" in alone["reason"]


def test_a_models_estimate_does_not_depend_on_the_models_beside_it():
    alone = evaluated({"a": 1}, spec_of(), users=300)
    values = np.random.default_rng(0).random((300, ITEMS)) < 0.2
    beside = evaluated({"a": 1, "b": 2, "c": values + 0.0}, spec_of(), users=300)
    same = ("value", "standard_error", "low", "high", "bootstrap_error", "bootstrap_low", "bootstrap_high")
    for key in (("ure_balanced", "recall", 5), ("ure_macro", "recall", 5)):
        one, other = row_of(alone, *key), row_of(beside, *key)
        assert [one[name] for name in same] == pytest.approx([other[name] for name in same], rel=1e-12)


def test_the_bootstrap_of_balanced_ure_has_its_bias():
    found = evaluated({"a": 1, "b": 2}, spec_of(), users=2000)
    row = row_of(found, "ure_balanced", "recall", 5)
    assert row["bootstrap_error"] == pytest.approx(row["standard_error"], rel=0.35)
    (pair,) = [r for r in found.comparisons if r["estimator"] == "ure_balanced"]
    assert (pair["users_needed"], pair["users_equivalent"]) == (None, None)  # its weights change with the users


def test_one_exposure_of_each_user_has_a_reason_where_it_says_nothing():
    """One shown item tells neither whether others are above it, nor how many positives a user has."""
    found = evaluated({"a": 1}, spec_of(("recall@5", "auc", "map@5")), exposures=1, liked=0.5)
    for estimator, metric, k in (("ure_balanced", "recall", 5), ("ure_macro", "auc", 0), ("ure_macro", "map", 5)):
        row = row_of(found, estimator, metric, k)
        assert (row["value"], row["low"], row["high"]) == (None,) * 3
        assert row["reason"]
    assert row_of(found, "ure_macro", "recall", 5)["value"] is not None
    selected = row_of(found, "full_selected", "auc", 0)
    assert selected["value"] is None
    assert selected["reason"]


def test_balanced_ure_of_uneven_exposure_is_null_with_the_reason():
    row = row_of(evaluated({"a": 1}, spec_of(), probability=True), "ure_balanced", "recall", 5)
    assert (row["value"], row["low"], row["high"], row["bootstrap_low"], row["chance_best"]) == (None,) * 5
    assert "prob" in row["reason"]


def test_the_chance_to_be_best_of_balanced_ure_reckons_with_its_bias():
    """Of three exposures the bias is the larger part: what the users alone would call nearly certain is not."""
    values = np.random.default_rng(0).random((3000, ITEMS)) < 0.2
    noise = np.random.default_rng(1).random((3000, ITEMS))
    models = {"a": noise + 0.30 * values, "b": noise + 0.27 * values}
    found = evaluated(models, spec_of(), users=3000, exposures=3)
    rows = [row_of(found, "ure_balanced", "recall", 5, model) for model in models]
    (pair,) = [r for r in found.comparisons if (r["estimator"], r["metric"]) == ("ure_balanced", "recall")]
    apart = abs(pair["difference"]) / pair["standard_error"]
    biased = np.hypot(*(row["bootstrap_error"] for row in rows))
    assert biased > 2 * pair["standard_error"]
    assert apart > 2
    assert 0.05 < rows[0]["chance_best"] < 0.95
