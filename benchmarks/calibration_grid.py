"""Are intervals and verdicts honest at the edges? A grid of users, exposures and positives over two kinds of worlds that
the estimators were not tuned on (benchmarks/calibration_worlds.py).

    make bench-calibration
    python -m benchmarks.calibration_grid --quick                        a look, in a minute or two
    python -m benchmarks.calibration_grid --lines grid.jsonl             keeps the lines
    python -m benchmarks.calibration_grid --from grid.jsonl --picture docs/calibration.svg

For each world, share of positives and number of exposures e, every user of a population of 20,000 is drawn SETS times:
its random exposures (for logged feedback: a log of e pairs on average, each item logged with a chance that rises with its
popularity) and, from the kernels of the estimators, its numerator and denominator under each estimator and metric. These
users with their exposures are the population of the cell: the target of an interval is the estimate over all of them
(balanced URE: the true `full_macro`). A draw takes `users` of them at random. A line per cell:

    hits              mean number of users with a hit in a draw
    coverage          share of defined 95 % intervals that hold the target
    undefined         share of draws without an interval
    width             median width of the intervals
    false_better      share of draws that tell two equal models apart, of which each wins by chance
    false_equivalent  the largest share of draws that call a model `equivalent` that is worse by 1 % or 3 %, where it
                      loses hits only, and where it also wins some (margin 1 %)
    power             share of draws of `needed` users that find a difference of 10 %; needed: users_needed of the pair
    power_equivalent  the same of a difference of 0.2 % that should be called equivalent, with users_equivalent

The worse model loses, or doubles, all of a user's numerator with a fixed chance, so that the true ratio is the same for
every metric. Aim: coverage 93 to 97 % where 30 users or more carry a hit, at least 93 % below; false_better and
false_equivalent at most 5 %; power at least 80 %; each up to two Monte Carlo errors. A cell outside has its reasons in
`outside`. Balanced URE solves 33 fits a draw, so it has a quarter of the draws, and no comparison.
"""

import argparse
import json
import math
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from rich.progress import Progress

from benchmarks.calibration_picture import picture
from benchmarks.calibration_worlds import ITEMS, KINDS, SHARES, Population, population
from eval_engine.estimators.registry import formula
from eval_engine.estimators.stratified import combine_strata
from eval_engine.estimators.user_batch import LabelSet, Propensities, UserBatch
from eval_engine.kernels.rank_facts import RankFacts
from eval_engine.statistics.balanced import Strata, balanced, lump_of
from eval_engine.statistics.comparison import Pairs, compare_groups, hit_size
from eval_engine.statistics.few_hits import interval

Doubles = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
K, SETS, AT_ONCE, BUCKETS, UNITS, FLOOR = 10, 5, 5000, 256, 32, 0.05
TERMS_AT_ONCE = 1 << 20
PILOTS = 9
MOST_NEEDED = 10_000  # users at which power is still simulated
USERS, EXPOSURES = (100, 300, 1500, 4000), (3, 5, 10, 20, 80)
SAMPLED = (
    ("ure_macro", "recall", K), ("ure_micro", "recall", K), ("ure_mean", "precision", K), ("ure_mean", "dcg", K),
    ("ure_mean", "ndcg", K), ("ure_mean", "rbp", K), ("ure_mean", "hit_rate", 1), ("ure_macro", "auc", 0),
    ("ure_macro", "map", K), ("traditional", "recall", 2), ("traditional", "precision", 2), ("traditional", "ndcg", 2),
    ("open_loop", "recall", K), ("open_loop", "ndcg", K),
)  # fmt: skip
LOGGED = (
    *(("holdout", metric, K) for metric in ("recall", "precision", "ndcg", "map", "mrr", "hit_rate")),
    ("holdout", "auc", 0),
    *((name, metric, K) for name in ("snips", "clipped", "snips_user") for metric in ("recall", "ndcg", "dcg", "rbp")),
    ("snips", "auc", 0),
)
COMPLETE = (
    *(("full_macro", metric, K) for metric in ("recall", "ndcg", "map", "mrr")),
    *(("full_mean", metric, K) for metric in ("precision", "dcg", "rbp", "hit_rate")),
    ("full_macro", "auc", 0), ("full_macro", "r_precision", 0), ("full_micro", "recall", K),
)  # fmt: skip
BALANCED, STRATIFIED = "ure_balanced recall@10", ("stratified", "stratified_balanced")


class Cell(NamedTuple):
    """What is fixed for a population."""

    kind: str
    positives: str
    exposures: int
    users: tuple[int, ...]
    draws: int


class Pool(NamedTuple):
    """The users of a cell with their exposures: terms by case, and what combined estimators need."""

    terms: dict[str, tuple[Doubles, Doubles]]
    n_positive: Ints  # exposed positives
    truth: float  # of recall, macro
    strata: tuple[Doubles, Doubles, Doubles, Doubles]  # (n_users, 2): numerators, denominators, pairs, 1 / p


def name_of(estimator: str, metric: str, k: int) -> str:
    """As it stands in the lines."""
    return f"{estimator} {metric}@{k}" if k else f"{estimator} {metric}"


def terms_of(batch: UserBatch, estimator: str, metric: str, k: int) -> tuple[Doubles, Doubles]:
    """The terms of every user of a batch."""
    own = formula(estimator, metric)
    more = {"p": 0.8} if metric == "rbp" else {}
    return own.of(batch, own.estimator.view(batch), slice(None), k, "expected", **more)


def facts_of(world: Population, users: Ints, user: Ints, item: Ints) -> RankFacts:
    """The rank facts of pairs sorted by user."""
    n, items = users.size, world.liked.shape[1]
    above, value = world.place[users[user], item], world.liked[users[user], item].astype(np.float64)
    offsets = np.searchsorted(user, np.arange(n + 1))
    level = np.zeros(above.size, np.int32)
    return RankFacts(offsets, value, np.empty(0), above, level, np.full(n, items, np.int32))


def exposed(world: Population, users: Ints, e: int, rng: np.random.Generator) -> RankFacts:
    """e random exposures of each user."""
    items = world.liked.shape[1]
    shown = np.argpartition(rng.random((users.size, items), dtype=np.float32), e - 1, axis=1)[:, :e]
    return facts_of(world, users, np.repeat(np.arange(users.size), e), shown.ravel())


def propensities(world: Population, e: int) -> Doubles:
    """The chance of each item to be logged, e in all."""
    low, high = 0.0, 1e6
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if np.clip(middle * world.popularity, 0.004, 0.9).sum() < e else (low, middle)
    return np.clip(low * world.popularity, 0.004, 0.9)


def pool_of(cell: Cell) -> Pool:
    """The population of a cell."""
    world = population(cell.kind, cell.positives)
    rng = np.random.default_rng((31, KINDS.index(cell.kind), sorted(SHARES).index(cell.positives), cell.exposures))
    n, p = world.liked.shape[0], propensities(world, cell.exposures)
    complete = COMPLETE if cell.exposures == EXPOSURES[0] else ()
    rare = p <= np.sort(p)[np.searchsorted(np.cumsum(np.sort(p)), p.sum() / 2)]  # the stratum of half of the pairs
    found: dict[str, list[tuple[Doubles, Doubles]]] = {name_of(*c): [] for c in (*SAMPLED, *LOGGED, *complete)}
    positives: list[Ints] = []
    strata: list[tuple[Doubles, ...]] = []
    for _, start in product(range(SETS), range(0, n, AT_ONCE)):
        users = np.arange(start, min(n, start + AT_ONCE))
        user, item = np.nonzero(rng.random((users.size, p.size)) < p)
        held = facts_of(world, users, user, item)
        batch = UserBatch(
            {"random": LabelSet(exposed(world, users, cell.exposures, rng)), "heldout": LabelSet(held)},
            (1, 2, K),
            propensities=Propensities({"heldout": p[item]}, float(p.max()), FLOOR),
        )
        for case in (*SAMPLED, *LOGGED):
            found[name_of(*case)].append(terms_of(batch, *case))
        positives.append(batch.sample("random").n_positive.astype(np.int64))
        strata.append(_strata_terms(held, rare[item], p[item], K))
        if complete:
            user, item = np.divmod(np.arange(users.size * p.size), p.size)
            everything = UserBatch({"truth": LabelSet(facts_of(world, users, user, item))}, (K,))
            for case in complete:
                found[name_of(*case)].append(terms_of(everything, *case))
    liked = world.liked.sum(axis=1)
    top, some = (world.liked & (world.place < K)).sum(axis=1), liked > 0
    joined = {name: tuple(np.concatenate(x) for x in zip(*parts, strict=True)) for name, parts in found.items()}
    return Pool(
        joined,  # type: ignore[arg-type]
        np.concatenate(positives),
        float((top[some] / liked[some]).mean()),
        tuple(np.concatenate(x) for x in zip(*strata, strict=True)),  # type: ignore[arg-type]
    )


def _strata_terms(held: RankFacts, rare: npt.NDArray[np.bool_], p: Doubles, k: int) -> tuple[Doubles, ...]:
    """Of each user and stratum of propensity: recall, whether there is a positive, pairs, and their 1 / p."""
    user, columns = held.user, []
    for inside in (rare, ~rare):
        good = inside & (held.value > 0)
        count = np.bincount(user[good], minlength=held.n_users).astype(np.float64)
        hits = np.bincount(user[good & (held.above < k)], minlength=held.n_users)
        pairs = np.bincount(user[inside], minlength=held.n_users).astype(np.float64)
        weight = np.bincount(user[inside], 1 / p[inside], minlength=held.n_users)
        columns.append((np.divide(hits, count, out=np.zeros(count.size), where=count > 0), count > 0, pairs, weight))
    return tuple(np.stack([c[n] for c in columns], axis=1).astype(np.float64) for n in range(4))


def line_of(cell: Cell, users: int, name: str, target: float, numbers: dict[str, Any]) -> dict[str, Any]:
    """A line, and why it is outside the aim."""
    draws, reasons = numbers["draws"], []
    slack = 2 * math.sqrt(0.05 * 0.95 / draws)
    if numbers["coverage"] is not None:
        if numbers["coverage"] < 0.93 - slack:
            reasons.append("coverage")
        if numbers["hits"] >= 30 and numbers["coverage"] > 0.97 + slack:
            reasons.append("wide")
    reasons += [key for key in ("false_better", "false_equivalent") if (numbers.get(key) or 0) > 0.05 + slack]
    for key in ("power", "power_equivalent"):
        if numbers.get(key) is not None and numbers[key] < 0.8 - 2 * math.sqrt(0.16 / numbers["power_draws"]):
            reasons.append(key)
    about = {"world": cell.kind, "positives": cell.positives, "exposures": cell.exposures, "users": users, "case": name}
    rounded = {key: round(x, 4) if isinstance(x, float) else x for key, x in numbers.items()}
    return about | {"target": round(target, 5)} | rounded | {"outside": reasons}


def covered(low: Doubles, high: Doubles, target: float, hits: float) -> dict[str, Any]:
    """Coverage of some intervals."""
    some = ~(np.isnan(low) | np.isnan(high))
    inside = (low[some] <= target + 1e-12) & (high[some] >= target - 1e-12)
    known = bool(some.any())
    return {
        "draws": low.size,
        "hits": hits,
        "coverage": float(inside.mean()) if known else None,
        "undefined": float(1 - some.mean()),
        "width": float(np.median((high - low)[some])) if known else None,
    }


def worse(uniform: Doubles, ratio: float, wins: float) -> Doubles:
    """What a user's numerator is multiplied with: 0, 1 or 2, ratio on average; 2 with chance `wins`."""
    factor: Doubles = np.ones(uniform.shape)
    factor -= uniform < wins + 1 - ratio
    factor += uniform > 1 - wins
    return factor


SCENARIOS = {"few": (0.99, 0.0), "many": (0.99, 0.1), "far": (0.97, 0.0), "equal": (1.0, 0.05)}


def compared(a: Doubles, b: Doubles, uniform: Doubles, bucket: Ints, ratio: float, wins: float) -> Pairs:
    """A model and one that is worse, in each draw: (draws, users) all."""
    draws = a.shape[0]
    place = (bucket + BUCKETS * np.arange(draws)[:, None]).ravel()
    other = a * worse(uniform, ratio, wins)
    sums = [
        np.bincount(place, x.ravel(), minlength=draws * BUCKETS).reshape(draws, BUCKETS).astype(np.float64)
        for x in (a, other, b)
    ]
    total = sums[2].sum(axis=1)
    with np.errstate(all="ignore"):
        values = np.stack([s.sum(axis=1) / total for s in sums[:2]], axis=1)
        errors = np.stack(
            [(s - v[:, None] * sums[2]) / total[:, None] for s, v in zip(sums, values.T, strict=False)], 1
        )
    both = np.stack([s.sum(axis=1) for s in sums[:2]], axis=1)
    squares = np.stack([(x * x).sum(axis=1) for x in (a, other)], axis=1)
    return compare_groups(
        values,
        errors,
        (sums[2] > 0).sum(axis=1),
        (b > 0).sum(axis=1),
        confidence=0.95,
        margin=0.01,
        power=0.8,
        hits=hit_size(both, np.broadcast_to(total[:, None], both.shape), squares),
    )


def equivalent(found: Pairs) -> npt.NDArray[np.bool_]:
    """The draws whose verdict is `equivalent`."""
    no_worse = np.maximum(found.p_no_worse_first[:, 0], found.p_no_worse_second[:, 0])
    return (found.p[:, 0] >= 0.05) & (no_worse < 0.05)


def plain_lines(cell: Cell, pool: Pool, users: int) -> Iterator[dict[str, Any]]:
    """The lines of estimators that are ratios of sums over users."""
    size = pool.n_positive.size
    at_once = max(1, TERMS_AT_ONCE // users)
    starts = range(0, cell.draws, at_once)
    for name, (a, b) in pool.terms.items():
        rng = np.random.default_rng((37, users, cell.exposures))
        of = formula(name.split()[0], name.split()[1].partition("@")[0]).range(int((name.partition("@")[2]) or 0))
        target = a.sum() / b.sum() if b.sum() > 0 else math.nan
        ends: list[tuple[Doubles, Doubles]] = []
        hits, wrong = 0.0, dict.fromkeys(SCENARIOS, 0)
        for start in starts:
            n = min(at_once, cell.draws - start)
            who, uniform, bucket = (
                rng.integers(0, size, (n, users)), rng.random((n, users)), rng.integers(0, BUCKETS, (n, users))
            )  # fmt: skip
            x, y = a[who], b[who]
            ends.append(ratio_intervals(x, y, of))
            hits += float((x > 0).sum())
            for key, (ratio, wins) in SCENARIOS.items():
                found = compared(x, y, uniform, bucket, ratio, wins)
                wrong[key] += int((found.p[:, 0] < 0.05).sum() if key == "equal" else equivalent(found).sum())
        low, high = (np.concatenate(x) for x in zip(*ends, strict=True))
        numbers = covered(low, high, target, hits / cell.draws)
        numbers["false_better"] = wrong["equal"] / cell.draws
        numbers["false_equivalent"] = max(wrong[key] for key in ("few", "many", "far")) / cell.draws
        yield line_of(cell, users, name, target, numbers)


def ratio_intervals(x: Doubles, y: Doubles, of: Any) -> tuple[Doubles, Doubles]:
    """The intervals of draws, as statistics/ratio.py has them: (draws, users) both."""
    n = (y > 0).sum(axis=1).astype(np.float64)
    total = y.sum(axis=1)
    with np.errstate(all="ignore"):
        value = np.where(total > 0, x.sum(axis=1) / total, np.nan)
        rest = np.where(y > 0, x - value[:, None] * y, 0.0)
        error = np.where(n > 1, np.sqrt(n / (n - 1) * (rest**2).sum(axis=1)) / total, np.nan)
        return interval(value, error, total**2 / (y * y).sum(axis=1), n - 1, 0.95, of)


def power_lines(cell: Cell, pool: Pool) -> Iterator[dict[str, Any]]:
    """Power at users_needed and users_equivalent, which the whole population gives."""
    rng, size = np.random.default_rng((41, cell.exposures)), pool.n_positive.size
    draws = max(50, cell.draws // 10)
    for name, (a, b) in pool.terms.items():
        numbers: dict[str, Any] = {"draws": draws, "power_draws": draws, "coverage": None, "hits": 0.0}
        for key, ratio, wins in (("power", 0.9, 0.05), ("power_equivalent", 0.998, 0.0)):
            counted = float(np.median([_needed(a, b, rng, key, ratio, wins) for _ in range(PILOTS)]))
            if not counted <= MOST_NEEDED:
                continue
            needed = max(50, math.ceil(counted))
            right = 0
            for start in range(0, draws, at_once := max(1, TERMS_AT_ONCE // needed)):
                shape = min(at_once, draws - start), needed
                who = rng.integers(0, size, shape)
                found = compared(a[who], b[who], rng.random(shape), rng.integers(0, BUCKETS, shape), ratio, wins)
                first = np.maximum(found.p_no_worse_first[:, 0], found.p_no_worse_second[:, 0]) < 0.05
                right += int((found.p[:, 0] < 0.05).sum() if key == "power" else first.sum())
            numbers |= {key: right / draws, f"needed_{key}": needed}
        yield line_of(cell, 0, name, float(a.sum() / b.sum()) if b.sum() > 0 else math.nan, numbers)


def _needed(a: Doubles, b: Doubles, rng: np.random.Generator, key: str, ratio: float, wins: float) -> float:
    """The users of a draw that a pilot of 100,000 users asks for."""
    who = rng.integers(0, a.size, (1, 100_000))
    x, y = a[who], b[who]
    pilot = compared(x, y, rng.random(who.shape), rng.integers(0, BUCKETS, who.shape), ratio, wins)
    of_draw = who.size / max(int((y > 0).sum()), 1)
    if key == "power_equivalent":
        return float(pilot.users_equivalent[0, 0] * of_draw)
    with np.errstate(all="ignore"):  # had the pilot hit the true difference
        true = (1 - ratio) * x.sum() / y.sum()
        return float(pilot.users_needed[0, 0] * (pilot.difference[0, 0] / true) ** 2 * of_draw)


def balanced_line(cell: Cell, pool: Pool, users: int) -> dict[str, Any]:
    """The line of balanced URE."""
    a, _ = pool.terms[name_of("ure_macro", "recall", K)]
    rng, ends, hits = np.random.default_rng((43, users, cell.exposures)), [], 0.0
    of = formula("ure_balanced", "recall").range(K)
    for _ in range(max(10, cell.draws // 4)):
        who = rng.integers(0, a.size, users)
        kinds, which = np.unique(lump_of(pool.n_positive[who]), return_inverse=True)
        row = np.arange(users) % UNITS * kinds.size + which
        columns = [
            np.bincount(row, x, minlength=UNITS * kinds.size).reshape(UNITS, -1).astype(np.float64)
            for x in (None, a[who], a[who] ** 2)
        ]
        e, items = np.full(kinds.size, cell.exposures), np.full(kinds.size, ITEMS)
        found = balanced(Strata(e, items, kinds, columns[0], columns[1][None], columns[2][None]))
        seen = int((pool.n_positive[who] > 0).sum())
        low, high = interval(found.models.values, found.standard_errors(), seen, found.degrees(), 0.95, of)
        ends.append((low[0], high[0]))
        hits += float((a[who] > 0).sum())
    low, high = np.array(ends).T
    return line_of(cell, users, BALANCED, pool.truth, covered(low, high, pool.truth, hits / len(ends)))


def stratified_lines(cell: Cell, pool: Pool, users: int) -> Iterator[dict[str, Any]]:
    """The lines of estimators over two strata of propensity with equal numbers of pairs."""
    a, b, pairs, weight = pool.strata
    of = formula("holdout", "recall").range(K)._replace(heavy=True)
    for name, share in zip(STRATIFIED, (pairs, weight), strict=True):
        parts = [x.sum(axis=0)[:, None] for x in (a, b, share)]
        target = float(combine_strata(parts[0][None], parts[1][None], parts[2]).values[0])
        rng, ends, hits = np.random.default_rng((47, users, cell.exposures)), [], 0.0
        for _ in range(cell.draws):
            who, unit = rng.integers(0, a.shape[0], users), rng.integers(0, UNITS, users)
            by_unit = [
                np.stack([np.bincount(unit, x[who, n], minlength=UNITS) for n in range(2)]).astype(np.float64)
                for x in (a, b, share)
            ]
            found = combine_strata(by_unit[0][None], by_unit[1][None], by_unit[2])
            n = int((by_unit[1] > 0).any(axis=0).sum())
            error = math.sqrt(n / (n - 1) * float((found.errors[0] ** 2).sum())) if n > 1 else math.nan
            counted = float((b[who].sum(axis=1) > 0).sum())
            ends.append(interval(found.values[0], error, counted, max(n - 1, 1), 0.95, of))
            hits += float((a[who].sum(axis=1) > 0).sum())
        low, high = np.array(ends, np.float64).T
        yield line_of(cell, users, name_of(name, "recall", K), target, covered(low, high, target, hits / cell.draws))


def lines_of(cell: Cell) -> list[dict[str, Any]]:
    """All lines of a population."""
    pool = pool_of(cell)
    lines = list(power_lines(cell, pool))
    for users in cell.users:
        lines += plain_lines(cell, pool, users)
        lines.append(balanced_line(cell, pool, users))
        lines += stratified_lines(cell, pool, users)
    return lines


def summary(lines: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """A line per estimator and metric: its worst cells."""
    for name in sorted({line["case"] for line in lines}):
        own = [line for line in lines if line["case"] == name]
        cover = [line["coverage"] for line in own if line["coverage"] is not None]
        yield {
            "case": name,
            "cells": len(own),
            "outside": sum(bool(line["outside"]) for line in own),
            "least_coverage": min(cover, default=None),
            "largest_coverage_30": max(
                (x["coverage"] for x in own if x["coverage"] is not None and x["hits"] >= 30), default=None
            ),
            "false_better": max((line.get("false_better") or 0.0 for line in own), default=0.0),
            "false_equivalent": max((line.get("false_equivalent") or 0.0 for line in own), default=0.0),
            "least_power": min((x["power"] for x in own if x.get("power") is not None), default=None),
            "least_power_equivalent": min(
                (x["power_equivalent"] for x in own if x.get("power_equivalent") is not None), default=None
            ),
        }


def main() -> None:
    """Print a line per cell outside the aim, and a line per estimator and metric."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--draws", type=int, default=1000)
    options.add_argument("--quick", action="store_true", help="200 draws; 100 and 1,500 users; 3 and 20 exposures")
    options.add_argument("--lines", type=Path, help="file for the line of every cell")
    options.add_argument("--from", dest="kept", type=Path, help="lines of an earlier run, instead of a run")
    options.add_argument("--picture", type=Path, help="file for the picture, an SVG")
    asked = options.parse_args()
    lines: list[dict[str, Any]] = []
    if asked.kept:
        lines = [json.loads(line) for line in asked.kept.read_text().splitlines()]
    else:
        draws = asked.draws
        users: tuple[int, ...] = USERS
        exposures: tuple[int, ...] = EXPOSURES
        if asked.quick:
            draws, users, exposures = min(draws, 200), (100, 1500), (3, 20)
        cells = [Cell(*what, users, draws) for what in product(KINDS, sorted(SHARES), exposures)]
        with Progress() as progress, ProcessPoolExecutor(2) as pool:
            bar = progress.add_task("Drawing", total=len(cells))
            for own in pool.map(lines_of, cells):
                lines += own
                progress.advance(bar)
    if asked.lines:
        asked.lines.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    for line in lines:
        if line["outside"]:
            print(json.dumps(line))
    for line in summary(lines):
        print(json.dumps(line))
    if asked.picture:
        asked.picture.write_text(picture(lines))


if __name__ == "__main__":
    main()
