"""Coverage of the intervals of popularity metrics and of balanced quality scores, over repeated draws.

    make bench-calibration
    python -m benchmarks.calibration_popularity --draws 300               for a quick look

The world and the first model are those of calibration.py; the second model adds noise to its places. Counts and classes
of items are given. Each draw takes --users users at random from the population and holds out some of their positives,
popular ones more often. The sums and intervals are those of an evaluated run: UserSums, statistics_rows, results_of.
The target is the mean of all draws' values. A line per metric and slice:

    coverage          share of draws whose nominal 95 % interval contains the target; coverage_error: its standard error

Lines `bqs d= d_L= se=`: the true differences are given, and the qualities of 32 buckets are normal, with this standard
error of both differences: the target is the score of the true differences.
"""

import argparse
import json
import math
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import lru_cache
from itertools import chain, product

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from rich.progress import Progress

from benchmarks.calibration import ITEMS, POPULATION, WORLD, population
from eval_engine.datasets.world import items_of
from eval_engine.estimators.metrics.parity import CLASSES
from eval_engine.estimators.user_batch import LabelSet, TopLists, UserBatch, list_items, list_set, popularity_columns
from eval_engine.evaluation.bqs_rows import Bootstrap, Quality, bqs_rows
from eval_engine.evaluation.bqs_settings import BqsRule
from eval_engine.evaluation.bucket_statistics import statistics_rows
from eval_engine.evaluation.result_groups import InferenceSettings, described
from eval_engine.evaluation.results import results_of
from eval_engine.evaluation.slice_codes import SliceCodes
from eval_engine.evaluation.spec import POPULARITY, EvaluationSpec, PopularityRule, Slicing
from eval_engine.evaluation.user_sums import UserSums
from eval_engine.kernels.rank_facts import RankFacts
from eval_engine.metric import Metric
from eval_engine.positive import Positive
from eval_engine.statistics.bqs import bqs
from eval_engine.statistics.bucket_sums import N_COARSE
from eval_engine.storage.keyed_table import KeyedTable

K, REPLICATES = 10, 400
METRICS = tuple(
    Metric.parse(f"{name}@{K}")
    for name in (
        "arp", "aplt", "tail_share", "novelty", "p_rsp", "p_rsp_by_user", "p_reo", "p_reo_by_user",
        "sampled_hit_rate", "recall", "ndcg",
    )
)  # fmt: skip
HIT_RATE = next(metric for metric in METRICS if metric.base == "sampled_hit_rate")
VALUES = tuple(sorted(CLASSES))
RULE = BqsRule((("first", "second"),), {(HIT_RATE.name, K): 10.0}, frozenset({"holdout"}), (f"{POPULARITY}=low",))
SETTINGS = InferenceSettings(0.95, 0.01, 0.8, REPLICATES, 0, bqs=RULE)
SHOWN = ("all", f"{POPULARITY}=low")
Drawn = dict[str, tuple[float, float, float]]


@lru_cache(maxsize=1)
def spec() -> EvaluationSpec:
    """The metrics of lists and of held-out pairs, by class of popularity."""
    nowhere = KeyedTable("none", (), ())
    return EvaluationSpec(
        METRICS,
        (),
        Positive(">", 0),
        "expected",
        ("heldout",),
        slicings=(Slicing(POPULARITY, "item", 0, VALUES),),
        popularity=PopularityRule(nowhere, nowhere, (0, 0, 0), POPULATION),
    )


@lru_cache(maxsize=1)
def popularity() -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
    """The count of each item, and its class: the least popular 60 % are low, the most popular 10 % high."""
    place = np.argsort(np.argsort(items_of(WORLD).log_popularity, kind="stable"), kind="stable") / (ITEMS - 1)
    counts = np.round(5 * 400**place)
    return counts, np.where(place <= 0.6, 0, np.where(place <= 0.9, 1, 2))


def batch_of(users: npt.NDArray[np.int64], model: str, seed: int) -> tuple[UserBatch, SliceCodes]:
    """Top lists and held-out positives of some users; the same pairs for both models."""
    liked, place = population()
    counts, classes = popularity()
    ranks = place[users]
    if model == "second":
        noise = np.random.default_rng((19, seed)).normal(0, 25, ranks.shape)
        ranks = np.argsort(np.argsort(ranks + noise - 15 * (classes == 0), axis=1), axis=1).astype(np.int32)
    top = np.argsort(ranks, axis=1)[:, :K]
    chance = 0.05 + 0.5 * counts / counts.max()
    user, item = np.nonzero(liked[users] & (np.random.default_rng((23, seed)).random(ranks.shape) < chance))
    offsets = np.searchsorted(user, np.arange(users.size + 1))
    above = ranks[user, item]
    candidates = np.full(users.size, ITEMS, np.int32)
    facts = RankFacts(offsets, np.ones(above.size), np.empty(0), above, np.zeros(above.size, np.int32), candidates)
    list_offsets = np.arange(users.size + 1) * K
    sizes = np.bincount(classes, minlength=3).astype(np.float64)[:, None]
    columns = popularity_columns(counts, (classes == 0) * 1.0, POPULATION)
    items = list_items(top.ravel(), columns, np.repeat(sizes, users.size, 1))
    labels = {"heldout": LabelSet(facts, np.ones(above.size, np.bool_)), "top": list_set(list_offsets, candidates)}
    lists = TopLists(list_offsets, top.ravel())
    of_value = np.array([VALUES.index(name) for name in CLASSES])[classes]
    codes = {"heldout": {0: of_value[item][None]}, "top": {0: of_value[top.ravel()][None]}}
    batch = UserBatch(labels, spec().cutoffs(), lists, list_items=items)
    return batch, SliceCodes(np.empty((0, users.size), np.int64), codes)


def one_draw(n_users: int, seed: int) -> Drawn:
    """Value and interval of every metric of the first model, and of the score of the second."""
    rng = np.random.default_rng((29, seed))
    users, hashes = rng.integers(0, POPULATION, n_users), rng.integers(-(2**63), 2**63 - 1, n_users)
    sent = []
    for model in ("first", "second"):
        sums = UserSums(model, spec())
        sent += list(chain([sums.add(hashes, *batch_of(users, model, seed))], sums.packed()))
    packed = sorted((row for part in sent for row in zip(*part.to_pydict().values(), strict=True)), key=lambda r: r[0])
    table = pa.Table.from_batches([statistics_rows(packed, spec())])
    found = results_of(table, SETTINGS._replace(seed=seed), described(spec()))
    values = {
        f"{row['metric']} {row['slice']}": (row["value"], row["low"], row["high"])
        for row in found.estimates
        if row["model"] == "first" and row["slice"] in SHOWN and row["low"] is not None
    }
    (score,) = found.bqs
    return values | {"bqs of the run": (score["value"], score["low"], score["high"])}


def one_score(d: float, d_low: float, error: float, seed: int) -> tuple[bool, bool]:
    """Whether the interval of a score holds the score of the true differences, and whether it is above it."""
    rng = np.random.default_rng((31, seed, *np.abs(np.round(np.array([d, d_low, error]) * 1e6)).astype(int).tolist()))
    spread = error * math.sqrt(N_COARSE)
    ones = np.ones(N_COARSE)
    qualities = []
    for own, base in ((d, 0.3), (d_low, 0.1)):
        first = base + rng.normal(0, spread, N_COARSE)
        second = first + own + rng.normal(0, spread, N_COARSE)
        values = {"first": float(first.mean()), "second": float(second.mean())}
        qualities.append(Quality(values, {"first": first, "second": second}, {"first": ones, "second": ones}))
    cell = ("holdout", HIT_RATE.name, K)
    part = RULE.slices[0]
    (row,) = bqs_rows(RULE, {cell: qualities[0]}, {(cell, part): qualities[1]}, Bootstrap(0.95, REPLICATES, seed))
    truth = bqs(0.3 + d, 0.3, 0.1 + d_low, 0.1, a=10)
    return bool(row["low"] <= truth <= row["high"]), bool(row["low"] > truth)


def lines(draws: list[Drawn]) -> Iterator[dict[str, object]]:
    """Coverage of each metric."""
    for name in draws[0]:
        value, low, high = np.array([draw[name] for draw in draws]).T
        target = float(value.mean())
        covered = float(((low <= target) & (target <= high)).mean())
        yield {
            "case": name,
            "target": round(target, 5),
            "coverage": round(covered, 4),
            "coverage_error": round(math.sqrt(covered * (1 - covered) / value.size), 4),
            "draws": value.size,
        }


def main() -> None:
    """Print a line per metric, then one per true difference."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--draws", type=int, default=1200)
    options.add_argument("--users", type=int, default=4000)
    asked = options.parse_args()
    population()
    popularity()
    draws = []
    with Progress() as progress, ProcessPoolExecutor() as pool:  # forked: the population is shared
        bar = progress.add_task("Drawing", total=asked.draws)
        for drawn in pool.map(one_draw, [asked.users] * asked.draws, range(asked.draws), chunksize=5):
            draws.append(drawn)
            progress.advance(bar)
    for line in lines(draws):
        print(json.dumps(line), flush=True)
    for d, d_low, error in product((0.0, -0.01, -0.03), (0.0, -0.01, -0.03), (0.005, 0.02, 0.05)):
        found = [one_score(d, d_low, error, seed) for seed in range(asked.draws)]
        covered = float(np.mean([one for one, _ in found]))
        print(json.dumps({"case": f"bqs d={d} d_L={d_low} se={error}", "coverage": round(covered, 4)}), flush=True)


if __name__ == "__main__":
    main()
