"""Show one run: the table on the terminal, a picture and a page on disk.

    spark-submit jobs/report.py --config conf/demo.yaml --run-id 2026-11-15

Reads estimates, quality, runs. Writes RUN.png and RUN.html into the folder `report` of the config.
"""

from pathlib import Path

from pyspark.sql import SparkSession
from rich.console import Console

from eval_engine.errors import DataError
from eval_engine.lake import Lake
from eval_engine.report.console import print_report
from eval_engine.report.estimate_row import EstimateRow
from eval_engine.report.html import save_html
from eval_engine.report.plot import save_plot
from eval_engine.tables import ESTIMATES, RUNS
from jobs.progress import spark_progress
from jobs.run_config import RunConfig


def run(spark: SparkSession, config: RunConfig, console: Console) -> None:
    """Print the run's table, draw its picture, write its page."""
    folder = Path(config.report)
    with spark_progress(spark, console, "Reporting"):
        rows, confidence = read_estimates(spark, config.lake, config.run_id)
        picture = save_plot(rows, folder / f"{config.run_id}.png", config.evaluate.metrics[0], confidence)
        page = save_html(rows, run_facts(spark, config.lake, config.run_id), picture, folder / f"{config.run_id}.html", confidence)
    print_report(rows, console, confidence)
    console.print(f"Tables: {config.lake}   Picture: {picture}   Page: {page}", soft_wrap=True, highlight=False)


def show(spark: SparkSession, lake: str, run_id: str, console: Console) -> None:
    """Print a finished run's table."""
    rows, confidence = read_estimates(spark, lake, run_id)
    print_report(rows, console, confidence)


def read_estimates(spark: SparkSession, lake: str, run_id: str) -> tuple[list[EstimateRow], float]:
    """The run's estimates, and the confidence of their intervals."""
    found = Lake(spark, lake).rows(ESTIMATES, {"run_id": run_id})
    if not found:
        raise DataError(f"estimates in {lake} holds no row of run_id={run_id}. Run `plumbline evaluate` with this run_id, or give another --lake.")
    return [EstimateRow(*[row[name] for name in EstimateRow._fields]) for row in found], found[0]["confidence"]


def run_facts(spark: SparkSession, lake: str, run_id: str) -> dict[str, str]:
    """When, with what and on what the run was made."""
    facts = {"run_id": run_id}
    for row in sorted(Lake(spark, lake).rows(RUNS, {"run_id": run_id}), key=lambda row: row["started_at"]):
        facts[f"{row['stage']} stage"] = (
            f"{row['status']} in {row['seconds']:.1f} s, started {row['started_at']:%Y-%m-%d %H:%M} UTC" if row["seconds"] else row["status"]
        )
        facts |= {f"{name} version": value for name, value in row["versions"].items()} | row["inputs"]
    return facts


if __name__ == "__main__":
    from jobs.cli import run_stage

    run_stage("report", run)
