"""Are intervals and verdicts honest at the edges? A grid of users, exposures and positives over two kinds of worlds
that the estimators were not tuned on (benchmarks/calibration_worlds.py).

    make bench-calibration
    python -m benchmarks.calibration_grid --quick                        a look, in a minute or two
    python -m benchmarks.calibration_grid --lines grid.jsonl             keeps the lines
    python -m benchmarks.calibration_grid --kind communities             one kind of worlds, in one process
    python -m benchmarks.calibration_grid --from grid.jsonl --picture docs/calibration.svg

For each world, share of positives and number of exposures e there is a population of users with their exposures
(benchmarks/calibration_pool.py): the target of an interval is the estimate over all of them (balanced URE: the true
`full_macro`). A draw takes `users` of them at random. A line per cell:

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
`outside`. Users are drawn by compiled code, the same for all estimators and metrics (benchmarks/calibration_sums.py);
intervals and verdicts are those of the product. Power is told for pairs that need at most 10,000 users.
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
from benchmarks.calibration_pool import CLASS_METRICS, EXPOSURES, Case, Combined, K, Pool, pool_of
from benchmarks.calibration_sums import (
    AA,
    AB,
    APART,
    BB,
    BOTH,
    BUCKETS_WITH,
    FIRST,
    HITS,
    OTHER_A,
    OTHER_AA,
    A,
    B,
    N,
    draw_sums,
    stratum_sums,
    unit_sums,
)  # fmt: skip
from benchmarks.calibration_worlds import ITEMS, KINDS, SHARES
from eval_engine.estimators.registry import formula
from eval_engine.estimators.stratified import combine_strata
from eval_engine.estimators.test_set import combine_draws
from eval_engine.evaluation.class_variation import SLICES, over_classes
from eval_engine.evaluation.strata import Linear
from eval_engine.kernels.arrays import Floats
from eval_engine.statistics.balanced import Strata, balanced, lump_of, lumps
from eval_engine.statistics.comparison import Pairs, compare_groups, hit_size
from eval_engine.statistics.few_hits import Range, interval
from eval_engine.statistics.paired import Paired

Doubles = npt.NDArray[np.float64]
PILOTS, PILOT_USERS = 9, 100_000
MOST_NEEDED = 10_000  # users at which power is still simulated
USERS = (100, 300, 1500, 4000)
BALANCED = "ure_balanced recall@10"
EQUAL = 3  # the scenario of equal models
SCENARIOS = np.array([(0.99, 0.0), (0.99, 0.1), (0.97, 0.0), (1.0, 0.05)])  # ratio, chance to win
NEEDED = np.array([(0.9, 0.05), (0.998, 0.0)])
POWERS = ("power", "power_equivalent")


class Cell(NamedTuple):
    """What is fixed for a population."""

    kind: str
    positives: str
    exposures: int
    users: tuple[int, ...]
    draws: int


def line_of(cell: Cell, users: int, name: str, target: float, numbers: dict[str, Any]) -> dict[str, Any]:
    """A line, and why it is outside the aim."""
    draws, reasons = numbers["draws"], []
    slack = 2 * math.sqrt(0.05 * 0.95 / draws)
    defined = 2 * math.sqrt(0.05 * 0.95 / max(draws * (1 - numbers.get("undefined", 0.0)), 1))
    if numbers["coverage"] is not None:
        if numbers["coverage"] < 0.93 - defined:
            reasons.append("coverage")
        if numbers["hits"] >= 30 and numbers["coverage"] > 0.97 + defined:
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


def compared(values: Doubles, grams: Doubles, units: Doubles, users: Doubles, hits: Floats) -> Pairs:
    """Pairs of models: values (n, 2); of their errors by bucket e and e + d, sum e^2, sum e d and sum d^2 (n, 3);
    buckets and users with a denominator (n,); what a user's hit adds to a value (n, 2).
    """
    one, both, apart = grams.T
    first = np.sqrt(one)
    along = np.divide(both, first, out=np.zeros(first.size), where=first > 0)
    across = np.sqrt(np.maximum(apart - along * along, 0.0))  # 0 if no user tells the models apart
    zero = np.zeros(first.size)
    # two errors with these sums of products, in place of one for each bucket
    errors = np.stack([np.stack([first, zero], 1), np.stack([first + along, across], 1)], axis=1)
    errors[np.isnan(values).any(axis=1)] = np.nan
    return compare_groups(
        values,
        errors,
        units.astype(np.int64),
        users.astype(np.int64),
        confidence=0.95,
        margin=0.01,
        power=0.8,
        hits=hits,
    )


def equivalent(found: Pairs) -> npt.NDArray[np.bool_]:
    """The draws whose verdict is `equivalent`."""
    no_worse = np.maximum(found.p_no_worse_first[:, 0], found.p_no_worse_second[:, 0])
    return (found.p[:, 0] >= 0.05) & (no_worse < 0.05)


def verdicts(wrong: list[npt.NDArray[np.bool_]]) -> dict[str, Any]:
    """False verdicts, of the draws of each scenario."""
    shares = [float(one.mean()) for one in wrong]
    return {"false_better": shares[EQUAL], "false_equivalent": max(shares[:EQUAL])}


def pair_of(moments: Doubles, pairs: Doubles) -> Pairs:
    """The comparison of each draw: moments (n, 8), pairs (n, 5) of one case and scenario."""
    a, b = np.stack([moments[:, A], pairs[:, OTHER_A]], 1), moments[:, B, None]
    with np.errstate(all="ignore"):
        values = a / b
    hits = hit_size(a, np.broadcast_to(b, a.shape), np.stack([moments[:, AA], pairs[:, OTHER_AA]], 1))
    return compared(values, pairs[:, [FIRST, BOTH, APART]], moments[:, BUCKETS_WITH], moments[:, N], hits)


def is_wrong(found: Pairs, scenario: int) -> npt.NDArray[np.bool_]:
    """The draws with a false verdict."""
    return found.p[:, 0] < 0.05 if scenario == EQUAL else equivalent(found)


def ratio_intervals(sums: Doubles, case: Case) -> tuple[Doubles, Doubles]:
    """The intervals of draws, as statistics/ratio.py has them: sums (n, 8)."""
    n, a, b = sums[:, N], sums[:, A], sums[:, B]
    with np.errstate(all="ignore"):
        value = np.where(b > 0, a / b, np.nan)
        squares = sums[:, AA] - 2 * value * sums[:, AB] + value * value * sums[:, BB]
        squares = np.where(squares > 1e-12 * sums[:, AA], squares, 0.0)  # what is left by rounding
        error = np.where(n > 1, np.sqrt(n / (n - 1) * squares) / b, np.nan)
        return interval(value, error, b * b / sums[:, BB], n - 1, 0.95, case.range)


def seed_of(cell: Cell, users: int) -> int:
    """Of the draws of a cell: the same for every estimator and metric."""
    return 37 + users * 1000 + cell.exposures


def plain_lines(cell: Cell, pool: Pool, users: int, moments: Doubles, pairs: Doubles) -> Iterator[dict[str, Any]]:
    """The lines of estimators that are ratios of sums over users, from those of draw_sums."""
    for c, case in enumerate(pool.cases):
        own, total = moments[:, :, c], pool.b[:, c].sum()
        target = float(pool.a[:, c].sum() / total) if total > 0 else math.nan
        numbers = covered(*ratio_intervals(own, case), target, float(own[:, HITS].mean()))
        if case.compared:
            numbers |= verdicts([is_wrong(pair_of(own, pairs[:, s, :, c]), s) for s in range(len(SCENARIOS))])
        yield line_of(cell, users, str(case), target, numbers)


def power_lines(cell: Cell, pool: Pool) -> Iterator[dict[str, Any]]:
    """Power at users_needed and users_equivalent, which pilots of many users give."""
    moments, pilots = draw_sums(pool.a, pool.b, PILOT_USERS, PILOTS, 41 + cell.exposures, NEEDED)
    for c, case in enumerate(pool.cases):
        if not case.compared:
            continue
        target = float(pool.a[:, c].sum() / max(pool.b[:, c].sum(), 1e-300))
        numbers: dict[str, Any] = {"draws": cell.draws, "power_draws": cell.draws, "coverage": None, "hits": 0.0}
        for s, key in enumerate(POWERS):
            own = moments[:, :, c]
            found = pair_of(own, pilots[:, s, :, c])
            with np.errstate(all="ignore"):
                of_draw = PILOT_USERS / own[:, N]
                if key == "power":  # had the pilot found the true difference
                    true = (1 - NEEDED[s, 0]) * own[:, A] / own[:, B]
                    counted = found.users_needed[:, 0] * (found.difference[:, 0] / true) ** 2 * of_draw
                else:
                    counted = found.users_equivalent[:, 0] * of_draw
            asked = float(np.median(counted))
            if not asked <= MOST_NEEDED:
                continue
            needed = max(50, math.ceil(asked))
            a, b = (np.ascontiguousarray(x[:, [c]]) for x in (pool.a, pool.b))
            sums, pairs = draw_sums(a, b, needed, cell.draws, 43 + cell.exposures, NEEDED[[s]])
            found = pair_of(sums[:, :, 0], pairs[:, 0, :, 0])
            no_worse = np.maximum(found.p_no_worse_first[:, 0], found.p_no_worse_second[:, 0])
            right = found.p[:, 0] < 0.05 if key == "power" else no_worse < 0.05
            numbers |= {key: float(right.mean()), f"needed_{key}": needed}
        yield line_of(cell, 0, str(case), target, numbers)


class Drawn:
    """The values of estimators with errors by unit, draw by draw."""

    def __init__(self, draws: int) -> None:
        self.value, self.error, self.degrees, self.users, self.effective = np.empty((5, draws))
        self.values, self.grams = np.full((draws, len(SCENARIOS), 2), np.nan), np.empty((draws, len(SCENARIOS), 3))
        self.units, self.sizes = np.empty(draws), np.empty((draws, len(SCENARIOS), 2))

    def add(self, draw: int, models: Paired, error: float, degrees: float, users: float, sizes: Floats) -> None:
        """The first model, and those that are worse; sizes: of a hit of each."""
        self.value[draw], self.error[draw], self.degrees[draw] = models.values[0], error, degrees
        self.users[draw] = self.effective[draw] = users
        self.units[draw] = models.n_units
        first, apart = models.errors[0], models.errors[1:] - models.errors[0]
        for n in range(apart.shape[0]):
            self.values[draw, n] = models.values[0], models.values[1 + n]
            self.grams[draw, n] = first @ first, apart[n] @ first, apart[n] @ apart[n]
            self.sizes[draw, n] = sizes[0], sizes[1 + n]

    def numbers(self, of: Range, target: float, hits: float, is_compared: bool) -> dict[str, Any]:
        """Coverage and false verdicts."""
        users = np.maximum(self.effective, 1)
        numbers = covered(*interval(self.value, self.error, users, self.degrees, 0.95, of), target, hits)
        if is_compared:
            pairs = [
                compared(self.values[:, s], self.grams[:, s], self.units, self.users, self.sizes[:, s])
                for s in range(len(SCENARIOS))
            ]
            numbers |= verdicts([is_wrong(found, s) for s, found in enumerate(pairs)])
        return numbers


def balanced_line(cell: Cell, pool: Pool, users: int) -> dict[str, Any]:
    """The line of balanced URE."""
    kinds = lumps()[lumps() <= cell.exposures]
    stratum = np.searchsorted(kinds, lump_of(pool.n_positive))
    e, items = np.full(kinds.size, cell.exposures), np.full(kinds.size, ITEMS)
    drawn, seed = Drawn(cell.draws), seed_of(cell, users)
    for draw in range(cell.draws):
        counts, sums, squares = stratum_sums(stratum, pool.ratio, kinds.size, users, draw, seed, SCENARIOS)
        found = balanced(Strata(e, items, kinds, counts, sums, squares))
        seen, a, aa = float(counts[:, kinds > 0].sum()), sums.sum(axis=(1, 2)), squares.sum(axis=(1, 2))
        sizes = hit_size(a, np.full(a.size, seen), aa)
        drawn.add(draw, found.models, float(found.standard_errors()[0]), float(found.degrees()[0]), seen, sizes)
    hits = float((pool.ratio > 0).mean() * users)
    of = formula("ure_balanced", "recall").range(K)
    return line_of(cell, users, BALANCED, pool.truth, drawn.numbers(of, pool.truth, hits, True))


def combined_values(one: Combined, a: Doubles, b: Doubles, weights: Doubles) -> Linear:
    """Models of numerators (n_models, n_parts, n_units), denominators and weights (n_parts, n_units)."""
    b = np.broadcast_to(b, a.shape)
    units = int((b > 0).any(axis=(0, 1)).sum())
    if one.case.metric in CLASS_METRICS:
        value = formula("lists", one.case.metric).over_classes
        assert value is not None
        sums = {part: {"": (a[0, g], b[0, g], False)} for g, part in enumerate(SLICES)}
        return over_classes(value, [""], sums).linear
    if one.weights.size:
        strata = combine_strata(a, b, weights)
        return Linear(Paired(strata.values, strata.errors, units), strata.unseen, strata.users)
    sets = combine_draws(a, b)
    return Linear(Paired(sets.values, sets.errors, units))


def combined_lines(cell: Cell, pool: Pool, users: int, moments: Doubles, pairs: Doubles) -> Iterator[dict[str, Any]]:
    """The lines of estimators over strata of propensity, draws of a test set and classes of popularity; moments and
    pairs are those of the same draws of users.
    """
    sums, more, some, squares = unit_sums(pool.columns, users, cell.draws, seed_of(cell, users), SCENARIOS)
    whole = pool.columns.sum(axis=0)[:, None]
    names = [str(case) for case in pool.cases]
    for one in pool.combined:
        target = float(combined_values(one, whole[one.a][None], whole[one.b], whole[one.weights]).models.values[0])
        drawn = Drawn(cell.draws)
        if one.weights.size:  # of all of holdout
            c = names.index(f"holdout {one.case.metric}@{K}")
            a = np.concatenate([moments[:, None, A, c], pairs[:, :, OTHER_A, c]], axis=1)
            aa = np.concatenate([moments[:, None, AA, c], pairs[:, :, OTHER_AA, c]], axis=1)
            b, hits = moments[:, B, c], moments[:, HITS, c]
        else:  # of the first part
            first = one.a[0]
            own = sums[:, first].sum(axis=1)[:, None]
            a, aa = np.concatenate([own, own + more[:, :, first].sum(axis=2)], axis=1), squares[:, :, first]
            b, hits = sums[:, one.b[0]].sum(axis=1), some[:, one.a].min(axis=1)
        sizes = hit_size(a, np.broadcast_to(b[:, None], a.shape), aa)
        for draw in range(cell.draws):
            parts = sums[draw, one.a][None]
            if one.case.compared:
                parts = np.concatenate([parts, parts + more[draw][:, one.a]])
            found = combined_values(one, parts, sums[draw, one.b], sums[draw, one.weights])
            error, degrees = float(found.standard_errors()[0]), float(found.degrees()[0])
            drawn.add(draw, found.models, error, degrees, float(b[draw]), sizes[draw])
            drawn.effective[draw] = b[draw] if found.users is None else min(b[draw], float(found.users[0]))
        numbers = drawn.numbers(one.case.range, target, float(hits.mean()), one.case.compared)
        yield line_of(cell, users, str(one.case), target, numbers)


def lines_of(cell: Cell) -> list[dict[str, Any]]:
    """All lines of a population."""
    pool = pool_of(cell.kind, cell.positives, cell.exposures)
    lines = list(power_lines(cell, pool))
    for users in cell.users:
        moments, pairs = draw_sums(pool.a, pool.b, users, cell.draws, seed_of(cell, users), SCENARIOS)
        lines += plain_lines(cell, pool, users, moments, pairs)
        lines.append(balanced_line(cell, pool, users))
        lines += combined_lines(cell, pool, users, moments, pairs)
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
    options.add_argument("--kind", choices=KINDS, help="one kind of worlds, in this process")
    options.add_argument("--lines", type=Path, help="file for the line of every cell")
    options.add_argument("--from", dest="kept", type=Path, nargs="+", help="lines of earlier runs, instead of a run")
    options.add_argument("--picture", type=Path, help="file for the picture, an SVG")
    asked = options.parse_args()
    lines: list[dict[str, Any]] = []
    if asked.kept:
        lines = [line for path in asked.kept for line in map(json.loads, path.read_text().splitlines())]
    else:
        draws = asked.draws
        users: tuple[int, ...] = USERS
        exposures: tuple[int, ...] = EXPOSURES
        if asked.quick:
            draws, users, exposures = min(draws, 200), (100, 1500), (3, 20)
        kinds = [asked.kind] if asked.kind else KINDS
        cells = [Cell(*what, users, draws) for what in product(kinds, sorted(SHARES), exposures)]
        if asked.lines:
            asked.lines.write_text("")
        with Progress() as progress, ProcessPoolExecutor(len(kinds)) as pool:
            bar = progress.add_task("Drawing", total=len(cells))
            for own in (map if asked.kind else pool.map)(lines_of, cells):
                lines += own
                progress.advance(bar)
                if asked.lines:
                    with asked.lines.open("a") as kept:
                        kept.writelines(f"{json.dumps(line)}\n" for line in own)
    for line in lines:
        if line["outside"]:
            print(json.dumps(line))
    for line in summary(lines):
        print(json.dumps(line))
    if asked.picture:
        asked.picture.write_text(picture(lines))


if __name__ == "__main__":
    main()
