"""The time of all estimators from a ranks table, against one plain Spark groupBy over the same facts as flat rows.

    make bench-evaluate                                     (python -m benchmarks.evaluate --scale 0.1)

5 models, 1 M users with 20 labels each: 100 M facts. Ours: every metric and estimator at 10 cutoffs, with intervals,
bootstrap, balanced URE, wins and all comparisons, to written tables. Theirs: `groupBy(model, user_id).count()`, the
first step of any metric per user, over the view of the same facts as rows (model, user_id, item_id, value, above, tied,
candidates) in Parquet, its result discarded; for reference also `groupBy(model).count()`, which reads one column. Best
of three each.

slices-vs-none: the same with 4 slicings of 5 values, 2 of items and 2 of users, against the same without them.
small-run: seconds to evaluate 4 models on 2,000 users with complete labels of 800 items, as in the demo, in a session
with warm workers and in a process that has just started its session.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from rich.console import Console

from benchmarks.measure import REPEATS, best, say
from eval_engine.lake.lake import Lake
from eval_engine.lake.part_files import WrittenFile, new_attempt, write_file
from eval_engine.spark.session import spark_session
from eval_engine.tables import CATALOGUE, RANKS
from jobs import evaluate
from jobs.run_config import RunConfig
from jobs.stage import stage

MODELS, LABELS, ITEMS, CUTOFFS = 5, 20, 10_000, (1, 2, 5, 10, 20, 30, 50, 100, 200, 500)
USERS, SHARE_POSITIVE, AT_ONCE = 1_000_000, 0.15, 100_000
LABEL_SETS = ("random", "heldout", "truth")
RUN = {"run_id": "bench"}
Rows = Callable[[int, int, int], dict[str, pa.Array]]  # of a model: n users from the first


def rows_of(model: int, first: int, n: int) -> dict[str, pa.Array]:
    """Users with labels at random places, four of the list or more between two of them, positives ranked higher; a
    tenth of the labels tied with three items without a label.
    """
    rng = np.random.default_rng((model, first))
    items = np.sort(
        np.random.default_rng(first).integers(0, ITEMS // LABELS, (n, LABELS)) + np.arange(LABELS) * (ITEMS // LABELS),
        axis=1,
    )
    value = np.where(np.random.default_rng((first, 1)).random((n, LABELS)) < SHARE_POSITIVE, 5.0, 1.0)
    above = (ITEMS * rng.random((n, LABELS)) ** np.where(value > 3, 2.0 + model / 2, 1.0)).astype(np.int32)
    tied = np.where(rng.random((n, LABELS)) < 0.1, 3, 0).astype(np.int32)
    above = apart(np.minimum(above, ITEMS - 4 * LABELS))
    offsets = pa.array(np.arange(n + 1, dtype=np.int32) * LABELS)

    def lists(x: np.ndarray, kind: pa.DataType) -> pa.Array:
        return pa.ListArray.from_arrays(offsets, pa.array(x.ravel(), kind))

    columns = [
        lists(items, pa.int64()),
        lists(value, pa.float64()),
        lists(-above, pa.float32()),
        lists(above, pa.int32()),
        lists(tied, pa.int32()),
    ]
    labels = pa.StructArray.from_arrays(
        [*columns, pa.nulls(n, pa.list_(pa.float64()))], ["items", "values", "scores", "above", "tied", "probabilities"]
    )
    counts = pa.array(np.full(n, ITEMS, np.int32))
    return {"user_id": pa.array(np.arange(first, first + n)), "candidates": counts, "scored": counts, "random": labels}


def apart(places: np.ndarray) -> np.ndarray:
    """Places of each row, moved down until four or more are between two of them: no label is tied with another."""
    order, room = np.argsort(places, axis=1), 4 * np.arange(places.shape[1], dtype=places.dtype)
    moved = np.maximum.accumulate(np.take_along_axis(places, order, axis=1) - room, axis=1) + room
    found = np.empty_like(places)
    np.put_along_axis(found, order, moved, axis=1)
    return found


def write_ranks(lake: Lake, n_users: int, rows: Rows = rows_of) -> None:
    """The ranks table, as jobs/rank.py writes it."""
    lake.create(RANKS, "BIGINT", RUN)
    files: list[WrittenFile] = []
    attempt = new_attempt()  # of one job
    schema = pa.schema([("items", pa.list_(pa.int64())), ("scores", pa.list_(pa.float32()))])
    for model in range(MODELS):
        for first in range(0, n_users, AT_ONCE):
            n = min(AT_ONCE, n_users - first)
            columns = rows(model, first, n)
            (labels,) = (columns[name] for name in LABEL_SETS if name in columns)
            columns |= {name: pa.nulls(n, labels.type) for name in LABEL_SETS if name not in columns}
            columns |= {
                "top": pa.nulls(n, pa.struct(list(schema))),
                "problem": pa.nulls(n, pa.string()),
            }
            files.append(
                write_file(
                    f"{lake.root}/{RANKS.name}",
                    pa.table(columns),
                    RUN | {"model": f"m{model}", "inputs": "bench"},
                    attempt,
                )
            )
    lake.commit(RANKS, files, RUN)


def write_flat(folder: Path, n_users: int, rows: Rows = rows_of) -> None:
    """The same facts as flat rows."""
    for model in range(MODELS):
        for first in range(0, n_users, AT_ONCE):
            n = min(AT_ONCE, n_users - first)
            columns = rows(model, first, n)
            (labels,) = (columns[name] for name in LABEL_SETS if name in columns)
            flat = {
                name: labels.field(column).flatten()
                for name, column in (("item_id", "items"), ("value", "values"), ("above", "above"), ("tied", "tied"))
            }
            user = pa.array(np.repeat(columns["user_id"].to_numpy(), LABELS))
            candidates = pa.array(np.full(len(user), ITEMS, np.int32))
            table = pa.table(
                {
                    "model": pa.array([f"m{model}"] * len(user)).dictionary_encode(),
                    "user_id": user,
                    **flat,
                    "candidates": candidates,
                }
            )
            pq.write_table(table, folder / f"{model}-{first}.parquet", row_group_size=1 << 20)


def write_slices(folder: Path, n_users: int) -> None:
    """A table of items and one of users, with two columns of five values each."""
    for name, n in (("item", ITEMS), ("user", n_users)):
        codes = np.random.default_rng(n).integers(0, 5, (2, n))
        columns = {f"{name}_{part}": pa.array([f"v{c}" for c in row]) for part, row in zip("ab", codes, strict=True)}
        pq.write_table(pa.table({f"{name}_id": np.arange(n)} | columns), folder / f"{name}s.parquet")


def with_slices(asked: RunConfig, folder: Path) -> RunConfig:
    """The same run, with four slicings."""
    tables = {
        f"{name}s": [{"path": str(folder / f"{name}s.parquet"), "format": "parquet", "by": [f"{name}_a", f"{name}_b"]}]
        for name in ("item", "user")
    }
    return RunConfig.model_validate(asked.model_dump() | {"slices": tables})


def config(folder: Path) -> RunConfig:
    """Every metric at every cutoff."""
    names = ("recall", "precision", "dcg", "ndcg", "map")
    metrics = [f"{name}@{k}" for name in names for k in CUTOFFS] + ["hit_rate@1", "auc"]
    traditional = [f"{name}@{k}" for name in ("recall", "precision", "ndcg") for k in (1, 2, 5, 10)]
    nowhere = {"path": str(folder / "nothing"), "format": "parquet"}
    return RunConfig.model_validate(
        {
            "run_id": RUN["run_id"],
            "lake": str(folder / "lake"),
            "inputs": {"catalogue": nowhere, "exposures": nowhere},
            "scores": [nowhere | {"model": "m"}],
            "top": max(CUTOFFS),
            "evaluate": {"metrics": metrics, "traditional": traditional},
        }
    )


def jobs_of(spark: SparkSession) -> int:
    """The number of Spark jobs that have run in this session."""
    return len(spark.sparkContext.statusTracker().getJobIdsForGroup())


def timed(spark: SparkSession, asked: RunConfig, console: Console) -> tuple[list[float], int]:
    """Seconds of each repetition, and the largest number of Spark jobs in one."""
    evaluate.run(spark, asked, console)  # workers start, Java compiles
    before, seconds, n_jobs = jobs_of(spark), [], 0
    for _ in range(REPEATS):
        start = time.perf_counter()
        evaluate.run(spark, asked, console)
        seconds.append(time.perf_counter() - start)
        n_jobs = max(n_jobs, jobs_of(spark) - before)
        before = jobs_of(spark)
    return seconds, n_jobs


def main(scale: float) -> None:
    """Write both, time both."""
    n_users = int(USERS * scale)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "flat").mkdir()
        spark = spark_session("bench-evaluate", java_options="")  # Spark's own work dominates: use its best compiler
        asked, console = config(folder), Console(stderr=True)
        lake = Lake(spark, asked.lake)
        with stage(lake, asked, "rank"):
            write_ranks(lake, n_users)
        write_flat(folder / "flat", n_users)
        seconds, n_jobs = timed(spark, asked, console)
        write_slices(folder, n_users)
        lake.put(CATALOGUE, [{"item_id": item, "position": item} for item in range(ITEMS)], RUN)
        sliced, more_jobs = timed(spark, with_slices(asked, folder), console)
        facts = n_users * MODELS * LABELS / 1e6
        say(
            "slices-vs-none",
            facts / min(sliced),
            facts / min(seconds),
            "M facts/s",
            seconds={"ours": round(min(sliced), 2), "theirs": round(min(seconds), 2)},
            times=round(min(sliced) / min(seconds), 2),
            jobs=more_jobs,
        )
        flat = spark.read.parquet(str(folder / "flat"))
        for case, keys in (("evaluate-vs-groupby", ["model", "user_id"]), ("evaluate-vs-count-by-model", ["model"])):
            grouped = flat.groupBy(*keys).count()
            grouped.write.format("noop").mode("overwrite").save()
            theirs = best(lambda grouped=grouped: grouped.write.format("noop").mode("overwrite").save())  # type: ignore[misc]
            more = {
                "seconds": {"ours": round(min(seconds), 2), "theirs": round(theirs, 2)},
                "times": round(min(seconds) / theirs, 2),
                "jobs": n_jobs,
            }
            say(case, facts / min(seconds), facts / theirs, "M facts/s", **more)


def small_run() -> None:
    """Times the evaluation of a run of the demo's size, warm and in a fresh process."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        spark, console = spark_session("bench-small-run"), Console(stderr=True)
        asked = small_config(folder)
        lake = Lake(spark, asked.lake)
        with stage(lake, asked, "rank"):
            write_small_ranks(lake)
        command = [sys.executable, "-m", "benchmarks.evaluate", "--small-run", str(folder)]
        fresh = []
        for _ in range(REPEATS):
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            fresh.append(float(done.stdout.strip().splitlines()[-1]))
        warm, n_jobs = timed(spark, asked, console)
        seconds = {"warm": round(min(warm), 2), "fresh": round(min(fresh), 2)}
        print(json.dumps({"case": "small-run", "seconds": seconds, "jobs": n_jobs}), flush=True)


def fresh_run(folder: Path) -> None:
    """One evaluation in this process, once its session has started; prints the seconds."""
    spark = spark_session("bench-small-run-fresh")
    start = time.perf_counter()
    evaluate.run(spark, small_config(folder), Console(stderr=True))
    print(time.perf_counter() - start)


def small_config(folder: Path) -> RunConfig:
    """The demo's metrics."""
    asked = config(folder).model_dump()
    asked["evaluate"] = {"metrics": ["recall@10", "recall@50"], "traditional": ["recall@5"]}
    asked["inputs"]["truth"] = asked["inputs"]["exposures"]
    return RunConfig.model_validate(asked)


def write_small_ranks(lake: Lake) -> None:
    """Ranks of 4 models, 2,000 users, 10 random labels and 800 labels of the truth each."""
    users, items, shown = 2000, 800, 10
    lake.create(RANKS, "BIGINT", RUN)
    value = np.where(np.random.default_rng(0).random((users, items)) < 0.05, 5.0, 1.0)
    chosen = np.sort(np.argsort(np.random.default_rng(1).random((users, items)), axis=1)[:, :shown], axis=1)
    files, attempt = [], new_attempt()
    for model in range(4):
        noise = np.random.default_rng((2, model)).normal(0, 1 + model, (users, items))
        place = np.argsort(np.argsort(-(value + noise), axis=1), axis=1).astype(np.int32)
        labels = {
            "random": labels_of(chosen, *(np.take_along_axis(x, chosen, axis=1) for x in (value, place))),
            "truth": labels_of(np.tile(np.arange(items), (users, 1)), value, place),
        }
        counts = pa.array(np.full(users, items, np.int32))
        top = pa.struct([("items", pa.list_(pa.int64())), ("scores", pa.list_(pa.float32()))])
        columns = {"user_id": pa.array(np.arange(users)), "candidates": counts, "scored": counts, **labels}
        columns |= {"top": pa.nulls(users, top), "problem": pa.nulls(users, pa.string())}
        where = RUN | {"model": f"m{model}", "inputs": "bench"}
        files.append(write_file(f"{lake.root}/{RANKS.name}", pa.table(columns), where, attempt))
    lake.commit(RANKS, files, RUN)


def labels_of(items: np.ndarray, value: np.ndarray, above: np.ndarray) -> pa.StructArray:
    """Labels of one set, without ties."""
    n, each = items.shape
    offsets = pa.array(np.arange(n + 1, dtype=np.int32) * each)
    kinds = (pa.int64(), pa.float64(), pa.float32(), pa.int32(), pa.int32())
    arrays = (items, value, -above.astype(np.float32), above, np.zeros_like(above))
    lists = [
        pa.ListArray.from_arrays(offsets, pa.array(x.ravel(), kind)) for x, kind in zip(arrays, kinds, strict=True)
    ]
    names = ["items", "values", "scores", "above", "tied", "probabilities"]
    return pa.StructArray.from_arrays([*lists, pa.nulls(n, pa.list_(pa.float64()))], names)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--small-run", type=Path, default=None, help="of this folder, once, in this process")
    options = parser.parse_args()
    if options.small_run:
        fresh_run(options.small_run)
    else:
        small_run()
        main(options.scale)
