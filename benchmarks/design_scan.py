"""A plan of exposures for a million users from six models' top lists of 100, against one scan of the lists by Spark.

    make bench-design
    python -m benchmarks.design_scan --scale 0.1          for a quick look

    design-vs-scan   ours: the plan of 10 exposures of every user, cutoffs 20 and 100, written as exposure_plan, users
                     per second; theirs: Spark reads the same lists and hashes every element, users per second

The files are as ranking writes them. Both sides end in a number of their own that is checked: rows of the plan, and
users times models.
"""

import argparse
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from benchmarks.measure import best_of, say
from eval_engine.exposure_design.design import Arms
from eval_engine.exposure_design.plan_rows import SHARD_BYTES, Drawing, ListFile, Lists, draw_users, plan_rows
from eval_engine.lake.lake import Lake
from eval_engine.spark.session import batches_by_bytes, spark_session
from eval_engine.spark.task_sizes import partitions_for
from eval_engine.tables import EXPOSURE_PLAN

USERS, ITEMS, LENGTH, FILES = 1_000_000, 100_000, 100, 8
MODELS = ("a", "b", "c", "d", "e", "f")
ARMS = Arms(10, 5, (20, 100), "models", 1)


def write(folder: Path, n_users: int) -> tuple[tuple[ListFile, ...], str]:
    """The lists of models that share half of their items, each once, and the catalogue."""
    found = []
    for number, users in enumerate(np.array_split(np.arange(n_users), FILES)):
        rng = np.random.default_rng((number, 7))
        stride = rng.integers(1, ITEMS // 720, (users.size, 1))
        first = rng.integers(0, ITEMS, (users.size, 1))
        for m, model in enumerate(MODELS):
            place = np.where(rng.random((users.size, LENGTH)) < 0.5, 0, (m + 1) * LENGTH) + np.arange(LENGTH)
            items = (first + stride * place) % ITEMS
            offsets = pa.array(np.arange(users.size + 1) * LENGTH, pa.int32())
            lists = pa.ListArray.from_arrays(offsets, pa.array(items.ravel() * 7 + 3))
            top = pa.StructArray.from_arrays([lists], ["items"])
            path = folder / f"model={model}" / f"{number}.parquet"
            path.parent.mkdir(exist_ok=True)
            pq.write_table(
                pa.table({"user_id": users, "top": top}), path, use_dictionary=False, compression="none",
                column_encoding={"top.items.list.element": "DELTA_BINARY_PACKED"}, row_group_size=1 << 16,
            )  # fmt: skip
            found.append(ListFile(str(path), model, path.stat().st_size))
    catalogue = folder.parent / "catalogue.parquet"
    ids = np.arange(ITEMS)
    pq.write_table(pa.table({"item_id": ids * 7 + 3, "position": ids.astype(np.int32)}), catalogue)
    return tuple(found), str(catalogue)


def planned(spark: SparkSession, files: tuple[ListFile, ...], catalogue: str, lake: Lake, n_users: int) -> None:
    """Our side."""
    lists = Lists(spark, files)
    with batches_by_bytes(spark):
        drawn = draw_users(lists, MODELS[0], ARMS.seed, n_users)
        n_bytes = drawn.n_users * len(MODELS) * LENGTH * 4
        n_shards = partitions_for(n_bytes, max(4, -(-n_bytes // SHARD_BYTES)))
        drawing = Drawing(ARMS, MODELS, (catalogue,), drawn.n_bins, n_shards, False)
        plan = plan_rows(lists, None, drawing, n_shards)
        rows = lake.replace_by_workers(EXPOSURE_PLAN, plan.rows, plan.worker, {"run_id": "bench"})
        assert drawn.n_users == n_users
        assert rows.count() == n_users


def scanned(spark: SparkSession, folder: Path, n_users: int) -> None:
    """Theirs."""
    row = spark.read.parquet(str(folder)).agg(F.bit_xor(F.xxhash64("top.items")), F.count("top.items")).first()
    assert row is not None
    assert row[1] == n_users * len(MODELS)


def main() -> None:
    """Print the line of the case."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--scale", type=float, default=1.0)
    scale = options.parse_args().scale
    n_users = int(USERS * scale)
    spark = spark_session("bench")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "ranks"
        folder.mkdir()
        files, catalogue = write(folder, n_users)
        lake = Lake(spark, f"{name}/lake")
        sides: dict[str, Callable[[], object]] = {
            "ours": lambda: planned(spark, files, catalogue, lake, n_users),
            "theirs": lambda: scanned(spark, folder, n_users),
        }
        seconds = best_of(sides)
        say(
            "design-vs-scan", n_users / seconds["ours"], n_users / seconds["theirs"], "users/s",
            users=n_users, times=round(seconds["ours"] / seconds["theirs"], 2),
            seconds=round(seconds["ours"], 1),
        )  # fmt: skip
    spark.stop()


if __name__ == "__main__":
    main()
