"""The population of a cell of benchmarks/calibration_grid.py: the terms of users with their exposures, under every
estimator and metric of the registry, from the estimators' own kernels.

Every user of a population of 20,000 is drawn SETS times: its random exposures, its designed exposures (half of them by
arm U, half from the model's top list), and a log of e pairs on average, each item logged with a chance that rises with
its popularity. What does not depend on exposures (complete labels, top lists) is told for the least e only.

Left out: what has no interval (ips, coverage, gini) or is undefined; exposure_share, which of everything is 1, and of a
class what tail_share is. ndcg_compressed is that of class low.
"""

from collections.abc import Iterator
from itertools import product
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from benchmarks.calibration_worlds import KINDS, SHARES, Population, population
from eval_engine.estimators.estimator import Estimator, MetricTerms, undefined_terms
from eval_engine.estimators.holdout import HOLDOUT
from eval_engine.estimators.metrics.parity import CLASSES
from eval_engine.estimators.registry import ESTIMATORS, METRICS, formula, terms_of
from eval_engine.estimators.stratified import STRATIFIED, STRATIFIED_BALANCED
from eval_engine.estimators.test_set import COMBINED
from eval_engine.estimators.user_batch import (
    LabelSet,
    Propensities,
    TopLists,
    UserBatch,
    list_items,
    list_set,
    popularity_columns,
)
from eval_engine.exposure_design.design import design_exposures
from eval_engine.kernels.rank_facts import RankFacts
from eval_engine.statistics.few_hits import Range

Doubles = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
K, SETS, AT_ONCE, FLOOR, DRAWS_OF_SET = 10, 5, 5000, 0.05, 3
EXPOSURES = (3, 5, 10, 20, 80)
TRADITIONAL_K = 2
COMBINED_METRICS = ("recall", "precision", "ndcg", "map")
SKIPPED = {"ips", "test_set", "ure_balanced"}  # without an interval; combined; has lines of its own
FIXED = frozenset({"truth", "top", "popularity"})  # what does not depend on the exposures
CLASS_METRICS = ("p_reo", "p_reo_by_user", "p_rsp", "p_rsp_by_user")


class Case(NamedTuple):
    """An estimator and a metric."""

    estimator: str
    metric: str
    k: int
    range: Range
    compared: bool  # more is better: models are compared

    def __str__(self) -> str:
        return f"{self.estimator} {self.metric}@{self.k}" if self.k else f"{self.estimator} {self.metric}"


class Combined(NamedTuple):
    """A case whose value is combined from several sums of users: the columns of its numerators, denominators and
    weights by part (stratum, draw of a test set, class of popularity).
    """

    case: Case
    a: Ints
    b: Ints
    weights: Ints


class Pool(NamedTuple):
    """The users of a cell with their exposures."""

    cases: list[Case]
    a: Doubles  # (users, n_cases): numerators
    b: Doubles  # denominators
    columns: Doubles  # (users, n_columns), of the cases that are combined
    combined: list[Combined]
    n_positive: Ints  # exposed positives
    ratio: Doubles  # share of them in the top K
    truth: float  # of recall, macro


def plain_cases(complete: bool) -> list[tuple[Case, MetricTerms]]:
    """Every estimator and metric that is a ratio of sums over users and has an interval."""
    found = []
    for estimator, kernel in product(ESTIMATORS.values(), METRICS.values()):
        own = terms_of(estimator, kernel, logged=True)
        if own is None or own.terms is undefined_terms or estimator.name in SKIPPED:
            continue
        if own.metric == "exposure_share" or own.over_classes:
            continue
        k = TRADITIONAL_K if estimator.name == "traditional" else 1 if str(own) == "ure_mean hit_rate" else K
        k = k if kernel.at_k else 0
        if complete or not is_fixed(own):
            found.append((Case(estimator.name, own.metric, k, own.range(k), kernel.ordered), own))
    return found


def is_fixed(own: MetricTerms) -> bool:
    """Whether the exposures and the log do not matter."""
    return own.estimator.needs | own.needs <= FIXED


def combined_cases(complete: bool) -> list[Combined]:
    """The cases whose parts stand in the columns of a pool, in the order of `parts_of`."""
    n, m = len(COMBINED_METRICS), np.arange(len(COMBINED_METRICS))
    strata, found = np.arange(2)[:, None] * 2 * n, []
    weights = 4 * n + np.arange(4)
    sets = 4 * n + 4 + np.arange(DRAWS_OF_SET)[:, None] * 2 * n
    for estimator, starts, share in (
        (STRATIFIED, strata, weights[:2]),
        (STRATIFIED_BALANCED, strata, weights[2:]),
        (COMBINED, sets, weights[:0]),
    ):
        a, b = starts + 2 * m, starts + 2 * m + 1
        for metric, own_a, own_b in zip(COMBINED_METRICS, a.T, b.T, strict=True):
            of = formula("holdout", metric)._replace(estimator=estimator).range(K)
            found.append(Combined(Case(estimator.name, metric, K, of, True), own_a, own_b, share))
    start = 4 * n + 4 + 2 * n * DRAWS_OF_SET
    for metric in class_metrics(complete):
        case = Case("lists", metric, K, formula("lists", metric).range(K), False)
        found.append(Combined(case, start + np.arange(3), start + 3 + np.arange(3), weights[:0]))
        start += 6
    return found


def class_metrics(complete: bool) -> tuple[str, ...]:
    """Those of all lists together do not depend on the log."""
    return CLASS_METRICS if complete else CLASS_METRICS[:2]


def facts_of(world: Population, users: Ints, user: Ints, item: Ints, probability: Doubles | None = None) -> RankFacts:
    """The rank facts of pairs sorted by user."""
    n, items = users.size, world.liked.shape[1]
    pair = users[user] * items + item
    above, value = world.place.ravel()[pair], world.liked.ravel()[pair].astype(np.float64)
    offsets = np.concatenate([[0], np.cumsum(np.bincount(user, minlength=n))])
    level = np.zeros(above.size, np.int32)
    return RankFacts(offsets, value, np.empty(0), above, level, np.full(n, items, np.int32), probability)


def exposed(world: Population, users: Ints, e: int, rng: np.random.Generator) -> RankFacts:
    """e random exposures of each user."""
    items = world.liked.shape[1]
    shown = np.argpartition(rng.random((users.size, items), dtype=np.float32), e - 1, axis=1)[:, :e]
    return facts_of(world, users, np.repeat(np.arange(users.size), e), shown.ravel())


def designed(world: Population, users: Ints, e: int, rng: np.random.Generator) -> RankFacts:
    """The exposures of a design for the model: half from all items, half from its top list."""
    lists = np.argsort(world.place[users], axis=1, kind="stable")[None, :, :K]
    seed = int(rng.integers(2**31))
    plan = design_exposures(lists, world.liked.shape[1], e, seed=seed, cutoffs=(K,))
    user = np.repeat(np.arange(users.size), [len(items) for items in plan.items])
    return facts_of(world, users, user, np.concatenate(plan.items), np.concatenate(plan.probabilities))


def propensities(world: Population, e: int) -> Doubles:
    """The chance of each item to be logged, e in all."""
    low, high = 0.0, 1e6
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if np.clip(middle * world.popularity, 0.004, 0.9).sum() < e else (low, middle)
    return np.clip(low * world.popularity, 0.004, 0.9)


class Group(NamedTuple):
    """Some users of a population with their exposures."""

    world: Population
    users: Ints
    e: int
    p: Doubles  # of each item, to be logged
    classes: Ints  # of each item: 0 low, 1 middle, 2 high
    rare: npt.NDArray[np.bool_]  # items of the stratum of half of the pairs
    user: Ints  # of each logged pair
    item: Ints
    batch: UserBatch

    @property
    def held(self) -> LabelSet:
        """The log."""
        return self.batch.labels["heldout"]

    def class_of(self, name: str) -> Ints:
        """The class of popularity of each positive of a label set."""
        if name == "heldout":
            return self.classes[self.item][self.held.facts.value > 0]
        assert self.batch.top is not None
        return self.classes[self.batch.top.items]


def group_of(world: Population, users: Ints, e: int, rng: np.random.Generator) -> Group:
    """These users with new exposures."""
    p, items = propensities(world, e), world.liked.shape[1]
    user, item = np.nonzero(rng.random((users.size, items), dtype=np.float32) < p)
    every_user, every_item = np.divmod(np.arange(users.size * items), items)
    top = np.argsort(world.place[users], axis=1, kind="stable")[:, :K].ravel()
    offsets = np.arange(users.size + 1) * K
    classes = np.searchsorted(np.quantile(p, (0.6, 0.9)), p)
    sizes = np.bincount(classes, minlength=len(CLASSES)).astype(np.float64)[:, None]
    counts = np.round(400 * world.popularity) + 1
    popularity = popularity_columns(counts, (classes == 0) * 1.0, 20_000)
    listed = list_items(top, popularity, np.repeat(sizes, users.size, 1))
    lists = list_set(offsets, np.full(users.size, items, np.int32))
    labels = {
        "random": LabelSet(exposed(world, users, e, rng)),
        "designed": LabelSet(designed(world, users, e, rng)),
        "heldout": LabelSet(facts_of(world, users, user, item), key=keys(users[user], item)),
        "truth": LabelSet(facts_of(world, users, every_user, every_item)),
        "top": lists._replace(key=keys(np.repeat(users, K), top)),
    }
    logged = Propensities({"heldout": p[item]}, 1.0, FLOOR)
    batch = UserBatch(labels, (1, TRADITIONAL_K, K), TopLists(offsets, top), propensities=logged, list_items=listed)
    below = np.cumsum(np.sort(p))
    rare = p <= np.sort(p)[np.searchsorted(below, below[-1] / 2)]
    return Group(world, users, e, p, classes, rare, user, item, batch)


def keys(user: Ints, item: Ints) -> npt.NDArray[np.uint64]:
    """A number of each pair."""
    return (user * 1000 + item).astype(np.uint64)


def terms_in(group: Group, own: MetricTerms, k: int) -> tuple[Doubles, Doubles]:
    """The terms of the users."""
    if own.by_class:  # of class low
        low = own.by_class(group.batch, own.estimator.view(group.batch), group.class_of, k, "expected")
        return low[0][0], low[1][0]
    parameters = {name: one.default for name, one in METRICS[own.metric].parameters.items()}
    a, b = own.of(group.batch, own.estimator.view(group.batch), slice(None), k, "expected", **parameters)
    return np.where(b > 0, a, 0.0), b


def parts_of(group: Group, complete: bool, rng: np.random.Generator) -> Iterator[Doubles]:
    """The columns of `combined_cases`, each (n_users,)."""
    facts, n = group.held.facts, group.users.size
    inside = group.rare[group.item]
    for pairs in (inside, ~inside):
        yield from _holdout_terms(group, pairs, STRATIFIED)
    for weight in (np.ones(group.item.size), 1 / group.p[group.item]):
        for pairs in (inside, ~inside):
            yield np.bincount(group.user[pairs], weight[pairs], minlength=n).astype(np.float64)
    for _ in range(DRAWS_OF_SET):
        yield from _holdout_terms(group, rng.random(facts.value.size) < 0.5, COMBINED)
    for metric in class_metrics(complete):
        own = formula("lists", metric)
        assert own.by_class is not None
        a, b = own.by_class(group.batch, own.estimator.view(group.batch), group.class_of, K, "expected")
        yield from a
        yield from b


def _holdout_terms(group: Group, pairs: npt.NDArray[np.bool_], estimator: Estimator) -> Iterator[Doubles]:
    """Numerators and denominators of holdout with these pairs' positives only."""
    labels = {"heldout": group.held._replace(positive=pairs & (group.held.facts.value > 0))}
    batch = UserBatch(labels, (K,))
    for metric in COMBINED_METRICS:
        own = formula("holdout", metric)._replace(estimator=HOLDOUT._replace(user_weight=estimator.user_weight))
        a, b = own.of(batch, own.estimator.view(batch), slice(None), K, "expected")
        yield np.where(b > 0, a, 0.0)
        yield b


def pool_of(kind: str, positives: str, e: int) -> Pool:
    """The population of a cell."""
    world = population(kind, positives)
    rng = np.random.default_rng((31, KINDS.index(kind), sorted(SHARES).index(positives), e))
    n, complete = world.liked.shape[0], e == EXPOSURES[0]
    plain, combined = plain_cases(complete), combined_cases(complete)
    n_columns = max(int(max(x.max(initial=0) for x in one[1:])) for one in combined) + 1
    a, b, columns = np.empty((SETS * n, len(plain))), np.empty((SETS * n, len(plain))), np.empty((SETS * n, n_columns))
    n_positive, ratio = np.empty(SETS * n, np.int64), np.empty(SETS * n)
    for number, start in product(range(SETS), range(0, n, AT_ONCE)):
        users = np.arange(start, min(n, start + AT_ONCE))
        first, rows = slice(start, start + users.size), slice(number * n + start, number * n + start + users.size)
        group = group_of(world, users, e, rng)
        for c, (case, own) in enumerate(plain):
            if number and (is_fixed(own) or "truth" in own.estimator.needs):  # the same in every set
                a[rows, c], b[rows, c] = a[first, c], b[first, c]
            else:
                a[rows, c], b[rows, c] = terms_in(group, own, case.k)
        sample = group.batch.sample("random")
        found, hits = sample.n_positive, sample.summed("hits", K, "expected")
        n_positive[rows], ratio[rows] = found, np.divide(hits, found, out=np.zeros(found.size), where=found > 0)
        for c, column in enumerate(parts_of(group, complete, rng)):
            columns[rows, c] = column
    assert all(np.isfinite(x).all() for x in (a, b, columns))
    liked = world.liked.sum(axis=1)
    top, some = (world.liked & (world.place < K)).sum(axis=1), liked > 0
    truth = float((top[some] / liked[some]).mean())
    return Pool([case for case, _ in plain], a, b, columns, combined, n_positive, ratio, truth)
