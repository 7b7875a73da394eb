"""Each user's positives grouped by slice.

A positive has one slice in each slicing (a category, an age class), or none (-1): of n slicings it appears up to n
times. A user with positives in a slice is one entry, with these positives.
"""

from typing import NamedTuple

import numpy as np

from eval_engine.kernels.arrays import Ints
from eval_engine.kernels.compiled import compiled

FEW = 32  # positives of a user up to which insertion is the fastest sort
COUNTED = 4  # codes per positive up to which positives are sorted by counting


class SliceOrder(NamedTuple):
    """Entries, each a user and a slice, in order of users."""

    users: Ints  # (n_entries,)
    slices: Ints  # (n_entries,)
    offsets: Ints  # (n_entries + 1,): of the positives of each entry
    positives: Ints  # their numbers


def slice_order(offsets: Ints, codes: Ints) -> SliceOrder:
    """The entries of users whose positives have these offsets. codes: slices of the positives, (n, n_positives), -1 for
    none; no slice is in two rows.
    """
    most = int((codes >= 0).sum())
    users, slices, ends, index = (np.empty(most + extra, np.int64) for extra in (0, 0, 1, 0))
    counts = np.zeros(int(codes.max(initial=0)) + 2, np.int64)
    n = _grouped(offsets, np.ascontiguousarray(codes), users, slices, ends, index, counts)
    return SliceOrder(users[:n], slices[:n], ends[: n + 1], index)


@compiled
def _grouped(offsets, codes, users, slices, ends, index, counts):  # type: ignore[no-untyped-def]
    at, n, n_codes = 0, 0, counts.size - 1
    ends[0] = 0
    for user in range(offsets.size - 1):
        first, last = offsets[user], offsets[user + 1]
        for row in range(codes.shape[0]):
            start = at
            if last - first <= FEW:
                for p in range(first, last):  # insertion by code; equal codes keep their order
                    code = codes[row, p]
                    if code < 0:
                        continue
                    place = at
                    while place > start and codes[row, index[place - 1]] > code:
                        index[place] = index[place - 1]
                        place -= 1
                    index[place] = p
                    at += 1
            elif n_codes <= COUNTED * (last - first):
                counts[:] = 0
                for p in range(first, last):
                    counts[codes[row, p] + 1] += 1  # -1: the first, which is not kept
                place, counts[0] = at, 0
                for code in range(1, n_codes + 1):
                    counts[code], place = place, place + counts[code]
                for p in range(first, last):
                    code = codes[row, p] + 1
                    if code:
                        index[counts[code]] = p
                        counts[code] += 1
                at = place
            else:
                order = np.argsort(codes[row, first:last], kind="mergesort")
                for i in order:
                    if codes[row, first + i] >= 0:
                        index[at] = first + i
                        at += 1
            for place in range(start, at):
                code = codes[row, index[place]]
                if place == start or code != codes[row, index[place - 1]]:
                    users[n], slices[n] = user, code
                    n += 1
                ends[n] = place + 1
    return n
