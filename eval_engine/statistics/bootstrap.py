"""Poisson bootstrap over buckets of users: the ratio of each model, with each bucket counted a random number of times.

    R*_mr = sum_g w_rg A_mg / sum_g w_rg B_mg,    w_rg ~ Poisson(1), a hash of (seed, r, g) only
    standard error = sd_r R*_mr,    interval = percentiles of R*_mr
    chance best = share of replicates in which the model has the largest R*, shared equally among those that tie

The weights are the same for every model, estimator, run and machine, so R*_ir - R*_jr is a replicate of the paired
difference. Hash: mix(mix(mix(seed) + r) + g), mix of splitmix64 [Steele, Lea, Flood 2014]; its 64 bits are compared
with 2^64 P(w <= k), in integers.

An estimate with a bias that its weights cannot remove (balanced.py) gets its bias times a standard normal number more
in each replicate: a hash of (seed, r, the model's name), so that it depends on no other model (normal_draws).

Undefined is NaN: a model without value (paired.py) in all replicates, others where w B sums to 0. A model with an
undefined replicate has no standard error, interval or chance: few buckets contribute to it, and the remaining
replicates would understate its variance.
"""

from collections.abc import Sequence
from functools import lru_cache
from hashlib import blake2b
from itertools import accumulate
from math import factorial

import numpy as np
from scipy.special import ndtri

from eval_engine.kernels.arrays import Floats, Ints
from eval_engine.kernels.compiled import compiled
from eval_engine.kernels.splitmix64 import Keys, mix
from eval_engine.statistics.paired import bucket_sums

WEIGHTS_AT_ONCE = 1 << 20
INVERSE_E = 6786177901268885274  # 2^64 / e, whole; P(w = k) = 1 / (e k!)
AT_MOST = np.array(list(accumulate(INVERSE_E // factorial(k) for k in range(20))), np.uint64)  # 2^64 P(w <= k)


def bootstrap(a: Floats, b: Floats, replicates: int, seed: int) -> Floats:
    """Ratios of shape (n_models, replicates), of numerators and denominators of shape (n_models, n_buckets)."""
    a, b = bucket_sums(a, b)
    if replicates < 1:
        raise ValueError(f"one replicate or more is expected, found {replicates}")
    undefined = np.isnan(a.sum(axis=1))
    n_buckets = a.shape[1]
    # identical models are computed once, as at other cutoffs of the same metric
    sums = np.ascontiguousarray(np.hstack([np.where(undefined[:, None], 0.0, a), b]), np.float64)
    seen: dict[bytes, int] = {}
    which = np.array([seen.setdefault(row.tobytes(), len(seen)) for row in sums], np.int64)
    distinct = sums[np.unique(which, return_index=True)[1]]
    ratios = np.full((len(distinct), replicates), np.nan)
    at_once = max(1, WEIGHTS_AT_ONCE // max(1, n_buckets))
    for start in range(0, replicates, at_once):
        some = slice(start, min(start + at_once, replicates))
        weights = poisson_weights(seed, np.arange(some.start, some.stop), n_buckets).T  # (n_buckets, some)
        above, below = (weighted_sums(one, weights) for one in np.hsplit(distinct, 2))
        np.divide(above, below, out=ratios[:, some], where=below > 0)
    ratios = ratios[which]
    ratios[undefined] = np.nan
    return ratios


def weighted_sums(values: Floats, weights: Floats) -> Floats:
    """values @ weights, (n, n_buckets) and (n_buckets, replicates). Each sum is added up in the order of buckets: a
    library's matrix product may round a row differently in a larger matrix, so that tables would depend on which rows
    a process computes together, and equal rows would not tie.
    """
    found = np.zeros((len(values), weights.shape[1]))
    _add_weighted(np.ascontiguousarray(values), np.ascontiguousarray(weights), found)
    return found


@compiled
def _add_weighted(values, weights, found):  # type: ignore[no-untyped-def]
    for n in range(values.shape[0]):
        for g in range(values.shape[1]):
            x = values[n, g]
            for r in range(weights.shape[1]):
                found[n, r] += x * weights[g, r]


def interval(ratios: Floats, confidence: float) -> tuple[Floats, Floats]:
    """Lower and upper percentile over the last axis."""
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must be between 0 and 1, found {confidence}")
    low, high = np.quantile(ratios, [(1 - confidence) / 2, (1 + confidence) / 2], axis=-1)
    return low, high


def standard_error(ratios: Floats) -> Floats:
    """Standard deviation over the last axis; NaN for a single replicate."""
    if ratios.shape[-1] < 2:
        return np.full(ratios.shape[:-1], np.nan)
    return np.asarray(ratios.std(axis=-1, ddof=1))


def chance_best(ratios: Floats) -> Floats:
    """Share of replicates in which each model is the best, shape (n_models,); of several groups of models, (n_groups,
    n_models).
    """
    undefined = np.logical_or.reduce(np.isnan(ratios), axis=-1)
    above = np.where(undefined[..., None], -np.inf, ratios)
    best = (above == above.max(axis=-2, keepdims=True, initial=-np.inf)) & ~undefined[..., None]
    shares = best / np.maximum(best.sum(axis=-2, keepdims=True), 1)
    return np.where(undefined, np.nan, shares.mean(axis=-1))


def poisson_weights(seed: int, replicates: Ints, n_buckets: int) -> Floats:
    """The weight of each bucket in these replicates, shape (replicates, n_buckets); not to be changed."""
    return _poisson_weights(seed, replicates.tobytes(), n_buckets)


def normal_draws(names: Sequence[str], replicates: int, seed: int) -> Floats:
    """A standard normal number of each model and replicate, (n_models, replicates)."""
    own = np.array(
        [int.from_bytes(blake2b(name.encode(), digest_size=8).digest(), "little") for name in names], np.uint64
    )
    rows = mix(mix(np.array([seed % 2**64], np.uint64)) + own)
    numbers: Keys = np.arange(replicates, dtype=np.uint64)
    keys = mix(rows[:, None] + numbers)
    return np.asarray(ndtri(((keys >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52))


@lru_cache(maxsize=4)  # 8 MB each at most: every estimator and metric asks for the same
def _poisson_weights(seed: int, numbers: bytes, n_buckets: int) -> Floats:
    replicates = np.frombuffer(numbers, np.int64)
    buckets: Keys = np.arange(n_buckets, dtype=np.uint64)
    rows = mix(mix(np.array([seed % 2**64], np.uint64)) + replicates.astype(np.uint64))
    keys = mix(rows[:, None] + buckets)
    return np.searchsorted(AT_MOST, keys, side="right").astype(np.float64)
