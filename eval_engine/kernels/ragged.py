"""One list of integers per user, flattened: user u's list is flat[offsets[u]:offsets[u + 1]].

Arrow stores a list column in the same way, so lists from a table need no conversion.

    >>> offsets, flat = flatten([[3, 1], [], [2]], n_users=3)
    >>> offsets.tolist(), flat.tolist()
    ([0, 2, 2, 3], [3, 1, 2])
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from eval_engine.kernels.arrays import Ints

Lists = Sequence[npt.ArrayLike] | npt.NDArray[Any]  # a matrix is one row per user


def no_lists(n_users: int) -> tuple[Ints, Ints]:
    """Offsets and flat array of n_users empty lists."""
    return np.zeros(n_users + 1, np.int64), np.zeros(0, np.int32)


def flatten(lists: Lists, n_users: int) -> tuple[Ints, npt.NDArray[Any]]:
    """Offsets (n_users + 1,) int64, and the entries of all lists, user after user."""
    if len(lists) != n_users:
        raise ValueError(f"one list per user is expected: {n_users} users, {len(lists)} lists")
    arrays = [np.asarray(one) for one in lists]
    for user, one in enumerate(arrays):
        if one.ndim != 1:
            raise ValueError(f"the list of user {user} must have one dimension, found shape {one.shape}")
    offsets = np.zeros(n_users + 1, np.int64)
    np.cumsum([one.size for one in arrays], out=offsets[1:])
    # numpy makes float64 of an empty list, and concatenate would then make floats of the others
    filled = [one for one in arrays if one.size]
    return offsets, np.concatenate(filled) if filled else np.zeros(0, np.int32)


def users_of(offsets: Ints) -> Ints:
    """The user of each entry of the flat array, int64."""
    return np.repeat(np.arange(offsets.size - 1), np.diff(offsets))


def side_by_side(lists: Sequence[tuple[Ints, npt.NDArray[Any]]]) -> tuple[Ints, npt.NDArray[Any], list[Ints]]:
    """Each user's lists joined into one: offsets, the flat array, and the indices in it of each given list's entries.

    >>> one, two = (np.array([0, 1, 2]), np.array([5, 6])), (np.array([0, 2, 2]), np.array([7, 8]))
    >>> offsets, flat, where = side_by_side([one, two])
    >>> offsets.tolist(), flat.tolist(), [w.tolist() for w in where]
    ([0, 3, 4], [5, 7, 8, 6], [[0, 3], [1, 2]])
    """
    offsets = np.sum([own for own, _ in lists], axis=0)
    flat = np.zeros(int(offsets[-1]), np.result_type(*[values for _, values in lists]))
    begun, where = offsets[:-1].copy(), []
    for own, values in lists:
        places = np.arange(own[-1]) + np.repeat(begun - own[:-1], np.diff(own))
        flat[places] = values
        where.append(places)
        begun += np.diff(own)
    return offsets, flat, where
