"""Pairs that are there twice, without a sort: pairs are grouped by user, then each item remembers its last user."""

import numpy as np
import numpy.typing as npt

from eval_engine.kernels.arrays import Ints
from eval_engine.kernels.compiled import compiled

Codes = npt.NDArray[np.int64]


def by_range(users: Ints, items: Ints, n_users: int, n_ranges: int) -> tuple[Codes, Codes]:
    """Pairs as numbers 2^32 user + item, by range of users, and the ends of the ranges; pairs with a -1 are left out.

    Range r holds the users from n_users r // n_ranges on.
    """
    codes, ends = np.empty(users.size, np.int64), np.zeros(n_ranges, np.int64)
    _by_range(users, items, n_users, n_ranges, codes, ends)
    return codes[: int(ends[-1])], ends


def n_twice(codes: Codes, first_user: int, last_user: int) -> int:
    """How many pairs stand behind an equal one; all are of users from the first to before the last.

    >>> n_twice(np.array([(5 << 32) | 7, (4 << 32) | 7, (5 << 32) | 7]), 4, 6)
    1
    """
    if not codes.size:
        return 0
    return int(_n_twice(codes, first_user, last_user - first_user, int((codes & 0xFFFFFFFF).max()) + 1))


@compiled
def _by_range(users, items, n_users, n_ranges, codes, ends):  # type: ignore[no-untyped-def]
    sizes = np.zeros(n_ranges + 1, np.int64)
    for n in range(users.size):
        if users[n] >= 0 and items[n] >= 0:
            sizes[((np.int64(users[n]) + 1) * n_ranges - 1) // n_users + 1] += 1
    starts = np.cumsum(sizes)
    for n in range(users.size):
        if users[n] >= 0 and items[n] >= 0:
            user = np.int64(users[n])
            shard = ((user + 1) * n_ranges - 1) // n_users
            codes[starts[shard]] = (user << 32) | np.int64(items[n])
            starts[shard] += 1
    ends[:] = starts[:-1]


@compiled
def _n_twice(codes, first_user, n_users, n_items):  # type: ignore[no-untyped-def]
    starts = np.zeros(n_users + 1, np.int64)
    for n in range(codes.size):
        starts[(codes[n] >> 32) - first_user + 1] += 1
    starts = np.cumsum(starts)
    items = np.empty(codes.size, np.int32)
    place = starts.copy()
    for n in range(codes.size):
        user = (codes[n] >> 32) - first_user
        items[place[user]] = codes[n] & 0xFFFFFFFF
        place[user] += 1
    last = np.full(n_items, -1, np.int32)
    found = 0
    for user in range(n_users):
        for n in range(starts[user], starts[user + 1]):
            if last[items[n]] == user:
                found += 1
            last[items[n]] = user
    return found
