"""Exact sums over users by bucket. From them intervals, comparisons and slices follow without a second pass over users.

A bucket is a hash of the user (kernels/xxhash64.py), so buckets are random groups of users, the same for every model,
run and machine:

    bucket = pmod(xxhash64(user_id), 256), of slices and strata pmod(bucket, 32)

Numbers are rounded once to a multiple of 1e-12 and added as integers, with whole parts and fractions kept separately:
any order of addition gives the same bits, and a term can be subtracted again exactly. Most users have no hit:
denominators are summed once for all cutoffs (add_denominators), and each cutoff adds the numerators of the few users
with a hit (add_numerators).
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from eval_engine.kernels.arrays import Ints
from eval_engine.kernels.compiled import compiled
from eval_engine.statistics.ratio import LARGEST_SUM, SCALE

Doubles = npt.NDArray[np.float64]
N_BUCKETS = 256
N_COARSE = 32  # buckets of slices and strata
COUNTS = ("n_users", "n_left_out", "n_unknown")
SUMS = ("a", "b", "aa", "ab", "bb", "a_low", "a_high")
LIMB = np.int64(SCALE)
NO_BOUNDS = (np.empty(0), np.empty(0))


class Sums(NamedTuple):
    """Sums over some users by row: numbers of users, and sums of numerators, denominators and their products."""

    counts: npt.NDArray[np.int64]  # (..., n_rows, 3): as COUNTS
    whole: npt.NDArray[np.int64]  # (..., n_rows, 7): whole parts, as SUMS
    part: npt.NDArray[np.int64]  # (..., n_rows, 7): the rest, in units of 1e-12, 0 to below 1e12


def bucket_of(hashes: Ints) -> Ints:
    """The bucket of each user."""
    return np.mod(hashes, N_BUCKETS)


def no_sums(*n_rows: int) -> Sums:
    """Sums over no users."""
    return Sums(*(np.zeros((*n_rows, n), np.int64) for n in (len(COUNTS), len(SUMS), len(SUMS))))


def add(
    sums: Sums, terms: tuple[Doubles, Doubles], bounds: tuple[Doubles, Doubles] | None, row: Ints, sign: int = 1
) -> None:
    """Add users to the sums of their rows, or subtract them (sign -1). terms: their numerators and denominators.
    bounds: numerators with every tie broken against and for the model; None where bounds are not kept.
    """
    a, b = terms
    low, high = bounds or (a, a)
    _check(sums, a, b, low, high)
    _add(a, b, low, high, row, sign, *sums)


def add_denominators(sums: Sums, b: Doubles, row: Ints, sign: int = 1) -> None:
    """The same for users whose numerators are 0 or are added later."""
    nothing = np.zeros(b.size)
    add(sums, (nothing, b), None, row, sign)


def exchange_denominators(sums: Sums, old: Doubles, new: Doubles, row: Ints) -> None:
    """Replace the denominators of users who are already in the sums of their rows, with numerators 0."""
    differ = np.flatnonzero(old != new)
    if differ.size:
        add_denominators(sums, old[differ], row[differ], -1)
        add_denominators(sums, new[differ], row[differ])


def add_numerators(
    sums: Sums, terms: tuple[Doubles, Doubles], bounds: tuple[Doubles, Doubles] | None, row: Ints
) -> None:
    """Add the remaining terms of users whose denominators are already in the sums."""
    a, b = terms
    low, high = bounds or (a, a)
    _check(sums, a, b, low, high)
    _add_numerators(a, b, low, high, row, *sums)


def add_numerators_again(places: list[tuple[Sums, Ints]], terms: tuple[Doubles, Doubles]) -> None:
    """Add the same terms to further sums, without bounds; the terms were checked when they were first added."""
    for sums, row in places:
        _add_numerators(*terms, *NO_BOUNDS, row, *sums)


def _check(sums: Sums, a: Doubles, b: Doubles, low: Doubles, high: Doubles) -> None:
    wrong, largest = _checked(a, b, low, high)
    if wrong >= 0:
        raise ValueError(
            f"user {wrong} has numerator {a[wrong]} and denominator {b[wrong]}: neither may be infinite, nor the "
            "denominator NaN or negative"
        )
    if largest**2 * max(a.size, 1) + float(np.abs(sums.whole).max(initial=0)) >= LARGEST_SUM:
        raise ValueError(
            f"terms as large as {largest:.3g} cannot be summed exactly: metrics and their weights are far smaller"
        )


def added(sums: Sums, row: Ints, n_rows: int) -> Sums:
    """Rows with the same target row, added up."""
    largest = np.bincount(row, np.abs(sums.whole).max(axis=1, initial=0), minlength=1).max()
    if largest >= LARGEST_SUM:
        raise ValueError(
            f"sums as large as {largest:.3g} cannot be added exactly: metrics and their weights are far smaller"
        )
    found = no_sums(n_rows)
    _merge(*sums, row, *found)
    return found


@compiled
def _checked(a, b, low, high):  # type: ignore[no-untyped-def]
    """The first user with invalid terms, or -1; and the largest absolute term."""
    largest = 0.0
    for u in range(a.size):
        if np.isinf(a[u]) or not 0.0 <= b[u] < np.inf:
            return u, largest
        if b[u] > 0.0 and not np.isnan(a[u]):
            if not (abs(low[u]) < np.inf and abs(high[u]) < np.inf):
                return u, largest
            largest = max(largest, max(max(abs(a[u]), b[u]), max(abs(low[u]), abs(high[u]))))
    return -1, largest


@compiled
def _add(a, b, low, high, row, sign, counts, whole, part):  # type: ignore[no-untyped-def]
    for u in range(a.size):
        r, x, y = row[u], a[u], b[u]
        if y == 0.0:
            counts[r, 1] += sign
            continue
        counts[r, 0] += sign
        if np.isnan(x):
            counts[r, 2] += sign
            continue
        if y == 1.0:  # a mean over users, most of whom have no hit and no ties: the same sums with less work
            whole[r, 1] += sign
            whole[r, 4] += sign
            if x == 0.0 and low[u] == 0.0 and high[u] == 0.0:
                continue
            _add_one(whole, part, r, 3, x, sign)
        else:
            _add_one(whole, part, r, 1, y, sign)
            _add_one(whole, part, r, 3, x * y, sign)
            _add_one(whole, part, r, 4, y * y, sign)
        _add_one(whole, part, r, 0, x, sign)
        _add_one(whole, part, r, 2, x * x, sign)
        _add_one(whole, part, r, 5, low[u], sign)
        _add_one(whole, part, r, 6, high[u], sign)


@compiled
def _add_numerators(a, b, low, high, row, counts, whole, part):  # type: ignore[no-untyped-def]
    bounded = low.size > 0
    for u in range(a.size):
        r, x, y = row[u], a[u], b[u]
        if y == 0.0:
            continue
        if np.isnan(x):  # the sums hold no denominators of such users
            counts[r, 2] += 1
            _add_one(whole, part, r, 1, y, -1)
            _add_one(whole, part, r, 4, y * y, -1)
            continue
        if x != 0.0:
            _add_one(whole, part, r, 0, x, 1)
            _add_one(whole, part, r, 2, x * x, 1)
            _add_one(whole, part, r, 3, x * y, 1)
        if bounded and (low[u] != 0.0 or high[u] != 0.0):
            _add_one(whole, part, r, 5, low[u], 1)
            _add_one(whole, part, r, 6, high[u], 1)


@compiled
def _add_one(whole, part, r, n, value, sign):  # type: ignore[no-untyped-def]
    floor = np.floor(value)
    rest = part[r, n] + sign * np.int64(np.rint((value - floor) * 1e12))
    over = np.int64(rest >= LIMB) - np.int64(rest < 0)
    whole[r, n] += sign * np.int64(floor) + over
    part[r, n] = rest - over * LIMB


@compiled
def _merge(counts, whole, part, row, all_counts, all_whole, all_part):  # type: ignore[no-untyped-def]
    for i in range(row.size):
        r = row[i]
        for n in range(counts.shape[1]):
            all_counts[r, n] += counts[i, n]
        for n in range(whole.shape[1]):
            rest = all_part[r, n] + part[i, n]
            over = np.int64(rest >= LIMB)
            all_whole[r, n] += whole[i, n] + over
            all_part[r, n] = rest - over * LIMB
