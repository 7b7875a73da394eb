"""Balanced quality scores of pairs: per repeat, their mean, intervals by buckets, analysis of variance."""

import numpy as np
import pytest

from eval_engine import bqs
from eval_engine.evaluation.bqs_rows import (
    Bootstrap,
    Quality,
    bias_corrected,
    bqs_rows,
    coarse,
    not_scored,
    widened,
    with_anova,
)
from eval_engine.evaluation.bqs_settings import Bqs, BqsRule
from eval_engine.statistics.bootstrap import poisson_weights
from eval_engine.statistics.bucket_sums import N_BUCKETS, N_COARSE
from models.spec.debiased import debiased_pairs

RULE = BqsRule((("m", "m_ips"), ("m", "m_pd")), {("recall", 5): 10.0}, frozenset({"holdout"}), ("popularity=low",))
CELL = ("holdout", "recall", 5)


def quality(rng: np.random.Generator, means: dict[str, float], n: int = 200) -> Quality:
    a = {name: rng.binomial(n, mean, N_COARSE).astype(float) for name, mean in means.items()}
    b = {name: np.full(N_COARSE, float(n)) for name in means}
    return Quality({name: float(a[name].sum() / b[name].sum()) for name in means}, a, b)


def test_scores_per_repeat_and_their_mean() -> None:
    rng = np.random.default_rng(1)
    names = [f"{name}#{n}" for name in ("m", "m_ips", "m_pd") for n in (1, 2, 3)]
    whole = quality(rng, {name: 0.30 - 0.02 * ("pd" in name) for name in names})
    group = quality(rng, {name: 0.05 + 0.03 * ("ips" in name) for name in names})
    rows = with_anova(bqs_rows(RULE, {CELL: whole}, {(CELL, "popularity=low"): group}, Bootstrap(0.95, 200, 0)), 0.05)
    assert [(row["debiased"], row["repeat"]) for row in rows] == [
        (d, n) for d in ("m_ips", "m_pd") for n in (1, 2, 3, 0)
    ]
    by_key = {(row["debiased"], row["repeat"]): row for row in rows}
    for n in (1, 2, 3):
        q = [one.values[f"{name}#{n}"] for one in (whole, group) for name in ("m_ips", "m")]
        row = by_key["m_ips", n]
        assert row["value"] == pytest.approx(bqs(*q, a=10))
        assert row["low"] < row["value"] < row["high"]
        assert row["anova_p"] is None
    mean = by_key["m_ips", 0]
    each = [by_key["m_ips", n]["value"] for n in (1, 2, 3)]
    assert (mean["value"], mean["repeats_sd"]) == (pytest.approx(np.mean(each)), pytest.approx(np.std(each, ddof=1)))
    assert mean["n_repeats"] == 3
    assert mean["high"] - mean["low"] < max(by_key["m_ips", n]["high"] - by_key["m_ips", n]["low"] for n in (1, 2, 3))
    assert mean["anova_p"] is not None
    if mean["anova_p_holm"] < 0.05:
        assert (mean["place"], by_key["m_pd", 0]["place"]) == ("best", "second")


def test_without_repeats_there_is_one_row_and_no_anova() -> None:
    rng = np.random.default_rng(2)
    whole, group = (quality(rng, {"m": 0.3, "m_ips": 0.3}) for _ in range(2))
    (row,) = with_anova(bqs_rows(RULE, {CELL: whole}, {(CELL, "popularity=low"): group}, Bootstrap(0.95, 0, 0)), 0.05)
    assert (row["repeat"], row["n_repeats"], row["anova_p"], row["low"], row["place"]) == (0, 1, None, None, None)


def test_a_quality_without_value_has_no_score_but_a_reason() -> None:
    rng = np.random.default_rng(2)
    whole = quality(rng, {"m": 0.3, "m_ips": 0.3})
    group = Quality({"m": float("nan"), "m_ips": float("nan")}, whole.a, whole.b)
    (row,) = bqs_rows(RULE, {CELL: whole}, {(CELL, "popularity=low"): group}, Bootstrap(0.95, 100, 0))
    assert row["value"] is None
    assert row["reason"].startswith("the quality of the group has no value")
    (row,) = bqs_rows(RULE, {CELL: group}, {(CELL, "popularity=low"): whole}, Bootstrap(0.95, 100, 0))
    assert row["reason"].startswith("the quality of everything has no value")


def test_a_group_that_no_item_is_in_has_a_row() -> None:
    whole = quality(np.random.default_rng(2), {"m#1": 0.3, "m_ips#1": 0.3, "m#2": 0.3, "m_ips#2": 0.3})
    rows = with_anova(bqs_rows(RULE, {CELL: whole}, {}, Bootstrap(0.95, 100, 0)), 0.05)
    assert [(row["repeat"], row["value"], row["quality"] is None) for row in rows] == [
        (1, None, False), (2, None, False), (0, None, False),
    ]  # fmt: skip
    assert all(row["reason"].startswith("the quality of the group has no value") for row in rows)


def test_users_of_the_group_in_one_bucket_give_no_interval() -> None:
    whole = quality(np.random.default_rng(2), {"m": 0.3, "m_ips": 0.3})
    one = np.zeros(N_COARSE)
    one[3] = 1.0
    group = Quality({"m": 1.0, "m_ips": 1.0}, {"m": one, "m_ips": one}, {"m": one, "m_ips": one})
    (row,) = bqs_rows(RULE, {CELL: whole}, {(CELL, "popularity=low"): group}, Bootstrap(0.95, 100, 0))
    assert row["value"] is not None
    assert (row["low"], row["high"]) == (None, None)
    assert row["reason"].startswith("no interval: some bootstrap samples")


def test_what_is_asked_for_and_has_no_row_is_said() -> None:
    rule = RULE._replace(estimators=frozenset({"holdout", "snips"}))
    rows = [{"estimator": "holdout", "metric": "recall", "k": 5, "baseline": "m", "debiased": "m_ips"}]
    lines = not_scored(rule, rows)
    assert lines == [
        "bqs: snips has no estimates of recall@5, so no scores",
        "bqs: m_pd has no score against m: the run does not have both models",
    ]
    assert not not_scored(RULE._replace(pairs=RULE.pairs[:1]), rows)
    assert "there is no score" in not_scored(RULE, [])[0]


def test_replicates_cover_as_students_interval_does() -> None:
    """Over few buckets percentiles are too narrow; spread, they are as wide as Student's interval."""
    rng = np.random.default_rng(4)
    weights = poisson_weights(0, np.arange(400), N_COARSE).T
    covered = 0
    for _ in range(400):
        a = rng.normal(30, 6, N_COARSE)
        low, high = np.quantile(widened(a, np.full(N_COARSE, 100.0), weights, 0.95), [0.025, 0.975])
        covered += low <= 0.3 <= high
    assert 0.92 <= covered / 400 <= 0.98


def test_percentiles_are_corrected_for_the_shift_of_replicates() -> None:
    """With noise in both differences, plain percentiles miss the score of the true differences from below."""
    weights = poisson_weights(0, np.arange(400), N_COARSE).T
    plain = corrected = 0
    for seed in range(300):
        rng = np.random.default_rng(seed)
        x = {name: rng.normal(mean, 0.05 * N_COARSE**0.5, N_COARSE) for name, mean in (("q", 0.3), ("low", 0.07))}
        drawn = [widened(own, np.ones(N_COARSE), weights, 0.95) for own in x.values()]
        score = np.asarray(bqs(drawn[0], np.full(400, 0.3), drawn[1], np.full(400, 0.1), 10))
        value = float(bqs(x["q"].mean(), 0.3, x["low"].mean(), 0.1, 10))
        truth = float(bqs(0.3, 0.3, 0.07, 0.1, 10))
        for name, (low, high) in (
            ("plain", np.quantile(score, [0.025, 0.975])),
            ("corrected", bias_corrected(score, value, 0.95)),
        ):
            plain += name == "plain" and low <= truth <= high
            corrected += name == "corrected" and low <= truth <= high
    assert 0.92 <= corrected / 300 <= 0.99
    assert corrected >= plain
    assert bias_corrected(np.full(10, 0.5), 0.5, 0.95) == (0.5, 0.5)


def test_buckets_are_folded_as_users_are() -> None:
    x = np.arange(N_BUCKETS, dtype=float)
    assert coarse(x).tolist() == [x[np.arange(N_BUCKETS) % N_COARSE == g].sum() for g in range(N_COARSE)]


def test_pairs_and_punishments_of_the_config() -> None:
    own = Bqs.model_validate({"metrics": ["ndcg@5", "sampled_hit_rate@10"]})
    rule = own.rule(debiased_pairs(["bpr_mf", "bpr_pd", "simgcl", "simgcl_ips", "mf_ips"]))
    assert rule.pairs == (("bpr_mf", "bpr_pd"), ("simgcl", "simgcl_ips"))
    assert rule.metrics == {("ndcg", 5): 2.0, ("sampled_hit_rate(negatives=100)", 10): 10.0}
    with pytest.raises(ValueError, match="a: give one for precision"):
        Bqs.model_validate({"metrics": ["precision@5"]})
    assert Bqs.model_validate({"metrics": ["precision@5"], "a": {"precision": 4}}).rule([]).metrics == {
        ("precision", 5): 4
    }
