"""Sums by bucket: what loops of exact fractions give, whatever the order and the cuts; the bucket is Spark's own hash."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eval_engine.statistics.bucket_sums import (
    MOST_AT_ONCE,
    N_BUCKETS,
    SUMS,
    Factors,
    Sums,
    accumulated,
    add,
    add_cutoffs,
    add_denominators,
    add_numerators,
    add_scaled,
    add_shared,
    add_unknown,
    added,
    bucket_of,
    exchange,
    exchange_denominators,
    no_sums,
)
from eval_engine.statistics.ratio import SCALE

NUMBERS = (
    st.floats(-1e4, 1e4, allow_nan=False) | st.just(float("nan")) | st.sampled_from([0.0, 1.0, 1e-13, -0.5, 1 / 3])
)


def summed(terms, low, high, row, n_rows):
    found = no_sums(n_rows)
    add(found, terms, (low, high), row)
    return found


def rounded(x: float) -> int:
    floor = np.floor(x)
    return int(floor) * SCALE + int(np.rint((x - floor) * 1e12))


def numbers(sums: Sums) -> list[list[int]]:
    return [
        [int(w) * SCALE + int(p) for w, p in zip(*row, strict=True)] for row in zip(sums.whole, sums.part, strict=True)
    ]


@given(st.lists(st.tuples(NUMBERS, st.sampled_from([0.0, 1.0, 2.5, 1e3]), st.integers(0, 2)), max_size=30))
@settings(deadline=None)
def test_sums_are_what_loops_give(users):
    a, b = np.array([u[0] for u in users], np.float64), np.array([u[1] for u in users], np.float64)
    row = np.array([u[2] for u in users], np.int64)
    found = summed((a, b), a - 1, a + 1, row, 3)
    expected = [[0] * len(SUMS) for _ in range(3)]
    counts = [[0, 0, 0] for _ in range(3)]
    for x, y, r in users:
        if y == 0:
            counts[r][1] += 1
            continue
        counts[r][0] += 1
        if np.isnan(x):
            counts[r][2] += 1
            continue
        for n, value in enumerate((x, y, x * x, x * y, y * y, x - 1, x + 1)):
            expected[r][n] += rounded(value)
    assert found.counts.tolist() == counts
    assert numbers(found) == expected
    assert ((found.part >= 0) & (found.part < SCALE)).all()


def test_order_and_cuts_do_not_matter():
    rng = np.random.default_rng(0)
    a, b, row = rng.normal(0, 1e3, 5000), np.ones(5000), rng.integers(0, 7, 5000)
    whole = summed((a, b), a, a, row, 7)
    order = rng.permutation(5000)
    shuffled = summed((a[order], b[order]), a[order], a[order], row[order], 7)
    parts = [summed((a[s], b[s]), a[s], a[s], row[s], 7) for s in (slice(0, 1), slice(1, 3000), slice(3000, None))]
    merged = added(
        Sums(*(np.concatenate(columns) for columns in zip(*parts, strict=True))), np.tile(np.arange(7), 3), 7
    )
    on_and_on = no_sums(7)
    for s in (slice(0, 2500), slice(2500, None)):
        add(on_and_on, (a[s], b[s]), (a[s], a[s]), row[s])
    for other in (shuffled, merged, on_and_on):
        assert numbers(other) == numbers(whole)
        assert (other.counts == whole.counts).all()
    exact = sum(Fraction(rounded(x), SCALE) for x in a[row == 0])
    assert Fraction(numbers(whole)[0][0], SCALE) == exact


@pytest.mark.parametrize(("a", "b"), [([np.inf], [1.0]), ([1.0], [np.nan]), ([1.0], [-1.0]), ([1.0], [np.inf])])
def test_terms_that_cannot_be_meant(a, b):
    with pytest.raises(ValueError, match="user 0 has numerator"):
        summed((np.array(a), np.array(b)), np.array(a), np.array(a), np.zeros(1, np.int64), 1)


def test_terms_too_large_to_be_exact():
    with pytest.raises(ValueError, match="cannot be summed exactly"):
        summed((np.array([1e12]), np.ones(1)), np.ones(1), np.ones(1), np.zeros(1, np.int64), 1)


def test_sums_too_large_to_be_added_to():
    """Each batch alone would do."""
    found, large = no_sums(1), np.full(40, 3e8)
    add(found, (large, np.ones(40)), None, np.zeros(40, np.int64))
    copy = Sums(*(x.copy() for x in found))
    with pytest.raises(ValueError, match="cannot be summed exactly"):
        add(copy, (large, np.ones(40)), None, np.zeros(40, np.int64))
    both = Sums(*(np.concatenate([x, x]) for x in found))
    with pytest.raises(ValueError, match="cannot be added exactly"):
        added(both, np.zeros(2, np.int64), 1)
    assert numbers(added(both, np.arange(2), 2))[0] == numbers(found)[0]


def test_a_bound_that_is_no_number():
    with pytest.raises(ValueError, match="user 0 has numerator"):
        summed((np.ones(1), np.ones(1)), np.array([np.nan]), np.ones(1), np.zeros(1, np.int64), 1)


def test_a_bound_that_is_no_number_beside_a_usual_numerator():
    """As of pairs of one place that do not say that they are tied."""
    one, nothing = np.ones(1), np.empty(0)
    factors = Factors(nothing, nothing, nothing, nothing)
    users = np.zeros(1, np.int64)
    for low, high in ((np.nan, 1.0), (1.0, np.nan)):
        bounds = users, np.array([low]), np.array([high])
        with pytest.raises(ValueError, match="bounds of a known numerator"):
            add_scaled(no_sums(1), one, factors, one, users, users, bounds)


@given(
    st.lists(
        st.tuples(
            st.sampled_from([0.0, 1.0, 2.5, 1500.0]),
            st.sampled_from([0.0, 0.3, -2.0, 7.5, np.nan]),
            st.sampled_from([0.0, 1.0, 0.7, 40.0]),
            st.integers(0, 2),
        ),
        max_size=12,
    )
)
def test_exchange_is_to_subtract_and_to_add(users):
    old, a, b = (np.array([user[n] for user in users], np.float64) for n in range(3))
    row = np.array([user[3] for user in users], np.int64)
    want, found = no_sums(3), no_sums(3)
    for sums in (want, found):
        add(sums, (np.zeros(old.size), old), None, row)
    add(want, (np.zeros(old.size), old), None, row, sign=-1)
    add(want, (a, b), None, row)
    exchange(found, old, (a, b), row)
    for x, y in zip(found, want, strict=True):
        assert x.tolist() == y.tolist()
    wrong = np.array([np.inf]), np.ones(1)
    with pytest.raises(ValueError, match="user 0 has numerator"):
        exchange(found, np.ones(1), wrong, np.zeros(1, np.int64))


def test_shared_sums_are_added_to_the_rows_of_each():
    rng = np.random.default_rng(3)
    a, row = rng.normal(0, 1e3, 300), rng.integers(0, 3, 300)
    shared = summed((a, np.ones(300)), a, a, row, 3)
    own = summed((a, np.ones(300)), a, a, np.arange(300) % 4, 4)
    found = Sums(*(x.copy() for x in own))
    add_shared(found, shared, np.array([0, 2, 2, 4]))
    for n, one in enumerate((0, 0, 2, 2)):
        assert numbers(found)[n] == [x + y for x, y in zip(numbers(own)[n], numbers(shared)[one], strict=True)]
        assert (found.counts[n] == own.counts[n] + shared.counts[one]).all()
    left_out = added(own, np.array([0, -1, 0, -1]), 1)
    assert numbers(left_out)[0] == [x + y for x, y in zip(numbers(own)[0], numbers(own)[2], strict=True)]


TOTALS = NUMBERS | st.sampled_from([2.0**21, -3e6])
OPTIONAL = st.none() | st.just(0.5)


@given(
    st.lists(st.tuples(TOTALS, st.sampled_from([0.0, 1.0, 2.5]), st.booleans(), st.booleans()), max_size=30),
    *[OPTIONAL] * 4,
    st.booleans(),
)
@settings(deadline=None)
def test_scaled_sums_are_what_their_terms_give(users, up, down, most, weight, bounded):
    n = len(users)
    total, b = np.array([u[0] for u in users], np.float64), np.array([u[1] for u in users], np.float64)
    tied = np.array([u[2] for u in users], np.bool_)
    active = np.flatnonzero([u[3] for u in users])
    row = np.arange(n) % 3
    rows = np.stack([row, 3 + row])
    factors = [
        np.empty(0) if x is None else np.arange(n) % 2 + x * (np.arange(n) % 3) for x in (up, down, most, weight)
    ]
    low, high = (np.where(np.isnan(total), 0.0, total + step) for step in (-1, 1))

    def scaled(x):
        x = x * (factors[0] if up else 1.0)
        x = np.divide(x, factors[1], out=np.zeros(n), where=factors[1] > 0) if down else x
        x = np.where(x > factors[2], factors[2], x) if most else x
        return x * (factors[3] if weight else 1.0)

    expected, found, kept = no_sums(6), no_sums(6), np.full(n, 7.0, np.float32)
    bounds = tuple(np.where(tied, scaled(x), scaled(total))[active] for x in (low, high)) if bounded else None
    add_numerators(expected, (scaled(total)[active], b[active]), bounds, rows[:, active])
    number = np.where(tied, np.cumsum(tied) - 1, -1)
    given_bounds = (number, low[tied], high[tied]) if bounded else None
    add_scaled(found, total, Factors(*factors), b, active, rows, given_bounds, kept)
    assert numbers(found) == numbers(expected)
    assert (found.counts == expected.counts).all()
    used = active[b[active] > 0]
    np.testing.assert_array_equal(kept[used], scaled(total)[used].astype(np.float32))
    assert (np.delete(kept, used) == 7).all()


def test_more_users_than_are_added_at_once():
    n = 2 * MOST_AT_ONCE + 5
    found, expected, row, nothing = no_sums(2), no_sums(2), np.arange(n) % 2, np.empty(0)
    total, b = np.random.default_rng(0).random(n) * 2.0**19, np.ones(n)
    add_scaled(found, total, Factors(*[nothing] * 4), b, np.arange(n), row)
    add_numerators(expected, (total, b), None, row)
    assert numbers(found) == numbers(expected)


@pytest.mark.parametrize(
    ("x", "y", "why"), [(np.inf, 1.0, "user 1"), (1.0, np.inf, "user 1"), (2.0**31, 1.0, "exactly")]
)
def test_scaled_sums_that_cannot_be_meant(x, y, why):
    nothing = np.empty(0)
    with pytest.raises(ValueError, match=why):
        add_scaled(
            no_sums(1), np.array([1.0, x]), Factors(*[nothing] * 4), np.array([1.0, y]), np.arange(2), np.zeros(2, int)
        )


def test_buckets_are_those_of_sql():
    hashes = np.array([-1, 0, 255, 256, -(2**63), 2**63 - 1])
    assert bucket_of(hashes).tolist() == [255, 0, 255, 0, 0, 255]  # pmod: never negative
    assert N_BUCKETS == 256


@given(
    st.lists(
        st.tuples(NUMBERS | st.just(0.0), st.sampled_from([0.0, 1.0, 0.3, 2.5]), st.integers(0, 2)),
        max_size=30,
    )
)
@settings(deadline=None)
def test_denominators_and_numerators_apart_are_the_same_sums(users):
    a, b = np.array([u[0] for u in users], np.float64), np.array([u[1] for u in users], np.float64)
    row = np.array([u[2] for u in users], np.int64)
    whole, base, rest = summed((a, b), a, a, row, 3), no_sums(3), no_sums(3)
    add_denominators(base, b, row)
    add_numerators(rest, (a, b), (a, a), row)
    both = added(Sums(*(np.concatenate(x) for x in zip(base, rest, strict=True))), np.array([0, 1, 2, 0, 1, 2]), 3)
    assert numbers(both) == numbers(whole)
    assert both.counts.tolist() == whole.counts.tolist()


@given(st.lists(st.tuples(NUMBERS, st.sampled_from([0.0, 1.0, 0.3]), st.sampled_from([0.0, 1.0, 0.7])), max_size=20))
@settings(deadline=None)
def test_what_is_taken_off_leaves_nothing(users):
    a, old, new = (np.array([u[n] for u in users], np.float64) for n in range(3))
    row = np.zeros(a.size, np.int64)
    found = summed((a, old), a, a, row, 1)
    add(found, (a, old), (a, a), row, sign=-1)
    assert not any(x.any() for x in found)
    add_denominators(found, old, row)
    exchange_denominators(found, old, new, row)
    add_denominators(found, new, row, -1)
    assert not any(x.any() for x in found)


@given(
    st.lists(st.tuples(st.lists(TOTALS, min_size=3, max_size=3), st.sampled_from([0.0, 1.0, 2.5])), max_size=20),
    st.tuples(*[st.none() | st.tuples(st.just(0.5), st.booleans())] * 4),
)
@settings(deadline=None)
def test_changes_from_cutoff_to_cutoff_add_up_to_each_cutoffs_sums(users, kinds):
    """factors: none, of each user, or of each user and cutoff."""
    n = len(users)
    totals = np.array([u[0] for u in users], np.float64).reshape(n, 3).T
    b = np.array([u[1] for u in users], np.float64)
    rows = np.stack([np.arange(n) % 3, 3 + np.arange(n) % 2])
    step = np.arange(n) % 3 + np.arange(3)[:, None]
    factors = [np.empty((0, 0)) if x is None else 0.5 + (step if x[1] else step[:1]) * x[0] for x in kinds]
    found = no_sums(3, 6)
    add_cutoffs(found, totals, Factors(*factors), b, rows)
    found = accumulated(found)
    for k in range(3):
        expected, own = no_sums(6), [x[min(k, len(x) - 1)] if len(x) else np.empty(0) for x in factors]
        add_scaled(expected, totals[k], Factors(*own), b, np.flatnonzero(totals[k] != 0), rows)
        assert numbers(Sums(*(x[k] for x in found))) == numbers(expected)
        assert (found.counts[k] == expected.counts).all()


@pytest.mark.parametrize(
    ("x", "y", "why"), [(np.inf, 1.0, "user 1"), (1.0, np.inf, "user 1"), (2.0**31, 1.0, "exactly")]
)
def test_changes_that_cannot_be_meant(x, y, why):
    nothing = np.empty((0, 0))
    with pytest.raises(ValueError, match=why):
        add_cutoffs(
            no_sums(2, 1),
            np.array([[1.0, 0.0], [1.0, x]]),
            Factors(*[nothing] * 4),
            np.array([1.0, y]),
            np.zeros(2, int),
        )


def test_changes_that_add_up_to_too_much():
    large = no_sums(3, 1)
    large.whole[:, 0, 2] = 2**61
    with pytest.raises(ValueError, match="exactly"):
        accumulated(large)


def test_users_with_unknown_numerators_are_counted():
    counted, row = np.array([True, False, True, False, True]), np.array([0, 0, 1, 1, 1])
    found, expected = no_sums(2), no_sums(2)
    add_unknown(found, counted, row)
    add(expected, (np.where(counted, np.nan, 0.0), counted.astype(float)), None, row)
    assert found.counts.tolist() == expected.counts.tolist()
    assert numbers(found) == numbers(expected)
    add_unknown(found, counted, row, sign=-1)
    assert not any(x.any() for x in found)
