"""Novelty at k: how surprising the items of a list are.

mean over users of mean_{i in L_u} -log2((rho_i + 1) / (n + 1))        n: users with a training positive
"""

from eval_engine.estimators.estimator import Terms, divided, mean_over
from eval_engine.estimators.labelled import Labelled
from eval_engine.estimators.metrics.kernel import Kernel, MetricKernel
from eval_engine.estimators.metrics.top_k import POPULARITY, top_total


def novelty(labelled: Labelled, k: int, ties: str) -> Terms:
    """The mean self-information of each list, in bits."""
    n = top_total(labelled, k)
    return mean_over(n > 0, divided(top_total(labelled, k, "novelty"), n))


NOVELTY = MetricKernel(
    "novelty",
    at_k=True,
    means={
        "recommended": Kernel(
            novelty, "positive", "the self-information of the items in the top k, in bits", needs=POPULARITY
        )
    },
    ordered=False,
    compared_as=None,
)
