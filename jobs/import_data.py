"""Import a public data set: the files as their owners distribute them become input tables, and a config to run on them.

    plumbline import coat DIR --to TABLES          yahoo_r3, kuairec, kuairand, movielens
    plumbline run TABLES/run.yaml

Reads the files in DIR; downloads nothing. Writes a Parquet file per table, and run.yaml, into TABLES: each is whole or
absent, and the same files and options give the same tables on any machine. docs/data-sets.md has the files, the options
and what becomes of each data set. Needs no Spark.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.text import Text

from eval_engine.plain_text import plain

if TYPE_CHECKING:
    from eval_engine.inputs.public_data.destination import Destination
    from eval_engine.inputs.public_data.logged_and_random import Division
    from eval_engine.inputs.public_data.run_settings import Imported
    from eval_engine.inputs.public_data.source_files import DataSet, Sources
    from eval_engine.inputs.public_data.source_files import Progress as Report

    Convert = Callable[[Sources, Destination, Report], Imported]

commands = typer.Typer(
    no_args_is_help=True,
    help="Make input tables and a config from the files of a public data set (docs/data-sets.md).",
)
Folder = Annotated[Path, typer.Argument(metavar="DIR", help="folder with the owner's files, unpacked")]
To = Annotated[Path, typer.Option("--to", metavar="TABLES", help="folder for the tables and run.yaml")]
Seed = Annotated[int, typer.Option(min=0, max=2**63 - 1, help="of the draws by hash")]
Heldout = Annotated[
    float, typer.Option(min=0, max=0.99, help="share of logged pairs that is kept from training, by hash; 0: none")
]
RandomSplit = Annotated[
    str | None,
    typer.Option(
        metavar="TRAIN/VALIDATION/TEST",
        help="percentages of the random pairs, by hash, as in 5/5/90 or 15/15/70; left out: all of them evaluate",
    ),
]


class FirstPart(StrEnum):
    """What the first part of the random pairs is for."""

    TRAINING = "training"
    WEIGHTS = "weights"


class Frame(StrEnum):
    """What random pairs are ranked among."""

    ALL_ITEMS = "all_items"
    UNSEEN = "unseen"


FirstPartOption = Annotated[
    FirstPart,
    typer.Option(help="training: those pairs are in feedback, and leave the frame; weights: they are kept apart"),
]
FrameOption = Annotated[
    Frame,
    typer.Option(help="unseen: training pairs are no candidates; random pairs among them are left out and counted"),
]


class Training(StrEnum):
    """What models are trained on, of KuaiRec."""

    BIASED_DRAW = "biased_draw"
    BIG_MATRIX = "big_matrix"


class Unlabelled(StrEnum):
    """What becomes of pairs without a row in the small matrix, of KuaiRec."""

    ZERO = "zero"
    ABSENT = "absent"


class Signal(StrEnum):
    """What is a positive, of KuaiRand."""

    IS_CLICK = "is_click"
    LONG_VIEW = "long_view"
    IS_LIKE = "is_like"
    IS_FOLLOW = "is_follow"
    IS_COMMENT = "is_comment"
    IS_FORWARD = "is_forward"
    IS_HATE = "is_hate"


@commands.command()
def coat(
    folder: Folder,
    to: To,
    heldout: Heldout = 0.2,
    random_split: RandomSplit = None,
    first_part: FirstPartOption = FirstPart.TRAINING,
    frame: FrameOption = Frame.ALL_ITEMS,
    seed: Seed = 0,
) -> None:
    """Coat Shopping: train.ascii, test.ascii and user_item_features."""
    from eval_engine.inputs.public_data.coat import COAT, convert

    division = _division(heldout, random_split, first_part, seed, frame)
    _import("coat", COAT, folder, to, division._asdict(), lambda s, d, p: convert(s, division, d, p))


@commands.command("yahoo_r3")
def yahoo_r3(
    folder: Folder,
    to: To,
    heldout: Heldout = 0.2,
    random_split: RandomSplit = None,
    first_part: FirstPartOption = FirstPart.TRAINING,
    only_random_users: Annotated[
        bool, typer.Option("--only-random-users", help="leave out users without random ratings")
    ] = False,
    seed: Seed = 0,
) -> None:
    """Yahoo! R3: ydata-ymusic-rating-study-v1_0-train.txt and -test.txt."""
    from eval_engine.inputs.public_data.yahoo_r3 import YAHOO_R3, convert

    division = _division(heldout, random_split, first_part, seed, Frame.UNSEEN)
    options = {**division._asdict(), "only_random_users": only_random_users}
    _import("yahoo_r3", YAHOO_R3, folder, to, options, lambda s, d, p: convert(s, division, only_random_users, d, p))


@commands.command()
def kuairec(
    folder: Folder,
    to: To,
    training: Annotated[
        Training, typer.Option(help="biased_draw: of the small matrix, mostly short videos; big_matrix: the log")
    ] = Training.BIASED_DRAW,
    share: Annotated[
        float, typer.Option(min=0.01, max=0.99, help="of a user's pairs that the biased draw takes")
    ] = 0.4136,
    scale: Annotated[
        float, typer.Option("--lambda", min=1, help="the biased draw's weight of the k-th shortest is exp(-k / lambda)")
    ] = 1000,
    exposures: Annotated[int, typer.Option(min=1, help="pairs of a user that are exposed at random")] = 80,
    unlabelled: Annotated[
        Unlabelled, typer.Option(help="pairs that were never shown (0.4 %); zero: not positive; absent: not in truth")
    ] = Unlabelled.ZERO,
    heldout: Heldout = 0,
    seed: Seed = 0,
) -> None:
    """KuaiRec: small_matrix.csv, big_matrix.csv, item_categories.csv and user_features.csv."""
    from eval_engine.inputs.public_data.kuairec import KUAIREC, Draw, convert

    draw = Draw(training.value, share, scale, heldout, exposures, unlabelled.value, seed)
    _import("kuairec", KUAIREC, folder, to, draw._asdict(), lambda s, d, p: convert(s, draw, d, p))


@commands.command()
def kuairand(
    folder: Folder,
    to: To,
    signal: Annotated[Signal, typer.Option(help="the column that says what is a positive")] = Signal.IS_CLICK,
    heldout: Heldout = 0.2,
    random_split: RandomSplit = None,
    first_part: FirstPartOption = FirstPart.TRAINING,
    frame: FrameOption = Frame.ALL_ITEMS,
    seed: Seed = 0,
) -> None:
    """KuaiRand, one version of it: log_random_4_22_to_5_08_*.csv and log_standard_*.csv."""
    from eval_engine.inputs.public_data.kuairand import KUAIRAND, convert

    division = _division(heldout, random_split, first_part, seed, frame)
    options = {**division._asdict(), "signal": signal.value}
    _import("kuairand", KUAIRAND, folder, to, options, lambda s, d, p: convert(s, division, signal.value, d, p))


@commands.command()
def movielens(
    folder: Folder,
    to: To,
    heldout: Annotated[
        float, typer.Option(min=0.001, max=0.99, help="share of the split in run.yaml that is kept from training")
    ] = 0.2,
    seed: Seed = 0,
) -> None:
    """MovieLens, any version: ratings.csv, ratings.dat or u.data."""
    from eval_engine.inputs.public_data.movielens import MOVIELENS, convert

    options = {"heldout": heldout, "seed": seed}
    _import("movielens", MOVIELENS, folder, to, options, lambda s, d, p: convert(s, heldout, seed, d, p))


def _division(heldout: float, random_split: str | None, first_part: FirstPart, seed: int, frame: Frame) -> "Division":
    from eval_engine.inputs.public_data.logged_and_random import Division, Parts

    parts = Parts.parse(random_split, first_part.value) if random_split else None
    return Division(heldout, parts, seed, frame.value)


def _import(
    name: str, data_set: "DataSet", folder: Path, to: Path, options: Mapping[str, Any], convert: "Convert"
) -> None:
    """Convert, write, and say what was written."""
    from importlib.metadata import version

    from eval_engine.inputs.public_data.destination import Destination
    from eval_engine.inputs.public_data.run_settings import run_yaml
    from eval_engine.inputs.public_data.source_files import Sources

    console = Console()
    made_from = {"plumbline": version("plumbline"), "data_set": name, "options": dict(options)}
    with Destination(to, made_from) as destination:
        with _progress(console, f"Importing {data_set.name}") as report:
            imported = convert(Sources(data_set, folder), destination, report)
        run = destination.finish(run_yaml(name, imported, destination, options["seed"]))
    for table, n_rows in destination.n_rows.items():
        console.print(Text(plain(f"  {table}: {n_rows:,} rows")), soft_wrap=True)
    for remark in imported.remarks:
        console.print(Text(plain(f"  {remark}")), soft_wrap=True)
    console.print(Text(plain(f"Positive: {imported.positive}   Frame: {imported.frame}")), soft_wrap=True)
    console.print(Text(plain(f"Next: plumbline run {run}")), soft_wrap=True)


@contextmanager
def _progress(console: Console, title: str) -> "Iterator[Report]":
    """Shows how much of each file is read, and how long it took."""
    started = time.monotonic()
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        DownloadColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(title, total=None)

        def report(file: Path, done: int, total: int) -> None:
            bar.update(task, description=plain(f"{title}: {file.name}"), completed=done, total=total)

        yield report
    took = f"{time.monotonic() - started:.1f} s"
    console.print(Text.assemble(("✓", "green"), f" {title} ", (took, "dim")))
