"""nDCG of a class of items, compressed, at k: the items of the class in the top k, ranked among themselves [bqs].

    the m items of the class in the top k get ranks 1 .. m; DCG of the held-out positives among them over the DCG of
    min(m, n) positives, n: held-out positives of the class; the mean over users with an item of the class in the top k

That set of users depends on the model, so that models are compared on different users: published tables have it, and it
is never the default. nDCG in the slice popularity=low has the ranks of the full list and the same users for all models.
"""

import numpy as np

from eval_engine.estimators.estimator import Terms
from eval_engine.estimators.labelled import Labelled
from eval_engine.estimators.metrics.kernel import Kernel, MetricKernel, one
from eval_engine.estimators.metrics.parity import BOTH, CLASSES, ClassOf, nothing
from eval_engine.estimators.user_batch import UserBatch
from eval_engine.kernels.gain import gain_table
from eval_engine.kernels.user_totals import user_totals


def by_class(batch: UserBatch, view: Labelled, class_of: ClassOf, k: int, ties: str) -> Terms:
    """nDCG of each class and user, and whether the list has an item of the class."""
    own, held = class_of("top"), class_of("heldout")
    inside = view.above < k
    gains, sums = gain_table("discount", k)
    found = np.isin(view.column("key"), batch.complete("heldout").column("key"))  # keys are of user and item
    numerators, denominators = [], []
    for g in range(len(CLASSES)):
        of_class = inside & (own == g)
        before = np.concatenate([[0], np.cumsum(of_class)])
        rank = before[1:] - np.repeat(before[view.offsets[:-1]], np.diff(view.offsets))
        dcg = user_totals(view.offsets, np.where(of_class & found, gains[np.minimum(rank, k)], 0.0))
        m = user_totals(view.offsets, of_class)
        n = user_totals(batch.complete("heldout").offsets, held == g)
        best = sums[np.minimum(np.minimum(m, n), k).astype(np.int64)]
        numerators.append(np.divide(dcg, best, out=np.zeros(dcg.size), where=best > 0))
        denominators.append((m > 0).astype(np.float64))
    return Terms(np.stack(numerators), np.stack(denominators))


NDCG_COMPRESSED = MetricKernel(
    "ndcg_compressed",
    at_k=True,
    means={
        "recommended": Kernel(
            nothing,
            "labelled",
            "nDCG of a class of items, ranked among themselves, of users with one in the top k",
            needs=BOTH | {"keys"},
            top=one,
            by_class=by_class,
        )
    },
    ordered=False,
    compared_as=None,
)
