"""The study of designed exposures: how much smaller is the variance of the difference of two close models under a plan
than under uniform exposure, what the rule predicts, and whether intervals cover (docs/design.md).

Each draw takes users at random from a population whose likes are known (datasets/close_models.py) and shows each of
them e items of N, uniformly and by plans from the top lists of M models. A case is N, M, how far the close models are
apart, e and K. By case, plan and estimate of the difference, over draws:

    gain        variance of the plain estimate under uniform exposure / variance of the estimate under the plan
    predicted   a + (1 - a) N / |T_u|, a = e1 / e, at most N / e             exposure_design/design.py
    coverage    share of draws whose interval contains the truth
    se_ratio    root of the mean squared standard error / standard deviation over draws

A draw's sums are added up in blocks of fixed size, so that the result does not depend on who computed which block.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eval_engine.datasets.close_models import CLOSE, CloseModels, close_models
from eval_engine.datasets.world import World
from eval_engine.estimators.in_memory import compare
from eval_engine.exposure_design.design import Aim, expected_gain, flat_plan
from eval_engine.exposure_design.known_sizes import recall_difference
from eval_engine.exposure_design.power import arm_u
from eval_engine.kernels.rank_facts import RankFacts
from eval_engine.spark.worker_process import prepare_worker
from eval_engine.studies.settings import DesignCase, DesignStudy

Ints = npt.NDArray[np.integer[Any]]
Interval = tuple[float, float, float, float]  # value, standard error, low, high
BLOCK = 25  # draws of a task


class Plan(NamedTuple):
    """A way to expose: the share of arm U, and what the plan is made for and of."""

    uniform: float
    aim: Aim = "models"
    pair: bool = False  # of the lists of the close models only


UNIFORM = "uniform"
PLANS = {"half": Plan(0.5), "fifth": Plan(0.2), "pair": Plan(0.2, "differences", True)}
ESTIMATES = tuple((metric, known) for metric in ("recall", "precision") for known in (False, True))
N_SUMS = 6
SUMS = "case INT, way INT, first INT, truth DOUBLE, share DOUBLE, sums ARRAY<DOUBLE>"
SUMS_ARROW = pa.schema(
    [*((name, pa.int32()) for name in ("case", "way", "first")), ("truth", pa.float64()), ("share", pa.float64()),
     ("sums", pa.list_(pa.float64()))]
)  # fmt: skip


class Block(NamedTuple):
    """A task: some draws of all cases of one population."""

    items: int
    apart: float
    first: int  # number of the first draw
    n_draws: int


class Sums(NamedTuple):
    """What a block's draws add up to, by case and way."""

    case: int  # its number
    way: int  # its number in ways_of
    first: int  # draw of the block
    truth: float
    share: float  # of the frame that arm T may show, mean over users; NaN for uniform exposure
    sums: list[float]  # draws with an interval, errors, their squares, squared standard errors, intervals that contain
    # the truth, draws without an interval


class Line(NamedTuple):
    """A row of the table design_study, without run_id."""

    items: int
    models: int
    apart: float
    exposures: int
    k: int
    plan: str
    uniform: int
    metric: str
    known_sizes: bool
    n_users: int
    n_draws: int
    n_undefined: int
    truth: float
    bias: float | None
    variance: float | None
    se_ratio: float | None
    coverage: float | None
    share_listed: float | None
    gain: float | None
    predicted_gain: float | None


def cases_of(study: DesignStudy) -> list[DesignCase]:
    """The base, and it with each varied value in the place of its own."""
    found = [study.base]
    for name, values in study.vary:
        found += [study.base.model_copy(update={name: value}) for value in values]
    return list(dict.fromkeys(found))


def blocks_of(study: DesignStudy) -> list[Block]:
    """The tasks, those of one population one after the other."""
    kinds = list(dict.fromkeys((case.items, case.apart) for case in cases_of(study)))
    firsts = range(0, study.draws, BLOCK)
    return [Block(*kind, first, min(BLOCK, study.draws - first)) for kind in kinds for first in firsts]


@lru_cache(maxsize=1)
def population(study: DesignStudy, items: int, apart: float) -> CloseModels:
    """The population of some cases, made once per process."""
    own = [case for case in cases_of(study) if (case.items, case.apart) == (items, apart)]
    world = World(users=study.population, items=items, exposures=1, shown=1, frame="all_items", seed=study.seed)
    return close_models(world, max(case.models for case in own), max(case.k for case in own), apart)


def uniform_items(rng: np.random.Generator, n_users: int, n_items: int, exposures: int) -> Ints:
    """Items drawn uniformly without replacement, (n_users, exposures)."""
    if 3 * exposures > n_items:
        return rng.random((n_users, n_items)).argsort(axis=1)[:, :exposures]
    found = rng.integers(0, n_items, (n_users, exposures))
    while True:  # rows with an item twice are drawn again
        ordered = np.sort(found, axis=1)
        twice = np.flatnonzero((ordered[:, 1:] == ordered[:, :-1]).any(axis=1))
        if not twice.size:
            return found
        found[twice] = rng.integers(0, n_items, (twice.size, exposures))


def facts_of(models: CloseModels, users: Ints, shown: Ints, sizes: Ints, chance: Any, arm: Any) -> list[RankFacts]:
    """The facts of the ranked models on items shown to users, one user after the other."""
    user, nothing = np.repeat(users, sizes), np.empty(0, np.float32)
    offsets, level = np.concatenate([[0], np.cumsum(sizes)]), np.zeros(shown.size, np.int32)
    frame = np.full(users.size, models.liked.shape[1], np.int32)
    value = models.liked[user, shown].astype(np.float64)
    return [
        RankFacts(offsets, value, nothing, own[user, shown].astype(np.int32), level, frame, chance, arm)
        for own in models.ranks
    ]


def shown_uniformly(models: CloseModels, users: Ints, exposures: int, seed: int) -> list[RankFacts]:
    """The facts of the ranked models on items drawn uniformly for these users."""
    shown = uniform_items(np.random.default_rng((3, seed)), users.size, models.liked.shape[1], exposures)
    return facts_of(models, users, shown.ravel(), np.full(users.size, exposures), None, None)


def shown_by_plan(
    models: CloseModels, users: Ints, of: Sequence[int], exposures: int, uniform: int, cutoffs: Sequence[int], aim: Aim,
    seed: int,
) -> list[RankFacts]:  # fmt: skip
    """The facts of the ranked models on what a plan from the lists of some models shows these users."""
    lists = models.lists[list(of)][:, users]
    plan = flat_plan(lists, models.liked.shape[1], exposures, uniform, seed, cutoffs=cutoffs, aim=aim)
    return facts_of(models, users, plan.items, np.diff(plan.offsets), plan.probabilities, plan.in_uniform)


def truths(models: CloseModels, k: int) -> dict[str, float]:
    """The difference of the close models over the whole population, by metric."""
    hits = [int((models.liked & (own < k)).sum()) for own in models.ranks]
    found = float(hits[0] - hits[1])
    return {"recall": found / int(models.liked.sum()), "precision": found / (k * models.liked.shape[0])}


def estimated(facts: Sequence[RankFacts], metric: str, known: bool, k: int, designed: bool) -> Interval:
    """The difference of the close models: its value, standard error, low and high."""
    arm, (a, b) = "designed" if designed else "ure", facts
    if metric == "recall" and known:
        own = recall_difference(a, b, k)
        return own.value, own.standard_error, own.low, own.high
    kind = "micro" if metric == "recall" else "mean_known" if known else "mean"
    found = compare(a, b, f"{arm}_{kind}", f"{metric}@{k}")
    return found.difference, found.standard_error, found.low, found.high


def ways_of(case: DesignCase) -> list[tuple[str, str, bool]]:
    """Every way to expose with every estimate that is given under it."""
    return [
        (way, metric, known)
        for way in (UNIFORM, *PLANS)
        for metric, known in ESTIMATES
        if not (known and way == "pair")  # sizes are then known from items that are hardly ever shown
    ]


def sums_of(study: DesignStudy, block: Block) -> Iterator[Sums]:
    """The sums of every way of every case of a block's population."""
    models = population(study, block.items, block.apart)
    for number, case in enumerate(cases_of(study)):
        if (case.items, case.apart) != (block.items, block.apart):
            continue
        ways, truth = ways_of(case), truths(models, case.k)
        shares = {way: share_listed(models, case, way) for way in PLANS}
        sums = np.zeros((len(ways), N_SUMS))
        for draw in range(block.first, block.first + block.n_draws):
            users = np.random.default_rng((19, study.seed, draw)).integers(0, study.population, study.users)
            for way in (UNIFORM, *PLANS):
                facts = exposed(models, users, case, way, study.seed + draw)
                for n, (own, metric, known) in enumerate(ways):
                    if own == way:
                        found = estimated(facts, metric, known, case.k, way != UNIFORM)
                        sums[n] += _summed(found, truth[metric])
        for n, (way, metric, _) in enumerate(ways):
            yield Sums(number, n, block.first, truth[metric], shares.get(way, math.nan), sums[n].tolist())


def summed(study: DesignStudy) -> Any:
    """The function that does blocks, given by their numbers: SUMS out."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        prepare_worker()
        blocks = blocks_of(study)
        for batch in batches:
            for number in batch.column(0).to_pylist():
                rows = list(sums_of(study, blocks[number]))
                yield pa.RecordBatch.from_pylist([row._asdict() for row in rows], schema=SUMS_ARROW)

    return run


def exposed(models: CloseModels, users: Ints, case: DesignCase, way: str, seed: int) -> list[RankFacts]:
    """The facts of the close models on what a way to expose shows these users."""
    if way == UNIFORM:
        return shown_uniformly(models, users, case.exposures, seed)
    plan = PLANS[way]
    of = CLOSE if plan.pair else range(case.models)
    uniform = arm_u(case.exposures, plan.uniform)
    return shown_by_plan(models, users, of, case.exposures, uniform, (case.k,), plan.aim, seed)


def _summed(found: Interval, truth: float) -> npt.NDArray[np.float64]:
    value, error, low, high = found
    if math.isnan(value) or math.isnan(low):
        return np.array([0, 0, 0, 0, 0, 1.0])
    off = value - truth
    return np.array([1.0, off, off**2, error**2, float(low <= truth <= high), 0.0])


def share_listed(models: CloseModels, case: DesignCase, way: str) -> float:
    """The share of the frame that arm T may show, mean over users: items in any list, or for differences of two models
    in one list and not in the other."""
    plan = PLANS[way]
    own = models.lists[list(CLOSE) if plan.pair else slice(case.models), :, : case.k]
    ordered = np.sort(own.transpose(1, 0, 2).reshape(own.shape[1], -1), axis=1)
    listed = 1 + (ordered[:, 1:] != ordered[:, :-1]).sum(axis=1)
    return float((2 * (listed - case.k) if plan.aim == "differences" else listed).mean()) / case.items


def lines_of(study: DesignStudy, rows: Iterable[Sums]) -> list[Line]:
    """The rows of the study from the sums of all blocks, added up in the order of the draws."""
    sums: dict[tuple[int, int], npt.NDArray[np.float64]] = {}
    facts: dict[tuple[int, int], Sums] = {}
    for row in sorted(rows, key=lambda row: row.first):
        key = row.case, row.way
        sums[key] = sums.get(key, np.zeros(N_SUMS)) + np.array(row.sums)
        facts[key] = row
    lines = []
    for number, case in enumerate(cases_of(study)):
        ways = ways_of(case)
        variances = {way: _moments(sums[number, n])[1] for n, way in enumerate(ways)}
        for n, (way, metric, known) in enumerate(ways):
            own, of = sums[number, n], facts[number, n]
            bias, variance, error = _moments(own)
            plain = variances[UNIFORM, metric, False]
            uniform = case.exposures if way == UNIFORM else arm_u(case.exposures, PLANS[way].uniform)
            share = _known(of.share)
            lines.append(
                Line(
                    **case.model_dump(),
                    plan=way,
                    uniform=uniform,
                    metric=metric,
                    known_sizes=known,
                    n_users=study.users,
                    n_draws=study.draws,
                    n_undefined=int(own[5]),
                    truth=of.truth,
                    bias=_known(bias),
                    variance=_known(variance),
                    se_ratio=_known(math.sqrt(error / variance) if variance > 0 else math.nan),
                    coverage=float(own[4] / own[0]) if own[0] else None,
                    share_listed=share,
                    gain=_known(plain / variance if variance > 0 else math.nan),
                    predicted_gain=None if share is None else expected_gain(case.exposures, uniform, case.items, share),
                )
            )
    return lines


def _moments(sums: npt.NDArray[np.float64]) -> tuple[float, float, float]:
    """Mean error, variance and mean squared standard error over draws."""
    n = sums[0]
    if n < 2:
        return math.nan, math.nan, math.nan
    return float(sums[1] / n), float((sums[2] - sums[1] ** 2 / n) / (n - 1)), float(sums[3] / n)


def _known(x: float) -> float | None:
    return None if math.isnan(x) else x
