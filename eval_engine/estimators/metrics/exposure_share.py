"""Share of exposure at k: what part of all recommendations a slice of items has; of everything it is 1.

sum_u |L_u and slice| / sum_u |L_u|
"""

import numpy as np

from eval_engine.estimators.estimator import Terms
from eval_engine.estimators.labelled import Labelled
from eval_engine.estimators.metrics.kernel import Kernel, MetricKernel, one
from eval_engine.estimators.metrics.top_k import top_total


def exposure_share(labelled: Labelled, k: int, ties: str) -> Terms:
    """The items of the slice in each list, and all its items."""
    return Terms(top_total(labelled, k), np.minimum(labelled.n_labelled, k))


EXPOSURE_SHARE = MetricKernel(
    "exposure_share",
    at_k=True,
    means={"recommended": Kernel(exposure_share, "labelled", "the share of all recommendations at k", top=one)},
    ordered=False,
    compared_as=None,
)
