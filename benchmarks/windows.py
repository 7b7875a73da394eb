"""The last day of a week and its window, against one run over the whole week; nothing of the six days before is timed.

    make bench-windows                                     (python -m benchmarks.windows --scale 0.05 --repeats 1)

3 models, 2,000 items, 600,000 users with 10 random exposures each. Six days have 15 % of the exposures each, the last
one 10 %. Ours: rank and evaluate the last day, and add up the window of seven days. Theirs: rank and evaluate all
exposures of the week as one run, from the same files. Both are the functions of the stages, in one Spark session that
the runs of the six days have warmed; feedback is that of all users on both sides. The sides take turns, best of
--repeats each.

Every user is there on one day, so that the window and the one run are defined alike (a user of two days would count
twice in the window). It fails if an estimate, its number of users, or anything in a comparison of two models differs,
or a standard error by more than 3 / sqrt(2 x 255): a merged run takes it over 256 buckets of users, one run over users.
"""

import argparse
import os
import tempfile
import time
from collections.abc import Iterable
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from rich.console import Console

from benchmarks.measure import say
from eval_engine.evaluation.days import window_id
from eval_engine.lake.lake import Lake
from eval_engine.spark.session import spark_session
from eval_engine.statistics.bucket_sums import N_BUCKETS
from eval_engine.tables import COMPARISONS, ESTIMATES, MERGES, Table
from jobs import evaluate, merge, rank
from jobs.run_config import RunConfig

MODELS, ITEMS, USERS, EXPOSURES, TRAINED = 3, 2_000, 600_000, 10, 10
METRICS = ("recall@10", "recall@100", "ndcg@10")
BLOCKS, AT_ONCE = 20, 2_000  # the week in parts of 5 %; users that are drawn at once
DAYS = (*(range(n, n + 3) for n in range(0, 18, 3)), range(18, 20))  # the blocks of users of each day
AIM, CLOSE = 0.3, 3 / np.sqrt(2 * (N_BUCKETS - 1))


class World(NamedTuple):
    """Files of blocks of users, and what a run over some of them reads."""

    folder: Path
    users: int  # of a block

    def write(self) -> None:
        """Every block: its training pairs, its exposures, and the scores of each model."""
        catalogue = pa.table({"item_id": np.arange(ITEMS), "position": np.arange(ITEMS, dtype=np.int32)})
        _write(catalogue, self.folder / "catalogue" / "0.parquet")
        quality = np.random.default_rng(3).standard_normal(ITEMS, np.float32)
        for block in range(BLOCKS):
            parts: dict[str, list[pa.Table]] = {}
            for first in range(0, self.users, AT_ONCE):
                ids = block * self.users + np.arange(first, min(first + AT_ONCE, self.users))
                for name, table in _drawn(ids, quality).items():
                    parts.setdefault(name, []).append(table)
            for name, tables in parts.items():
                _write(pa.concat_tables(tables), self.folder / name / f"{block}.parquet")

    def config(self, run_id: str, blocks: Iterable[int]) -> RunConfig:
        """A run over the users of some blocks, as a config; its files are links to those of the blocks."""
        own = self.folder / "runs" / run_id
        for name, block in product(("exposures", *(f"m{n}" for n in range(MODELS))), blocks):
            (own / name).mkdir(parents=True, exist_ok=True)
            os.link(self.folder / name / f"{block}.parquet", own / name / f"{block}.parquet")
        where = {"catalogue": self.folder, "feedback": self.folder, "exposures": own}
        inputs = {name: {"path": str(folder / name), "format": "parquet"} for name, folder in where.items()}
        scores = [{"model": f"m{n}", "path": str(own / f"m{n}"), "format": "parquet"} for n in range(MODELS)]
        return RunConfig.model_validate(
            {
                "run_id": run_id,
                "lake": str(self.folder / "lake"),
                "inputs": inputs,
                "scores": scores,
                "frame": "unseen",
                "evaluate": {"metrics": METRICS},
                "window": 7,
            }
        )


def _drawn(users: np.ndarray, quality: np.ndarray) -> dict[str, pa.Table]:
    """The tables of some users: items that are liked have higher scores, of each model by another margin."""
    rng = np.random.Generator(np.random.SFC64(int(users[0])))
    liking = quality + rng.standard_normal((users.size, ITEMS), np.float32)
    wanted = TRAINED + EXPOSURES
    items = np.argpartition(rng.random((users.size, ITEMS), np.float32), wanted, axis=1)[:, :wanted]
    value = np.clip(np.rint(2.0 + np.take_along_axis(liking, items, axis=1)), 1, 5).astype(np.float64)
    tables: dict[str, pa.Table] = {}
    for name, some in (("feedback", slice(TRAINED)), ("exposures", slice(TRAINED, None))):
        columns = {"item_id": items[:, some].ravel(), "value": value[:, some].ravel()}
        tables[name] = pa.table({"user_id": np.repeat(users, items[:, some].shape[1])} | columns)
    for model in range(MODELS):
        scores = (0.4 + 0.1 * model) * liking + rng.standard_normal(liking.shape, np.float32)
        blobs = pa.FixedSizeBinaryArray.from_buffers(pa.binary(4 * ITEMS), users.size, [None, pa.py_buffer(scores)])
        tables[f"m{model}"] = pa.table({"user_id": users, "scores": blobs.cast(pa.binary())})
    return tables


def _write(table: pa.Table, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path, compression="none", row_group_size=1_000)


class Timed(NamedTuple):
    """A run, and the seconds of each stage."""

    run_id: str
    seconds: dict[str, float]

    def total(self) -> float:
        return sum(self.seconds.values())


def timed(spark: SparkSession, config: RunConfig, with_window: bool) -> Timed:
    """Rank and evaluate, and add up the window."""
    console, seconds = Console(quiet=True), {}

    def lap(name: str, start: float) -> None:
        seconds[name] = time.perf_counter() - start

    start = time.perf_counter()
    rank.run(spark, config, console)
    lap("rank", start)
    start = time.perf_counter()
    evaluate.run(spark, config, console)
    lap("evaluate", start)
    if with_window:
        start = time.perf_counter()
        merge.run(config, console)
        lap("merge", start)
    return Timed(config.run_id, seconds)


def compared(lake: Lake, week: str, one: str) -> dict[str, Any]:
    """How many rows were held against each other, and the standard errors; ends the program if some differ."""
    wrong: list[str] = []
    ratios: list[float] = []
    n: dict[str, int] = {}
    for table in (ESTIMATES, COMPARISONS):
        ours, theirs = (_rows(lake, table, run_id) for run_id in (week, one))
        n[table.name] = len(ours)
        if ours.keys() != theirs.keys():
            wrong.append(f"rows of {table.name}: {sorted(map(str, ours.keys() ^ theirs.keys()))[:3]}")
        for key in ours.keys() & theirs.keys():
            row, other = ours[key], theirs[key]
            exact = ("value", "n_users", "reason") if table is ESTIMATES else [name for name in row if name != "run_id"]
            wrong += [
                f"{table.name} {key}: {name} is {row[name]}, of one run {other[name]}"
                for name in exact
                if not _same(row[name], other[name])
            ]
            if table is ESTIMATES and other["standard_error"]:
                ratios.append((row["standard_error"] or np.nan) / other["standard_error"])
    errors = {"least": min(ratios), "median": float(np.median(ratios)), "largest": max(ratios)}
    if not all(abs(ratio - 1) <= CLOSE for ratio in ratios):
        wrong.append(f"standard errors of the window over those of one run: {errors}")
    if wrong:
        raise SystemExit(f"the window differs from one run in {len(wrong)} places: " + "; ".join(wrong[:10]))
    return n | {"standard_errors": {name: round(ratio, 3) for name, ratio in errors.items()}}


def _rows(lake: Lake, table: Table, run_id: str) -> dict[tuple[Any, ...], dict[str, Any]]:
    names = [name for name in table.key if name != "run_id"]
    return {tuple(row[name] for name in names): row for row in lake.rows(table, {"run_id": run_id})}


def _same(one: object, other: object) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return bool(np.isclose(one, other, rtol=1e-9, atol=1e-12))
    return one == other


def main(scale: float, repeats: int) -> None:
    """Write the world, run six days, time both sides, compare their answers."""
    with tempfile.TemporaryDirectory() as name:
        world = World(Path(name), max(200, int(USERS * scale) // BLOCKS))
        world.write()
        spark = spark_session("bench-windows")
        for number, blocks in enumerate(DAYS[:-1], 1):
            timed(spark, world.config(f"2026-11-0{number}", blocks), with_window=False)
        days, weeks = [], []
        for turn in range(repeats):  # of a day's runs the window takes its own
            days.append(timed(spark, world.config(f"{turn}__2026-11-07", DAYS[-1]), with_window=True))
            weeks.append(timed(spark, world.config(f"{turn}-week", range(BLOCKS)), with_window=False))
        lake = merge.lake_of(str(world.folder / "lake"))
        parts = {row["part"] for row in lake.rows(MERGES, {"run_id": window_id(days[-1].run_id)})}
        if len(parts) != len(DAYS):
            raise SystemExit(f"the window has {len(parts)} days: {sorted(parts)}")
        equal = compared(lake, window_id(days[-1].run_id), weeks[-1].run_id)
        ours, theirs = (min(runs, key=Timed.total) for runs in (days, weeks))
        exposures = BLOCKS * world.users * EXPOSURES / 1e6
        say(
            "last-day-and-window-vs-one-run",
            exposures / ours.total(),
            exposures / theirs.total(),
            "M exposures of the week/s",
            seconds={"ours": _rounded(ours), "theirs": _rounded(theirs)},
            times=round(ours.total() / theirs.total(), 3),
            aim=AIM,
            users=BLOCKS * world.users,
            equal=equal,
        )


def _rounded(run: Timed) -> dict[str, float]:
    return {"all": round(run.total(), 2)} | {stage: round(seconds, 2) for stage, seconds in run.seconds.items()}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    main(options.scale, options.repeats)
