"""Estimate every metric of one run from its ranks.

    spark-submit jobs/evaluate.py --config conf/demo.yaml --run-id 2026-11-15

Reads ranks. Writes statistics, estimates, comparisons (replaces this run_id only: safe to retry). Reads no scores: other metrics, cutoffs, tie policies or
rules of what is positive need this job only.
"""

from pyspark.sql import SparkSession
from rich.console import Console

from eval_engine.errors import DataError
from eval_engine.evaluation import LEFT_OUT, ranked_by_all, statistics, statistics_of_files
from eval_engine.lake import Lake
from eval_engine.question import Question
from eval_engine.results import Asking, estimates_and_comparisons
from eval_engine.session import batches_by_bytes, planned_once
from eval_engine.tables import COMPARISONS, ESTIMATES, QUALITY, RANKS, STATISTICS
from jobs.progress import spark_progress
from jobs.run_config import RunConfig
from jobs.stage import stage


def run(spark: SparkSession, config: RunConfig, console: Console) -> None:
    """Evaluate and write."""
    lake = Lake(spark, config.lake)
    asked = config.evaluate
    question = Question(
        asked.metrics,
        asked.traditional,
        config.positive,
        asked.ties,
        ("random", "truth") if config.inputs.truth else ("random",),
    )
    with (
        stage(lake, config, "evaluate", {}),
        planned_once(spark),
        batches_by_bytes(spark),
        spark_progress(spark, console, "Evaluating"),
    ):
        run_id = {"run_id": config.run_id}
        rules = {row["rule"] for row in lake.rows(QUALITY, run_id)}
        if not lake.partitions(RANKS, config.run_id):
            raise DataError(f"ranks holds no row of run_id={config.run_id}. Run jobs/rank.py with this run_id first.")
        files = [] if rules & LEFT_OUT else lake.files(RANKS, config.run_id, "model")
        ranks = None if files else ranked_by_all(lake.read(RANKS, config.run_id), rules)
        plan = statistics_of_files(spark, files, question) if ranks is None else statistics(ranks, question)
        written = lake.replace_by_workers(STATISTICS, plan.rows, plan.worker, run_id)
        asking = Asking(asked.confidence, asked.margin, asked.power, asked.replicates, asked.seed)
        estimates, comparisons = estimates_and_comparisons(written, asking)
        lake.put(ESTIMATES, estimates, run_id)
        lake.put(COMPARISONS, comparisons, run_id)


if __name__ == "__main__":
    from jobs.cli import run_stage

    run_stage("evaluate", run)
