"""Rank facts: the three integers per labelled pair that every metric, cutoff and tie policy needs, and no score has to
be read again.

    above = #{j in C_u : s_uj > s_ui}     tied = #{j in C_u, j != i : s_uj = s_ui}     candidates = |C_u|

Pairs lie user by user: user u's are offsets[u]:offsets[u + 1]. A user may have none.

    >>> import numpy as np
    >>> facts = rank_facts(np.array([[0.9, 0.5, 0.5, 0.1]], np.float32), items=[[1, 3]])
    >>> facts.above.tolist(), facts.tied.tolist(), facts.candidates.tolist()
    ([1, 3], [1, 0], [4])
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from eval_engine.errors import DataError
from eval_engine.kernels.arrays import Bools, Floats, Ints
from eval_engine.kernels.block import as_scores
from eval_engine.kernels.compare_count import count, rows_with_nan
from eval_engine.kernels.ragged import Lists, flatten, no_lists, users_of

UNKNOWN = -1


class RankFacts(NamedTuple):
    """Labelled pairs of some users under one model: where each stands among that user's candidates."""

    offsets: Ints  # int64 (n_users + 1,)
    value: Floats  # float64 (n_pairs,): the label
    score: Floats  # float32 or float64 (n_pairs,)
    above: Ints  # int32 (n_pairs,)
    tied: Ints  # int32 (n_pairs,); UNKNOWN: at least `above` candidates are above or level with it, more is not known
    candidates: Ints  # int32 (n_users,)
    probability: npt.NDArray[np.float64] | None = (
        None  # float64 (n_pairs,): of being exposed, where it is known and uneven
    )
    in_uniform: Bools | None = None  # (n_pairs,): drawn by the uniform arm of a design (exposure_design/design.py)

    @property
    def n_users(self) -> int:
        """The number of users, those without a labelled pair among them."""
        return self.candidates.size

    @property
    def user(self) -> Ints:
        """The index of each pair's user, int64 (n_pairs,)."""
        return users_of(self.offsets)

    @property
    def n_labels(self) -> Ints:
        """The number of labelled pairs of each user, int64 (n_users,)."""
        return np.diff(self.offsets)

    def per_user(self, x: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """The sum of x over each user's pairs, float64 (n_users,); 0 for a user without any, which np.add.reduceat gets
        wrong."""
        total = np.bincount(self.user, weights=np.asarray(x, np.float64), minlength=self.n_users)
        return total.astype(np.float64)  # of no pairs at all, bincount makes integers


def rank_facts(
    scores: npt.ArrayLike, items: Lists, values: Lists | None = None, excluded: Lists | None = None
) -> RankFacts:
    """Rank facts of each user's items, from a (n_users, n_items) matrix of scores; excluded items are no candidates."""
    block = as_scores(np.asarray(scores))
    n_users, n_items = block.shape
    for user in np.flatnonzero(rows_with_nan(block))[:1]:
        raise DataError(
            f"scores: user {user}, item {np.isnan(block[user]).argmax()} is NaN, which has no rank. "
            "Score every item or drop the user."
        )
    offsets, flat = _item_lists("items", items, n_users, n_items)
    out_offsets, out_flat = (
        no_lists(n_users) if excluded is None else _item_lists("excluded", excluded, n_users, n_items)
    )
    _refuse_excluded_labels(users_of(offsets) * n_items + flat, users_of(out_offsets) * n_items + out_flat, n_items)
    value = np.ones(flat.size) if values is None else _values(values, offsets)
    above, tied = count(block, offsets, flat, out_offsets, out_flat)
    candidates = (n_items - np.diff(out_offsets)).astype(np.int32)
    return RankFacts(offsets, value, block[users_of(offsets), flat], above, tied, candidates)


def _item_lists(name: str, lists: Lists, n_users: int, n_items: int) -> tuple[Ints, Ints]:
    offsets, flat = flatten(lists, n_users)
    if not np.issubdtype(flat.dtype, np.integer):
        raise ValueError(f"{name} must be integer positions in 0..{n_items - 1}, found {flat.dtype}")
    user = users_of(offsets)
    for p in np.flatnonzero((flat < 0) | (flat >= n_items))[:1]:
        raise DataError(
            f"{name}: user {user[p]} has item {flat[p]}, but scores have the items 0..{n_items - 1}. "
            "Use the scores' column numbers."
        )
    pairs, first = np.unique(user * n_items + flat, return_index=True)
    if pairs.size < flat.size:
        p = np.setdiff1d(np.arange(flat.size), first)[0]
        raise DataError(f"{name}: user {user[p]} has item {flat[p]} more than once. Keep one value per user and item.")
    return offsets, flat.astype(np.int32)


def _refuse_excluded_labels(labelled: Ints, excluded: Ints, n_items: int) -> None:
    for pair in np.intersect1d(labelled, excluded)[:1]:
        user, item = divmod(int(pair), n_items)
        raise DataError(
            f"items: user {user}, item {item} is labelled and excluded, but only candidates have a rank. "
            "Take it out of one of the two."
        )


def _values(values: Lists, offsets: Ints) -> npt.NDArray[np.float64]:
    value_offsets, flat = flatten(values, offsets.size - 1)
    for user in np.flatnonzero(np.diff(value_offsets) != np.diff(offsets))[:1]:
        raise DataError(
            f"values: user {user} has {np.diff(value_offsets)[user]} values for {np.diff(offsets)[user]} items. "
            "Give one value per item."
        )
    value = flat.astype(np.float64)
    for pair in np.flatnonzero(np.isnan(value))[:1]:
        raise DataError(
            f"values: user {users_of(offsets)[pair]} has a value that is NaN, which is no label. Take the pair out of "
            "items and values."
        )
    return value
