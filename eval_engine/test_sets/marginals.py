"""How far the marginals of a set of pairs are from uniform and from those of the random sample: total variation.

    TV = 1/2 sum_u |c_u / m - t_u|      c_u: pairs of u in the set, m: pairs of the set, t_u = 1 / |U|, or r_u / R

over all users (or items), also those without a pair in the set. The sums are of whole numbers,

    sum |c_u |U| - m| = 2 m |U| TV,   sum |c_u R - r_u m| = 2 m R TV

so that they do not depend on partitioning. A part of the users adds up those with c_u > 0; the rest follows from
totals.
"""

from typing import NamedTuple

import numpy as np

from eval_engine.kernels.arrays import Ints


class VariationSums(NamedTuple):
    """Sums over some users (or items) with a pair in the set."""

    n: int  # of them
    uniform: int  # sum |c |U| - m|
    random: int  # sum |c R - r m|
    random_pairs: int  # sum r


class Variation(NamedTuple):
    """Total variation from uniform, and from the random sample; None without one."""

    uniform: float
    random: float | None


def variation_sums(counts: Ints, random: Ints, size: int, n: int, n_random: int) -> VariationSums:
    """Of users with these counts of pairs in the set and in the random sample. size: pairs of the set; n: all users."""
    some = counts > 0
    c, r = counts[some].astype(np.int64), random[some].astype(np.int64)
    return VariationSums(
        int(some.sum()), int(np.abs(c * n - size).sum()), int(np.abs(c * n_random - r * size).sum()), int(r.sum())
    )


def variation(parts: list[VariationSums], size: int, n: int, n_random: int) -> Variation:
    """From the sums of all parts.

    >>> variation([variation_sums(np.array([2, 0]), np.array([1, 3]), 2, 2, 4)], 2, 2, 4)
    Variation(uniform=0.5, random=0.75)
    """
    there, uniform, random, random_pairs = (sum(column) for column in zip(*parts, strict=True))
    from_uniform = (uniform + (n - there) * size) / (2 * size * n)
    if not n_random:
        return Variation(from_uniform, None)
    return Variation(from_uniform, (random + size * (n_random - random_pairs)) / (2 * size * n_random))
