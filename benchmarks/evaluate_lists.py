"""The time of all metrics of top lists at 3 cutoffs, against one plain `explode` and groupBy of the same lists by
Spark: case lists-vs-scan.

    make bench-evaluate                                     (python -m benchmarks.evaluate_lists --scale 0.1)

2 models, lists of 100 items, 1 M and 4 M lists; 10 training pairs of each user. Ours: ARP, APLT, ACLT, tail share,
novelty, share of exposure, P-RSP in both forms, coverage and Gini at 10, 50 and 100, with intervals, for everything and
by class of popularity, from ranks to written tables, the groupBy of feedback by user and class included. Theirs:
`select(explode(top.items)).groupBy(item).count()`, its result discarded. `times` is the ratio of slopes: seconds from
1 M to 4 M lists, so that the start of either side does not count. Best of three each. `jobs`: Spark jobs of one
evaluation.
"""

import argparse
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from rich.console import Console

from benchmarks.evaluate import AT_ONCE, ITEMS, RUN, labels_of, timed
from benchmarks.measure import best, say
from eval_engine.lake.lake import Lake
from eval_engine.lake.part_files import new_attempt, write_file
from eval_engine.spark.session import spark_session
from eval_engine.tables import CATALOGUE, RANKS
from jobs import popularity
from jobs.run_config import RunConfig
from jobs.stage import stage

MODELS, LENGTH, TRAINED = 2, 100, 10
SIZES = (500_000, 2_000_000)  # users
NAMES = ("arp", "aplt", "aclt", "tail_share", "novelty", "exposure_share", "p_rsp", "p_rsp_by_user", "coverage", "gini")
CUTOFFS = (10, 50, 100)


def skewed(rng: np.random.Generator, n: int, each: int) -> np.ndarray:
    """Different items of each user, (n, each): one of each part of the catalogue, few of them often."""
    part = ITEMS // each
    return (part * rng.random((n, each)) ** 3).astype(np.int64) + np.arange(each) * part


def write(lake: Lake, folder: Path, n_users: int) -> None:
    """Ranks with top lists, the catalogue, and training pairs."""
    lake.create(RANKS, "BIGINT", RUN)
    files, attempt = [], new_attempt()
    for model in range(MODELS):
        for first in range(0, n_users, AT_ONCE):
            n = min(AT_ONCE, n_users - first)
            rng = np.random.default_rng((model, first))
            one = np.zeros((n, 1), np.int64)
            label = labels_of(one, one + 1.0, one.astype(np.int32))
            items = pa.array(skewed(rng, n, LENGTH).ravel())
            offsets = pa.array(np.arange(n + 1, dtype=np.int32) * LENGTH)
            scores = pa.ListArray.from_arrays(offsets, pa.nulls(n * LENGTH, pa.float32()))
            top = pa.StructArray.from_arrays([pa.ListArray.from_arrays(offsets, items), scores], ["items", "scores"])
            counts = pa.array(np.full(n, ITEMS, np.int32))
            columns = {"user_id": pa.array(np.arange(first, first + n)), "candidates": counts, "scored": counts}
            columns |= {"random": label, "heldout": pa.nulls(n, label.type), "truth": pa.nulls(n, label.type)}
            columns |= {"top": top, "problem": pa.nulls(n, pa.string())}
            where = RUN | {"model": f"m{model}", "inputs": "bench"}
            files.append(write_file(f"{lake.root}/{RANKS.name}", pa.table(columns), where, attempt))
    lake.commit(RANKS, files, RUN)
    lake.put(CATALOGUE, [{"item_id": item, "position": item} for item in range(ITEMS)], RUN)
    (folder / "feedback").mkdir()
    pq.write_table(
        pa.table({"item_id": np.arange(ITEMS), "position": np.arange(ITEMS, dtype=np.int32)}), folder / "items.parquet"
    )
    for first in range(0, n_users, AT_ONCE):
        n = min(AT_ONCE, n_users - first)
        pairs = skewed(np.random.default_rng((9, first)), n, TRAINED).ravel()
        users = np.repeat(np.arange(first, first + n), TRAINED)
        table = pa.table({"user_id": users, "item_id": pairs, "value": np.full(pairs.size, 5.0)})
        pq.write_table(table, folder / "feedback" / f"{first}.parquet")


def config(folder: Path) -> RunConfig:
    """All metrics of lists."""
    nowhere = {"path": str(folder / "nothing"), "format": "parquet"}
    return RunConfig.model_validate(
        {
            "run_id": RUN["run_id"],
            "lake": str(folder / "lake"),
            "inputs": {
                "catalogue": {"path": str(folder / "items.parquet"), "format": "parquet"},
                "exposures": nowhere,
                "feedback": {"path": str(folder / "feedback"), "format": "parquet"},
            },
            "scores": [nowhere | {"model": "m"}],
            "top": LENGTH,
            "popularity": {"method": "share"},
            "evaluate": {"metrics": [f"{name}@{k}" for name in NAMES for k in CUTOFFS], "traditional": []},
        }
    )


def both(spark: SparkSession, folder: Path, n_users: int) -> tuple[float, float, int]:
    """Seconds of ours and theirs, and Spark jobs of ours."""
    folder.mkdir()
    asked, console = config(folder), Console(stderr=True)
    lake = Lake(spark, asked.lake)
    with stage(lake, asked, "rank"):
        write(lake, folder, n_users)
    popularity.run(spark, asked, console)
    seconds, n_jobs = timed(spark, asked, console)
    lists = lake.read(RANKS, RUN["run_id"]).select(F.explode("top.items").alias("item")).groupBy("item").count()
    lists.write.format("noop").mode("overwrite").save()
    return min(seconds), best(lambda: lists.write.format("noop").mode("overwrite").save()), n_jobs


def main(scale: float) -> None:
    """Time both at two sizes."""
    spark = spark_session("bench-evaluate-lists", java_options="")  # Spark's own work dominates the other side
    found = []
    with tempfile.TemporaryDirectory() as name:
        for size in SIZES:
            found.append(both(spark, Path(name) / str(size), int(size * scale)))
    ours, theirs = (found[1][n] - found[0][n] for n in (0, 1))
    lists = (SIZES[1] - SIZES[0]) * MODELS * scale / 1e6
    say(
        "lists-vs-scan",
        lists / ours,
        lists / theirs,
        "M lists/s",
        seconds={"ours": [round(one[0], 2) for one in found], "theirs": [round(one[1], 2) for one in found]},
        times=round(ours / theirs, 2),
        jobs=max(one[2] for one in found),
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", type=float, default=1.0)
    main(parser.parse_args().scale)
