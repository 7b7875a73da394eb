"""The command line.

    plumbline demo                      a synthetic world, four models, and which of them is really better
    plumbline train conf/run.yaml       train the models of a run and write their scores
    plumbline search conf/run.yaml      the same for all trials of its searches, and a table of them
    plumbline evaluate conf/run.yaml    rank, evaluate, report
    plumbline study conf/studies/ure.yaml   simulate, train and rank a panel of models; which scheme agrees with the truth, and where
    plumbline show RUN --lake LAKE      a finished run's table again
    plumbline vacuum LAKE               remove files that killed jobs left and that later runs replaced

Exit codes: 0 fine, 2 bad config, 3 bad data, 4 failed run, 143 ended by SIGTERM. Each stage is also a script for spark-submit (`jobs/rank.py --config ...`).
"""

import argparse
import logging
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Annotated, NoReturn

import typer
from pyspark.sql import SparkSession
from rich.console import Console
from rich.text import Text

from eval_engine.config import check_run_id, read_yaml
from eval_engine.errors import ConfigError, DataError, PlumblineError, Terminated, known_error
from eval_engine.masked import masked
from eval_engine.plain_text import plain, plain_lines
from eval_engine.spark.run_log import run_log
from jobs.outputs import check_outputs
from jobs.run_config import RunConfig

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Which recommendation model is really better.",
)
WRITES = {  # folders of the config that the stage writes to
    "simulate": (),
    "rank": ("lake", "staging"),
    "evaluate": ("lake",),
    "report": ("report",),
    "study": ("lake", "report"),
}
EVERYTHING = ("lake", "staging", "report")
Stage = Callable[[SparkSession, RunConfig, Console], None]
RunIdOption = Annotated[str | None, typer.Option(help="use this run_id instead of the config's")]


def main() -> None:
    """The `plumbline` command."""
    run_and_exit(app)


def run_stage(name: str, stage: Stage) -> None:
    """The main of a spark-submit script: reads the config, runs one stage."""
    parser = argparse.ArgumentParser(prog=f"jobs/{name}.py", description=f"The {name} stage of a run.")
    parser.add_argument("--config", required=True, help="the run's YAML file")
    parser.add_argument("--run-id", help="use this run_id instead of the config's")
    given = parser.parse_args()

    def work() -> None:
        config = load(given.config, given.run_id)  # before Spark starts: what is wrong is told at once
        check_outputs(config, *WRITES[name])
        spark = _session()
        try:
            stage(spark, config, Console(stderr=True))
        finally:
            spark.stop()  # lets go of the cluster's executors before the process ends

    run_and_exit(work)


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
    check_outputs(config, *EVERYTHING)
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
    check_outputs(loaded, *EVERYTHING)
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
    check_outputs(loaded, *EVERYTHING)
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
    from eval_engine.lake.lake import CATALOG_NAME
    from eval_engine.lake.vacuum import vacuum as remove_old_files

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
    """Look for a Java, fetch the Delta jars and make spark-submit and spark-sql of this environment ready, once per environment."""
    from eval_engine.spark.delta_jars import fetch_delta
    from eval_engine.spark.environment import write_spark_environment
    from eval_engine.spark.java import java_home

    console = Console()
    console.print(Text(plain(f"Java: {java_home()}")))
    fetch_delta()
    console.print("Delta: ready")
    for path in write_spark_environment():
        console.print(Text(plain(f"Written: {path}")), soft_wrap=True)


def _session() -> SparkSession:
    from eval_engine.spark.session import spark_session

    log = run_log()
    if log:
        logging.basicConfig(filename=log)  # py4j tells of a Java that is gone with a trace
    return spark_session("plumbline", log=log)


def _demo_config() -> Path:
    """conf/demo.yaml of the checkout, or its copy in the installed package."""
    here = Path(__file__).resolve().parent
    return next(path for path in (here.parent / "conf" / "demo.yaml", here / "demo.yaml") if path.exists())


def run_and_exit(work: Callable[[], object]) -> NoReturn:
    """Runs it and exits: with a message and an exit code for what an operator can fix. Traces go to the log file that the message names."""
    signal.signal(signal.SIGTERM, _terminate)
    try:
        work()
    except KeyboardInterrupt:
        sys.exit(130)
    except Terminated as error:
        _print_error(error)
        raise
    except Exception as error:
        if signal.getsignal(signal.SIGTERM) is signal.SIG_IGN:  # a step of the clean-up failed: what ended it counts
            _keep_trace(error)
            sys.exit(Terminated().code)
        known = error if isinstance(error, PlumblineError) else _known_cause(error)
        _print_error(known or error)
        if _has_more_to_tell(error, known) and (log := _keep_trace(error)) is not None:
            Console(stderr=True, soft_wrap=True).print(f"The trace is in {log}", highlight=False, markup=False)
        sys.exit(known.exit_code if known else PlumblineError.exit_code)
    sys.exit(0)


def _terminate(number: int, frame: FrameType | None) -> NoReturn:
    """The handler of SIGTERM: ends Spark's work, and lets every `finally` and `except BaseException` clean up. A second signal does not disturb that."""
    from eval_engine.spark.session import cancel_work

    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    cancel_work()
    raise Terminated


def _known_cause(error: BaseException) -> PlumblineError | None:
    """What an operator can fix, of the error or, if it came up while another one was assign_tasks with, of that one."""
    found: BaseException | None = error
    while found is not None:
        known = found if isinstance(found, PlumblineError) else known_error(found)
        if known is not None:
            return known
        found = found.__context__
    return None


def _has_more_to_tell(error: BaseException, known: PlumblineError | None) -> bool:
    """Whether a trace helps: of an unknown error, and of one that Spark has told at length; not of a config or a folder."""
    if known is not error:
        return True
    return known.exit_code != ConfigError.exit_code and not isinstance(error.__context__, OSError | None)


def _print_error(error: BaseException) -> None:
    """The error's name and message, of an unknown one the first line."""
    known = isinstance(error, PlumblineError)
    text = str(error) if known else (str(error).strip().splitlines() or [""])[0][:500]
    shown = plain(text) if isinstance(error, DataError) else plain_lines(text)  # ids may hold line breaks
    Console(stderr=True, soft_wrap=True).print(Text.assemble((type(error).__name__, "bold red"), f": {masked(shown)}"))


def _keep_trace(error: BaseException) -> Path | None:
    """Writes the error's trace, and those of the errors it came from, to the log file, which is returned; else to the terminal."""
    shown: BaseException | None = error
    chain = []
    while shown is not None:  # `from None` hides an error from Python's own account
        chain.append("".join(traceback.format_exception(shown, chain=False)))
        shown = shown.__cause__ or shown.__context__
    text = plain_lines(masked("\nwhile this was assign_tasks with:\n\n".join(chain)))
    try:
        if log := run_log():
            with log.open("a") as file:
                file.write(text)
            return log
    except OSError:  # a full disk, most likely
        pass
    sys.stderr.write(text)
    return None


if __name__ == "__main__":
    main()
