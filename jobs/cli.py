"""The command line.

    plumbline demo                      a synthetic world, four models, and which of them is really better
    plumbline train conf/run.yaml       train the models of a run and write their scores
    plumbline search conf/run.yaml      the same for all trials of its searches, and a table of them
    plumbline evaluate conf/run.yaml    rank, evaluate, report
    plumbline study conf/studies/ure.yaml   simulate, train and rank a panel of models; which scheme agrees with the truth, and where
    plumbline show RUN --lake LAKE      a finished run's table again
    plumbline vacuum LAKE               remove files that killed jobs left and that later runs replaced

Exit codes: 0 fine, 2 bad config, 3 bad data, 4 failed run. Each stage is also a script for spark-submit (`jobs/rank.py --config ...`).
"""

import argparse
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from pyspark.sql import SparkSession
from rich.console import Console
from rich.text import Text

from eval_engine.config import check_run_id, read_yaml
from eval_engine.errors import ConfigError, DataError, PlumblineError
from eval_engine.masked import masked
from eval_engine.plain_text import plain, plain_lines
from jobs.run_config import RunConfig

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Which recommendation model is really better.",
)
Stage = Callable[[SparkSession, RunConfig, Console], None]
RunIdOption = Annotated[str | None, typer.Option(help="use this run_id instead of the config's")]


def main() -> None:
    """The `plumbline` command."""
    told(app)


def run_stage(name: str, stage: Stage) -> None:
    """The main of a spark-submit script: reads the config, runs one stage."""
    parser = argparse.ArgumentParser(prog=f"jobs/{name}.py", description=f"The {name} stage of a run.")
    parser.add_argument("--config", required=True, help="the run's YAML file")
    parser.add_argument("--run-id", help="use this run_id instead of the config's")
    given = parser.parse_args()

    def work() -> None:
        config = load(given.config, given.run_id)  # before Spark starts: a bad config is told at once
        spark = _session()
        try:
            stage(spark, config, Console(stderr=True))
        finally:
            spark.stop()  # lets go of the cluster's executors before the process ends

    told(work)


def load(path: str | Path, run_id: str | None = None) -> RunConfig:
    """The run's config."""
    return read_yaml(path, RunConfig, {"run_id": run_id} if run_id is not None else None)


@app.command()
def demo(run_id: RunIdOption = None) -> None:
    """Simulate a platform, train models, rank, evaluate and report, in ./demo."""
    from jobs import evaluate as evaluation
    from jobs import rank, report, simulate
    from jobs.train import run as run_training

    config, console = load(_demo_config(), run_id), Console()
    with console.status("Starting Spark"):
        spark = _session()
    simulate.run(spark, config, console)
    run_training(config, console)
    for stage in (rank.run, evaluation.run, report.run):
        stage(spark, config, console)


@app.command()
def evaluate(config: Annotated[Path, typer.Argument(help="the run's YAML file")], run_id: RunIdOption = None) -> None:
    """Rank the labelled pairs of a run, evaluate and report."""
    from jobs import evaluate as evaluation
    from jobs import rank, report

    loaded, console = load(config, run_id), Console()
    with console.status("Starting Spark"):
        spark = _session()
    for stage in (rank.run, evaluation.run, report.run):
        stage(spark, loaded, console)


@app.command()
def train(config: Annotated[Path, typer.Argument(help="the run's YAML file")], run_id: RunIdOption = None) -> None:
    """Train the models of a run and write their scores, or their ranks."""
    from jobs.train import run

    run(load(config, run_id), Console())


@app.command()
def search(config: Annotated[Path, typer.Argument(help="the run's YAML file")], run_id: RunIdOption = None) -> None:
    """Train every model and trial of a run, and show how they compare on held-out pairs."""
    from jobs.train import run, show_trials

    loaded, console = load(config, run_id), Console()
    run(loaded, console)
    show_trials(loaded, console)


@app.command()
def study(
    config: Annotated[Path, typer.Argument(help="a run's YAML file with a study section")], run_id: RunIdOption = None
) -> None:
    """Simulate and train where the config says so, rank, and study how well each scheme agrees with the truth."""
    from jobs import rank, simulate
    from jobs import study as studying
    from jobs.train import run as run_training

    loaded, console = load(config, run_id), Console()
    if loaded.study is None:
        raise ConfigError(f"{config}: has no study section, so there is nothing to study. See conf/studies/ure.yaml.")
    with console.status("Starting Spark"):
        spark = _session()
    if loaded.world:
        simulate.run(spark, loaded, console)
    if loaded.train:
        run_training(loaded, console)
    for stage in (rank.run, studying.run):
        stage(spark, loaded, console)


@app.command()
def show(
    run: Annotated[str, typer.Argument(help="run_id")],
    lake: Annotated[str, typer.Option(help="folder, URI or catalog.schema of the tables")] = "demo/lake",
) -> None:
    """Print a finished run's table."""
    from jobs import report

    try:
        check_run_id(run)
    except ValueError as error:
        raise ConfigError(str(error)) from None
    report.show(_session(), lake, run, Console())


@app.command()
def vacuum(
    lake: Annotated[str, typer.Argument(help="folder or URI of the tables")],
    hours: Annotated[
        int, typer.Option(min=0, help="keep files younger than this: somebody may still read or write them")
    ] = 168,
) -> None:
    """Remove files of a lake that no table names any more: left by killed jobs, or replaced by later ones."""
    from eval_engine.lake import CATALOG_NAME
    from eval_engine.vacuum import vacuum as remove_old_files

    if CATALOG_NAME.fullmatch(lake):
        raise ConfigError(
            f"{lake} is a catalog's schema: use VACUUM of its SQL, table by table. A folder or URI is needed here."
        )
    removed = remove_old_files(lake, hours)
    for table, n_files, n_bytes in removed:
        Console().print(Text(plain(f"{table}: {n_files:,} files, {n_bytes / 2**20:,.1f} MB")))
    if not removed:
        Console().print(f"Nothing older than {hours} hours to remove.")


@app.command()
def setup() -> None:
    """Look for a Java and fetch the Delta jars, once per environment."""
    from eval_engine.delta_jars import fetch_delta
    from eval_engine.java import java_home

    console = Console()
    console.print(Text(plain(f"Java: {java_home()}")))
    fetch_delta()
    console.print("Delta: ready")


def _session() -> SparkSession:
    from eval_engine.session import spark_session

    return spark_session("plumbline")


def _demo_config() -> Path:
    """conf/demo.yaml of the checkout, or its copy in the installed package."""
    here = Path(__file__).resolve().parent
    return next(path for path in (here.parent / "conf" / "demo.yaml", here / "demo.yaml") if path.exists())


def told(work: Callable[[], object]) -> NoReturn:
    """Runs it and exits: with a message and an exit code for what an operator can fix."""
    try:
        work()
    except PlumblineError as error:
        message = plain(error) if isinstance(error, DataError) else plain_lines(error)  # ids may hold line breaks
        Console(stderr=True, soft_wrap=True).print(Text.assemble((type(error).__name__, "bold red"), f": {message}"))
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.exit(130)
    except Exception as error:
        sys.stderr.write(plain_lines(masked("".join(traceback.format_exception(error)))))
        sys.exit(4)
    sys.exit(0)


if __name__ == "__main__":
    main()
