"""Every model of the registry on synthetic worlds with known truth: does it beat popularity, and does debiasing help?

    make bench-truth                            (python -m benchmarks.models_truth --worlds 3 --models bpr_mf,bpr_pd)
    python -m benchmarks.models_truth --worlds 1 --pairs 5000          logs of another size: as many users as it takes

Each world is a synthetic platform (seed 4, 5, ...; the registry's defaults were chosen on seeds 1 to 3), and models are
trained with the same seed. Truth: the user's rating of every item that was not shown to the user; ndcg@10, recall@10
and recall@50 over these items, mean over users with a positive among them. One line per model: means over all users of
all worlds, the difference to popularity and, for a debiased model, to its base, each with the half-width of its 95 %
interval (paired by user). AutoDebias learns its weights from ten random ratings per user, which are not part of any
model's truth. The last line names the models that are not above popularity by ndcg@10, beyond the interval.
"""

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from rich.progress import Progress

from eval_engine.datasets.world import World, exposed, item_ids, logged, ratings, user_ids
from eval_engine.positive import Positive
from models.interactions import Interactions
from models.learning import Ground, learn
from models.registry import REGISTRY
from models.scorer import Scorer
from models.spec.train import MODEL, Model

K, DEEP, BLOCK = 10, 50, 4096
FIRST_SEED = 4
LIKED = Positive(">", 3.0)
# the base of IPS, DR and AutoDebias: the same model without weights
NAIVE: dict[str, Any] = {"model": "mf_ips", "name": "mf_logged", "loss": {"kind": "bce", "propensity": None}}
BASES = {
    "mf_ips": "mf_logged",
    "mf_dr": "mf_logged",
    "mf_autodebias": "mf_logged",
    "mf_negs": "mf",
    "lightgcn_negs": "lightgcn",
    "bpr_ips": "bpr_mf",
    "bpr_boratto": "bpr_mf",
    "bpr_pd": "bpr_mf",
    "bpr_oversampled": "bpr_mf",
    "bpr_oversampled_evenly": "bpr_mf",
    "bpr_jannach": "bpr_mf",
    "bpr_ensemble": "bpr_mf",
}


class Platform(NamedTuple):
    """One world: the log, the truth of the other pairs, and the path of the ten random ratings per user."""

    data: Interactions
    wanted: npt.NDArray[np.bool_]  # (n_users, n_items): positive, and neither logged nor in the random set
    hidden: npt.NDArray[np.bool_]  # (n_users, n_items): logged or in the random set
    random: str


def platform(world: World, folder: Path) -> Platform:
    """Draws the world, and writes its random set to the folder."""
    pairs, random = ([draw(world, user) for user in range(world.users)] for draw in (logged, exposed))
    liked = np.array([ratings(world, user) > 3 for user in range(world.users)])
    hidden = np.zeros_like(liked)
    for user in range(world.users):
        hidden[user, pairs[user].positions] = hidden[user, random[user].positions] = True
    users = np.arange(world.users)
    data = Interactions(
        pa.array(user_ids(users)),
        pa.array(item_ids(np.arange(world.items))),
        np.repeat(users, [len(p.positions) for p in pairs]),
        np.concatenate([p.positions for p in pairs]),
        np.concatenate([p.values for p in pairs]),
    )
    path = folder / f"random-{world.seed}.parquet"
    pq.write_table(
        pa.table(
            {
                "user_id": user_ids(np.repeat(users, [len(p.positions) for p in random])),
                "item_id": item_ids(np.concatenate([p.positions for p in random])),
                "value": np.concatenate([p.values for p in random]),
            }
        ),
        path,
    )
    return Platform(data, liked & ~hidden, hidden, str(path))


def users_of(pairs: int, items: int) -> int:
    """The number of users whose logs have about so many pairs together, from those of some users."""
    some = World(users=200, items=items, exposures=10, seed=FIRST_SEED)
    mean = np.mean([len(logged(some, user).positions) for user in range(some.users)])
    return max(10, round(pairs / float(mean)))


def true_quality(scorer: Scorer, world: Platform) -> npt.NDArray[np.float64]:
    """Recall@K, nDCG@K and recall@DEEP of each user with an unseen positive, shape (3, n)."""
    blocks = np.array_split(np.arange(world.data.n_users), max(1, world.data.n_users // BLOCK))
    hits = np.concatenate([_hits(scorer, world, users) for users in blocks])
    n_wanted = world.wanted.sum(axis=1)
    some, gain = n_wanted > 0, 1 / np.log2(np.arange(2, K + 2))
    ideal = np.cumsum(gain)[np.minimum(np.maximum(n_wanted, 1), K) - 1]
    recall = [hits[:, :k].sum(axis=1) / np.maximum(n_wanted, 1) for k in (K, DEEP)]
    return np.stack([recall[0], hits[:, :K] @ gain / ideal, recall[1]])[:, some]


def _hits(scorer: Scorer, world: Platform, users: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Which of the first DEEP items of these users are wanted."""
    scores = np.where(world.hidden[users], -np.inf, scorer.score_block(users))
    return np.take_along_axis(world.wanted[users], np.argsort(-scores, axis=1, kind="stable")[:, :DEEP], axis=1)


def entries(names: list[str], random: str) -> list[Model]:
    """The models of a world."""
    listed: list[dict[str, Any]] = [{"model": name} for name in names]
    for entry in listed:
        if entry["model"] == "mf_autodebias":
            entry["loss"] = {"random": {"path": random}}
    return [MODEL.validate_python(entry) for entry in (*listed, NAIVE)]


def half_width(values: npt.NDArray[np.float64]) -> float:
    """The half-width of the 95 % interval of the mean."""
    return float(1.96 * values.std(ddof=1) / np.sqrt(len(values)))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--worlds", type=int, default=3)
    parser.add_argument("--users", type=int, default=2000)
    parser.add_argument("--items", type=int, default=800)
    parser.add_argument("--pairs", type=int, help="of the log, about: --users is then chosen to suit")
    parser.add_argument("--models", help="names of the registry; left out: all")
    given = parser.parse_args()
    names = given.models.split(",") if given.models else list(REGISTRY)
    needed = {"popularity", *names, *(BASES[name] for name in names if name in BASES)} - {"mf_logged"}
    torch.set_num_threads(1)
    n_users = users_of(given.pairs, given.items) if given.pairs else given.users
    by_world: dict[str, list[npt.NDArray[np.float64]]] = {}
    seconds: dict[str, float] = {}
    n_pairs: list[int] = []
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(FIRST_SEED, FIRST_SEED + given.worlds):
            world = platform(World(users=n_users, items=given.items, exposures=10, seed=seed), Path(folder))
            n_pairs.append(len(world.data.users))
            for model in entries([name for name in REGISTRY if name in needed], world.random):
                start = time.perf_counter()
                scorer = learn(
                    model, Ground(world.data, LIKED, seed, torch.device("cpu"), Progress(disable=True))
                ).scorer
                seconds[model.name] = seconds.get(model.name, 0.0) + time.perf_counter() - start
                by_world.setdefault(model.name, []).append(true_quality(scorer, world))
    below = []
    quality = {name: np.concatenate(parts, axis=1) for name, parts in by_world.items()}
    for name, (recall, ndcg, deep) in quality.items():
        line: dict[str, object] = {
            "model": name,
            "ndcg@10": round(ndcg.mean(), 4),
            "recall@10": round(recall.mean(), 4),
            "recall@50": round(deep.mean(), 4),
        }
        gain = ndcg - quality["popularity"][1]
        if name != "popularity" and gain.mean() <= half_width(gain):
            below.append(name)
        line |= {"ndcg over popularity": round(gain.mean(), 4), "+-": round(half_width(gain), 4)}
        if name in BASES:
            line["base"] = BASES[name]
            for k, gain in ((K, recall - quality[BASES[name]][0]), (DEEP, deep - quality[BASES[name]][2])):
                line |= {f"recall@{k} over base": round(gain.mean(), 4), f"+-{k}": round(half_width(gain), 4)}
        print(json.dumps(line | {"seconds": round(seconds[name] / given.worlds, 1)}), flush=True)
    print(json.dumps({"case": "beats-popularity", "users": n_users, "pairs": n_pairs, "not above": below}), flush=True)


if __name__ == "__main__":
    main()
