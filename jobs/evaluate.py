"""Estimate every metric of one run from its ranks.

    spark-submit jobs/evaluate.py --config conf/demo.yaml --run-id 2026-11-15

Reads ranks. Writes statistics, estimates, comparisons (replaces this run_id only: safe to retry). Reads no scores: other metrics, cutoffs, tie policies or
rules of what is positive need this job only.
"""

import json
from typing import Any

from pyspark.sql import SparkSession
from rich.console import Console

from eval_engine.errors import DataError
from eval_engine.evaluation.results import InferenceSettings, estimates_and_comparisons
from eval_engine.evaluation.spec import EvaluationSpec
from eval_engine.evaluation.statistics_plan import ranked_by_all, statistics, statistics_of_files, unequal_users
from eval_engine.lake.lake import Lake
from eval_engine.ranking.ranks_files import unusable_ranks
from eval_engine.spark.session import batches_by_bytes, planned_once
from eval_engine.tables import COMPARISONS, ESTIMATES, RANKS, STATISTICS
from jobs.progress import spark_progress
from jobs.run_config import RunConfig
from jobs.stage import fresh_ranks, ranks_token, stage


def run(spark: SparkSession, config: RunConfig, console: Console) -> None:
    """Evaluate and write."""
    lake = Lake(spark, config.lake)
    asked = config.evaluate
    question = EvaluationSpec(
        asked.metrics,
        asked.traditional,
        config.positive,
        asked.ties,
        tuple(name for name, table in (("random", config.inputs.exposures), ("truth", config.inputs.truth)) if table),
    )
    ranked = fresh_ranks(lake, config.run_id)
    with (
        stage(
            lake,
            config,
            "evaluate",
            {RANKS.name: ranks_token(lake, config.run_id)},
            (STATISTICS, ESTIMATES, COMPARISONS),
        ),
        planned_once(spark),
        batches_by_bytes(spark),
        spark_progress(spark, console, "Evaluating"),
    ):
        run_id = {"run_id": config.run_id}
        files = lake.files(RANKS, config.run_id)
        for model, why in sorted(unusable_ranks(files).items()):
            raise DataError(
                f"ranks: model {model} of run_id={config.run_id}: {why}. Run jobs/rank.py with this run_id again: it ranks what is damaged."
            )
        gaps = user_gaps(lake, config.run_id, ranked)
        if files and not gaps:
            plan = statistics_of_files(spark, [(f.path, str(f.partition["model"]), f.n_bytes) for f in files], question)
        else:
            plan = statistics(ranked_by_all(lake.read(RANKS, config.run_id), gaps), question)
        written = lake.replace_by_workers(STATISTICS, plan.rows, plan.worker, run_id)
        asking = InferenceSettings(asked.confidence, asked.margin, asked.power, asked.replicates, asked.seed)
        estimates, comparisons = estimates_and_comparisons(written, asking)
        lake.put(ESTIMATES, estimates, run_id)
        lake.put(COMPARISONS, comparisons, run_id)


def user_gaps(lake: Lake, run_id: str, ranked: dict[str, Any]) -> set[str]:
    """Rules by which users must be left out, as the ranks tell. `ranked`: the row of the rank stage; if it refused bad rows, every model has ranked the same users."""
    if json.loads(ranked["config"])["on_bad_rows"] == "error":
        return set()
    return unequal_users(lake.read(RANKS, run_id))


if __name__ == "__main__":
    from jobs.cli import run_stage

    run_stage("evaluate", run)
