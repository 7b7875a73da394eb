"""Draws keyed by a hash of (seed, purpose, user, item): the same pairs on any machine, in any order of rows.

    U(u, i) = ((h >>> 12) + 0.5) 2^-52,   h = xxhash64(seed, purpose, user_id, item_id) as Spark computes it

in (0, 1). Different purposes draw independently. Pairs are held out from the log without a purpose, by
h = xxhash64(seed, user_id, item_id) and (h >>> 11) 2^-53 < share: the rule of the stage `split`, strategy random.

Weighted draws without replacement keep the n pairs of a user with the smallest log(-log U) - log w, which is the order
of Efraimidis and Spirakis's keys log(U) / w, largest first, and does not underflow for small weights.
"""

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eval_engine.kernels.xxhash64 import xxhash64

Longs = npt.NDArray[np.int64]
Doubles = npt.NDArray[np.float64]


def uniform(seed: int, purpose: str, users: Longs, items: Longs) -> Doubles:
    """U of each pair, (n,)."""
    before = xxhash64(pa.repeat(pa.scalar(purpose), len(users)), _seeded(seed, len(users)))
    hashes = xxhash64(pa.array(items), xxhash64(pa.array(users), before)).view(np.uint64)
    return ((hashes >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52


def held_out(seed: int, share: float, users: Longs, items: Longs) -> npt.NDArray[np.bool_]:
    """Which pairs of a log are held out, (n,)."""
    hashes = xxhash64(pa.array(items), xxhash64(pa.array(users), _seeded(seed, len(users)))).view(np.uint64)
    return (hashes >> np.uint64(11)).astype(np.float64) * 2.0**-53 < share


def first_of_each_user(users: Longs, keys: Doubles, n: Longs) -> npt.NDArray[np.bool_]:
    """Which pairs are among the n of their user with the smallest keys; users are sorted, n is given per pair."""
    order = np.lexsort((keys, users))
    starts = np.searchsorted(users, users)  # where the user of each pair begins
    chosen = np.zeros(len(users), np.bool_)
    chosen[order] = np.arange(len(users)) - starts < n
    return chosen


def weighted_keys(uniforms: Doubles, log_weights: Doubles) -> Doubles:
    """Keys of a draw without replacement whose next pair is drawn in proportion to the weights, smallest first."""
    return np.log(-np.log(uniforms)) - log_weights


def _seeded(seed: int, n: int) -> Longs:
    """The hash of the seed, (n,): the first column of the hash of pairs."""
    return np.full(n, xxhash64(pa.array([seed], pa.int64()))[0])
