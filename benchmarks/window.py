"""Spark's window function, the usual alternative to the rank engine for long score tables, in its own session.

    python -m benchmarks.window SCORES LABELS --k 101

prints one JSON line: seconds (the shortest of three, after a warm-up), answer. It computes rank() of every row in its
user's list, and keeps labelled pairs and the first k: `above` + 1 and the top list, not `tied`. Spark runs at its best:
with its default number of shuffle partitions, coalesced at run time, with broadcast labels, and with all compilers of
Java, which the engine's own session does not use.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from benchmarks.measure import best
from eval_engine.spark.session import spark_session


class Timed(NamedTuple):
    """The shortest time, and the sum of the ranks of all labelled pairs."""

    seconds: float
    answer: int


def timed_window(path: str, labels_path: str, k: int) -> Timed:
    """Times the window function in its own process."""
    call = [sys.executable, "-m", "benchmarks.window", path, labels_path, "--k", str(k)]
    done = subprocess.run(call, stdout=subprocess.PIPE, text=True, check=True, cwd=Path(__file__).parent.parent)
    return Timed(**json.loads(done.stdout))


def window(spark: SparkSession, path: str, labels_path: str, k: int) -> None:
    """Ranks all rows and keeps labelled ones and the first k of each user; the result is discarded."""
    _window_ranks(spark, path, labels_path).where(f"labelled OR rank <= {k}").write.format("noop").mode(
        "overwrite"
    ).save()


def window_answer(spark: SparkSession, path: str, labels_path: str) -> int:
    """The sum of the ranks of all labelled pairs, by another run of the window function; rank - 1 is `above`."""
    row = _window_ranks(spark, path, labels_path).where("labelled").agg(F.sum("rank")).first()
    return int(row[0]) if row else -1


def _window_ranks(spark: SparkSession, path: str, labels_path: str) -> DataFrame:
    """Every row with its rank, and `labelled` (true or NULL)."""
    labels = spark.read.parquet(labels_path).select("user_id", "item_id", F.lit(True).alias("labelled"))
    by_score = Window.partitionBy("user_id").orderBy(F.desc("score"))
    return (
        spark.read.parquet(path)
        .withColumn("rank", F.rank().over(by_score))
        .join(F.broadcast(labels), ["user_id", "item_id"], "left")
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description="Spark's window function over a long score table, timed: one JSON line."
    )
    parser.add_argument("scores")
    parser.add_argument("labels")
    parser.add_argument("--k", type=int, required=True)
    given = parser.parse_args()
    session = spark_session("bench-window", "")
    session.conf.set("spark.sql.shuffle.partitions", "200")
    answer = window_answer(session, given.scores, given.labels)  # also warms up
    seconds = best(lambda: window(session, given.scores, given.labels, given.k))
    print(json.dumps(Timed(seconds, answer)._asdict()))
