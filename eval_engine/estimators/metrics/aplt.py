"""APLT and ACLT at k: the share, and the number, of items of class low in a list [bqs].

APLT = mean over users of |L_u and low| / |L_u|        ACLT = mean over users of |L_u and low|
tail_share = sum_u |L_u and low| / sum_u |L_u|
"""

import numpy as np

from eval_engine.estimators.estimator import Terms, divided, mean_over
from eval_engine.estimators.labelled import Labelled
from eval_engine.estimators.metrics.kernel import Kernel, MetricKernel, one
from eval_engine.estimators.metrics.top_k import POPULARITY, top_total


def aplt(labelled: Labelled, k: int, ties: str) -> Terms:
    """The share of low items in each list."""
    n = top_total(labelled, k)
    return mean_over(n > 0, divided(top_total(labelled, k, "low"), n))


def aclt(labelled: Labelled, k: int, ties: str) -> Terms:
    """The number of low items in each list."""
    return mean_over(np.asarray(labelled.n_labelled > 0), top_total(labelled, k, "low"))


def tail_share(labelled: Labelled, k: int, ties: str) -> Terms:
    """The low items of each list, and all its items."""
    return Terms(top_total(labelled, k, "low"), top_total(labelled, k))


APLT = MetricKernel(
    "aplt",
    at_k=True,
    means={
        "recommended": Kernel(
            aplt, "positive", "the share of the top k that is of class low", needs=POPULARITY, top=one
        ),
    },
    ordered=False,
    compared_as=None,
)
ACLT = APLT._replace(
    name="aclt",
    means={
        "recommended": Kernel(
            aclt, "labelled", "the number of items of class low in the top k", needs=POPULARITY, top=float
        ),
    },
)
TAIL_SHARE = APLT._replace(
    name="tail_share",
    means={
        "recommended": Kernel(
            tail_share, "positive", "the share of class low in all recommendations, weighted by list length",
            needs=POPULARITY, top=one,
        ),
    },
)  # fmt: skip
