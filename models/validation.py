"""The metric of early stopping: recall@K or ndcg@K of held-out positives, or the AUC of randomly exposed pairs.

The list ranks all items but the training positives; of equal scores the lower position is first, NaN is last.

    recall@K = hits / held-out positives
    ndcg@K   = sum over hits of 1/log2(1 + rank), divided by that of the best list

    random_auc = share of the pairs of a positive and a negative that are scored in this order, ties count half

The metric is the mean over at most USERS users, the first by hash; random_auc is of all their random pairs together.
"""

import numpy as np
import numpy.typing as npt
from scipy.stats import rankdata

from eval_engine.errors import DataError
from eval_engine.kernels.top_list import top_lists
from models.keyed import mix
from models.logged import Logged
from models.scorer import Scorer

USERS = 2000
BLOCK_BYTES = 32 << 20


class HeldOutMetric:
    """A metric of held-out positives."""

    def __init__(self, model: str, name: str, seen: Logged, held_out: Logged) -> None:
        kind, k = name.split("@")
        self.kind, self.k = kind, min(int(k), seen.n_items)
        if not held_out.positive.any():
            raise DataError(
                f"model {model}: stop_on {name} needs held-out positives, and none was held out. "
                "Raise validation_share, or stop on the loss."
            )
        self.seen, self.wanted = seen.positives(), held_out.positives()
        users = np.unique(self.wanted.users)
        self.users = np.sort(users[np.argsort(mix(users.astype(np.uint64)), kind="stable")[:USERS]])

    def __call__(self, scorer: Scorer) -> float:
        """The mean over the users."""
        step = max(1, BLOCK_BYTES // (4 * self.seen.n_items))
        return float(
            np.mean(
                np.concatenate([self._of(scorer, self.users[at : at + step]) for at in range(0, len(self.users), step)])
            )
        )

    def _of(self, scorer: Scorer, users: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        """The metric of each of these users, shape (n,)."""
        scores = scorer.score_block(users)
        if np.isnan(scores).any():
            scores = np.where(np.isnan(scores), -np.inf, scores)  # the last of the list
        wanted = np.zeros(scores.shape, bool)
        wanted[_pair_indices(self.wanted, users)] = True
        rows, seen = _pair_indices(self.seen, users)
        offsets = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=len(users)))])
        top, _ = top_lists(scores, self.k, offsets, seen)  # padded with -1
        hits = np.take_along_axis(wanted, np.maximum(top, 0), axis=1) & (top >= 0)
        n_wanted = wanted.sum(axis=1)
        if self.kind == "recall":
            return hits.sum(axis=1) / n_wanted
        gain = 1 / np.log2(np.arange(2, self.k + 2))
        return hits @ gain / np.cumsum(gain)[np.minimum(n_wanted, self.k) - 1]


class RandomAuc:
    """The AUC of random pairs."""

    def __init__(self, model: str, random: Logged) -> None:
        users = np.unique(random.users)
        first = users[np.argsort(mix(users.astype(np.uint64)), kind="stable")[:USERS]]
        self.pairs = random.where(np.isin(random.users, first))
        positive = self.pairs.positive
        if positive.all() or not positive.any():
            raise DataError(
                f"model {model}: stop_on random_auc needs liked and disliked pairs in the held-out part of the random set; "
                f"of its {len(positive):,} pairs {int(positive.sum()):,} are liked. Give more random pairs, raise "
                "loss.held_out, or stop on ndcg@10."
            )

    def __call__(self, scorer: Scorer) -> float:
        """The AUC of the model's scores."""
        users, rows = np.unique(self.pairs.users, return_inverse=True)
        step = max(1, BLOCK_BYTES // (4 * self.pairs.n_items))
        scores = np.empty(len(rows))
        for at in range(0, len(users), step):
            some = slice(*np.searchsorted(rows, (at, at + step)))
            scores[some] = scorer.score_block(users[at : at + step])[rows[some] - at, self.pairs.items[some]]
        ranks, positive = rankdata(np.nan_to_num(scores, nan=-np.inf)), self.pairs.positive
        n = int(positive.sum())
        return float((ranks[positive].sum() - n * (n + 1) / 2) / (n * (len(ranks) - n)))


def _pair_indices(pairs: Logged, users: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Rows and columns of these users' pairs in their block; users are sorted."""
    start, stop = np.searchsorted(pairs.users, users), np.searchsorted(pairs.users, users, side="right")
    rows = np.repeat(np.arange(len(users)), stop - start)
    within = np.arange(len(rows)) - np.repeat(np.cumsum(stop - start) - (stop - start), stop - start)
    return rows, pairs.items[np.repeat(start, stop - start) + within]
