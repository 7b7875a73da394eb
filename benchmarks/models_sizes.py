"""Every model of the registry with its defaults, beside popularity, on a synthetic log of 5,000 pairs and of 5 million.

    make bench-sizes            (python -m benchmarks.models_sizes --pairs 5000 --models mf,bpr_mf)
    python -m benchmarks.models_sizes --pairs 5000000 --seconds-per-model 75

    utility(u, i) = quality_i + taste_u . taste_i + noise_ui        tastes have DIMS dimensions, cut into ratings 1..5
    pairs shown   : users by activity, items by popularity = exp(0.7 quality_i + hype_i)
    logged        = shown, and answered with chance s(utility(u, i) - 1), the first pairs until there are enough

A rating above 3 (a share LIKED of all pairs have one) is a positive. The truth of a user is the ratings of all items
without a logged pair of the user, of a sample of TRUTH users:

    ndcg@10 = sum over liked items among the first 10 of 1 / log2(1 + rank), over that of the best list
    recall@20 = liked items among the first 20, over the smaller of 20 and the number of liked items

A line per model: means over the users with a liked item, the difference to `popularity` in ndcg@10 with the half-width
of its 95 % interval (paired by user), seconds of training, and the largest memory of the process so far. The last line
names the models that are not above popularity beyond the interval.

--seconds-per-model bounds training: the speed of the first PROBE seconds says how many whole epochs that time has, at
least one, in place of the epochs of the defaults. What a bounded model reaches is a lower bound of what its defaults
give. A model whose first epoch would take LONGEST times as long is left out, and said to be. Models without epochs run
whole.
"""

import argparse
import json
import math
import resource
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from rich.progress import Progress, TaskID

from benchmarks.models_truth import half_width
from eval_engine.kernels.top_list import top_lists
from eval_engine.positive import Positive
from models.interactions import Interactions
from models.learning import Ground, learn
from models.registry import REGISTRY
from models.scorer import Scorer
from models.spec.baselines import Baseline
from models.spec.ensemble import Ensemble
from models.spec.train import MODEL, Model

SHAPES = {5_000: (250, 300), 5_000_000: (150_000, 20_000)}  # users, items
DIMS, LIKED, TRUTH, SEED, BLOCK = 8, 0.1, 2000, 0, 256
PROBE, LONGEST = 6.0, 5.0
RANDOM_USERS, RANDOM_PAIRS = 2000, 10  # the random set of AutoDebias
Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int64]


class Tastes(NamedTuple):
    """What utilities are made of, and the bounds of ratings."""

    users: Floats  # (n_users, DIMS)
    items: Floats  # (n_items, DIMS)
    quality: Floats  # (n_items,)
    edges: npt.NDArray[np.float64]  # utilities between ratings 1, 2, 3, 4, 5

    def utility(self, users: Ints, items: Ints, rng: np.random.Generator) -> Floats:
        """Utilities of pairs."""
        match = np.einsum("nd,nd->n", self.users[users], self.items[items])
        return self.quality[items] + match + rng.standard_normal(len(users), np.float32) * np.float32(0.7)

    def ratings(self, utility: Floats) -> npt.NDArray[np.float64]:
        """1 to 5."""
        return np.searchsorted(self.edges, utility).astype(np.float64) + 1


class Platform(NamedTuple):
    """A log, and the truth of some users."""

    data: Interactions
    users: Ints  # (n,) ascending: those with known truth
    liked: npt.NDArray[np.bool_]  # (n, n_items), False where logged
    random: str  # path of a small random set


class TimeUpError(Exception):
    """The probe has seen enough; the share of an epoch that a second has."""

    def __init__(self, epochs_per_second: float) -> None:
        self.epochs_per_second = epochs_per_second


class Probe(Progress):
    """A bar that ends training after PROBE seconds."""

    def __init__(self) -> None:
        super().__init__(disable=True)
        self.first: tuple[float, float] | None = None

    def update(self, task_id: TaskID, *, completed: float | None = None, **fields: Any) -> None:
        """Called after every step with the epochs done."""
        now = time.perf_counter()
        if completed is None:
            return
        if self.first is None:
            self.first = now, completed
        elif now - self.first[0] > PROBE:
            raise TimeUpError((completed - self.first[1]) / (now - self.first[0]))


def platform(n_pairs: int, folder: Path) -> Platform:
    """Draws the platform, with its random set in the folder."""
    n_users, n_items = SHAPES.get(n_pairs, (max(20, n_pairs // 33), max(50, round(9 * math.sqrt(n_pairs)))))
    rng = np.random.default_rng(SEED)
    scale = np.float32(1.2 / math.sqrt(DIMS))  # of the match: standard deviation 1.2
    tastes = Tastes(
        rng.standard_normal((n_users, DIMS), np.float32),
        rng.standard_normal((n_items, DIMS), np.float32) * scale,
        rng.standard_normal(n_items, np.float32),
        np.zeros(0),
    )
    some = tastes.utility(rng.integers(n_users, size=100_000), rng.integers(n_items, size=100_000), rng)
    tastes = tastes._replace(edges=np.quantile(some, [0.35, 0.65, 1 - LIKED, 1 - LIKED / 3]))
    users, items, values = _log(tastes, n_pairs, rng)
    ids = pa.array(np.arange(n_users)), pa.array(np.arange(n_items))
    path = folder / "random.parquet"
    some_users = np.repeat(rng.permutation(n_users)[:RANDOM_USERS], RANDOM_PAIRS)
    drawn = np.unique(some_users * n_items + rng.integers(n_items, size=len(some_users)))
    u, i = np.divmod(drawn, n_items)
    pq.write_table(pa.table({"user_id": u, "item_id": i, "value": tastes.ratings(tastes.utility(u, i, rng))}), path)
    data = Interactions(*ids, users, items, values)
    known = np.sort(rng.permutation(n_users)[:TRUTH])
    return Platform(data, known, _truth(tastes, data, known, rng), str(path))


def _log(tastes: Tastes, n_pairs: int, rng: np.random.Generator) -> tuple[Ints, Ints, npt.NDArray[np.float64]]:
    """Pairs sorted by (user, item), and their ratings."""
    n_users, n_items = len(tastes.users), len(tastes.items)
    activity = np.cumsum(rng.lognormal(0, 0.7, n_users))
    popular = np.cumsum(np.exp(0.7 * tastes.quality + rng.standard_normal(n_items)))
    keys: Ints = np.zeros(0, np.int64)
    ratings: npt.NDArray[np.float64] = np.zeros(0)
    while len(keys) < n_pairs:
        n = min(2_000_000, 2 * n_pairs)
        users, items = (
            np.minimum(np.searchsorted(upper, rng.random(n) * upper[-1]), len(upper) - 1)
            for upper in (activity, popular)
        )
        utility = tastes.utility(users, items, rng)
        answered = rng.random(n) < 1 / (1 + np.exp(1 - utility))
        keys = np.concatenate([keys, (users * n_items + items)[answered]])
        ratings = np.concatenate([ratings, tastes.ratings(utility[answered])])
        keys, first = np.unique(keys, return_index=True)
        ratings = ratings[first]
    kept = np.sort(rng.permutation(len(keys))[:n_pairs])
    return *np.divmod(keys[kept], n_items), ratings[kept]


def _truth(tastes: Tastes, data: Interactions, users: Ints, rng: np.random.Generator) -> npt.NDArray[np.bool_]:
    """Which items without a logged pair these users like."""
    n_items, liked = len(tastes.items), np.empty((len(users), len(tastes.items)), bool)
    everything = np.arange(n_items)
    for row, user in enumerate(users):
        liked[row] = tastes.utility(np.full(n_items, user), everything, rng) > tastes.edges[2]
        liked[row, data.items[slice(*np.searchsorted(data.users, (user, user + 1)))]] = False
    return liked


def quality(scorer: Scorer, world: Platform) -> npt.NDArray[np.float64]:
    """ndcg@10 and recall@20 of each user with a liked item, shape (2, n)."""
    gain, parts = 1 / np.log2(np.arange(2, 12)), []
    for at in range(0, len(world.users), BLOCK):
        users, liked = world.users[at : at + BLOCK], world.liked[at : at + BLOCK]
        spans = [slice(*np.searchsorted(world.data.users, (user, user + 1))) for user in users]
        offsets = np.cumsum([0, *(span.stop - span.start for span in spans)])
        seen = np.concatenate([world.data.items[span] for span in spans])
        scores = np.ascontiguousarray(np.nan_to_num(scorer.score_block(users), nan=-np.inf), np.float32)
        top, _ = top_lists(scores, 20, offsets.astype(np.int64), seen)
        hits = np.take_along_axis(liked, np.maximum(top, 0), axis=1) & (top >= 0)
        n_liked = liked.sum(axis=1)
        ideal = np.cumsum(gain)[np.clip(n_liked, 1, 10) - 1]
        parts.append(
            np.stack([hits[:, :10] @ gain / ideal, hits.sum(axis=1) / np.clip(n_liked, 1, 20)])[:, n_liked > 0]
        )
    return np.concatenate(parts, axis=1)


def model_of(name: str, world: Platform, epochs: int | None) -> Model:
    """The model with its defaults, and at most so many epochs where it has any."""
    entry: dict[str, Any] = {"model": name}
    if name == "mf_autodebias":
        entry["loss"] = {"random": {"path": world.random}}
    model = MODEL.validate_python(entry)
    if epochs is None or isinstance(model, Baseline):
        return model
    return MODEL.validate_python(
        entry | ({"base": {"epochs": epochs}} if isinstance(model, Ensemble) else {"epochs": epochs})
    )


def epochs_in(name: str, world: Platform, ground: Ground, seconds: float) -> int | None:
    """The number of epochs that the time has; None for the defaults'. A model that is too slow is a TimeUpError."""
    if isinstance(model_of(name, world, None), Baseline):
        return None
    try:
        learn(model_of(name, world, None), ground._replace(progress=Probe()))
    except TimeUpError as end:
        if end.epochs_per_second * seconds * LONGEST < 1:
            raise
        return max(1, int(end.epochs_per_second * seconds))
    return None


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--pairs", type=int, nargs="*", default=list(SHAPES))
    parser.add_argument("--models", help="names of the registry; left out: all")
    parser.add_argument("--seconds-per-model", type=float, help="bound of training; left out: whole training")
    parser.add_argument("--threads", type=int, default=1)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    names = given.models.split(",") if given.models else list(REGISTRY)
    for n_pairs in given.pairs:
        with tempfile.TemporaryDirectory() as folder:
            measure(n_pairs, ["popularity", *(name for name in names if name != "popularity")], given, Path(folder))


def measure(n_pairs: int, names: list[str], given: argparse.Namespace, folder: Path) -> None:
    """All models on a log of one size."""
    world = platform(n_pairs, folder)
    ground = Ground(world.data, Positive(">", 3.0), SEED, torch.device("cpu"), Progress(disable=True))
    popular, below = np.zeros((2, 0)), []
    for name in names:
        bound, epochs = given.seconds_per_model, None
        line: dict[str, object] = {"case": f"size-{n_pairs}", "model": name}
        try:
            epochs = None if bound is None else epochs_in(name, world, ground, bound)
        except TimeUpError as end:
            print(json.dumps(line | {"left out": f"an epoch takes {1 / end.epochs_per_second:,.0f} s"}), flush=True)
            continue
        start = time.perf_counter()
        learned = learn(model_of(name, world, epochs), ground)
        seconds = time.perf_counter() - start
        ndcg, recall = quality(learned.scorer, world)
        if name == "popularity":
            popular = np.stack([ndcg, recall])
        gain = ndcg - popular[0]
        if name != "popularity" and gain.mean() <= half_width(gain):
            below.append(name)
        line |= {"value": round(ndcg.mean(), 4), "ndcg@10": round(ndcg.mean(), 4), "recall@20": round(recall.mean(), 4)}
        line |= {"popularity ndcg@10": round(popular[0].mean(), 4), "popularity recall@20": round(popular[1].mean(), 4)}
        line |= {"ndcg over popularity": round(gain.mean(), 4), "+-": round(half_width(gain), 4)}
        if learned.fit:
            line |= {"epochs": learned.fit.epochs, "bounded": epochs is not None}
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        print(json.dumps(line | {"seconds": round(seconds, 1), "GB so far": round(memory, 1)}), flush=True)
    positives = int((world.data.values > 3).sum())
    last = {"case": f"beats-popularity-{n_pairs}", "users": world.data.n_users, "items": world.data.n_items}
    print(json.dumps(last | {"positives": positives, "not above": below}), flush=True)


if __name__ == "__main__":
    main()
