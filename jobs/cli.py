"""The command line.

    plumbline demo                      a synthetic world, five models, and which of them is really better
    plumbline run conf/run.yaml         all stages that the config has something to do for
    plumbline rank conf/run.yaml        one stage: simulate, split, propensity, train, rank, ...
    plumbline search conf/run.yaml      train, and a table of the trials of its searches
    plumbline sample conf/run.yaml --to PATH   a debiased training table, drawn from feedback as test sets are
    plumbline power RUN --lake LAKE --detect 2%   how many users telling its models apart takes: before an experiment
    plumbline show RUN --lake LAKE      a finished run's table again
    plumbline merge RUN RUN --as ID --lake LAKE   the statistics of runs added up, as a run of its own
    plumbline gate RUN --lake LAKE      the gates of a run's config again; --json for programs
    plumbline import coat DIR --to OUT  a public data set as tables, and a config to run on them
    plumbline vacuum LAKE               remove files that killed jobs left and that later runs replaced

Exit codes: 0 fine, 2 bad config, 3 bad data, 4 failed run, 5 the gate said no, 143 ended by SIGTERM. Each stage is
also a script for spark-submit (`jobs/rank.py --config ...`).
"""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from eval_engine.config import check_run_id
from eval_engine.errors import ConfigError
from eval_engine.plain_text import plain
from jobs.ending import run_and_exit
from jobs.import_data import commands as import_commands
from jobs.pipeline import STAGES, stages_of
from jobs.runner import Session, load, load_any, run_stages, start_spark

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Which recommendation model is really better.",
)
app.add_typer(import_commands, name="import")
ConfigArgument = Annotated[Path, typer.Argument(help="the run's YAML file")]
RunIdOption = Annotated[str | None, typer.Option(help="use this run_id instead of the config's")]


def main() -> None:
    """The `plumbline` command."""
    run_and_exit(app)


@app.command()
def demo(run_id: RunIdOption = None) -> None:
    """Simulate a platform, train models, rank, evaluate and report, in ./demo."""
    run(_demo_config(), run_id)


@app.command()
def run(config: ConfigArgument, run_id: RunIdOption = None) -> None:
    """Run all stages that the config has something to do for."""
    loaded = load_any(config, run_id)
    run_stages(stages_of(loaded), loaded, Session(Console()))


def _command(name: str) -> Callable[..., None]:
    """The command of one stage."""

    def command(config: ConfigArgument, run_id: RunIdOption = None) -> None:
        run_stages((name,), load_any(config, run_id), Session(Console()))

    return command


OWN_COMMANDS = ("gate", "merge")  # stages that can also be asked of a run that exists
for _name, _stage in STAGES.items():
    if _name not in OWN_COMMANDS:
        app.command(_name, help=_stage.about)(_command(_name))


@app.command("merge", help=STAGES["merge"].about)
def merge(
    runs: Annotated[
        list[str], typer.Argument(metavar="CONFIG | RUN...", help="the run's YAML file; with --as run_ids to add up")
    ],
    run_id: RunIdOption = None,
    as_id: Annotated[str | None, typer.Option("--as", help="run_id of the sum of the named runs")] = None,
    lake: Annotated[str | None, typer.Option(help="folder or URI of the tables of the named runs")] = None,
) -> None:
    """Add up the window of a run, or named runs."""
    from jobs import merge as stage

    if (as_id is None) != (lake is None) or (as_id is None and len(runs) > 1) or (as_id and run_id):
        raise ConfigError(
            "Give a config, as in plumbline merge conf/run.yaml, or runs, as in plumbline merge RUN RUN --as ID --lake "
            "LAKE."
        )
    if as_id is None or lake is None:
        run_stages(("merge",), load(runs[0], run_id), Session(Console()))
        return
    for one in (*runs, as_id):
        _checked_run_id(one)
    stage.merge_runs(stage.lake_of(lake), runs, as_id, Console())


@app.command("gate", help=STAGES["gate"].about)
def gate(
    config: Annotated[str, typer.Argument(metavar="CONFIG | RUN", help="the run's YAML file; with --lake a run_id")],
    run_id: RunIdOption = None,
    lake: Annotated[str | None, typer.Option(help="folder or URI of the tables of a run that exists")] = None,
    json: Annotated[bool, typer.Option("--json", help="print the verdicts as JSON")] = False,
) -> None:
    """Hold the answers of a run against the rules of its config."""
    from jobs import gate as stage

    if lake is not None and run_id is not None:
        raise ConfigError("--run-id goes with a config: with --lake the run is the argument itself.")
    loaded = load(config, run_id) if lake is None else stage.config_of(lake, _checked_run_id(config))
    stage.gate(loaded, stage.printed_json if json else stage.shown_on(Console()))


@app.command()
def search(config: ConfigArgument, run_id: RunIdOption = None) -> None:
    """Train every model and trial of a run, and show how they compare on held-out pairs."""
    loaded, console = load(config, run_id), Console()
    run_stages(("train",), loaded, Session(console))
    from jobs.train import show_trials

    show_trials(loaded, console)


@app.command()
def sample(
    config: ConfigArgument,
    to: Annotated[str, typer.Option(help="folder or URI of the table that is written, or a catalog name")],
    name: Annotated[str | None, typer.Option(help="test set of the config; left out: its first")] = None,
    draw: Annotated[int, typer.Option(min=0, help="number of the draw")] = 0,
    format: Annotated[str, typer.Option(help="delta or parquet")] = "delta",
) -> None:
    """Draw a debiased training table from feedback, by the rule of a test set."""
    from jobs.sample import draw_sample

    loaded = load(config)
    with Session(Console()) as session:
        draw_sample(session, loaded, name, draw, to, format, session.console)


@app.command()
def show(
    run: Annotated[str, typer.Argument(help="run_id")],
    lake: Annotated[str, typer.Option(help="folder, URI or catalog.schema of the tables")] = "demo/lake",
) -> None:
    """Print a finished run's table."""
    from jobs import report

    report.show(start_spark(), lake, _checked_run_id(run), Console())


def _checked_run_id(run_id: str) -> str:
    """The run_id of the command line."""
    try:
        return check_run_id(run_id)
    except ValueError as error:
        raise ConfigError(str(error)) from None


@app.command()
def power(
    run: Annotated[str, typer.Argument(help="run_id of a run that is ranked, with random exposures")],
    lake: Annotated[str, typer.Option(help="folder or URI of the tables")] = "demo/lake",
    detect: Annotated[str, typer.Option(help="difference to be seen, as a share of the value: 2%")] = "2%",
    metric: Annotated[str, typer.Option(help="recall@K (pooled) or precision@K")] = "recall@20",
    exposures: Annotated[str, typer.Option(help="items shown to each user, one or several numbers: 5,10,20")] = "10",
    uniform: Annotated[float, typer.Option(help="share of the uniform arm")] = 0.5,
    chance: Annotated[float, typer.Option("--power", help="chance to see the difference")] = 0.8,
    users: Annotated[int, typer.Option(min=1, help="the most users of the run that are looked at")] = 20_000,
    curve: Annotated[Path | None, typer.Option(help="PNG file that the curve is drawn to")] = None,
) -> None:
    """How many users it takes to tell models apart, under uniform and under designed exposure."""
    from jobs import power as planning
    from jobs.stage import lake_without_spark

    own = lake_without_spark(lake)
    if own is None:
        raise ConfigError(f"--lake {lake}: only Spark can read this lake. Give a folder or URI.")
    try:
        sizes = [int(e) for e in exposures.split(",")]
    except ValueError:
        raise ConfigError(f"--exposures {exposures}: give whole numbers, such as 5,10,20.") from None
    planning.run(own, _checked_run_id(run), metric, detect, sizes, uniform, chance, users, Console(), curve)


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
    """Look for a Java, fetch the Delta jars and make this environment's spark-submit and spark-sql ready, once."""
    from eval_engine.spark.class_archive import make_archive
    from eval_engine.spark.delta_jars import fetch_delta
    from eval_engine.spark.environment import write_spark_environment
    from eval_engine.spark.java import java_home

    console = Console()
    console.print(Text(plain(f"Java: {java_home()}")))
    fetch_delta()
    console.print("Delta: ready")
    for path in write_spark_environment():
        console.print(Text(plain(f"Written: {path}")), soft_wrap=True)
    console.print(Text(plain(f"Archive of Spark's classes: {make_archive()}")), soft_wrap=True)


def _demo_config() -> Path:
    """conf/demo.yaml of the checkout, or its copy in the installed package."""
    here = Path(__file__).resolve().parent
    return next(path for path in (here.parent / "conf" / "demo.yaml", here / "demo.yaml") if path.exists())


if __name__ == "__main__":
    main()
