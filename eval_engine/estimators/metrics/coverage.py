"""Catalogue coverage at k: the share of the catalogue's items that are in the top k of at least one user."""

from eval_engine.estimators.metrics.kernel import ListKernel, MetricKernel
from eval_engine.kernels.arrays import Ints


def coverage(times: Ints, items: Ints, n_items: int) -> float:
    """Distinct items over items of the catalogue."""
    return float(items[times > 0].sum()) / n_items


COVERAGE = MetricKernel(
    "coverage",
    at_k=True,
    lists=ListKernel(coverage, "The share of the catalogue's items that are in the top k of a user."),
    compared_as=None,
)
