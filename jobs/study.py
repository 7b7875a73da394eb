"""Study how well each scheme agrees with the truth over a panel of models, as [ure] did: docs/study.md. A study of
kind simpson is in jobs/simpson_study.py, one of kind wtd in jobs/wtd_study.py, one of kind bqs in jobs/bqs_study.py,
one of kind design in jobs/design_study.py.

    spark-submit jobs/study.py --config conf/studies/ure.yaml --run-id 2026-11-15

Reads ranks of a run that has truth. Writes agreement, study_estimates (replaces this run_id only: safe to retry), and
pictures and a page into the folder `report` of the config. `plumbline run` simulates, trains and ranks before.
"""

from pathlib import Path

from pyspark.sql import SparkSession
from rich.console import Console
from rich.text import Text

from eval_engine.errors import ConfigError
from eval_engine.evaluation.statistics_plan import ranked_by_all
from eval_engine.lake.lake import Lake
from eval_engine.masked import masked
from eval_engine.plain_text import plain, plain_names
from eval_engine.report.study_findings import LABELS, Study
from eval_engine.report.study_plot import save_curves, save_models
from eval_engine.report.study_tables import print_study, save_page
from eval_engine.spark.session import batches_by_bytes, planned_once
from eval_engine.studies.settings import BqsStudy, SimpsonStudy, WtdStudy
from eval_engine.studies.ure import SCHEMES, EvaluationSpec, found_in
from eval_engine.tables import AGREEMENT, RANKS, STUDY_ESTIMATES
from jobs import bqs_study, design_study, simpson_study, wtd_study
from jobs.evaluate import user_gaps
from jobs.progress import spark_progress
from jobs.report import run_facts
from jobs.run_config import AnyConfig, SimulatedStudy
from jobs.stage import stage
from models.spec.debiasing import debiasing


def run(spark: SparkSession, config: AnyConfig, console: Console) -> None:
    """Study, write and report."""
    if isinstance(config, SimulatedStudy):
        design_study.run(spark, config, console)
        return
    settings = config.study
    if isinstance(settings, SimpsonStudy):
        simpson_study.run(spark, config, settings, console)
        return
    if isinstance(settings, WtdStudy):
        wtd_study.run(spark, config, settings, console)
        return
    if isinstance(settings, BqsStudy):
        bqs_study.run(spark, config, settings, console)
        return
    if settings is None:
        raise ConfigError("This config has no study section, so there is nothing to study. See conf/studies/ure.yaml.")
    lake, run_id = Lake(spark, config.lake), {"run_id": config.run_id}
    with stage(lake, config, "study") as running, planned_once(spark), batches_by_bytes(spark):
        with spark_progress(spark, console, "Studying"):
            ranks = lake.read(RANKS, config.run_id)
            ranks = ranked_by_all(ranks, user_gaps(lake, config.run_id, running.before["rank"]))
            found = found_in(
                ranks, EvaluationSpec(settings, config.positive, config.evaluate.ties), config.evaluate.confidence
            )
            lake.put(STUDY_ESTIMATES, found.estimates, run_id)
            lake.put(AGREEMENT, found.agreement, run_id)
        groups = {model.name: debiasing(model) for model in config.train.panel} if config.train else {}
        names = plain_names(row.model for row in found.estimates)
        estimates = [row._replace(model=names[row.model]) for row in found.estimates]
        study = Study(settings, found.candidates, estimates, found.agreement, groups)
        folder = Path(config.report)
        pictures = {
            "Every model: true recall against each scheme": save_models(study, folder / f"{config.run_id}-models.png")
        }
        for scheme in SCHEMES:
            what = f"Agreement of {LABELS[scheme]} recall with true recall over its cutoff"
            pictures[what] = save_curves(study, scheme, folder / f"{config.run_id}-{scheme}.png")
    page = save_page(
        study, pictures, run_facts(spark, config.lake, config.run_id), folder / f"{config.run_id}-study.html"
    )
    print_study(study, console)
    written = masked(f"Tables: {config.lake}   Pictures and page: {page}")
    console.print(Text(plain(written)), soft_wrap=True)


if __name__ == "__main__":
    from jobs.runner import main

    main("study")
