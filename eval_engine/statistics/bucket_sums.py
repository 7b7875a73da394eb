"""Sums over users by bucket, exact: what each bucket of users adds to an estimate, so that intervals, comparisons and slices need no second pass.

A bucket is a hash of the user (kernels/xxhash64.py), so buckets are random groups of users, the same for every model, run and machine:

    bucket = pmod(xxhash64(user_id), 256)

Numbers are rounded once to a multiple of 1e-12 and added as integers, whole parts and parts below 1 apart: any order of adding gives the same bits.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from eval_engine.kernels.arrays import Ints
from eval_engine.kernels.compiled import compiled
from eval_engine.statistics.ratio import LARGEST_SUM, SCALE

Doubles = npt.NDArray[np.float64]
N_BUCKETS = 256
COUNTS = ("n_users", "n_left_out", "n_unknown")
SUMS = ("a", "b", "aa", "ab", "bb", "a_low", "a_high")
LIMB = np.int64(SCALE)


class Sums(NamedTuple):
    """Sums of some users, row by row; a row's users, numerators, denominators and products."""

    counts: npt.NDArray[np.int64]  # (n_rows, 3): as COUNTS
    whole: npt.NDArray[np.int64]  # (n_rows, 7): whole parts, as SUMS
    part: npt.NDArray[np.int64]  # (n_rows, 7): the rest, in units of 1e-12, 0 to below 1e12


def bucket_of(hashes: npt.NDArray[np.int64]) -> Ints:
    """The bucket of each user."""
    return np.mod(hashes, N_BUCKETS)


def summed(terms: tuple[Doubles, Doubles], low: Doubles, high: Doubles, row: Ints, n_rows: int) -> Sums:
    """The sums of each row's users; terms: their numerators and denominators; low, high: numerators with every tie broken against and for the model."""
    a, b = terms
    for u in np.flatnonzero(np.isinf(a) | ~np.isfinite(b) | (b < 0))[:1]:
        raise ValueError(f"user {u} has numerator {a[u]} and denominator {b[u]}: neither may be infinite, nor the denominator NaN or negative")
    largest = max(float(np.nanmax(np.abs(a), initial=0.0)), float(b.max(initial=0.0)))
    if largest**2 * max(a.size, 1) >= LARGEST_SUM:
        raise ValueError(f"terms as large as {largest:.3g} cannot be summed exactly: metrics and their weights are far smaller")
    found = Sums(np.zeros((n_rows, 3), np.int64), np.zeros((n_rows, 7), np.int64), np.zeros((n_rows, 7), np.int64))
    _add(a, b, low, high, row, *found)
    return carried(found)


def carried(sums: Sums) -> Sums:
    """The same numbers, with parts below 1 again."""
    over = sums.part // LIMB
    return Sums(sums.counts, sums.whole + over, sums.part - over * LIMB)


@compiled
def _add(a, b, low, high, row, counts, whole, part):  # type: ignore[no-untyped-def]
    values = np.empty(7)
    for u in range(a.size):
        r = row[u]
        if b[u] == 0.0:
            counts[r, 1] += 1
            continue
        counts[r, 0] += 1
        if np.isnan(a[u]):
            counts[r, 2] += 1
            continue
        values[0], values[1], values[2], values[3], values[4], values[5], values[6] = (
            a[u],
            b[u],
            a[u] * a[u],
            a[u] * b[u],
            b[u] * b[u],
            low[u],
            high[u],
        )
        for n in range(7):
            floor = np.floor(values[n])
            whole[r, n] += np.int64(floor)
            part[r, n] += np.int64(np.rint((values[n] - floor) * 1e12))
