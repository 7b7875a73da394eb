"""Wins, ties and losses: the number of users for whom one model is better than another.

A user counts where both models have a value; values are compared without tolerance: equal values are a tie.
"""

import numpy as np
import numpy.typing as npt

from eval_engine.errors import DataError
from eval_engine.kernels.arrays import Ints
from eval_engine.kernels.compiled import compiled

Singles = npt.NDArray[np.float32]


def wins(users: list[Ints], values: list[Singles], n_values: int) -> npt.NDArray[np.int64]:
    """The number of users for whom each model beats each other model, int64 (n_models, n_models, n_values). values:
    (n_values, n_users) of each model. users: the key of each user.
    """
    keys = np.unique(np.concatenate([np.asarray(keys, np.int64) for keys in users])) if users else np.empty(0, np.int64)
    table = np.full((len(users), n_values, keys.size), np.nan, np.float32)
    for model, (own, columns) in enumerate(zip(users, values, strict=True)):
        place = np.searchsorted(keys, own)
        if (
            np.count_nonzero(np.bincount(place, minlength=keys.size)) < own.size - 1
        ):  # keys are hashes: two users may share one
            raise DataError(
                "ranks: some users are there twice under one model, so that intervals would be too narrow. "
                "Run jobs/rank.py with this run_id again."
            )
        table[model][:, place] = columns
    found = np.zeros((len(users), len(users), n_values), np.int64)
    _wins(table, found)
    return found


@compiled
def _wins(table, found):  # type: ignore[no-untyped-def]
    n_models, n_values, n_users = table.shape
    for i in range(n_models):
        for j in range(i):
            for n in range(n_values):
                one, other = table[i, n], table[j, n]
                won = lost = 0
                for u in range(n_users):  # without a branch, so that the loop is vectorised
                    won += one[u] > other[u]
                    lost += one[u] < other[u]
                found[i, j, n], found[j, i, n] = won, lost
