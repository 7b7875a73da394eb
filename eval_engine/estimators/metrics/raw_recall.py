"""Raw recall at k of positives: hits over positives, each counted once, whatever the chance of a pair to be labelled.

    sum_u hits_u / sum_u n_u

Of uniform random exposures it says how many exposed positives an estimate rests on, and how many of them were found:
the sums of the table statistics are these counts. It is no estimate where exposure was not uniform: recall of ure_micro
is.
"""

from eval_engine.estimators.estimator import Terms
from eval_engine.estimators.labelled import Labelled
from eval_engine.estimators.metrics.kernel import Kernel, MetricKernel, one
from eval_engine.kernels.gain import gain_of_each
from eval_engine.kernels.user_totals import user_totals


def raw_recall(labelled: Labelled, k: int, ties: str) -> Terms:
    """The hits and the positives of each user."""
    hits = gain_of_each("hits", labelled.above, labelled.tied, k, ties)
    return Terms(user_totals(labelled.offsets, hits), labelled.n_positive)


RAW_RECALL = MetricKernel(
    "raw_recall",
    at_k=True,
    means={
        "raw": Kernel(
            raw_recall, "positive", "the share of labelled positives that are in the top k, unweighted", top=one
        )
    },
    compared_as=None,
)
