"""The study of designed exposures, which jobs/study.py runs where `study` has `kind: design`: docs/design.md.

Simulates all it needs, on the workers of Spark. Writes design_study (replaces this run_id only: safe to retry), and a
picture and a page into the folder `report` of the config.
"""

from pathlib import Path

from pyspark.sql import SparkSession
from rich.console import Console
from rich.text import Text

from eval_engine.lake.lake import Lake
from eval_engine.masked import masked
from eval_engine.plain_text import plain
from eval_engine.report.design_study_plot import save_gains
from eval_engine.report.design_study_tables import print_design, save_design_page
from eval_engine.studies.design import SUMS, Line, Sums, blocks_of, lines_of, summed
from eval_engine.studies.settings import DesignStudy
from eval_engine.tables import DESIGN_STUDY
from jobs.progress import spark_progress
from jobs.report import run_facts
from jobs.run_config import SimulatedStudy
from jobs.stage import stage


def run(spark: SparkSession, config: SimulatedStudy, console: Console) -> None:
    """Simulate, write and report."""
    settings, lake, folder = config.study, Lake(spark, config.lake), Path(config.report)
    with stage(lake, config, "study"), spark_progress(spark, console, "Simulating exposures"):
        lines = simulated(spark, settings)
        lake.put(DESIGN_STUDY, lines, {"run_id": config.run_id})
        what = "Gain of plans over uniform exposure, and coverage of intervals"
        pictures = {what: save_gains(settings, lines, folder / f"{config.run_id}-gains.png")}
    facts = run_facts(spark, config.lake, config.run_id)
    page = save_design_page(settings, lines, pictures, facts, folder / f"{config.run_id}-study.html")
    print_design(settings, lines, console)
    console.print(Text(plain(masked(f"Tables: {config.lake}   Pictures and page: {page}"))), soft_wrap=True)


def simulated(spark: SparkSession, settings: DesignStudy) -> list[Line]:
    """The rows of the study: a task per block of draws."""
    n = len(blocks_of(settings))
    rows = spark.range(0, n, 1, n).mapInArrow(summed(settings), SUMS).collect()
    return lines_of(settings, [Sums(**row.asDict()) for row in rows])
