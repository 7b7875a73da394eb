"""Exact sums over users by bucket. From them intervals, comparisons and slices follow without a second pass over users.

A bucket is a hash of the user (kernels/xxhash64.py), so buckets are random groups of users, the same for every model,
run and machine:

    bucket = pmod(xxhash64(user_id), 256), of slices and strata pmod(bucket, 32)

Numbers are rounded once to a multiple of 1e-12 and added as integers, with whole parts and fractions kept separately:
any order of addition gives the same bits, and a term can be subtracted again exactly. Most users have no hit:
denominators are summed once for all cutoffs (add_denominators), and each cutoff adds the numerators of the few users
with a hit (add_numerators, add_scaled), or only what changed since the cutoff before (add_cutoffs, accumulated).
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from eval_engine.kernels.arrays import Bools, Ints
from eval_engine.kernels.compiled import compiled
from eval_engine.statistics.ratio import LARGEST_SUM, SCALE

Doubles = npt.NDArray[np.float64]
N_BUCKETS = 256
N_COARSE = 32  # buckets of slices and strata
COUNTS = ("n_users", "n_left_out", "n_unknown")
SUMS = ("a", "b", "aa", "ab", "bb", "a_low", "a_high")
LIMB = np.int64(SCALE)
NO_BOUNDS = (np.empty(0), np.empty(0))
NOTHING_KEPT = np.empty(0, np.float32)
LARGEST_TERM = 2.0**30  # its square can be added to any sum below LARGEST_SUM
MOST_AT_ONCE = 1 << 16  # users of add_scaled
LARGEST_SMALL = 2.0**20  # the sum of so many squares is an int64


class Sums(NamedTuple):
    """Sums over some users by row: numbers of users, and sums of numerators, denominators and their products."""

    counts: npt.NDArray[np.int64]  # (..., n_rows, 3): as COUNTS
    whole: npt.NDArray[np.int64]  # (..., n_rows, 7): whole parts, as SUMS
    part: npt.NDArray[np.int64]  # (..., n_rows, 7): the rest, in units of 1e-12, 0 to below 1e12


def bucket_of(hashes: Ints) -> Ints:
    """The bucket of each user."""
    return np.mod(hashes, N_BUCKETS)


class TooLargeError(ValueError):
    """Terms or sums that cannot be added exactly."""


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
    low, high = bounds or NO_BOUNDS
    _refuse(a, b, *_add(a, b, low, high, row, sign, *sums))


def add_denominators(sums: Sums, b: Doubles, rows: Ints, sign: int = 1) -> None:
    """The same for users whose numerators are 0 or are added later. rows: of each user, or (n, n_users): each user is
    added to n rows.
    """
    wrong, largest = _add_denominators(b, np.atleast_2d(rows), sign, *sums)
    if wrong >= 0:
        _refuse(np.zeros(b.size), b, wrong, largest)


def add_unknown(sums: Sums, counted: Bools, rows: Ints, sign: int = 1) -> None:
    """The same for users whose numerators are unknown, or who are left out (not counted)."""
    _add_unknown(counted, np.atleast_2d(rows), sign, sums.counts)


def exchange_denominators(sums: Sums, old: Doubles, new: Doubles, row: Ints) -> None:
    """Replace the denominators of users who are already in the sums of their rows, with numerators 0."""
    wrong, largest = _exchange(old, new, row, *sums)
    if wrong >= 0:
        _refuse(np.zeros(new.size), new, wrong, largest)


def exchange(sums: Sums, old: Doubles, terms: tuple[Doubles, Doubles], row: Ints) -> None:
    """Replace users who are already in the sums of their rows, with numerators 0 and these denominators."""
    a, b = terms
    _refuse(a, b, *_exchange_terms(old, a, b, row, *sums))


def add_numerators(
    sums: Sums, terms: tuple[Doubles, Doubles], bounds: tuple[Doubles, Doubles] | None, rows: Ints
) -> None:
    """Add the remaining terms of users whose denominators are already in the sums. rows: of each user, or (n, n_users):
    each user is added to n rows.
    """
    a, b = terms
    low, high = bounds or NO_BOUNDS
    _refuse(a, b, *_add_numerators(a, b, low, high, np.atleast_2d(rows), *sums))


class Factors(NamedTuple):
    """What a sum over a user's positives is multiplied with, each of every user; empty: nothing."""

    up: Doubles
    down: Doubles  # 0: the result is 0
    most: Doubles  # upper bound of the result
    weight: Doubles  # of the user


def add_scaled(
    sums: Sums,
    total: Doubles,
    factors: Factors,
    denominators: Doubles,
    active: Ints,
    rows: Ints,
    bounds: tuple[Ints, Doubles, Doubles] | None = None,
    out: npt.NDArray[np.float32] = NOTHING_KEPT,
) -> None:
    """As add_numerators, for numerators weight * min(total * up / down, most) of the active users: no array of terms is
    made. bounds: of each user the number in the two following arrays, or -1; totals with every tie broken against and
    for the model. out: is filled with the numerators.
    """
    if not active.size:
        return
    if active.size > MOST_AT_ONCE:
        for start in range(0, active.size, MOST_AT_ONCE):
            add_scaled(sums, total, factors, denominators, active[start : start + MOST_AT_ONCE], rows, bounds, out)
        return
    tied, low, high = bounds or (np.empty(0, np.int64), *NO_BOUNDS)
    wrong, largest, numerator = _add_scaled(
        total, *factors, denominators, active, np.atleast_2d(rows), tied, low, high, *sums, out
    )
    if wrong >= 0:
        _refuse(np.full(wrong + 1, numerator), denominators, wrong, largest)


def add_cutoffs(sums: Sums, totals: Doubles, factors: Factors, denominators: Doubles, rows: Ints) -> None:
    """As add_scaled without bounds, of all users and at several cutoffs: what changes from one cutoff to the next is
    added to the sums of the latter, (n_cutoffs, n_rows, ...), so that `accumulated` gives the sums of each. totals:
    (n_cutoffs, n_users); factors: of each user, (1, n_users), or also of each cutoff, (n_cutoffs, n_users); empty:
    none. Most users have the same numerator at most cutoffs.
    """
    for start in range(0, denominators.size, MOST_AT_ONCE):
        some = slice(start, start + MOST_AT_ONCE)
        wrong, largest, numerator = _add_cutoffs(
            totals[:, some], *(x[:, some] for x in factors), denominators[some], np.atleast_2d(rows)[:, some], *sums
        )
        if wrong >= 0:
            _refuse(np.full(wrong + 1, numerator), denominators[some], wrong, largest)


def accumulated(sums: Sums) -> Sums:
    """The sums of each cutoff from what changed since the cutoff before, (n_cutoffs, n_rows, ...)."""
    largest = np.abs(sums.whole.astype(np.float64).cumsum(axis=0)).max(initial=0.0)
    if largest >= LARGEST_SUM:
        _refuse(np.empty(0), np.empty(0), 0, float(largest))
    whole, part = sums.whole.cumsum(axis=0), sums.part.cumsum(axis=0)
    over = part // LIMB
    return Sums(sums.counts.cumsum(axis=0), whole + over, part - over * LIMB)


def _refuse(a: Doubles, b: Doubles, wrong: int, largest: float) -> None:
    """An error if a user's terms are invalid, or if a sum is too large. wrong: number of the user, or -1."""
    if wrong < 0:
        return
    if largest > 0:
        raise TooLargeError(
            f"terms as large as {largest:.3g} cannot be summed exactly: metrics and their weights are far smaller"
        )
    raise ValueError(
        f"user {wrong} has numerator {a[wrong]} and denominator {b[wrong]}: neither may be infinite, nor the "
        "denominator NaN or negative, nor bounds of a known numerator NaN (pairs of one place are tied: `tied` >= 1)"
    )


def added(sums: Sums, row: Ints, n_rows: int) -> Sums:
    """Rows with the same target row, added up; -1: left out."""
    found = no_sums(n_rows)
    add_rows(found, sums, row)
    return found


def add_rows(total: Sums, sums: Sums, row: Ints) -> None:
    """Add rows to the target row of each; -1: to none."""
    _fits(_merge(*sums, row, *total))


def add_shared(total: Sums, sums: Sums, starts: Ints) -> None:
    """Add each row to the rows of the total from its start to the next."""
    _fits(_share(*sums, starts, *total))


def _fits(largest: float) -> None:
    if largest >= LARGEST_SUM:
        raise TooLargeError(
            f"sums as large as {largest:.3g} cannot be added exactly: metrics and their weights are far smaller"
        )


@compiled
def _add(a, b, low, high, row, sign, counts, whole, part):  # type: ignore[no-untyped-def]
    """The first user with invalid terms or a sum that is too large, or -1; and the largest term in the second case."""
    bounded = low.size > 0
    for u in range(a.size):
        r, x, y = row[u], a[u], b[u]
        least, greatest = (low[u], high[u]) if bounded else (x, x)
        if np.isinf(x) or not 0.0 <= y < np.inf:
            return u, 0.0
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
            if x == 0.0 and least == 0.0 and greatest == 0.0:
                continue
        if not (abs(least) < np.inf and abs(greatest) < np.inf):
            return u, 0.0
        largest = max(max(abs(x), y), max(abs(least), abs(greatest)))
        if largest > LARGEST_TERM:
            return u, largest
        if y == 1.0:
            _add_one(whole, part, r, 3, x, sign)
        else:
            _add_one(whole, part, r, 1, y, sign)
            _add_one(whole, part, r, 3, x * y, sign)
            _add_one(whole, part, r, 4, y * y, sign)
        _add_one(whole, part, r, 0, x, sign)
        _add_one(whole, part, r, 2, x * x, sign)
        if bounded:
            _add_one(whole, part, r, 5, least, sign)
            _add_one(whole, part, r, 6, greatest, sign)
        if _full(whole, r):
            return u, largest
    return -1, 0.0


@compiled
def _exchange_terms(old, a, b, row, counts, whole, part):  # type: ignore[no-untyped-def]
    """As _add, for users whose old denominators are subtracted first."""
    for u in range(a.size):
        r, before, x, y = row[u], old[u], a[u], b[u]
        if np.isinf(x) or not 0.0 <= y < np.inf:
            return u, 0.0
        counts[r, 0 if before > 0.0 else 1] -= 1
        if before == 1.0:  # a mean over users
            whole[r, 1] -= 1
            whole[r, 4] -= 1
        elif before > 0.0:
            _add_one(whole, part, r, 1, before, -1)
            _add_one(whole, part, r, 4, before * before, -1)
        if y == 0.0:
            counts[r, 1] += 1
            continue
        counts[r, 0] += 1
        if np.isnan(x):
            counts[r, 2] += 1
            continue
        largest = max(abs(x), y)
        if largest > LARGEST_TERM:
            return u, largest
        if y == 1.0:
            whole[r, 1] += 1
            whole[r, 4] += 1
            if x == 0.0:
                continue
            one = _split(x)
            _add_split(whole, part, r, 0, one)
            _add_split(whole, part, r, 3, one)
        else:
            _add_one(whole, part, r, 1, y, 1)
            _add_one(whole, part, r, 4, y * y, 1)
            _add_one(whole, part, r, 0, x, 1)
            _add_one(whole, part, r, 3, x * y, 1)
        _add_one(whole, part, r, 2, x * x, 1)
        if _full(whole, r):
            return u, largest
    return -1, 0.0


@compiled
def _add_denominators(b, rows, sign, counts, whole, part):  # type: ignore[no-untyped-def]
    """As _add, for numerators 0."""
    for n in range(rows.shape[0]):
        for u in range(b.size):
            y, r = b[u], rows[n, u]
            if y == 0.0:
                counts[r, 1] += sign
            elif y == 1.0:  # a mean over users
                counts[r, 0] += sign
                whole[r, 1] += sign
                whole[r, 4] += sign
            elif not 0.0 < y < np.inf:
                return u, 0.0
            elif y > LARGEST_TERM:
                return u, y
            else:
                counts[r, 0] += sign
                _add_one(whole, part, r, 1, y, sign)
                _add_one(whole, part, r, 4, y * y, sign)
                if _full(whole, r):
                    return u, y
    return -1, 0.0


@compiled
def _add_unknown(counted, rows, sign, counts):  # type: ignore[no-untyped-def]
    for n in range(rows.shape[0]):
        for u in range(counted.size):
            if counted[u]:
                counts[rows[n, u], 0] += sign
                counts[rows[n, u], 2] += sign
            else:
                counts[rows[n, u], 1] += sign


@compiled
def _exchange(old, new, row, counts, whole, part):  # type: ignore[no-untyped-def]
    """As _add, for two denominators of each user: the first is subtracted, the second added."""
    for u in range(new.size):
        x, y, r = old[u], new[u], row[u]
        if x == y:
            continue
        if not 0.0 <= y < np.inf:
            return u, 0.0
        if y > LARGEST_TERM:
            return u, y
        counts[r, 0 if x > 0.0 else 1] -= 1
        counts[r, 0 if y > 0.0 else 1] += 1
        if x == 0.0 and y == 1.0:  # a mean over users with a positive
            whole[r, 1] += 1
            whole[r, 4] += 1
            continue
        _add_one(whole, part, r, 1, x, -1)
        _add_one(whole, part, r, 4, x * x, -1)
        _add_one(whole, part, r, 1, y, 1)
        _add_one(whole, part, r, 4, y * y, 1)
        if _full(whole, r):
            return u, y
    return -1, 0.0


@compiled
def _add_numerators(a, b, low, high, rows, counts, whole, part):  # type: ignore[no-untyped-def]
    """As _add, for users whose denominators are in the sums."""
    bounded = low.size > 0
    for u in range(a.size):
        x, y = a[u], b[u]
        if np.isinf(x) or not 0.0 <= y < np.inf:
            return u, 0.0
        if y == 0.0:
            continue
        if np.isnan(x):  # the sums hold no denominators of such users
            for n in range(rows.shape[0]):
                r = rows[n, u]
                counts[r, 2] += 1
                _add_one(whole, part, r, 1, y, -1)
                _add_one(whole, part, r, 4, y * y, -1)
            continue
        largest = max(abs(x), y)
        if bounded:
            if not (abs(low[u]) < np.inf and abs(high[u]) < np.inf):
                return u, 0.0
            largest = max(largest, max(abs(low[u]), abs(high[u])))
        if largest > LARGEST_TERM:
            return u, largest
        if x != 0.0:
            one, two, three = _split(x), _split(x * x), _split(x * y)
            for n in range(rows.shape[0]):
                r = rows[n, u]
                _add_split(whole, part, r, 0, one)
                _add_split(whole, part, r, 2, two)
                _add_split(whole, part, r, 3, three)
                if _full(whole, r):
                    return u, largest
        if bounded and (low[u] != 0.0 or high[u] != 0.0):
            for n in range(rows.shape[0]):
                _add_one(whole, part, rows[n, u], 5, low[u], 1)
                _add_one(whole, part, rows[n, u], 6, high[u], 1)
    return -1, 0.0


@compiled
def _add_scaled(  # type: ignore[no-untyped-def]
    total, up, down, most, weight, b, active, rows, tied, low, high, counts, whole, part, out
):
    """As _add_numerators; and the numerator of the user who is refused. Whole parts and rests of MOST_AT_ONCE users at
    most are added without carry, and go to the sums at the end. No function with arrays is called for a usual user:
    that would take longer than the work.
    """
    bounded, kept = tied.size > 0, out.size > 0
    small = np.zeros((whole.shape[0], 10), np.int64)
    for i in range(active.size):
        u = active[i]
        y, x = b[u], total[u]
        if y == 0.0:
            continue
        least, greatest = x, x
        if bounded and tied[u] >= 0:
            least, greatest = low[tied[u]], high[tied[u]]
        if up.size:
            x, least, greatest = x * up[u], least * up[u], greatest * up[u]
        if down.size:
            d = down[u]
            x, least, greatest = (x / d, least / d, greatest / d) if d > 0.0 else (0.0, 0.0, 0.0)
        if most.size:  # NaN stays
            m = most[u]
            x, least, greatest = m if x > m else x, m if least > m else least, m if greatest > m else greatest
        if weight.size:
            x, least, greatest = x * weight[u], least * weight[u], greatest * weight[u]
        if kept:
            out[u] = x
        # one by one: a maximum may hide NaN
        usual = abs(x) < LARGEST_SMALL and 0.0 < y < LARGEST_SMALL
        if not (usual and abs(least) < LARGEST_SMALL and abs(greatest) < LARGEST_SMALL):
            if not _add_unusual(x, y, least, greatest, u, rows, bounded, 1, counts, whole, part):
                finite = abs(x) < np.inf and 0.0 <= y < np.inf and abs(least) < np.inf and abs(greatest) < np.inf
                return u, max(max(abs(x), y), max(abs(least), abs(greatest))) if finite else 0.0, x
            continue
        a0, a1 = _split(x)
        aa0, aa1 = _split(x * x)
        ab0, ab1 = (a0, a1) if y == 1.0 else _split(x * y)
        for n in range(rows.shape[0]):
            r = rows[n, u]
            small[r, 0] += a0
            small[r, 1] += a1
            small[r, 2] += aa0
            small[r, 3] += aa1
            small[r, 4] += ab0
            small[r, 5] += ab1
        if bounded:
            l0, l1 = _split(least)
            h0, h1 = _split(greatest)
            for n in range(rows.shape[0]):
                r = rows[n, u]
                small[r, 6] += l0
                small[r, 7] += l1
                small[r, 8] += h0
                small[r, 9] += h1
    for r in range(small.shape[0]):
        for n, place in enumerate((0, 2, 3, 5, 6)):
            rest = part[r, place] + small[r, 2 * n + 1]
            above = rest // LIMB if rest >= LIMB else 0
            whole[r, place] += small[r, 2 * n] + above
            part[r, place] = rest - above * LIMB
        if _full(whole, r):
            return active[0], LARGEST_SMALL, LARGEST_SMALL
    return -1, 0.0, 0.0


@compiled
def _add_cutoffs(totals, up, down, most, weight, b, rows, counts, whole, part):  # type: ignore[no-untyped-def]
    """As _add_scaled, for the changes of numerators over cutoffs."""
    n_cutoffs, n_users = totals.shape
    small = np.zeros((whole.shape[1], n_cutoffs, 6), np.int64)
    has_up, has_down, has_most, has_weight = up.size > 0, down.size > 0, most.size > 0, weight.size > 0
    by_up, by_down, by_most, by_weight = up.shape[0] > 1, down.shape[0] > 1, most.shape[0] > 1, weight.shape[0] > 1
    varying = by_up or by_down or by_most or by_weight
    for u in range(n_users):
        y = b[u]
        if y == 0.0:
            continue
        total, before, usual = 0.0, 0.0, True  # total and numerator at the cutoff before
        o0, o1, oo0, oo1, ob0, ob1 = 0, 0, 0, 0, 0, 0  # parts of that numerator, if it is a usual one
        for k in range(n_cutoffs):
            x = totals[k, u]
            if x == total and (x == 0.0 or not varying):
                continue
            total = x
            if has_up:
                x *= up[k if by_up else 0, u]
            if has_down:
                d = down[k if by_down else 0, u]
                x = x / d if d > 0.0 else 0.0
            if has_most:  # NaN stays
                m = most[k if by_most else 0, u]
                x = m if x > m else x
            if has_weight:
                x *= weight[k if by_weight else 0, u]
            if x == before or (np.isnan(x) and np.isnan(before)):
                continue
            if usual and abs(x) < LARGEST_SMALL and 0.0 < y < LARGEST_SMALL:
                a0, a1 = _split(x)
                aa0, aa1 = _split(x * x)
                ab0, ab1 = (a0, a1) if y == 1.0 else _split(x * y)
                for n in range(rows.shape[0]):
                    r = rows[n, u]
                    small[r, k, 0] += a0 - o0
                    small[r, k, 1] += a1 - o1
                    small[r, k, 2] += aa0 - oo0
                    small[r, k, 3] += aa1 - oo1
                    small[r, k, 4] += ab0 - ob0
                    small[r, k, 5] += ab1 - ob1
                o0, o1, oo0, oo1, ob0, ob1 = a0, a1, aa0, aa1, ab0, ab1
            else:
                usual = False
                valid = _add_unusual(x, y, x, x, u, rows, False, 1, counts[k], whole[k], part[k])
                if valid and before != 0.0:
                    valid = _add_unusual(before, y, 0.0, 0.0, u, rows, False, -1, counts[k], whole[k], part[k])
                if not valid:
                    return u, max(abs(x), y) if abs(x) < np.inf and 0.0 <= y < np.inf else 0.0, x
            before = x
    for r in range(small.shape[0]):
        for k in range(n_cutoffs):
            for n, place in enumerate((0, 2, 3)):
                rest = part[k, r, place] + small[r, k, 2 * n + 1]
                above = rest // LIMB if rest >= LIMB or rest < 0 else 0
                whole[k, r, place] += small[r, k, 2 * n] + above
                part[k, r, place] = rest - above * LIMB
            if _full(whole[k], r):
                return 0, LARGEST_SMALL, LARGEST_SMALL
    return -1, 0.0, 0.0


@compiled
def _add_unusual(x, y, least, greatest, u, rows, bounded, sign, counts, whole, part):  # type: ignore[no-untyped-def]
    """Add (sign 1) or subtract (sign -1) a user whose terms are large or unknown; False if they are invalid or too
    large.
    """
    if np.isinf(x) or not 0.0 < y < np.inf:
        return False
    if np.isnan(x):  # the sums hold no denominators of such users
        for n in range(rows.shape[0]):
            r = rows[n, u]
            counts[r, 2] += sign
            _add_one(whole, part, r, 1, y, -sign)
            _add_one(whole, part, r, 4, y * y, -sign)
        return True
    if not (abs(x) <= LARGEST_TERM and y <= LARGEST_TERM):
        return False
    if not (abs(least) <= LARGEST_TERM and abs(greatest) <= LARGEST_TERM):
        return False
    for n in range(rows.shape[0]):
        r = rows[n, u]
        _add_one(whole, part, r, 0, x, sign)
        _add_one(whole, part, r, 2, x * x, sign)
        _add_one(whole, part, r, 3, x * y, sign)
        if bounded:
            _add_one(whole, part, r, 5, least, sign)
            _add_one(whole, part, r, 6, greatest, sign)
        if _full(whole, r):
            return False
    return True


@compiled
def _full(whole, r):  # type: ignore[no-untyped-def]
    """Whether a sum of squares or products is so large that the next term might overflow; the others are smaller."""
    return max(abs(whole[r, 2]), max(abs(whole[r, 3]), whole[r, 4])) >= LARGEST_SUM


@compiled
def _split(value):  # type: ignore[no-untyped-def]
    """The whole part, and the rest in units of 1e-12."""
    floor = np.floor(value)
    return np.int64(floor), np.int64(np.rint((value - floor) * 1e12))


@compiled
def _add_split(whole, part, r, n, value):  # type: ignore[no-untyped-def]
    rest = part[r, n] + value[1]
    over = np.int64(rest >= LIMB)
    whole[r, n] += value[0] + over
    part[r, n] = rest - over * LIMB


@compiled
def _add_one(whole, part, r, n, value, sign):  # type: ignore[no-untyped-def]
    floor = np.floor(value)
    rest = part[r, n] + sign * np.int64(np.rint((value - floor) * 1e12))
    over = np.int64(rest >= LIMB) - np.int64(rest < 0)
    whole[r, n] += sign * np.int64(floor) + over
    part[r, n] = rest - over * LIMB


@compiled
def _merge(counts, whole, part, row, all_counts, all_whole, all_part):  # type: ignore[no-untyped-def]
    """The largest sum of absolute values, about."""
    largest = 0.0
    for i in range(row.size):
        if row[i] >= 0:
            largest = max(largest, _plus(counts, whole, part, i, all_counts, all_whole, all_part, row[i]))
    return largest


@compiled
def _share(counts, whole, part, starts, all_counts, all_whole, all_part):  # type: ignore[no-untyped-def]
    largest = 0.0
    for i in range(starts.size - 1):
        for r in range(starts[i], starts[i + 1]):
            largest = max(largest, _plus(counts, whole, part, i, all_counts, all_whole, all_part, r))
    return largest


@compiled
def _plus(counts, whole, part, i, all_counts, all_whole, all_part, r):  # type: ignore[no-untyped-def]
    """Add row i to row r; the largest whole part of both together, which an int64 may not hold."""
    largest = 0.0
    for n in range(counts.shape[1]):
        all_counts[r, n] += counts[i, n]
    for n in range(whole.shape[1]):
        largest = max(largest, abs(np.float64(all_whole[r, n])) + abs(np.float64(whole[i, n])))
        rest = all_part[r, n] + part[i, n]
        over = np.int64(rest >= LIMB)
        all_whole[r, n] += whole[i, n] + over
        all_part[r, n] = rest - over * LIMB
    return largest
