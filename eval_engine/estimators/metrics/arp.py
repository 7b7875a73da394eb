"""ARP, the average recommendation popularity at k: the mean count of the items of a list [bqs].

ARP = mean over users of mean_{i in L_u} rho_i       rho_i: training positives of item i
"""

from eval_engine.estimators.estimator import Terms, divided, mean_over
from eval_engine.estimators.labelled import Labelled
from eval_engine.estimators.metrics.kernel import Kernel, MetricKernel
from eval_engine.estimators.metrics.top_k import POPULARITY, top_total


def arp(labelled: Labelled, k: int, ties: str) -> Terms:
    """The mean count of each list; users without one are left out."""
    n = top_total(labelled, k)
    return mean_over(n > 0, divided(top_total(labelled, k, "count"), n))


ARP = MetricKernel(
    "arp",
    at_k=True,
    means={
        "recommended": Kernel(
            arp, "positive", "the mean number of training positives of the items in the top k", needs=POPULARITY
        )
    },
    ordered=False,
    compared_as=None,
)
