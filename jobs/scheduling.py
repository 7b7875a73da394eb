"""What a scheduler such as Airflow asks of Plumbline, as JSON, and the steps that it runs in its own way.

    python -m jobs.scheduling stages                            STAGES of jobs/pipeline.py
    python -m jobs.scheduling plan CONFIG --run-id RUN          what this config asks for; checks config and run_id
    python -m jobs.scheduling train-model CONFIG --model M --run-id RUN   one model; the stage `train` then keeps it
    python -m jobs.scheduling checks CONFIG --run-id RUN --stop-on fail   the verdicts on the random exposures
    python -m jobs.scheduling gate CONFIG --run-id RUN          the stage `gate`; 99 if it neither approves nor says no

JSON is one line on stdout. Exit codes are those of `plumbline`; `checks` ends with 3 if a verdict is one to stop on,
and 99 is the exit code by which a Bash task of Airflow is skipped.
"""

import json
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Annotated, Literal

import typer
from rich.console import Console
from rich.text import Text

from eval_engine.config import check_run_id
from eval_engine.errors import ConfigError, DataError
from eval_engine.plain_text import plain
from eval_engine.tables import QUALITY, Table
from jobs.cli import ConfigArgument
from jobs.ending import run_and_exit
from jobs.pipeline import STAGES, stages_of
from jobs.runner import load, start_spark

app = typer.Typer(add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False)
NOT_APPROVED = 99
RunId = Annotated[str, typer.Option(help="run_id of the run")]


@app.command()
def stages() -> None:
    """Every stage: what it does, its script, what it comes after, the tables that it writes, its use of Spark."""
    shown = {
        name: {
            "about": stage.about,
            "script": getattr(find_spec(f"jobs.{name}"), "origin", None),
            "after": stage.after,
            "writes": [part.name if isinstance(part, Table) else part for part in stage.writes],
            "spark": stage.spark,
        }
        for name, stage in STAGES.items()
    }
    print(json.dumps(shown))


@app.command()
def plan(config: ConfigArgument, run_id: RunId) -> None:
    """The stages and models of a run."""
    try:
        check_run_id(run_id)
    except ValueError as error:
        raise ConfigError(str(error)) from None
    loaded = load(config, run_id)
    asked = stages_of(loaded)
    models = [model.name for model in loaded.train.panel] if loaded.train and "train" in asked else []
    print(json.dumps({"config": str(config), "run_id": run_id, "stages": asked, "models": models}))


@app.command()
def train_model(
    config: ConfigArgument, model: Annotated[str, typer.Option(help="name of the model")], run_id: RunId
) -> None:
    """Train and score one model of a run."""
    from jobs.train import run_model

    run_model(load(config, run_id), model, Console(stderr=True))


@app.command()
def checks(config: ConfigArgument, run_id: RunId, stop_on: Literal["nothing", "fail", "warn"] = "fail") -> None:
    """Print the verdicts of a run on its random exposures; an error if one of them is to stop it."""
    from eval_engine.lake.lake import Lake
    from eval_engine.quality.exposure_checks import refuse, stopping
    from eval_engine.quality.quality_row import QualityRow
    from jobs.stage import lake_without_spark

    loaded = load(config, run_id)
    lake = lake_without_spark(loaded.lake) or Lake(start_spark(), loaded.lake)
    rows = [row for row in lake.rows(QUALITY, {"run_id": run_id}) if row["verdict"] is not None]
    if not rows:
        raise DataError(
            f"quality in {loaded.lake} has no verdict on the exposures of run_id={run_id}. Run jobs/rank.py with this "
            "run_id."
        )
    for row in rows:
        Console().print(Text(plain(f"{row['rule']}: {row['verdict']}. {row['example']}")), soft_wrap=True)
    read = [QualityRow(*(row[name] for name in QualityRow._fields)) for row in rows]
    if stopped := [row for row in stopping(read, stop_on) if row.action == "stopped"]:
        raise refuse(stopped)


@app.command()
def gate(config: ConfigArgument, run_id: RunId) -> None:
    """The stage `gate`, ending with NOT_APPROVED where gates with on_fail: warn are broken and no others."""
    from eval_engine.quality.gates import is_approved
    from jobs import gate as stage

    approved: list[bool] = []
    show = stage.shown_on(Console())

    def note(run_id: str, rows: Sequence[stage.GateRow]) -> None:
        show(run_id, rows)
        approved.append(is_approved(rows))

    stage.gate(load(config, run_id), note)
    if approved != [True]:
        sys.exit(NOT_APPROVED)


if __name__ == "__main__":
    run_and_exit(app)
