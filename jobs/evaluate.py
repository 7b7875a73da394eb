"""Estimate every metric of one run from its ranks.

    spark-submit jobs/evaluate.py --config conf/demo.yaml --run-id 2026-11-15

Reads ranks. Writes statistics, estimates (replaces this run_id only: safe to retry). Reads no scores: other metrics, cutoffs, tie policies or rules
of what is positive need this job only.
"""

from pyspark.sql import SparkSession
from rich.console import Console

from eval_engine.errors import DataError
from eval_engine.evaluation import ESTIMATE_SCHEMA, Question, estimates, ranked_by_all, statistics
from eval_engine.lake import Lake
from eval_engine.session import planned_once, rows_per_batch
from eval_engine.tables import CATALOGUE, ESTIMATES, QUALITY, RANKS, STATISTICS
from jobs.progress import spark_progress
from jobs.run_config import RunConfig
from jobs.stage import stage


def run(spark: SparkSession, config: RunConfig, console: Console) -> None:
    """Evaluate and write."""
    lake = Lake(spark, config.lake)
    asked = config.evaluate
    question = Question(asked.metrics, asked.traditional, config.positive, asked.ties, ("random", "truth") if config.inputs.truth else ("random",))
    with stage(lake, config, "evaluate", {}), planned_once(spark), spark_progress(spark, console, "Evaluating"):
        run_id = {"run_id": config.run_id}
        spark.conf.set(*rows_per_batch(max(1, lake.read(CATALOGUE, config.run_id).count())))
        gaps = not lake.read(QUALITY, config.run_id).where("rule = 'not_scored'").isEmpty()
        lake.replace(STATISTICS, statistics(ranked_by_all(lake.read(RANKS, config.run_id), gaps), question), run_id)
        found = estimates(lake.read(STATISTICS, config.run_id).collect(), asked.confidence)
        if not found:
            raise DataError(f"ranks holds no row of run_id={config.run_id}. Run jobs/rank.py with this run_id first.")
        lake.replace(ESTIMATES, spark.createDataFrame(found, ESTIMATE_SCHEMA), run_id)


if __name__ == "__main__":
    from jobs.cli import run_stage

    run_stage("evaluate", run)
