"""Models with their defaults on a public split, beside published figures and beside implicit.

    make bench-published DATA=DIR                        (MODELS=item_knn,wmf for some of the models)
    python -m benchmarks.published DIR --models item_knn,wmf

DIR holds train.txt and test.txt, or train.txt.gz and test.txt.gz: a line is a user and its items, separated by blanks.
Every model has the defaults of the registry and 64 dimensions, and learns from all training pairs as positives. Each
gets a JSON line: case published-mf, value is recall@20. As in the papers, the list of a user ranks all items but the
user's training ones, of equal scores the lower id first, and means are over users with test items:

    recall@20 = hits / test items          ndcg@20 = sum over hits of 1 / log2(1 + rank), over that of the best list

`published` are figures of papers on the split of Gowalla of the LightGCN paper, shown whatever DIR is, with 64
dimensions and up to 1,000 epochs: LightGCN [He et al. 2020, tables 3 and 4]. `implicit` is implicit's closest model
with the same settings where it has them: CosineRecommender, AlternatingLeastSquares, BayesianPersonalizedRanking.
"""

import argparse
import gzip
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import torch
from rich.progress import Progress
from scipy.sparse import csr_matrix
from threadpoolctl import threadpool_limits

from eval_engine.kernels.top_list import top_lists
from eval_engine.positive import Positive
from models.interactions import Interactions
from models.learning import Ground, learn
from models.scorer import Scorer
from models.spec.baselines import WMF, ItemKNN
from models.spec.train import MODEL

DIMS, K, BLOCK, SEED = 64, 20, 512, 0
MODELS = ("positive_popularity", "item_knn", "wmf", "mf", "bpr_mf", "lightgcn")
PUBLISHED = {"bpr_mf": (0.1291, 0.1109), "lightgcn": (0.1830, 0.1554)}  # recall@20, ndcg@20
Ints = npt.NDArray[np.int64]


class Split(NamedTuple):
    """Training and test pairs, each sorted by (user, item)."""

    train: csr_matrix
    test: csr_matrix


class Block:
    """A scorer of a user and an item matrix."""

    def __init__(self, users: npt.NDArray[np.float32], items: npt.NDArray[np.float32]) -> None:
        self.users, self.items = users, items

    def score_block(self, users: Ints) -> npt.NDArray[np.float32]:
        """Inner products."""
        scores: npt.NDArray[np.float32] = self.users[users] @ self.items.T
        return scores


class Similar:
    """The scorer of implicit's similarities: the sum over the user's items."""

    def __init__(self, train: csr_matrix, similarity: csr_matrix) -> None:
        self.train, self.similarity = train, similarity

    def score_block(self, users: Ints) -> npt.NDArray[np.float32]:
        """Sums of similarities."""
        scores: npt.NDArray[np.float32] = (self.train[users] @ self.similarity).toarray().astype(np.float32)
        return scores


def read_split(folder: Path) -> Split:
    """The pairs of both files, in matrices of one shape."""
    train, test = (_read_pairs(folder, name) for name in ("train.txt", "test.txt"))
    shape = tuple(int(max(a.max(initial=-1), b.max(initial=-1))) + 1 for a, b in zip(train, test, strict=True))
    made = Split(
        *(csr_matrix((np.ones(len(users), np.float32), (users, items)), shape) for users, items in (train, test))
    )
    for matrix in made:
        matrix.sum_duplicates()
        matrix.data[:] = 1
    return made


def _read_pairs(folder: Path, name: str) -> tuple[Ints, Ints]:
    """Users and items of a file; a word that is not a number names file, line and word."""
    path = next((path for path in (folder / name, folder / f"{name}.gz") if path.exists()), None)
    if path is None:
        sys.exit(f"{folder}: neither {name} nor {name}.gz is there. Give the folder of a split as DATA=DIR.")
    users: list[int] = []
    items: list[int] = []
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as file:
        for number, line in enumerate(file, 1):
            words = line.split()
            if wrong := [word for word in words if not (word.isascii() and word.isdigit())]:
                sys.exit(f"{path}: line {number} has {wrong[0]!r}, which is not a number of a user or an item.")
            users += [int(word) for word in words[:1]] * (len(words) - 1)
            items += [int(word) for word in words[1:]]
    return np.array(users, np.int64), np.array(items, np.int64)


def quality(scorer: Scorer, split: Split) -> tuple[float, float]:
    """recall@20 and ndcg@20, means over users with test items."""
    users = np.flatnonzero(np.diff(split.test.indptr))
    gain = 1 / np.log2(np.arange(2, K + 2))
    parts = []
    for at in range(0, len(users), BLOCK):
        some = users[at : at + BLOCK]
        seen, wanted = split.train[some], split.test[some].toarray() > 0
        scores = np.ascontiguousarray(scorer.score_block(some), np.float32)
        top, _ = top_lists(scores, K, seen.indptr.astype(np.int64), seen.indices.astype(np.int64))
        hits = np.take_along_axis(wanted, np.maximum(top, 0), axis=1) & (top >= 0)
        n_wanted = wanted.sum(axis=1)
        ideal = np.cumsum(gain)[np.minimum(n_wanted, K) - 1]
        parts.append(np.stack([hits.sum(axis=1) / n_wanted, hits @ gain / ideal]))
    recall, ndcg = np.concatenate(parts, axis=1).mean(axis=1)
    return float(recall), float(ndcg)


def ours(name: str, split: Split, threads: int) -> Callable[[], Scorer]:
    """How our model is trained."""
    users, items = (array.astype(np.int64) for array in split.train.nonzero())
    n_users, n_items = split.train.shape
    ids = pa.array(np.arange(n_users)), pa.array(np.arange(n_items))
    data = Interactions(*ids, users, items, np.ones(len(users)))
    ground = Ground(data, Positive.parse("value > 0"), SEED, torch.device("cpu"), Progress(disable=True))
    torch.set_num_threads(threads)
    spec = MODEL.validate_python(_entry(name))
    return lambda: learn(spec, ground).scorer


def _entry(name: str) -> dict[str, Any]:
    """The model with its defaults, and 64 dimensions if it has any."""
    model = MODEL.validate_python({"model": name})
    return {"model": name, "dims": DIMS} if "dims" in type(model).model_fields else {"model": name}


def theirs(name: str, split: Split, threads: int) -> Callable[[], Scorer] | None:
    """How implicit's closest model is trained; None without one."""
    from implicit.als import AlternatingLeastSquares
    from implicit.bpr import BayesianPersonalizedRanking
    from implicit.nearest_neighbours import CosineRecommender

    spec, train = MODEL.validate_python(_entry(name)), split.train

    def similar() -> Scorer:
        assert isinstance(spec, ItemKNN)
        model = CosineRecommender(K=spec.neighbours, num_threads=threads)
        model.fit(train, show_progress=False)
        return Similar(train, csr_matrix(model.similarity))

    def least_squares() -> Scorer:
        assert isinstance(spec, WMF)
        model = AlternatingLeastSquares(
            DIMS,
            regularization=spec.regularization,
            alpha=1.0,
            iterations=spec.sweeps,
            num_threads=threads,
            random_state=1,
        )
        model.fit(train * np.float32(1 + spec.confidence), show_progress=False)
        return Block(model.user_factors, model.item_factors)

    def pairwise() -> Scorer:
        model = BayesianPersonalizedRanking(DIMS, num_threads=threads, random_state=1, use_gpu=False)
        model.fit(train, show_progress=False)
        return Block(model.user_factors, model.item_factors)

    if name == "item_knn":
        return similar
    if name == "wmf":
        return least_squares
    return pairwise if name in ("mf", "bpr_mf", "lightgcn") else None


def _measured(train: Callable[[], Scorer], split: Split) -> dict[str, float]:
    """Quality and seconds of training."""
    started = time.perf_counter()
    scorer = train()
    seconds = time.perf_counter() - started
    recall, ndcg = quality(scorer, split)
    return {"recall@20": round(recall, 4), "ndcg@20": round(ndcg, 4), "seconds": round(seconds, 1)}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--models", default=",".join(MODELS), help="names of the registry")
    parser.add_argument("--threads", type=int, default=2, help="of both sides")
    given = parser.parse_args()
    split = read_split(given.folder)
    for name in given.models.split(","):
        result = _measured(ours(name, split, given.threads), split)
        line: dict[str, object] = {"case": "published-mf", "model": name, "value": result["recall@20"], **result}
        if name in PUBLISHED:
            line |= {"published recall@20": PUBLISHED[name][0], "published ndcg@20": PUBLISHED[name][1]}
        with threadpool_limits(1, "blas"):  # implicit has threads of its own
            if train := theirs(name, split, given.threads):
                other = _measured(train, split)
                line |= {f"implicit {key}": value for key, value in other.items()}
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
