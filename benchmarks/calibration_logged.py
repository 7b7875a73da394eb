"""Coverage of the intervals over logged feedback, over repeated draws of users and of their log, with the propensities
and the edges of strata given.

    make bench-calibration
    python -m benchmarks.calibration_logged --draws 500                   for a quick look

The world and the model are those of calibration.py. Each draw takes --users users at random from the population and
logs each of their 200 items independently, with a propensity that rises with the item's popularity, whatever its label.
All logged pairs are held out. The sums, strata and intervals are those of an evaluated run: UserSums, statistics_rows,
results_of. A line per estimator and metric:

    truth             the metric over the whole population: `full_micro` for snips and clipped recall, else `full_macro`
    target            snips recall: `full_micro`; all others: their own mean over draws
    bias, bias_z      mean over draws minus truth, and the same in units of its Monte Carlo error
    coverage          share of draws whose nominal 95 % interval contains the target; coverage_error: its standard error
    width             mean width of the intervals over that of the Poisson bootstrap intervals, over the same buckets
    effective         mean effective sample size, in pairs
"""

import argparse
import json
import math
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import lru_cache
from itertools import chain

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from rich.progress import Progress

from benchmarks.calibration import ITEMS, POPULATION, REPLICATES, WORLD, K, complete, population, terms_of
from eval_engine.datasets.world import items_of
from eval_engine.estimators.registry import formula
from eval_engine.estimators.user_batch import LabelSet, Propensities, UserBatch
from eval_engine.evaluation.bucket_statistics import statistics_rows
from eval_engine.evaluation.result_groups import InferenceSettings, described
from eval_engine.evaluation.results import results_of
from eval_engine.evaluation.slice_codes import SliceCodes
from eval_engine.evaluation.spec import EvaluationSpec, PropensityRule, Slicing, Strata
from eval_engine.evaluation.user_sums import UserSums
from eval_engine.kernels.rank_facts import RankFacts
from eval_engine.metric import Metric
from eval_engine.positive import Positive
from eval_engine.propensity.strata import strata_edges, strata_of

Doubles = npt.NDArray[np.float64]
LEAST, LARGEST, FLOOR = 0.02, 0.8, 0.05  # propensities of items; the floor of `clipped`
METRICS = (f"recall@{K}", f"ndcg@{K}")
STRATA = (Strata("equal_width", 2), Strata("equal_count", 2), Strata("equal_count", 5))
SETTINGS = InferenceSettings(0.95, 0.01, 0.8, REPLICATES, 0)
Drawn = dict[tuple[str, str], tuple[float, float, float, float, float]]  # by estimator and metric


@lru_cache(maxsize=1)
def propensities() -> tuple[Doubles, npt.NDArray[np.int64]]:
    """The propensity of each item, and its code in the slices of each of STRATA, (n_strata, n_items)."""
    place = np.argsort(np.argsort(items_of(WORLD).log_popularity, kind="stable"), kind="stable")
    p = LEAST * (LARGEST / LEAST) ** ((place / (ITEMS - 1)) ** 2)
    expected = np.rint(p * POPULATION).astype(np.int64)  # logged pairs of each item
    codes, first = [], 0
    for one, slicing in zip(STRATA, spec().slicings, strict=True):
        edges = strata_edges(p, expected, one.n, one.kind)  # type: ignore[arg-type]
        codes.append(first + strata_of(p, edges) - 1)
        first += slicing.n_codes
    return p, np.array(codes)


@lru_cache(maxsize=1)
def spec() -> EvaluationSpec:
    """All estimators over held-out pairs."""
    return EvaluationSpec(
        tuple(Metric.parse(name) for name in METRICS),
        (),
        Positive(">", 0),
        "expected",
        ("heldout",),
        slicings=tuple(Slicing(one.slicing, "item", 0, tuple(f"Q{x}" for x in range(1, one.n + 1))) for one in STRATA),
        propensity=PropensityRule("power", 1.0, FLOOR),
        strata=STRATA,
    )


def logged(users: npt.NDArray[np.int64], rng: np.random.Generator) -> tuple[UserBatch, SliceCodes]:
    """The logged pairs of some users, and their strata."""
    liked, place = population()
    p, strata = propensities()
    user, item = np.nonzero(rng.random((users.size, ITEMS)) < p)
    offsets = np.searchsorted(user, np.arange(users.size + 1))
    above, positive = place[users[user], item], liked[users[user], item]
    candidates = np.full(users.size, ITEMS, np.int32)
    nothing_tied = np.zeros(above.size, np.int32)
    facts = RankFacts(offsets, positive.astype(np.float64), np.empty(0), above, nothing_tied, candidates)
    given = Propensities({"heldout": p[item]}, 1.0, FLOOR)
    batch = UserBatch({"heldout": LabelSet(facts, positive)}, spec().cutoffs(), propensities=given)
    nobody = np.empty((0, users.size), np.int64)
    return batch, SliceCodes(nobody, {"heldout": dict(enumerate(strata[:, None, item[positive]]))}, strata[:, item])


def one_draw(n_users: int, seed: int) -> Drawn:
    """Value, interval, bootstrap standard error and effective sample size of every estimate."""
    rng = np.random.default_rng((17, seed))
    batch, codes = logged(rng.integers(0, POPULATION, n_users), rng)
    hashes = rng.integers(-(2**63), 2**63 - 1, n_users)  # of users that were never seen before
    sums = UserSums("model", spec())
    sent = list(chain([sums.add(hashes, batch, codes)], sums.packed()))
    packed = sorted((row for part in sent for row in zip(*part.to_pydict().values(), strict=True)), key=lambda r: r[0])
    table = pa.Table.from_batches([statistics_rows(packed, spec())])
    rows = results_of(table, SETTINGS._replace(seed=seed), described(spec())).estimates
    return {
        (row["estimator"], row["metric"]): (
            row["value"],
            row["low"],
            row["high"],
            row["bootstrap_error"],
            row["effective_pairs"],
        )
        for row in rows
        if row["slice"] == "all" and row["low"] is not None
    }


@lru_cache(maxsize=1)
def truths() -> dict[tuple[str, str], float]:
    """The metric over the whole population, by full_macro or full_micro and metric."""
    everyone = complete(np.arange(POPULATION), 1)
    asked = [("full_macro", metric.base, metric.k) for metric in spec().metrics] + [("full_micro", "recall", K)]
    found = {}
    for name, metric, k in asked:
        terms = terms_of(formula(name, metric), everyone, k)
        found[name, metric] = float(terms.numerator.sum() / terms.denominator.sum())
    return found


def lines(draws: list[Drawn]) -> Iterator[dict[str, object]]:
    """Bias and coverage of each estimator."""
    for name, metric in sorted(draws[0]):
        value, low, high, bootstrapped, effective = np.array([draw[name, metric] for draw in draws], np.float64).T
        pooled = metric == "recall" and name in ("snips", "clipped")
        truth = truths()["full_micro" if pooled else "full_macro", metric]
        target = truth if pooled and name == "snips" else float(value.mean())
        error = value.std(ddof=1) / math.sqrt(value.size)
        covered = float(((low <= target) & (target <= high)).mean())
        yield {
            "case": f"{name} {metric}",
            "truth": round(truth, 5),
            "target": round(target, 5),
            "bias": round(float(value.mean() - truth), 6),
            "bias_z": round(float((value.mean() - truth) / error), 2),
            "coverage": round(covered, 4),
            "coverage_error": round(math.sqrt(covered * (1 - covered) / value.size), 4),
            "width": round(float((high - low).mean() / (2 * 1.96 * bootstrapped.mean())), 3),
            "effective": None
            if np.isnan(effective).any()
            else round(float(effective.mean())),  # holdout has no weights
            "draws": value.size,
        }


def main() -> None:
    """Print a line per estimator and metric."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--draws", type=int, default=1200)
    options.add_argument("--users", type=int, default=4000)
    asked = options.parse_args()
    population()
    propensities()
    draws = []
    with Progress() as progress, ProcessPoolExecutor() as pool:  # forked: the population is shared
        bar = progress.add_task("Drawing", total=asked.draws)
        for drawn in pool.map(one_draw, [asked.users] * asked.draws, range(asked.draws), chunksize=5):
            draws.append(drawn)
            progress.advance(bar)
    for line in lines(draws):
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
