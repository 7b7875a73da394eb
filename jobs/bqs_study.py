"""The study of [bqs], which jobs/study.py runs where `study` has `kind: bqs`: docs/popularity.md.

Reads estimates, bqs and popularity_classes of a run that is evaluated. Writes pictures and a page into the folder
`report` of the config.
"""

from pathlib import Path

from pyspark.sql import SparkSession
from rich.console import Console
from rich.text import Text

from eval_engine.lake.lake import Lake
from eval_engine.masked import masked
from eval_engine.plain_text import plain
from eval_engine.report.bqs_tables import BqsReport, print_bqs, save_bqs_page
from eval_engine.report.popularity_plot import save_curve, save_exposure
from eval_engine.studies.bqs import evaluated
from eval_engine.studies.settings import BqsStudy
from eval_engine.tables import BQS, ESTIMATES, POPULARITY_CLASSES
from jobs.progress import spark_progress
from jobs.report import run_facts
from jobs.run_config import RunConfig
from jobs.stage import fresh, stage


def run(spark: SparkSession, config: RunConfig, settings: BqsStudy, console: Console) -> None:
    """Read and report."""
    lake, own, folder = Lake(spark, config.lake), {"run_id": config.run_id}, Path(config.report)
    with stage(lake, config, "study"), spark_progress(spark, console, "Studying"):
        fresh(lake, config.run_id, "evaluate")
        (classes,) = lake.rows(POPULARITY_CLASSES, own)
        read = evaluated(lake.rows(ESTIMATES, own), lake.rows(BQS, own))
        report = BqsReport(read, settings.qualities, settings.k, settings.show, classes)
        pictures = {
            "Popularity of items, and its classes": save_curve(classes, folder / f"{config.run_id}-popularity.png"),
            "Exposure of each class": save_exposure(read, settings.show, folder / f"{config.run_id}-exposure.png"),
        }
    facts = run_facts(spark, config.lake, config.run_id)
    page = save_bqs_page(report, pictures, facts, folder / f"{config.run_id}-study.html")
    print_bqs(report, console)
    console.print(Text(plain(masked(f"Tables: {config.lake}   Pictures and page: {page}"))), soft_wrap=True)
