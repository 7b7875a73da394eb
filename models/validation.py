"""The metric of early stopping: recall@K or ndcg@K of held-out positives, or the AUC of randomly exposed pairs.

The list ranks all items but the training positives; of equal scores the lower position is first, NaN is last.

    recall@K = hits / held-out positives
    ndcg@K   = sum over hits of 1/log2(1 + rank), divided by that of the best list

    random_auc = share of the pairs of a positive and a negative that are scored in this order, ties count half

A scorer of a GPU makes the lists there, and hits and scores of the random pairs alone leave it.

The metric is the mean over at most USERS users, the first by hash; random_auc is of all their random pairs together.
"""

from typing import TypeGuard

import numpy as np
import numpy.typing as npt
import torch
from scipy.stats import rankdata

from eval_engine.errors import DataError
from eval_engine.kernels.top_list import top_lists
from models.device_lists import first_items
from models.device_memory import chunk_bytes
from models.device_scorer import DeviceScorer
from models.host_memory import sent
from models.keyed import mix
from models.logged import Logged
from models.scorer import Scorer

Ints = npt.NDArray[np.int64]
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
        step = _block_users(scorer, self.seen.n_items)
        return float(
            np.mean(
                np.concatenate([self._of(scorer, self.users[at : at + step]) for at in range(0, len(self.users), step)])
            )
        )

    def _of(self, scorer: Scorer, users: Ints) -> npt.NDArray[np.float64]:
        """The metric of each of these users, shape (n,)."""
        wanted = np.zeros((len(users), self.seen.n_items), bool)
        wanted[_pair_indices(self.wanted, users)] = True
        top = self._lists(scorer, users)  # padded with -1
        hits = np.take_along_axis(wanted, np.maximum(top, 0), axis=1) & (top >= 0)
        n_wanted = wanted.sum(axis=1)
        if self.kind == "recall":
            return hits.sum(axis=1) / n_wanted
        gain = 1 / np.log2(np.arange(2, self.k + 2))
        return hits @ gain / np.cumsum(gain)[np.minimum(n_wanted, self.k) - 1]

    def _lists(self, scorer: Scorer, users: Ints) -> npt.NDArray[np.integer]:
        """The first k items of each of these users, without the training positives."""
        rows, seen = _pair_indices(self.seen, users)
        if on_gpu(scorer):
            return _lists_there(scorer, users, (rows, seen), self.k).cpu().numpy()
        scores = scorer.score_block(users)
        if np.isnan(scores).any():
            scores = np.where(np.isnan(scores), -np.inf, scores)  # the last of the list
        offsets = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=len(users)))])
        top, _ = top_lists(scores, self.k, offsets, seen)
        return top


class RandomAuc:
    """The AUC of random pairs."""

    def __init__(self, model: str, random: Logged) -> None:
        users = np.unique(random.users)
        first = users[np.argsort(mix(users.astype(np.uint64)), kind="stable")[:USERS]]
        self.pairs = random.where(np.isin(random.users, first))
        positive = self.pairs.positive
        if positive.all() or not positive.any():
            raise DataError(
                f"model {model}: stop_on random_auc needs liked and disliked pairs in the held-out part of the random "
                f"set; of its {len(positive):,} pairs {int(positive.sum()):,} are liked. Give more random pairs, raise "
                "loss.held_out, or stop on ndcg@10."
            )

    def __call__(self, scorer: Scorer) -> float:
        """The AUC of the model's scores."""
        users, rows = np.unique(self.pairs.users, return_inverse=True)
        step = _block_users(scorer, self.pairs.n_items)
        scores = np.empty(len(rows))
        for at in range(0, len(users), step):
            some = slice(*np.searchsorted(rows, (at, at + step)))
            places = rows[some] - at, self.pairs.items[some]
            if on_gpu(scorer):
                scores[some] = _scores_there(scorer, users[at : at + step], places).cpu().numpy()
            else:
                scores[some] = scorer.score_block(users[at : at + step])[places]
        ranks, positive = rankdata(np.nan_to_num(scores, nan=-np.inf)), self.pairs.positive
        n = int(positive.sum())
        return float((ranks[positive].sum() - n * (n + 1) / 2) / (n * (len(ranks) - n)))


def on_gpu(scorer: Scorer) -> TypeGuard[DeviceScorer]:
    """Whether scores are computed on a GPU."""
    return isinstance(scorer, DeviceScorer) and scorer.device.type != "cpu"


def _block_users(scorer: Scorer, n_items: int) -> int:
    """How many users are scored at once."""
    device = scorer.device if on_gpu(scorer) else torch.device("cpu")
    return max(1, chunk_bytes(device, BLOCK_BYTES) // (4 * n_items))


@torch.inference_mode()
def _lists_there(scorer: DeviceScorer, users: Ints, seen: tuple[Ints, Ints], k: int) -> torch.Tensor:
    """The lists on the scorer's device."""
    rows, items = (sent(torch.from_numpy(index), scorer.device) for index in seen)
    return first_items(scorer.scores(scorer.index(users)), k, rows, items)


@torch.inference_mode()
def _scores_there(scorer: DeviceScorer, users: Ints, places: tuple[Ints, Ints]) -> torch.Tensor:
    """Scores of some rows and columns of the block, on the scorer's device."""
    rows, items = (sent(torch.from_numpy(index), scorer.device) for index in places)
    return scorer.scores(scorer.index(users))[rows, items]


def _pair_indices(pairs: Logged, users: Ints) -> tuple[Ints, Ints]:
    """Rows and columns of these users' pairs in their block; users are sorted."""
    start, stop = np.searchsorted(pairs.users, users), np.searchsorted(pairs.users, users, side="right")
    rows = np.repeat(np.arange(len(users)), stop - start)
    within = np.arange(len(rows)) - np.repeat(np.cumsum(stop - start) - (stop - start), stop - start)
    return rows, pairs.items[np.repeat(start, stop - start) + within]
