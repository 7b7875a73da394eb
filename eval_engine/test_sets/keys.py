"""The keys by which pairs are drawn: log(U) / w, where U of a pair follows from a hash of seed, user and item.

    h = xxhash64(seed, user, item)      as Spark computes it: seed a BIGINT, ids BIGINT or STRING
    U = ((h >> 12) + 0.5) 2^-52         h as an unsigned number: U is above 0 and below 1, exactly
    key = log(U) / w                    below 0; -inf for w = 0

The pairs with the m largest keys are a sample of m pairs without replacement, drawn one after the other with
probabilities proportional to w (Efraimidis and Spirakis 2006). Equal keys are ordered by h as an unsigned number, the
smallest first, then by user and item.

The logarithm is computed here with the formula of fdlibm: additions, multiplications and divisions only, so that it has
the same bits on every machine and at every place of an array.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eval_engine.kernels.compiled import compiled
from eval_engine.kernels.xxhash64 import xxhash64

Doubles = npt.NDArray[np.float64]
Hashes = npt.NDArray[np.int64]
LN2_HIGH, LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10
L1, L2, L3, L4, L5, L6, L7 = (
    6.666666666666735130e-01, 3.999999999940941908e-01, 2.857142874366239149e-01, 2.222219843214978396e-01,
    1.818357216161805012e-01, 1.531383769920937332e-01, 1.479819860511658591e-01,
)  # fmt: skip


def pair_hashes(users: Any, items: Any, seed: int) -> Hashes:
    """xxhash64(seed, user, item) of pairs, from Arrow arrays of ids; `seed` is a BIGINT."""
    return xxhash64(items, xxhash64(users, np.full(len(users), seed_hash(seed))))


def seed_hash(seed: int) -> np.int64:
    """xxhash64(seed)."""
    return np.int64(xxhash64(pa.array([seed], pa.int64()))[0])


def log_uniform(hashes: Hashes) -> Doubles:
    """log(U) of each hash.

    >>> bool(np.allclose(np.exp(log_uniform(np.array([0, -1, 2**62]))), [2**-53, 1, 0.25]))
    True
    """
    high, fraction, exponent = np.empty(hashes.size), np.empty(hashes.size), np.empty(hashes.size)
    _uniform(hashes, high)
    _split(high.view(np.int64), fraction.view(np.int64), exponent)
    _log(fraction, exponent)
    return fraction


def keys_of(log_u: Doubles, weights: Doubles) -> Doubles:
    """log(U) / w; -inf for w = 0."""
    with np.errstate(divide="ignore"):
        keys: Doubles = log_u / weights
    return keys


@compiled
def _uniform(hashes, u):  # type: ignore[no-untyped-def]
    for n in range(hashes.size):
        u[n] = (np.float64(np.int64(np.uint64(hashes[n]) >> np.uint64(12))) + 0.5) * 2.0**-52


@compiled
def _split(bits, fraction, exponent):  # type: ignore[no-untyped-def]
    """u = 2^exponent fraction, with a fraction from sqrt(1/2) to sqrt(2), as bits."""
    for n in range(bits.size):
        high = bits[n] >> 32
        k = (high >> 20) - 1023
        high &= 0xFFFFF
        up = (high + 0x95F64) & 0x100000
        fraction[n] = ((high | (up ^ 0x3FF00000)) << 32) | (bits[n] & 0xFFFFFFFF)
        exponent[n] = k + (up >> 20)


@compiled
def _log(fraction, exponent):  # type: ignore[no-untyped-def]
    """log of 2^exponent fraction, in place of the fraction."""
    for n in range(fraction.size):
        f, k = fraction[n] - 1.0, exponent[n]
        s = f / (2.0 + f)
        z = s * s
        w = z * z
        r = w * (L2 + w * (L4 + w * L6)) + z * (L1 + w * (L3 + w * (L5 + w * L7)))
        half = 0.5 * f * f
        fraction[n] = k * LN2_HIGH - ((half - (s * (half + r) + k * LN2_LOW)) - f)
