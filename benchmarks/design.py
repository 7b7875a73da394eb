"""Designed exposures against uniform ones, in the synthetic world, whose truth is known.

    make bench-design
    python -m benchmarks.design --draws 200          for a quick look

Each draw takes --users users at random from a population, 10 exposures each of 2,000 items: uniformly, and by a design
for the four models. Two of the models are close: they differ by some noise only. A line for each number of the close
pair's difference:

    case               design-recall20, design-recall5, design-precision20; ratio: variance of the difference under
                       uniform exposure with the plain estimator, over that of the design
    bias_z             mean over draws less the truth, in units of its Monte Carlo error
    coverage           share of draws whose nominal 95 % interval contains the truth
    se_ratio           mean standard error over the standard deviation over draws
    predicted_se       standard error that `power` predicts from uniform pilots, over the standard deviation over draws
"""

import argparse
import json
from concurrent.futures import ProcessPoolExecutor
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from eval_engine.datasets.close_models import CLOSE, CloseModels, close_models
from eval_engine.datasets.world import World
from eval_engine.estimators.in_memory import compare, evaluate
from eval_engine.exposure_design.design import Aim
from eval_engine.exposure_design.known_sizes import lift, recall_difference, recall_known_sizes
from eval_engine.exposure_design.power import power
from eval_engine.kernels.rank_facts import RankFacts
from eval_engine.studies.design import facts_of, shown_by_plan, shown_uniformly, uniform_items

Ints = npt.NDArray[np.integer[Any]]
ITEMS, POPULATION, EXPOSURES, KS = 2000, 6000, 10, (5, 20)
WORLD = World(users=POPULATION, items=ITEMS, exposures=EXPOSURES, seed=2031, frame="all_items")
NOISE = 0.35  # of the close pair, apart from what they share


class Design(NamedTuple):
    """A way to expose."""

    uniform: int
    aim: Aim
    models: tuple[int, ...]  # the lists that it is made of
    cutoffs: tuple[int, ...]


DESIGNS = {
    "uniform": None,
    "half": Design(5, "models", (0, 1, 2, 3), KS),
    "fifth": Design(2, "models", (0, 1, 2, 3), KS),
    "pair": Design(2, "differences", CLOSE, KS),
}


@lru_cache(maxsize=1)
def population() -> CloseModels:
    """Every user of the world, under four models."""
    return close_models(WORLD, 4, max(KS), NOISE, n_ranked=4)


def exposed(users: Ints, design: Design | None, seed: int) -> list[RankFacts]:
    """The facts of the four models on what a way to expose shows these users."""
    if design is None:
        return shown_uniformly(population(), users, EXPOSURES, seed)
    return shown_by_plan(
        population(), users, design.models, EXPOSURES, design.uniform, design.cutoffs, design.aim, seed
    )


Number = tuple[float, float, float, float]  # value, standard error, interval


def numbers(facts: list[RankFacts], designed: bool) -> dict[str, Number]:
    """Every estimate, of the first model and of the close pair."""
    a, b = (facts[m] for m in CLOSE)
    arm, found = "designed" if designed else "ure", {}

    def add(name: str, one: Any) -> None:
        low, high = one.low, one.high
        value = one.difference if hasattr(one, "difference") else one.value
        found[name] = (value, one.standard_error, low, high)

    for k in KS:
        micro, mean, known = f"{arm}_micro", f"{arm}_mean", f"{arm}_mean_known"
        add(f"recall@{k} difference", compare(a, b, micro, f"recall@{k}"))
        add(f"recall@{k} difference, known sizes", recall_difference(a, b, k))
        add(f"precision@{k} difference", compare(a, b, mean, f"precision@{k}"))
        add(f"precision@{k} difference, known sizes", compare(a, b, known, f"precision@{k}"))
        add(f"dcg@{k} difference", compare(a, b, mean, f"dcg@{k}"))
        add(f"dcg@{k} difference, known sizes", compare(a, b, known, f"dcg@{k}"))
        add(f"lift@{k}", lift(a, b, k))
        add(f"recall@{k}", evaluate(a, micro, f"recall@{k}"))
        add(f"recall@{k}, known sizes", recall_known_sizes(a, k))
        add(f"precision@{k}", evaluate(a, mean, f"precision@{k}"))
        add(f"precision@{k}, known sizes", evaluate(a, known, f"precision@{k}"))
        add(f"dcg@{k}", evaluate(a, mean, f"dcg@{k}"))
        add(f"dcg@{k}, known sizes", evaluate(a, known, f"dcg@{k}"))
    return found


def truths() -> dict[str, float]:
    """The same numbers over the whole population."""
    liked, ranks, _ = population()
    found: dict[str, float] = {}
    total = liked.sum()
    for k in KS:
        weight = np.where(np.arange(ITEMS) < k, 1 / np.log2(np.arange(ITEMS) + 2), 0)
        hits, dcg = zip(
            *(
                ((liked & (own < k)).sum(), (liked * weight[own]).sum() / POPULATION)
                for own in (ranks[m] for m in CLOSE)
            ),
            strict=True,
        )
        for end in ("", ", known sizes"):
            found[f"recall@{k} difference{end}"] = float((hits[0] - hits[1]) / total)
            found[f"precision@{k} difference{end}"] = float((hits[0] - hits[1]) / (k * POPULATION))
            found[f"dcg@{k} difference{end}"] = float(dcg[0] - dcg[1])
            found[f"recall@{k}{end}"] = float(hits[0] / total)
            found[f"precision@{k}{end}"] = float(hits[0] / (k * POPULATION))
            found[f"dcg@{k}{end}"] = float(dcg[0])
        found[f"lift@{k}"] = float(hits[0] / hits[1])
    return found


def one_draw(name: str, n_users: int, seed: int) -> dict[str, Number]:
    """Every estimate from one draw of users and exposures."""
    users = np.random.default_rng((19, seed)).integers(0, POPULATION, n_users)
    return numbers(exposed(users, DESIGNS[name], seed), DESIGNS[name] is not None)


def variances(draws: dict[str, list[dict[str, Number]]]) -> dict[str, dict[str, Any]]:
    """What the draws of each way to expose say, by number."""
    true = truths()
    found: dict[str, dict[str, Any]] = {}
    for way, each in draws.items():
        found[way] = {}
        for name, truth in true.items():
            value, error, low, high = np.array([draw[name] for draw in each]).T
            deviation = value.std(ddof=1)
            found[way][name] = {
                "truth": round(truth, 6),
                "variance": float(deviation**2),
                "bias_z": round(float((value.mean() - truth) / (deviation / np.sqrt(value.size))), 2),
                "coverage": round(float(((low <= truth) & (truth <= high)).mean()), 4),
                "se_ratio": round(float(error.mean() / deviation), 3),
            }
    return found


def predicted(n_users: int, n_pilots: int) -> dict[str, dict[str, float]]:
    """Standard errors of a quarter of n_users that `power` predicts from pilots, by way to expose and number."""
    found: dict[str, dict[str, list[float]]] = {way: {} for way in DESIGNS}
    models = population()
    for seed in range(n_pilots):
        users = np.random.default_rng((23, seed)).integers(0, POPULATION, n_users)
        shown = uniform_items(np.random.default_rng((29, seed)), n_users, ITEMS, EXPOSURES)
        facts = facts_of(models, users, shown.ravel(), np.full(n_users, EXPOSURES), None, None)
        own = models.lists[:, users]
        for name in ("recall@20", "recall@5", "precision@20"):
            for way, share in (("half", 0.5), ("fifth", 0.2)):
                rows = power(facts, list(shown), own, ITEMS, name, 0.05, (EXPOSURES,), share, cutoffs=KS)
                kinds = {"two arms": way, "uniform": "uniform", "pair": "pair"}
                for row in rows:
                    if (row.first, row.second) == CLOSE and (way == "fifth" or row.design == "two arms"):
                        found[kinds[row.design]].setdefault(name, []).append(2 * row.standard_error)
    return {
        way: {name: float(np.sqrt(np.mean(np.square(errors)))) for name, errors in own.items()}
        for way, own in found.items()
    }


CASES = {
    "design-recall20": "recall@20 difference",
    "design-recall5": "recall@5 difference",
    "design-precision20": "precision@20 difference",
}


def main() -> None:
    """Print a line per case, then one per estimate and way to expose."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--draws", type=int, default=2000)
    options.add_argument("--users", type=int, default=3000)
    asked = options.parse_args()
    population()
    draws = {}
    with ProcessPoolExecutor() as pool:  # forked: the population is shared
        for way in DESIGNS:
            seeds = range(asked.draws)
            draws[way] = list(pool.map(one_draw, [way] * asked.draws, [asked.users] * asked.draws, seeds, chunksize=10))
    found = variances(draws)
    planned = predicted(4 * asked.users, 10)
    for case, name in CASES.items():
        plain = found["uniform"][name]["variance"]
        for way in list(DESIGNS)[1:]:
            for end in ("", ", known sizes"):
                own = found[way][name + end]
                if not end:  # what is planned is the plain estimator
                    ratio = planned[way][name.split()[0]] / np.sqrt(own["variance"])
                    own = own | {"predicted_se": round(float(ratio), 3)}
                line = {
                    "case": case,
                    "design": way + end,
                    "ratio": round(plain / own["variance"], 2),
                    "unit": "variance",
                }
                print(json.dumps(line | own), flush=True)
    for way, own in found.items():
        for name, line in own.items():
            plain = found["uniform"][name.removesuffix(", known sizes")]["variance"]
            print(
                json.dumps({"case": name, "design": way, "ratio": round(plain / line["variance"], 2)} | line),
                flush=True,
            )


if __name__ == "__main__":
    main()
