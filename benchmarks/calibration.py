"""Bias of the estimates and coverage of their intervals, over repeated draws of random exposures in a world with known
truth.

    make bench-calibration
    python -m benchmarks.calibration --draws 500 --exposures 5,10        for a quick look

Each draw takes --users users at random from a population of 60,000, exposes e of 200 items to each at random, and
estimates everything with its nominal 95 % interval. A line per estimator and e: `truth` is the metric over the whole
population; `target` is the estimand of the estimator (for macro [ure] the mean weighted by the chance to show a
positive; for those that are only consistent, nDCG and MAP, and for the traditional scheme, their own mean over draws).

    bias, bias_z      mean over draws minus truth, and the same in units of its Monte Carlo error
    coverage          share of draws whose interval contains the target
    width             mean width of the intervals over that of the Poisson bootstrap intervals, over the same buckets
    rmse              root mean squared error against truth

Then, recall only, balanced against macro with 100,000 users: lines `many-users`.
"""

import argparse
import json
import math
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from rich.progress import Progress

from eval_engine.datasets.world import World, items_of, ratings
from eval_engine.estimators.estimator import MetricTerms, Terms
from eval_engine.estimators.registry import formula
from eval_engine.estimators.user_batch import LabelSet, UserBatch
from eval_engine.kernels.rank_facts import RankFacts
from eval_engine.statistics.balanced import Strata, balanced, lump_of
from eval_engine.statistics.bootstrap import bootstrap, standard_error
from eval_engine.statistics.few_hits import interval
from eval_engine.statistics.ratio import estimate, ratio_sums

Doubles = npt.NDArray[np.float64]
Drawn = tuple[float, float, float, float]  # value, low, high, another standard error
ITEMS, POPULATION, K = 200, 60_000, 10
BUCKETS, UNITS, REPLICATES = 256, 32, 200
WORLD = World(users=POPULATION, items=ITEMS, exposures=80, seed=5, frame="all_items")
UNBIASED = ("ure_mean precision", "ure_mean dcg", "ure_mean hit_rate", "ure_macro auc")  # exactly, for their target


class Case(NamedTuple):
    """An estimator of a metric, its cutoff, and the formulas of its truth and of its target, if any."""

    own: MetricTerms
    k: int
    truth: MetricTerms
    target: MetricTerms | None


def case(own: str, metric: str, k: int, truth: str, target: str | None) -> Case:
    """A case by the names of its estimators."""
    return Case(formula(own, metric), k, formula(truth, metric), formula(target, metric) if target else None)


CASES = (
    case("ure_macro", "recall", K, "full_macro", "full_selected"),
    case("ure_micro", "recall", K, "full_micro", "full_micro"),
    case("ure_mean", "precision", K, "full_mean", "full_mean"),
    case("ure_mean", "dcg", K, "full_mean", "full_mean"),
    case("ure_mean", "ndcg", K, "full_mean", None),
    case("ure_macro", "auc", 0, "full_selected", "full_selected"),
    case("ure_macro", "map", K, "full_macro", None),
    case("ure_mean", "hit_rate", 1, "full_mean", "full_mean"),
    case("traditional", "recall", 2, "full_macro", None),  # with 5 exposures recall@5 would be 1 for any model
)


def terms_of(one: MetricTerms, batch: UserBatch, k: int) -> Terms:
    """The terms of every user of a batch."""
    return one.of(batch, one.estimator.view(batch), slice(None), k, "expected")


@lru_cache(maxsize=1)
def population() -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.int32]]:
    """The positives of every user, and their ranks under a model of limited accuracy, both (users, items)."""
    liked, place = np.empty((POPULATION, ITEMS), np.bool_), np.empty((POPULATION, ITEMS), np.int32)
    quality = items_of(WORLD).quality
    for user in range(POPULATION):
        rating = ratings(WORLD, user)
        noise = np.random.default_rng((5, user)).normal(0, 1.2, ITEMS)
        liked[user] = rating > 3
        place[user, np.argsort(-(0.5 * quality + 0.6 * rating + noise), kind="stable")] = np.arange(ITEMS)
    return liked, place


def complete(users: npt.NDArray[Any], e: int) -> UserBatch:
    """All labels of some users with e exposed items each."""
    liked, place = population()
    n = users.size
    offsets = np.arange(n + 1, dtype=np.int64) * ITEMS
    value = liked[users].astype(np.float64).ravel()
    facts = RankFacts(
        offsets,
        value,
        -place[users].ravel().astype(np.float64),
        place[users].ravel(),
        np.zeros(n * ITEMS, np.int32),
        np.full(n, ITEMS, np.int32),
    )
    nothing, level = np.zeros(n * e), np.zeros(n * e, np.int32)
    shown = RankFacts(np.arange(n + 1) * e, nothing, nothing, level, level, np.full(n, ITEMS, np.int32))
    return UserBatch({"truth": LabelSet(facts), "random": LabelSet(shown)})


def drawn(users: npt.NDArray[Any], e: int, rng: np.random.Generator) -> UserBatch:
    """e random labels of each user."""
    liked, place = population()
    shown = np.argpartition(rng.random((users.size, ITEMS), dtype=np.float32), e - 1, axis=1)[:, :e]
    above = np.take_along_axis(place[users], shown, axis=1).ravel()
    value = np.take_along_axis(liked[users], shown, axis=1).ravel().astype(np.float64)
    offsets = np.arange(users.size + 1, dtype=np.int64) * e
    none_tied, candidates = np.zeros(above.size, np.int32), np.full(users.size, ITEMS, np.int32)
    facts = RankFacts(offsets, value, -above.astype(np.float64), above, none_tied, candidates)
    return UserBatch({"random": LabelSet(facts)})


def strata(recall: Doubles, n_positive: Doubles, e: int) -> Strata:
    """Sums by number of exposed positives; users are assigned to units round-robin."""
    kinds, which = np.unique(lump_of(n_positive), return_inverse=True)
    row = np.arange(recall.size) % UNITS * kinds.size + which
    seen = np.where(n_positive > 0, recall, 0.0)
    users, sums, squares = (
        np.bincount(row, w, minlength=UNITS * kinds.size).reshape(UNITS, -1) for w in (None, seen, seen**2)
    )
    n = kinds.size
    return Strata(
        np.full(n, e), np.full(n, ITEMS), kinds, *(x.astype(np.float64) for x in (users, sums[None], squares[None]))
    )


def balanced_recall(recall: Doubles, n_positive: Doubles, e: int) -> Drawn:
    """Value, interval, and standard error without the contribution of the bias."""
    found = balanced(strata(recall, n_positive, e))
    sampling, of = math.sqrt(found.models.covariance[0, 0]), formula("ure_balanced", "recall").range(K)
    value, error = found.models.values[0], found.standard_errors()[0]
    low, high = interval(value, error, float((n_positive > 0).sum()), found.degrees()[0], 0.95, of)
    return float(value), float(low), float(high), sampling


def one_draw(e: int, n_users: int, seed: int) -> dict[str, Drawn]:
    """Value, interval and bootstrap standard error of every estimator."""
    rng = np.random.default_rng((11, e, seed))
    batch = drawn(rng.integers(0, POPULATION, n_users), e, rng)
    found = {}
    for one in CASES:
        a, b = terms_of(one.own, batch, one.k)
        told = estimate(ratio_sums((a, b)), 0.95, one.own.range(one.k))
        bucket = np.arange(n_users) % BUCKETS
        above, below = (np.bincount(bucket, x, minlength=BUCKETS)[None].astype(np.float64) for x in (a, b))
        replicates = bootstrap(above, below, REPLICATES, seed)
        found[str(one.own)] = told.value, told.low, told.high, float(standard_error(replicates)[0])
    recall = terms_of(CASES[0].own, batch, K).numerator
    found["ure_balanced recall"] = balanced_recall(recall, batch.sample("random").n_positive, e)
    return found


def many_users(e: int, n_users: int, seed: int) -> tuple[float, float, float, float, float]:
    """Macro, then balanced as in balanced_recall; recall only: positives are drawn without their items."""
    rng = np.random.default_rng((13, e, seed))
    liked, place = population()
    total, top = liked.sum(axis=1), (liked & (place < K)).sum(axis=1)
    users = rng.integers(0, POPULATION, n_users)
    n = rng.hypergeometric(total[users], ITEMS - total[users], e)
    m = np.zeros(n_users)
    some = n > 0
    m[some] = rng.hypergeometric(top[users][some], (total - top)[users][some], n[some])
    recall = np.divide(m, n, out=np.zeros(n_users), where=some)
    return float(recall[some].mean()), *balanced_recall(recall, n.astype(np.float64), e)


def truths(e: int) -> dict[str, tuple[float, float | None]]:
    """Truth and target of every estimator, over the population."""
    everyone = complete(np.arange(POPULATION), e)
    found: dict[str, tuple[float, float | None]] = {}
    for one in CASES:
        values: list[float | None] = []
        for other in (one.truth, one.target):
            terms = terms_of(other, everyone, one.k) if other else None
            values.append(float(terms.numerator.sum() / terms.denominator.sum()) if terms else None)
        found[str(one.own)] = values[0] or 0.0, values[1]
    found["ure_balanced recall"] = found["ure_macro recall"][0], found["ure_macro recall"][0]
    return found


def lines(e: int, draws: list[dict[str, Drawn]]) -> Iterator[dict[str, object]]:
    """Bias, coverage, width and error of each estimator over the draws of one e."""
    for name, (truth, known) in truths(e).items():
        value, low, high, other = np.array([draw[name] for draw in draws]).T
        target = known if known is not None else float(value.mean())
        error = value.std(ddof=1) / math.sqrt(value.size)
        off = value.mean() - (target if name in UNBIASED else truth)
        yield {
            "case": f"{name} e={e}",
            "truth": round(truth, 5),
            "target": round(target, 5),
            "bias": round(float(off), 6),
            "bias_z": round(float(off / error), 2) if error > 0 else None,
            "coverage": round(float(((low <= target) & (target <= high)).mean()), 4),
            "rmse": round(float(np.sqrt(((value - truth) ** 2).mean())), 5),
            "width": round(float((high - low).mean() / (2 * 1.96 * other.mean())), 3) if other.mean() > 0 else None,
            "draws": value.size,
        }


def many_lines(e: int, n_users: int, draws: list[tuple[float, float, float, float, float]]) -> dict[str, object]:
    """Balanced against macro with many users."""
    truth = truths(e)["ure_macro recall"][0]
    macro, value, low, high, _ = np.array(draws).T
    left = abs(value.mean() - truth) / abs(macro.mean() - truth)
    rmse = [round(float(np.sqrt(((x - truth) ** 2).mean())), 5) for x in (macro, value)]
    return {
        "case": f"many-users e={e}",
        "users": n_users,
        "truth": round(truth, 5),
        "macro_bias": round(float(macro.mean() - truth), 5),
        "balanced_bias": round(float(value.mean() - truth), 5),
        "bias_gone": round(1 - float(left), 3),
        "macro_rmse": rmse[0],
        "balanced_rmse": rmse[1],
        "coverage": round(float(((low <= truth) & (truth <= high)).mean()), 4),
        "draws": len(draws),
    }


def main() -> None:
    """Print a line per estimator and number of exposures."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--draws", type=int, default=2000)
    options.add_argument("--exposures", default="5,10,20,80")
    options.add_argument("--users", type=int, default=4000)
    options.add_argument("--many-users", type=int, default=100_000)
    options.add_argument("--many-draws", type=int, default=100)
    asked = options.parse_args()
    exposures = [int(e) for e in asked.exposures.split(",")]
    population()
    with Progress() as progress, ProcessPoolExecutor() as pool:  # forked: the population is shared
        bar = progress.add_task("Drawing", total=len(exposures) * asked.draws + 2 * asked.many_draws)
        for e in exposures:
            draws = []
            for found in pool.map(
                one_draw, [e] * asked.draws, [asked.users] * asked.draws, range(asked.draws), chunksize=5
            ):
                draws.append(found)
                progress.advance(bar)
            for line in lines(e, draws):
                print(json.dumps(line), flush=True)
        for e in (5, 10):
            many = []
            for one in pool.map(
                many_users,
                [e] * asked.many_draws,
                [asked.many_users] * asked.many_draws,
                range(asked.many_draws),
                chunksize=2,
            ):
                many.append(one)
                progress.advance(bar)
            print(json.dumps(many_lines(e, asked.many_users, many)), flush=True)


if __name__ == "__main__":
    main()
