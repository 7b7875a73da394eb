"""A weighted draw of a share of pairs without replacement, in memory: exactly floor(share n + 1/2) of n pairs.

Keys and their order: keys.py. The draw depends on seed, ids and weights only, not on the order of the pairs.
"""

import math

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eval_engine.errors import ConfigError, DataError
from eval_engine.kernels.arrays import Bools
from eval_engine.test_sets.factors import LARGEST, LEAST
from eval_engine.test_sets.keys import keys_of, log_uniform, pair_hashes

LONGS = (-(2**63), 2**63 - 1)


def draw_test_set(users: npt.ArrayLike, items: npt.ArrayLike, weights: npt.ArrayLike, share: float, seed: int) -> Bools:
    """Which pairs are drawn. users, items: ids, whole numbers or text; each pair once. weights: 0 or above.

    >>> draw_test_set([1, 1, 2, 2], [7, 8, 7, 8], [1, 1, 1, 1000], share=0.5, seed=3).tolist()
    [False, False, True, True]
    """
    own_users, own_items = id_array(users, "users"), id_array(items, "items")
    w = np.asarray(weights, np.float64)
    if not len(own_users) == len(own_items) == w.size or w.ndim != 1:
        raise ValueError(
            f"users, items and weights must have one entry for each pair, found {len(own_users)}, {len(own_items)} and "
            f"shape {w.shape}"
        )
    check_seed(seed)
    size = size_of_share(share, w.size)
    hashes = pair_hashes(own_users, own_items, seed)
    _refuse_twice(own_users, own_items, hashes)
    _refuse_weights(w, own_users, own_items)
    drawable = int((w > 0).sum())
    if drawable < size:
        raise too_few(drawable, size, share, w.size)
    keys = keys_of(log_uniform(hashes), w)
    least = np.partition(keys, w.size - size)[w.size - size]
    chosen: Bools = keys > least
    tied = np.flatnonzero(keys == least)
    wanted = size - int(chosen.sum())
    if tied.size > wanted:
        order = [
            (h, own_users[n].as_py(), own_items[n].as_py(), n)
            for h, n in zip(hashes.view(np.uint64)[tied], tied, strict=True)
        ]
        tied = np.array([row[-1] for row in sorted(order)[:wanted]], np.int64)
    chosen[tied] = True
    return chosen


def size_of_share(share: float, n_pairs: int) -> int:
    """floor(share n + 1/2); an error if that is no pair."""
    if not 0 < share <= 1:
        raise ConfigError(f"share {share} of the pairs is not above 0 and at most 1.")
    size = math.floor(share * n_pairs + 0.5)
    if size < 1:
        raise DataError(
            f"share {share:g} of {n_pairs:,} pairs is fewer than one pair. Give a larger share, or more pairs."
        )
    return min(size, n_pairs)


def too_few(drawable: int, size: int, share: float, n_pairs: int, name: str = "test set") -> DataError:
    """The error of weights that are 0 for too many pairs."""
    return DataError(
        f"{name}: {size:,} pairs are to be drawn (share {share:g} of {n_pairs:,}), but only {drawable:,} have a weight "
        "above 0: with zero_support: drop, pairs of users or items without support cannot be drawn. Use zero_support: "
        "laplace or missing_is_one, or a smaller share."
    )


def check_seed(seed: int) -> None:
    """An error if the seed is no BIGINT."""
    if not LONGS[0] <= seed <= LONGS[1]:
        raise ConfigError(f"seed {seed} is no whole number of 64 bits.")


def id_array(ids: npt.ArrayLike, name: str) -> pa.Array:
    """Ids as Arrow has them, BIGINT or STRING; an error for others, and for missing ones."""
    if isinstance(ids, pa.Array):
        found = ids
    elif (own := np.asarray(ids)).dtype.kind in "UO":
        found = pa.array(ids.tolist() if isinstance(ids, np.ndarray) else list(ids))  # type: ignore[arg-type]
    else:
        found = pa.array(own)
    if pa.types.is_integer(found.type):
        found = found.cast(pa.int64())
    elif not (pa.types.is_string(found.type) or pa.types.is_large_string(found.type)):
        raise ValueError(f"{name} must be whole numbers or text, found {found.type}")
    if found.null_count:
        raise ValueError(f"{name}: {found.null_count} ids are missing")
    return found


def _refuse_twice(users: pa.Array, items: pa.Array, hashes: npt.NDArray[np.int64]) -> None:
    """An error if a pair is there twice."""
    order = np.argsort(hashes, kind="stable")
    same = np.flatnonzero(hashes[order][1:] == hashes[order][:-1])
    pairs: dict[tuple[object, object], int] = {}
    for row in np.unique(np.concatenate([order[same], order[same + 1]])).tolist():
        pair = users[row].as_py(), items[row].as_py()
        pairs[pair] = pairs.get(pair, 0) + 1
    twice = [pair for pair, n in pairs.items() if n > 1]
    if twice:
        raise DataError(
            f"{len(twice):,} pairs stand among the pairs more than once (first: user_id={twice[0][0]}, "
            f"item_id={twice[0][1]}). Keep one row of each pair."
        )


def _refuse_weights(w: npt.NDArray[np.float64], users: pa.Array, items: pa.Array) -> None:
    """An error if a weight is missing, negative or not usable, or if all are 0."""
    bad = ~((w == 0) | ((w >= LEAST) & (w <= LARGEST)))
    if bad.any():
        first = int(np.argmax(bad))
        raise bad_weight("weights", int(bad.sum()), users[first].as_py(), items[first].as_py(), float(w[first]))
    if not (w > 0).any():
        raise DataError(f"weights: all {w.size:,} are 0, so that no pair can be drawn. Use another zero_support.")


def bad_weight(name: str, n: int, user: object, item: object, weight: float) -> DataError:
    """The error of weights by which no key can be computed."""
    return DataError(
        f"{name}: {n:,} pairs have a weight that is neither 0 nor between {LEAST:g} and {LARGEST:g} (first: "
        f"user_id={user}, item_id={item}, weight={weight:g}). Lower the exponent."
    )
