"""The study of [simpson], which jobs/study.py runs where `study` has `kind: simpson`: docs/simpson.md.

Reads propensity_fits, estimates, estimator_agreement, reversals, strata and comparisons of a run that is evaluated.
Other propensities (`study.propensities`) are runs of their own, RUN_ID-NAME: they are ranked from the same scores and
evaluated here. Writes pictures and a page into the folder `report` of the config.
"""

from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from rich.console import Console
from rich.text import Text

from eval_engine.lake.lake import Lake
from eval_engine.masked import masked
from eval_engine.metric import Metric
from eval_engine.plain_text import plain
from eval_engine.propensity.settings import Propensity
from eval_engine.report.simpson_plot import save_scatter, save_taus
from eval_engine.report.simpson_tables import SimpsonReport, print_simpson, save_simpson_page
from eval_engine.studies.settings import SimpsonStudy
from eval_engine.studies.simpson import Evaluated, Instance, flagged_pair, instance, strata_summaries, stratum_lines
from eval_engine.tables import (
    COMPARISONS,
    ESTIMATES,
    ESTIMATOR_AGREEMENT,
    PROPENSITY_FITS,
    REVERSALS,
    STRATA,
    Table,
)
from jobs import evaluate, propensity, rank
from jobs.progress import spark_progress
from jobs.report import run_facts
from jobs.run_config import RunConfig
from jobs.stage import fresh, stage


def run(spark: SparkSession, config: RunConfig, settings: SimpsonStudy, console: Console) -> None:
    """Evaluate the other propensities, read and report."""
    lake, metric = Lake(spark, config.lake), config.evaluate.metrics[0]
    with stage(lake, config, "study"):
        fresh(lake, config.run_id, "evaluate")
        runs = {settings.own: config.run_id}
        for name, other in settings.propensities.items():
            changed = with_propensity(config, name, other)
            for stage_file in (rank, propensity, evaluate):
                stage_file.run(spark, changed, console)
            runs[name] = changed.run_id
        with spark_progress(spark, console, "Studying"):
            read = [read_run(lake, name, run_id, metric) for name, run_id in runs.items()]
            instances = {}
            for one in read:
                if pair := _instance(lake, runs[one.propensities], one, settings, metric):
                    instances[one.propensities] = pair
        report = SimpsonReport(metric, read, settings.show, instances)
        pictures = _pictures(report, Path(config.report), config.run_id)
    facts = run_facts(spark, config.lake, config.run_id)
    page = save_simpson_page(report, pictures, facts, Path(config.report) / f"{config.run_id}-study.html")
    print_simpson(report, console)
    written = masked(f"Tables: {config.lake}   Pictures and page: {page}")
    console.print(Text(plain(written)), soft_wrap=True)


def with_propensity(config: RunConfig, name: str, other: Propensity) -> RunConfig:
    """The same run with other propensities, under a run_id of its own; what it reads is made already."""
    changes = {
        "run_id": f"{config.run_id}-{name}",
        "propensity": other.model_dump(),
        "scores": [table.model_dump() for table in config.score_tables()],
    }
    return type(config).model_validate(
        {**config.model_dump(), **changes, **dict.fromkeys(("world", "split", "train", "study"))}
    )


def read_run(lake: Lake, name: str, run_id: str, metric: Metric) -> Evaluated:
    """The rows of a run that the study reads."""
    own = {"run_id": run_id}

    def of_metric(table: Table) -> list[dict[str, Any]]:
        return [row for row in lake.rows(table, own) if (row["metric"], row["k"]) == (metric.name, metric.k)]

    (fit,) = lake.rows(PROPENSITY_FITS, own)
    estimates, agreements, reversals = map(of_metric, (ESTIMATES, ESTIMATOR_AGREEMENT, REVERSALS))
    return Evaluated(name, fit, estimates, agreements, reversals, lake.rows(STRATA, own))


def _instance(lake: Lake, run_id: str, read: Evaluated, settings: SimpsonStudy, metric: Metric) -> Instance | None:
    """The pair of models to show, if there is one."""
    pair = flagged_pair(read, settings.show)
    if pair is None:
        return None
    both = [pair["model_a"], pair["model_b"]]
    rows = lake.read(COMPARISONS, run_id).where(
        F.col("model_a").isin(both)
        & F.col("model_b").isin(both)
        & (F.col("metric") == metric.name)
        & (F.col("k") == metric.k)
    )
    return instance(read, settings.show, pair, [row.asDict() for row in rows.collect()])


def _pictures(report: SimpsonReport, folder: Path, run_id: str) -> dict[str, Path]:
    """Written, by what they show."""
    pictures = {}
    for one in report.runs:
        if stratum_lines(one, report.show):
            what = f"Every model by stratum, propensities: {one.propensities}"
            pictures[what] = save_scatter(report, one, folder / f"{run_id}-{one.propensities}-strata.png")
        if strata_summaries(one):
            what = f"Agreement over the number of strata, propensities: {one.propensities}"
            pictures[what] = save_taus(report, one, folder / f"{run_id}-{one.propensities}-taus.png")
    return pictures
