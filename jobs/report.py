"""Show one run: the table on the terminal, a picture and a page on disk.

    spark-submit jobs/report.py --config conf/demo.yaml --run-id 2026-11-15

Reads estimates, comparisons, reversals, estimator_agreement, quality, runs. Writes RUN.png and RUN.html into the
folder `report` of the config.
"""

import json
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from rich.console import Console
from rich.text import Text

from eval_engine.errors import DataError
from eval_engine.lake.lake import Lake
from eval_engine.masked import masked
from eval_engine.metric import Metric
from eval_engine.plain_text import plain
from eval_engine.report.agreement_row import AgreementRow
from eval_engine.report.answers import Answers
from eval_engine.report.check_line import CheckLine, check_lines
from eval_engine.report.comparison_row import ComparisonRow
from eval_engine.report.console import print_report
from eval_engine.report.estimate_row import EstimateRow
from eval_engine.report.html import save_html
from eval_engine.report.plot import save_plot
from eval_engine.report.popularity_block import popularity_html
from eval_engine.report.popularity_plot import save_curve
from eval_engine.report.reversal_row import ReversalRow
from eval_engine.report.run_settings import run_settings
from eval_engine.tables import (
    BQS,
    COMPARISONS,
    ESTIMATES,
    ESTIMATOR_AGREEMENT,
    POPULARITY_CLASSES,
    QUALITY,
    REVERSALS,
    RUNS,
    Table,
)
from jobs.progress import spark_progress
from jobs.run_config import RunConfig
from jobs.stage import answered, stage, status_of


def run(spark: SparkSession, config: RunConfig, console: Console) -> None:
    """Print the run's table, draw its picture, write its page."""
    folder = Path(config.report)
    with stage(Lake(spark, config.lake), config, "report"), spark_progress(spark, console, "Reporting"):
        answers = read_answers(spark, config.lake, config.run_id, config.evaluate.metrics)
        answers = answers._replace(checks=read_checks(spark, config.lake, config.run_id))
        picture = save_plot(answers, folder / f"{config.run_id}.png")
        facts = run_facts(spark, config.lake, config.run_id)
        settings = run_settings(config.run_id, Lake(spark, config.lake).rows(RUNS, {"run_id": config.run_id}))
        more = _popularity(Lake(spark, config.lake), config, answers, folder)
        page = save_html(answers, facts, picture, folder / f"{config.run_id}.html", settings, more)
    print_report(answers, console)
    for what, path in (("Tables", config.lake), ("Picture", picture), ("Page", page)):
        console.print(Text(f"{what + ':':8} {plain(masked(str(path)))}"), soft_wrap=True)


def _popularity(lake: Lake, config: RunConfig, answers: Answers, folder: Path) -> str:
    """The sections on popularity, if the run has classes; draws their picture."""
    if config.popularity is None:
        return ""
    own = {"run_id": config.run_id}
    rows = lake.rows(POPULARITY_CLASSES, own)
    if not rows:
        return ""
    picture = save_curve(rows[0], folder / f"{config.run_id}-popularity.png")
    remark = "; ".join(rows[0][name] for name in ("reason", "remark") if rows[0][name])
    return popularity_html(picture, answers.estimates, lake.rows(BQS, own), remark)


def show(spark: SparkSession, lake: str, run_id: str, console: Console) -> None:
    """Print the report of a finished run."""
    evaluated = answered(Lake(spark, lake), run_id)
    asked = json.loads(evaluated["config"])["evaluate"]["metrics"]
    answers = read_answers(spark, lake, run_id, tuple(map(Metric.parse, asked)))
    print_report(answers._replace(checks=read_checks(spark, lake, run_id)), console)


def read_answers(spark: SparkSession, lake: str, run_id: str, metrics: tuple[Metric, ...]) -> Answers:
    """The rows of a run; metrics are reported in this order."""
    rows, confidence = read_estimates(spark, lake, run_id)
    answers = Answers(rows, read_comparisons(spark, lake, run_id), confidence, metrics)
    return answers._replace(
        reversals=[ReversalRow(**row) for row in _known_columns(spark, lake, run_id, REVERSALS, ReversalRow._fields)],
        agreement=[
            AgreementRow(**row)
            for row in _known_columns(spark, lake, run_id, ESTIMATOR_AGREEMENT, AgreementRow._fields)
        ],
    )


def _known_columns(
    spark: SparkSession, lake: str, run_id: str, table: Table, names: tuple[str, ...]
) -> list[dict[str, Any]]:
    """These columns of the run's rows; no rows in a lake of an earlier version."""
    rows = Lake(spark, lake).rows(table, {"run_id": run_id})
    return [{name: row[name] for name in names if name in row} for row in rows]


def read_estimates(spark: SparkSession, lake: str, run_id: str) -> tuple[list[EstimateRow], float]:
    """The run's estimates, and the confidence of their intervals."""
    rows = Lake(spark, lake).rows(ESTIMATES, {"run_id": run_id})
    if not rows:
        raise DataError(
            f"estimates in {lake} holds no row of run_id={run_id}. Run `plumbline run` with this run_id, or give "
            "another --lake."
        )
    known = [name for name in EstimateRow._fields if name in rows[0]]  # lakes of earlier versions have fewer
    return [EstimateRow(**{name: row[name] for name in known}) for row in rows], rows[0]["confidence"]


def read_comparisons(spark: SparkSession, lake: str, run_id: str) -> list[ComparisonRow]:
    """The run's pairs of models; none in a lake of an earlier version."""
    rows = Lake(spark, lake).rows(COMPARISONS, {"run_id": run_id})
    known = [name for name in ComparisonRow._fields if rows and name in rows[0]]
    return [ComparisonRow(**{name: row[name] for name in known}) for row in rows]


def read_checks(spark: SparkSession, lake: str, run_id: str) -> list[CheckLine]:
    """The results of the checks of the run's random exposures."""
    return check_lines(Lake(spark, lake).rows(QUALITY, {"run_id": run_id}))


def run_facts(spark: SparkSession, lake: str, run_id: str) -> dict[str, str]:
    """The stages of the run, but for the report itself, with their times, versions and inputs."""
    facts = {"run_id": run_id}
    rows = [row for row in Lake(spark, lake).rows(RUNS, {"run_id": run_id}) if row["stage"] != "report"]
    for row in sorted(rows, key=lambda row: row["started_at"]):
        facts[f"{row['stage']} stage"] = (
            f"{row['status']} in {row['seconds']:.1f} s, started {row['started_at']:%Y-%m-%d %H:%M} UTC"
            if row["seconds"]
            else {"gone": "killed before it was done"}.get(status_of(row), row["status"])
        )
        facts |= {f"{name} version": value for name, value in row["versions"].items()} | row["inputs"]
    return {masked(name): masked(value) for name, value in facts.items()}  # also of lakes that were written unmasked


if __name__ == "__main__":
    from jobs.runner import main

    main("report")
