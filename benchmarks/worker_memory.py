"""The largest resident memory of a Python worker while it ranks, at 1e6 items per user.

    python -m benchmarks.worker_memory            # benchmarks/rank.py runs it with its other cases

Cases are dense vectors, and long rows sorted and scattered. Each case has its own session, so that no worker has memory
of another case. The figure is the kernel's high-water mark (VmHWM) of each worker process, read when its task ends.
"""

import argparse
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession

from benchmarks.dense_files import label_positions, write_vectors
from benchmarks.engine import DENSE, LONG, Engine
from benchmarks.long_files import item_ids, write_sorted, write_spread
from benchmarks.measure import say
from eval_engine.spark.session import spark_session

CLAIM_MB = 1024


def high_water(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The high-water mark of this worker, in MB; for mapInArrow."""
    for _ in batches:
        pass
    lines = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    yield pa.RecordBatch.from_pydict({"mb": pa.array([int(lines["VmHWM"].split()[0]) / 1024])})


def main(scale: float) -> None:
    n_items, n_users = max(10_000, int(1_000_000 * scale)), 48
    peaks = {}
    for layout in ("dense", "sorted", "spread"):
        spark = spark_session("bench-worker-memory")
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            ids = np.arange(n_items) if layout == "dense" else item_ids(np.arange(n_items))
            if layout == "dense":
                write_vectors(folder / "scores", n_users, n_items)
            else:
                (write_sorted if layout == "sorted" else write_spread)(folder / "scores", n_users, n_items, 4)
            engine = Engine(
                spark,
                folder / "engine",
                folder / "scores",
                DENSE if layout == "dense" else LONG,
                ids,
                label_positions(0, n_users, n_items),
            )
            engine.run()
            peaks[layout] = _peak(spark)
        spark.stop()
    say(
        "worker-memory",
        CLAIM_MB,
        max(peaks.values()),
        "MB",
        items=n_items,
        peak_mb={layout: round(mb) for layout, mb in peaks.items()},
    )


def _peak(spark: SparkSession) -> float:
    """The largest mark of all living workers, which Spark keeps for the next task."""
    row = spark.range(0, 64, 1, 4).mapInArrow(high_water, "mb DOUBLE").agg({"mb": "max"}).first()
    return float(row[0]) if row else float("nan")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Memory of a worker.")
    parser.add_argument("--scale", type=float, default=1.0)
    main(parser.parse_args().scale)
