"""The cap of other libraries: each item keeps at most floor(Q3 + 1.5 IQR) of its pairs, those with the smallest hashes.

Q1 and Q3 are quartiles of the numbers of pairs of the items that have pairs, linear between neighbours, IQR = Q3 - Q1.
Hashes (keys.py) are compared as unsigned numbers, equal ones by user.
"""

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from eval_engine.errors import DataError
from eval_engine.kernels.arrays import Bools
from eval_engine.test_sets.draw import check_seed, id_array
from eval_engine.test_sets.keys import pair_hashes


def cap_of(counts: npt.NDArray[np.int64], n_items: npt.NDArray[np.int64] | None = None) -> int:
    """The most pairs of an item, from the counts that items have; n_items: how many items have each, left out: one.

    >>> cap_of(np.array([1, 2, 3, 4, 100]))
    7
    """
    values, place = np.unique(counts[counts > 0], return_inverse=True)
    numbers = np.ones(counts.size, np.int64) if n_items is None else n_items
    ends = np.cumsum(np.bincount(place, weights=numbers[counts > 0]).astype(np.int64))
    if not ends.size:
        raise DataError("CAP: no item has a pair, so that there is nothing to cap.")
    quartiles = []
    for quarter in (1, 3):
        at, rest = divmod((int(ends[-1]) - 1) * quarter, 4)
        low, high = (int(values[np.searchsorted(ends, min(n, ends[-1] - 1), side="right")]) for n in (at, at + 1))
        quartiles.append(4 * low + rest * (high - low))  # in units of 1/4: whole numbers, so exact
    return (2 * quartiles[1] + 3 * (quartiles[1] - quartiles[0])) // 8


def cap_test_set(users: npt.ArrayLike, items: npt.ArrayLike, seed: int) -> Bools:
    """Which pairs are kept.

    >>> cap_test_set([1, 2, 3, 4, 5, 1, 2, 3, 4], [7, 7, 7, 7, 7, 8, 9, 10, 11], seed=1).tolist().count(True)
    5
    """
    check_seed(seed)
    own_users, own_items = id_array(users, "users"), id_array(items, "items")
    codes = own_items.dictionary_encode().indices.to_numpy(zero_copy_only=False)
    hashes = pair_hashes(own_users, own_items, seed).view(np.uint64)
    counts = np.bincount(codes)
    rank_of_user = np.argsort(pc.array_sort_indices(own_users).to_numpy())
    order = np.lexsort((rank_of_user, hashes, codes))
    place = np.arange(codes.size) - np.repeat(np.cumsum(counts) - counts, counts)
    kept = np.zeros(codes.size, np.bool_)
    kept[order[place < cap_of(counts)]] = True
    return kept
