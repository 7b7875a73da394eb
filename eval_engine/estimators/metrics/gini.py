"""Gini index of exposure at k: how unevenly the top k of all users are shared among the catalogue's items.

    G = sum_i (2 i - n - 1) c_(i) / (n sum c)
    c_(1) <= .. <= c_(n): how often each of the n items is recommended, zeros included

0: all items equally often; (n - 1) / n: one item has all recommendations.
"""

import math

import numpy as np

from eval_engine.estimators.metrics.kernel import ListKernel, MetricKernel
from eval_engine.kernels.arrays import Ints


def gini(times: Ints, items: Ints, n_items: int) -> float:
    """The index from counts (times recommended, number of items); in integers up to the last division."""
    seen = times > 0
    order = np.argsort(times[seen])
    counts, sizes = [int(c) for c in times[seen][order]], [int(n) for n in items[seen][order]]
    total = sum(c * n for c, n in zip(counts, sizes, strict=True))
    if not total:
        return math.nan
    rank, weighted = n_items - sum(sizes), 0  # places of the items before; items never recommended come first
    for c, n in zip(counts, sizes, strict=True):
        # the sum of 2 i - n_items - 1 over i = rank + 1 .. rank + n
        weighted += c * n * (2 * rank + n - n_items)
        rank += n
    return weighted / (n_items * total)


GINI = MetricKernel(
    "gini",
    at_k=True,
    lists=ListKernel(
        gini,
        "How unevenly the top k of all users are shared among the items of the catalogue: 0 evenly, near 1 by few.",
    ),
    compared_as=None,
)
