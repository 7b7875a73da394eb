"""Estimates from both arms of a design: their terms against loops, and their mean over 2,000 draws against the truth."""

import math
from functools import cache

import numpy as np
import pytest

import eval_engine as e
from eval_engine.errors import DataError
from eval_engine.estimators.in_memory import evaluate
from eval_engine.exposure_design.design import design_exposures
from eval_engine.kernels.rank_facts import RankFacts, rank_facts

USERS, ITEMS, K, DRAWS = 40, 60, 5, 2000


def discount(place):
    return 1 / math.log2(place + 2) if place < K else 0.0


def own_world():
    rng = np.random.default_rng(5)
    taste = rng.normal(size=(USERS, ITEMS))
    scores = np.round(np.stack([taste + rng.normal(size=taste.shape) for _ in range(3)]), 1)  # with ties
    return scores, taste + rng.normal(size=taste.shape) > 1.2


def shown(n_draws, uniform=2, seed=1):
    """Facts of three models for each draw of exposures, and each draw's users one after the other."""
    scores, liked = own_world()
    lists = np.argsort(-scores, axis=2, kind="stable")[:, :, :K]
    plan = design_exposures(np.tile(lists, (1, n_draws, 1)), ITEMS, 8, uniform, seed)
    items = [row.tolist() for row in plan.items]
    user = np.tile(np.arange(USERS), n_draws)
    values = [liked[u, row].astype(float) for u, row in zip(user, items, strict=True)]
    chance, arm = np.concatenate(plan.probabilities), np.concatenate(plan.in_uniform)
    facts = [rank_facts(own[user], items, values)._replace(probability=chance, in_uniform=arm) for own in scores]
    return facts, plan


@cache
def drawn():
    return shown(DRAWS)


def expected_gain(scores, gain):
    """The expected gain of each item over the places that its ties may take, from the definition."""
    above = (scores[:, None, :] > scores[:, :, None]).sum(axis=2)
    same = (scores[:, None, :] == scores[:, :, None]).sum(axis=2)
    return np.array(
        [
            [np.mean([gain(a + t) for t in range(s)]) for a, s in zip(*row, strict=True)]
            for row in zip(above, same, strict=True)
        ]
    )


@cache
def truth():
    scores, liked = own_world()
    hits = [(liked * expected_gain(own, lambda place: float(place < K))).sum() for own in scores]
    dcg = [(liked * expected_gain(own, discount)).sum() / USERS for own in scores]
    return hits, dcg, liked.sum()


def by_draw(x):
    return np.asarray(x).reshape(DRAWS, USERS).sum(axis=1)


def is_near(values, target, largest=3.0):
    error = values.std(ddof=1) / math.sqrt(values.size)
    assert abs(values.mean() - target) < largest * error, (values.mean(), target, error)


@pytest.mark.parametrize("model", [0, 1, 2])
def test_precision_and_dcg_of_both_arms_are_unbiased(model):
    hits, dcg, _ = truth()
    facts = drawn()[0][model]
    for name, target in ((f"precision@{K}", hits[model] / (K * USERS)), (f"dcg@{K}", dcg[model])):
        terms = evaluate(facts, "designed_mean", name).terms
        is_near(by_draw(terms.numerator) / USERS, target)


def test_pooled_recall_differences_and_known_sizes_recover_the_truth():
    """Ratios are consistent: with all draws in one, the bias is far below the standard error."""
    hits, dcg, n = truth()
    a, b, _ = drawn()[0]
    for found, target in (
        (e.designed_recall(a, k=K), hits[0] / n),
        (e.recall_known_sizes(a, K), hits[0] / n),
        (e.designed_precision_mean_known(a, k=K), hits[0] / (K * USERS)),
        (e.designed_dcg_mean_known(a, k=K), dcg[0]),
        (e.recall_difference(a, b, K), (hits[0] - hits[1]) / n),
        (e.lift(a, b, K), hits[0] / hits[1]),
    ):
        assert abs(found.value - target) < 3 * found.standard_error
        assert found.low < found.value < found.high
        assert found.standard_error < 0.05 * abs(target) or target == (hits[0] - hits[1]) / n


def test_a_ratio_of_single_users_over_both_arms_is_far_off_and_not_offered():
    """What the uniform arm is for: m / n over both arms reads several times the truth."""
    scores, liked = own_world()
    gain = expected_gain(scores[0], lambda place: float(place < K))
    some = liked.any(axis=1)
    macro = ((liked * gain).sum(axis=1)[some] / liked.sum(axis=1)[some]).mean()
    facts = drawn()[0][0]
    wrong = evaluate(facts._replace(probability=None, in_uniform=None), "ure_macro", f"recall@{K}").value
    assert wrong > 2 * macro
    for name in ("designed_macro", "designed_balanced"):
        with pytest.raises(DataError, match="no estimator"):
            evaluate(facts, name, f"recall@{K}")
    for metric in (f"ndcg@{K}", f"map@{K}", "auc", f"recall@{K}"):
        with pytest.raises(DataError, match="no estimator"):
            evaluate(facts, "designed_mean", metric)


def test_what_needs_uniform_exposures_takes_those_of_arm_u():
    (a, *_), plan = shown(1)
    scores, liked = own_world()
    items = [row[arm].tolist() for row, arm in zip(plan.items, plan.in_uniform, strict=True)]
    alone = rank_facts(scores[0], items, [liked[u, row].astype(float) for u, row in enumerate(items)])
    for one in (e.ure_recall, e.ure_map, e.ure_ndcg, e.ure_precision, e.traditional_recall):
        assert one(a, k=K).terms.numerator.tolist() == one(alone, k=K).terms.numerator.tolist()
    assert e.ure_auc(a).value == e.ure_auc(alone).value
    assert e.ure_recall_balanced(a, k=K).value == e.ure_recall_balanced(alone, k=K).value


def test_terms_are_those_of_the_formulas():
    facts = shown(1)[0][1]
    hits = evaluate(facts, "designed_mean", f"precision@{K}").terms
    known = evaluate(facts, "designed_mean_known", f"dcg@{K}").terms
    micro = evaluate(facts, "designed_micro", f"recall@{K}").terms
    whole = sum(discount(place) for place in range(K))
    for u in range(USERS):
        sums = np.zeros(4)
        for p in range(facts.offsets[u], facts.offsets[u + 1]):
            places = range(facts.above[p], facts.above[p] + facts.tied[p] + 1)
            q, d = (np.mean([gain(place) for place in places]) for gain in (lambda x: float(x < K), discount))
            sums += (
                np.array([q, d, d / facts.value[p] if facts.value[p] else 0, 1]) * facts.value[p] / facts.probability[p]
            )
            sums[2] += 0 if facts.value[p] else d / facts.probability[p]
        np.testing.assert_allclose(hits.numerator[u], sums[0] / K)
        np.testing.assert_allclose((known.numerator[u], known.denominator[u]), (sums[1], sums[2] / whole), atol=1e-12)
        np.testing.assert_allclose((micro.numerator[u], micro.denominator[u]), (sums[0], sums[3]), atol=1e-12)


def test_uniform_exposures_have_known_sizes_too():
    rng = np.random.default_rng(3)
    scores, liked = own_world()
    items = [rng.permutation(ITEMS)[:8] for _ in range(USERS)]
    a, b = (rank_facts(own, items, [liked[u, row] for u, row in enumerate(items)]) for own in scores[:2])
    q = np.clip((K - a.above) / (a.tied + 1), 0, 1)
    np.testing.assert_allclose(e.ure_precision_mean_known(a, k=K).value, (q * a.value).sum() / q.sum())
    # e and N are the same for all, so that N+ = N n C / D is the plain N n_u / e
    expected = K * (q * a.value).sum() / q.sum() / (a.value.sum() * ITEMS / 8 / USERS)
    np.testing.assert_allclose(e.recall_known_sizes(a, K).value, expected)
    np.testing.assert_allclose(e.recall_difference(a, b, K).value, expected - e.recall_known_sizes(b, K).value)


def test_errors_with_known_sizes_are_those_of_the_jackknife():
    (a, b, _), _ = shown(20)
    n = a.n_users
    groups = np.random.default_rng(0).permutation(n) // 4

    def without(facts, group):
        keep = groups != group
        pairs = keep[facts.user]
        offsets = np.concatenate([[0], np.cumsum(np.diff(facts.offsets)[keep])])
        kept = [x[pairs] for x in (facts.value, facts.score, facts.above, facts.tied)]
        return RankFacts(offsets, *kept, facts.candidates[keep], facts.probability[pairs], facts.in_uniform[pairs])

    for one in (
        lambda x, y: e.recall_known_sizes(x, K),
        lambda x, y: e.recall_difference(x, y, K),
        lambda x, y: e.lift(x, y, K),
    ):
        values = np.array([one(without(a, g), without(b, g)).value for g in range(n // 4)])
        jackknife = math.sqrt((1 - 4 / n) * ((values - values.mean()) ** 2).sum())
        assert one(a, b).standard_error == pytest.approx(jackknife, rel=0.1)


def test_nothing_in_the_top_has_no_value():
    facts = rank_facts(np.arange(10.0)[None].repeat(3, 0), [[0], [1], [0]], [[0], [0], [0]])
    assert math.isnan(e.recall_known_sizes(facts, 2).value)
    assert math.isnan(e.lift(facts, facts, 2).value)
    assert math.isnan(e.designed_precision_mean_known(facts._replace(probability=np.full(3, 0.1)), k=2).value)


def test_other_exposures_are_not_compared():
    one, other = (rank_facts(np.arange(10.0)[None], [[n]], [[n]]) for n in (0, 1))
    with pytest.raises(ValueError, match="same exposures"):
        e.recall_difference(one, other, 2)


@pytest.mark.parametrize("wrong", [0.0, -0.1, 1.5, math.nan])
def test_probabilities_are_above_0_and_at_most_1(wrong):
    (a, b, _), _ = shown(20)
    chance = a.probability.copy()
    chance[7] = wrong
    a, b = (own._replace(probability=chance) for own in (a, b))
    words = rf"pair 7 of user \d+ has {wrong}, not in \(0, 1\]"
    with pytest.raises(DataError, match=words):
        e.designed_precision(a, k=K)
    with pytest.raises(DataError, match=words):
        e.lift(a, b, K)
    with pytest.raises(DataError, match="for each of the"):
        e.designed_recall(a._replace(probability=chance[1:]), k=K)
