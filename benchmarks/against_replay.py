"""recall@10 of 8 M (user, item, score) rows, from files to value: the engine against RePlay's Recall on Spark.

    python -m benchmarks.against_replay            # --scale 0.1 for a quick look

benchmarks/rank.py runs it with its other cases. Both sides read the same Parquet files, in a warm session on two cores,
best of three, and must give the same recall. RePlay runs in its own environment (scripts/bench_setup.sh), which has the
PySpark version that it needs.
"""

import argparse
import json
import os
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from benchmarks.dense_files import label_positions
from benchmarks.engine import LONG
from benchmarks.long_files import item_ids, write_labels, write_sorted
from benchmarks.measure import best, say
from eval_engine.evaluation.spec import EvaluationSpec
from eval_engine.evaluation.statistics_plan import STATISTICS_COLUMNS, statistics_of
from eval_engine.inputs.direct_read import stored_bytes
from eval_engine.inputs.read import flat_files
from eval_engine.metric import Metric
from eval_engine.positive import Positive
from eval_engine.ranking import rank as ranking
from eval_engine.ranking.settings import Ranking
from eval_engine.spark.java import java_home
from eval_engine.spark.session import batches_by_bytes, planned_once, spark_session

ITEMS, TOP = 1000, 10
HERE = Path(__file__).parent


def recall_at_10(spark: SparkSession, folder: Path) -> float:
    """The engine's recall@10, from files: labels checked, ranked, evaluated."""
    catalogue, files = str(folder / "catalogue.parquet"), (str(folder / "truth.parquet"),)
    labels = ranking.Pairs(None, files, {name: name for name in ("user_id", "item_id", "value")}, stored_bytes(files))
    table = ranking.Table(LONG, flat_files(str(folder / "scores")) or ())
    asked = ranking.RankingRequest((table,), {"truth": labels}, ("m",), None, False, "BIGINT")
    question = EvaluationSpec((Metric("recall", TOP),), (), Positive(">", 0.0), "strict", ("truth",))
    with planned_once(spark), batches_by_bytes(spark):
        settings = Ranking(ITEMS, TOP + 1, (catalogue,), "error", "all_items", ("truth",), (TOP,))
        found = ranking.assembled(spark, asked, settings)
        plan = statistics_of(ranking.plans(found), question)
        rows = (
            plan.rows.mapInArrow(plan.worker, STATISTICS_COLUMNS)
            .where("estimator = 'full_macro'")
            .select("a", "b")
            .collect()
        )
        found.rows.unpersist()
    return float(sum(row["a"] for row in rows) / sum(row["b"] for row in rows))


def main(scale: float) -> None:
    n_users = max(400, int(8000 * scale))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_sorted(folder / "scores", n_users, ITEMS, 8)
        positions = label_positions(0, n_users, ITEMS)
        pq.write_table(
            pa.table({"item_id": item_ids(np.arange(ITEMS)), "position": np.arange(ITEMS, dtype=np.int32)}),
            folder / "catalogue.parquet",
        )
        labels = write_labels(folder / "labels.parquet", positions)
        pairs = pq.read_table(labels)
        pq.write_table(pairs.append_column("value", pa.array(np.ones(pairs.num_rows))), folder / "truth.parquet")
        call = [
            str(HERE.parent / ".venv-replay/bin/python"),
            str(HERE / "replay_recall.py"),
            str(folder / "scores"),
            labels,
            "--k",
            str(TOP),
            "--repeats",
            "6",
        ]
        environment = os.environ | {"JAVA_HOME": java_home()}
        environment.pop("PYSPARK_PYTHON", None)  # RePlay's workers run in its own environment
        theirs = json.loads(subprocess.run(call, stdout=subprocess.PIPE, text=True, check=True, env=environment).stdout)
        spark = spark_session("bench-replay")
        for _ in range(6):  # warms up Java's compiler
            ours = recall_at_10(spark, folder)
        assert abs(ours - theirs["recall"][str(TOP)]) < 1e-9, f"recall differs: {ours} and {theirs['recall']}"
        jobs_before = _jobs(spark)
        recall_at_10(spark, folder)
        n_jobs = _jobs(spark) - jobs_before
        seconds = best(lambda: recall_at_10(spark, folder))
        rows = n_users * ITEMS / 1e6
        more = {
            "seconds": {"ours": round(seconds, 2), "theirs": round(theirs["seconds"], 2)},
            "jobs": {"ours": n_jobs, "theirs": theirs["jobs"]},
        }
        say("replay", rows / seconds, rows / theirs["seconds"], "M rows/s", recall=round(ours, 6), **more)


def _jobs(spark: SparkSession) -> int:
    """The number of Spark jobs that have run in this session."""
    return len(spark.sparkContext.statusTracker().getJobIdsForGroup())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="The engine against RePlay.")
    parser.add_argument("--scale", type=float, default=1.0)
    main(parser.parse_args().scale)
