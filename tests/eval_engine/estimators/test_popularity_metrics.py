"""Metrics of top lists by class of popularity, worked out by hand: four users, six items, one class without support."""

from math import log2

import numpy as np
import pytest

from eval_engine.estimators.lists import LISTS
from eval_engine.estimators.metrics.parity import (
    by_user,
    found_by_class,
    pooled_variation,
    recommended_by_class,
    summed_variation,
)
from eval_engine.estimators.registry import METRICS, formula
from eval_engine.estimators.user_batch import LabelSet, UserBatch, list_items, list_set, popularity_columns
from eval_engine.evaluation.class_variation import SLICES, over_classes
from eval_engine.kernels.rank_facts import RankFacts
from eval_engine.statistics.bucket_sums import N_COARSE
from eval_engine.statistics.few_hits import interval

# items a, b, c are low (1, 1, 2 training positives), d and e are high (6, 9), z was never trained on; no item is middle
COUNT = np.array([1.0, 1.0, 2.0, 6.0, 9.0, 0.0])
CLASS = np.array([0, 0, 0, 2, 2, -1])
# lists: user 0 d e a, user 1 e d, user 2 b z e, user 3 none; user 0 was trained on b, user 1 on a and b
LISTS_OF = ([3, 4, 0], [4, 3], [1, 5, 4], [])
AVAILABLE = np.array([[2.0, 1.0, 3.0, 3.0], [0.0] * 4, [2.0, 2.0, 2.0, 2.0]])
# held-out positives (item, above, tied): user 0 a (2, 0) and e (1, 0); user 1 e (0, 1); user 2 c (4, 0)
HELD = ([(0, 2, 0), (4, 1, 0)], [(4, 0, 1)], [(2, 4, 0)], [])


@pytest.fixture
def batch() -> UserBatch:
    items = np.array([i for own in LISTS_OF for i in own])
    offsets = np.cumsum([0, *map(len, LISTS_OF)])
    candidates = np.array([5, 4, 6, 6], np.int32)
    flat = [one for own in HELD for one in own]
    above, tied = (np.array([one[n] for one in flat], np.int32) for n in (1, 2))
    facts = RankFacts(np.cumsum([0, *map(len, HELD)]), np.ones(4), np.empty(0), above, tied, candidates)
    labels = {"top": list_set(offsets, candidates), "heldout": LabelSet(facts, np.ones(4, np.bool_))}
    return UserBatch(
        labels,
        list_items=list_items(items, popularity_columns(COUNT, (CLASS == 0) * 1.0, 7), AVAILABLE),
    )


def class_of(name: str) -> np.ndarray:
    lists = LISTS_OF if name == "top" else [[one[0] for one in own] for own in HELD]
    return CLASS[[i for own in lists for i in own]]


def value(batch: UserBatch, name: str, k: int) -> float:
    terms = METRICS[name].means["recommended"].terms(LISTS.view(batch), k, "expected")
    return float(terms.numerator.sum() / terms.denominator.sum())


def test_means_over_lists(batch: UserBatch) -> None:
    assert value(batch, "arp", 2) == pytest.approx((7.5 + 7.5 + 0.5) / 3)
    assert value(batch, "arp", 3) == pytest.approx((16 / 3 + 7.5 + 10 / 3) / 3)
    assert value(batch, "aplt", 3) == pytest.approx((1 / 3 + 0 + 1 / 3) / 3)
    assert value(batch, "aclt", 3) == pytest.approx(2 / 3)
    assert value(batch, "tail_share", 3) == pytest.approx(2 / 8)  # 8 items in all, as one list is shorter than 3
    assert value(batch, "novelty", 1) == pytest.approx((-log2(7 / 8) - log2(10 / 8) - log2(2 / 8)) / 3)
    assert value(batch, "exposure_share", 3) == 1.0


def test_users_without_a_list_are_left_out(batch: UserBatch) -> None:
    for name in ("arp", "aplt", "aclt", "tail_share", "novelty", "exposure_share"):
        terms = METRICS[name].means["recommended"].terms(LISTS.view(batch), 2, "expected")
        assert terms.denominator[3] == 0, name
    assert (recommended_by_class(batch, LISTS.view(batch), class_of, 2, "expected").denominator[:, 3] == 0).all()


def test_p_rsp_pooled_and_by_user(batch: UserBatch) -> None:
    """In the top 3: low 1, 0, 1 of 2, 1, 3 that could be; high 2, 2, 1 of 2, 2, 2; middle has no item."""
    terms = recommended_by_class(batch, LISTS.view(batch), class_of, 3, "expected")
    assert terms.numerator.tolist() == [[1, 0, 1, 0], [0, 0, 0, 0], [2, 2, 1, 0]]
    low, high = 2 / 6, 5 / 6
    sums = terms.numerator.sum(axis=1), terms.denominator.sum(axis=1)
    assert pooled_variation(*sums) == pytest.approx(((high - low) / 2) / ((high + low) / 2))
    ratios = by_user(recommended_by_class)(batch, LISTS.view(batch), class_of, 3, "expected")
    low, high = 1 / 2 + 0 + 1 / 3, 1 + 1 + 1 / 2
    sums = ratios.numerator.sum(axis=1), ratios.denominator.sum(axis=1)
    assert summed_variation(*sums) == pytest.approx((high - low) / (high + low))


def test_p_reo_pooled_and_by_user(batch: UserBatch) -> None:
    """In the top 1: high has e of user 1 with chance 1/2 and not that of user 0; low has none. In the top 3: all but c."""
    view = LISTS.view(batch)
    one = found_by_class(batch, view, class_of, 1, "expected")
    assert one.numerator.tolist() == [[0, 0, 0, 0], [0, 0, 0, 0], [0, 0.5, 0, 0]]
    assert one.denominator.tolist() == [[1, 0, 1, 0], [0, 0, 0, 0], [1, 1, 0, 0]]
    three = found_by_class(batch, view, class_of, 3, "expected")
    low, high = 1 / 2, 2 / 2
    sums = three.numerator.sum(axis=1), three.denominator.sum(axis=1)
    assert pooled_variation(*sums) == pytest.approx((high - low) / (high + low))
    ratios = by_user(found_by_class)(batch, view, class_of, 3, "expected")
    assert summed_variation(ratios.numerator.sum(axis=1), ratios.denominator.sum(axis=1)) == pytest.approx((2 - 1) / 3)


def test_a_perfect_model_is_at_zero_if_pooled_only() -> None:
    """Classes whose positives 60, 900 and 850 users have."""
    users = np.array([60.0, 900.0, 850.0])
    assert pooled_variation(users, users) == 0
    assert summed_variation(users, users) == pytest.approx(0.638, abs=5e-4)


@pytest.mark.parametrize(
    ("a", "b", "found"),
    [
        ([0.0, 0.0, 0.0], [5.0, 5.0, 5.0], np.nan),  # nothing is recommended: the mean is 0
        ([0.0, 0.0, 0.0], [0.0, 0.0, 0.0], np.nan),  # no class has support
        ([3.0, 0.0, 0.0], [5.0, 0.0, 0.0], 0.0),  # one class: nothing to vary
        ([5.0, 0.0, 0.0], [5.0, 5.0, 5.0], np.sqrt(2.0)),  # the largest value of three classes
    ],
)
def test_variation_without_support_or_mean(a: list[float], b: list[float], found: float) -> None:
    ours = pooled_variation(np.array(a), np.array(b))
    assert ours == pytest.approx(found, nan_ok=True)


def test_errors_are_a_jackknife_over_buckets() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.random((3, N_COARSE)), np.full((3, N_COARSE), 2.0)
    found = over_classes(pooled_variation, ["m"], {name: {"m": (a[g], b[g], False)} for g, name in enumerate(SLICES)})
    left = []
    for bucket in range(N_COARSE):
        rest = np.delete(a, bucket, axis=1).sum(axis=1), np.delete(b, bucket, axis=1).sum(axis=1)
        left.append(float(pooled_variation(*rest)))
    error = np.sqrt((N_COARSE - 1) / N_COARSE * ((np.array(left) - np.mean(left)) ** 2).sum())
    assert found.linear.standard_errors()[0] == pytest.approx(error)
    assert found.linear.models.values[0] == pytest.approx(float(pooled_variation(a.sum(axis=1), b.sum(axis=1))))
    assert found.n_classes == 3


def test_support_in_one_bucket_only_has_no_error_and_unknown_sums_no_value() -> None:
    a, b = np.ones((3, N_COARSE)), np.ones((3, N_COARSE))
    b[1, 1:] = a[1, 1:] = 0
    sums = {name: {"m": (a[g], b[g], False)} for g, name in enumerate(SLICES)}
    found = over_classes(pooled_variation, ["m"], sums)
    assert found.linear.models.values[0] == 0
    assert np.isnan(found.linear.standard_errors()[0])
    unknown = over_classes(pooled_variation, ["m"], sums | {SLICES[0]: {"m": (a[0], b[0], True)}})
    assert np.isnan(unknown.linear.models.values[0])


@pytest.mark.parametrize(("users", "wide"), [(3, True), (300_000, False)])
def test_a_class_without_a_hit_may_have_one(users: int, wide: bool) -> None:
    """Two classes of ratio 0.5 and one of which nothing was found, in as many positives as users."""
    b = np.full((3, N_COARSE), users / 3)
    a = b * np.array([0.0, 0.5, 0.5])[:, None]
    found = over_classes(pooled_variation, ["m"], {name: {"m": (a[g], b[g], False)} for g, name in enumerate(SLICES)})
    moved = []
    for hits in np.linspace(0, -np.log(0.025), 1000):
        ratio = np.array([min(hits / b[0].sum(), 1.0), 0.5, 0.5])
        moved.append(abs(ratio.std() / ratio.mean() - np.sqrt(0.5)))
    assert found.linear.standard_errors()[0] * 1.96 == pytest.approx(max(moved), rel=0.01)
    assert (found.linear.standard_errors()[0] > 0.05) == wide
    low, high = interval(
        found.linear.models.values, found.linear.standard_errors(), 9, 31, 0.95, formula("lists", "p_reo").range(10)
    )
    assert 0 <= low[0] < high[0] <= np.sqrt(2)
    some = np.where(a == 0, 1.0, a)  # with a hit, the error is the jackknife's alone
    known = over_classes(
        pooled_variation, ["m"], {name: {"m": (some[g], b[g], False)} for g, name in enumerate(SLICES)}
    )
    assert known.linear.bias is not None
    assert known.linear.bias[0] == 0
