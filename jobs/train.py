"""Train the models of a run and write their score tables, or their ranks (output: ranks): torch and Arrow, no Spark.

    python jobs/train.py --config conf/demo.yaml --run-id 2026-11-15
    torchrun --nproc-per-node 2 jobs/train.py --config conf/demo.yaml      two processes on this machine
    spark-submit jobs/train.py --config conf/demo.yaml --processes 2       two on a Spark cluster, by TorchDistributor

Reads feedback and catalogue, and the other labels if there is something to rank. Writes a folder of Parquet files per
model, or the model's rows of the lake's ranks table (replaces those of this run_id and model only: safe to retry),
and the model's row of the lake's trials table; what is there already for the same inputs is kept. Several processes
need a file system that all of them see.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Column
from rich.table import Table as Shown
from rich.text import Text

from eval_engine.errors import ConfigError
from eval_engine.masked import masked
from eval_engine.plain_text import few_names, plain
from eval_engine.storage.stored_file import full_path
from eval_engine.tables import POPULARITY_CLASSES, RANKS, TRIALS
from jobs.pipeline import STAGES, check_asked
from jobs.run_config import RunConfig
from jobs.runner import load
from jobs.stage import lake_without_spark, stage
from models.errors import TrainingError

if TYPE_CHECKING:
    from models.fused import Run
    from models.item_classes import Bounds
    from models.logged_propensity import RunPropensities
    from models.trials_table import Trial


def run(config: RunConfig, console: Console) -> "list[Trial]":
    """Train and write; how each model went."""
    _check_trainable(config)
    with _row(config, console):
        trials = _train(config, console)
    fused, failed = set(config.fused_models()), [trial.model.name for trial in trials if trial.error]
    scored = {trial.model.name for trial in trials} - fused
    for work, names in (("Trained and scored", scored), ("Trained and ranked", fused)):
        if done := [trial.model.name for trial in trials if trial.model.name in names and not trial.error]:
            console.print(Text.assemble(("✓", "green"), f" {work} {few_names(done)}"))
    for trial in trials:
        if trial.fit and trial.fit.warning:
            console.print(Text.assemble(("!", "yellow"), f" {plain(trial.fit.warning)}"))
    if failed:
        message = f" Failed, and left out of what follows: {few_names(failed)}. The trials table says why."
        console.print(Text.assemble(("!", "yellow"), message))
    return trials


def run_model(config: RunConfig, name: str, console: Console) -> None:
    """Train and write one model of the run. No row of the stage: `run` finds the model there and writes it."""
    _check_trainable(config)
    assert config.train is not None
    names = [model.name for model in config.train.panel]
    if name not in names:
        raise ConfigError(f"train has no model {name}. It has {few_names(names)}.")
    _train(config.without(tuple(other for other in names if other != name)), console)


def _check_trainable(config: RunConfig) -> None:
    """An error if there is nothing to train, or nothing to train on."""
    check_asked(config, "train")
    if config.inputs.feedback is None:
        raise ConfigError("This config has no inputs.feedback, so there is nothing to train on. See conf/demo.yaml.")


@contextmanager
def _row(config: RunConfig, console: Console) -> Iterator[None]:
    """The stage's row of the runs table, written by the first of several processes."""
    if os.environ.get("RANK", "0") != "0":
        yield
    elif lake := lake_without_spark(config.lake):
        # propensities are of evaluation, unless a model is trained with them
        unused = () if _weighed_by_the_run(config) else ("propensity",)
        with stage(lake, config, "train", [name for name in STAGES["train"].after if name not in unused]):
            yield
    else:
        message = f"Only Spark writes to the lake {config.lake}: training keeps no row of the tables runs and trials."
        console.print(Text.assemble(("!", "yellow"), f" {plain(masked(message))}"))
        yield


def _train(config: RunConfig, console: Console) -> "list[Trial]":
    """Train and write what is missing."""
    from models.progress import training_progress
    from models.train import train_all
    from models.trials_table import note_trial

    spec, inputs, table = config.train, config.inputs, _trials(config)
    assert spec is not None
    assert inputs.feedback is not None

    def note(trial: "Trial") -> None:
        if table:
            note_trial(table, config.run_id, trial)

    try:
        with training_progress(console) as progress:
            ranking = _run(config) if config.fused_models() else None
            labels = inputs.exposures or inputs.heldout  # users with labels are scored, with or without feedback
            return train_all(
                spec,
                inputs.feedback,
                inputs.catalogue,
                labels,
                config.positive,
                progress,
                ranking,
                note,
                _bounds(config),
                _propensities(config),
            )
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"Training needs {error.name}, which is not installed here: pip install 'plumbline[models]'."
        ) from None


def show_trials(config: RunConfig, console: Console) -> None:
    """The trials of a run, the best held-out result of each kind of model first; below, why some failed."""
    from models.trials_table import trials_of

    table = _trials(config)
    rows = trials_of(table, config.run_id) if table else []
    settings = _settings(config)
    columns = (Column("model", no_wrap=True, min_width=16), "settings", "status", "held out", "stop on", "better")
    shown = Shown(*columns, "epochs", "seconds", title=f"Trials of run {config.run_id}")
    for row in sorted(rows, key=_best_first):
        held_out = "" if row["held_out"] is None else f"{_held_out(row):.4f}"
        epochs = "" if row["epochs"] is None else f"{row['best_epoch']} of {row['epochs']}"
        seconds = "" if row["seconds"] is None else f"{row['seconds']:.1f}"
        told = (settings.get(row["model"], ""), row["status"], held_out, row["stop_on"] or "", row["better"] or "")
        shown.add_row(*(Text(plain(cell)) for cell in (row["model"], *told, epochs, seconds)))
    console.print(shown)
    for row in rows:
        if row["error"]:
            console.print(Text(plain(f"{row['model']}: {row['error']}"), "yellow"))


def _settings(config: RunConfig) -> dict[str, str]:
    """What each trial of the config's searches has of its own, such as dims=16 loss.gamma=0.1."""
    if config.train is None:
        return {}
    points = [search.points(config.train.seed) for search in config.train.search]
    return {
        name: " ".join(f"{key}={value}" for key, value in point.items())
        for each in points
        for name, point in each.items()
    }


def _held_out(row: dict[str, Any]) -> float:
    """The result as it is: an older version stored metrics as their negatives."""
    return abs(row["held_out"]) if row["better"] is None else float(row["held_out"])


def _best_first(row: dict[str, Any]) -> tuple[str, str, bool, float, str]:
    """The place of a row: by kind of model and of result, then the best result, then the name."""
    stop_on = row["stop_on"] or ""
    result = 0.0 if row["held_out"] is None else _held_out(row)
    upward = stop_on in ("", "loss")
    return row["kind"], stop_on, row["held_out"] is None, result if upward else -result, row["model"]


def _trials(config: RunConfig) -> str | None:
    """Where the run's trials are noted; None for a catalog's lake."""
    from eval_engine.lake.lake import CATALOG_NAME

    return None if CATALOG_NAME.fullmatch(config.lake) else f"{full_path(config.lake)}/{TRIALS.name}"


def on_spark(config: str, run_id: str | None, processes: int) -> None:
    """The same job in so many tasks of a Spark cluster; with train.device: cuda, each on a GPU that Spark gives it."""
    train = load(config, run_id).train
    use_gpu = train is not None and train.device == "cuda"
    from pyspark.ml.torch.distributor import TorchDistributor

    from eval_engine.spark.session import spark_session

    spark = spark_session("plumbline train")
    arguments = ["--config", full_path(config), *(["--run-id", run_id] if run_id else [])]
    try:
        TorchDistributor(num_processes=processes, local_mode=False, use_gpu=use_gpu).run(__file__, *arguments)
    except RuntimeError as error:
        raise TrainingError(
            f"one of {processes} processes failed: {error}. Its own message is in the log of its Spark task."
        ) from None
    finally:
        spark.stop()


def _run(config: RunConfig) -> "Run":
    """Where and how the run's ranks are written."""
    from eval_engine.lake.lake import CATALOG_NAME
    from eval_engine.ranking.thresholds import threshold_cutoffs
    from models.fused import Run

    if CATALOG_NAME.fullmatch(config.lake):
        raise ConfigError(
            f"train: output: ranks writes to the lake without Spark, but the lake {config.lake} is a catalog's. "
            "Give a folder or URI as `lake`, or output: scores."
        )
    return Run(
        f"{full_path(config.lake)}/{RANKS.name}",
        config.run_id,
        config.inputs,
        config.frame,
        config.top,
        config.on_bad_rows,
        threshold_cutoffs(config.evaluate.metrics, config.top),
    )


def _bounds(config: RunConfig) -> "Bounds | None":
    """The bounds of the run's popularity classes, if it has a section popularity and a model that uses classes."""
    from eval_engine.lake.lake import CATALOG_NAME
    from models.item_classes import read_bounds, uses_classes

    assert config.train is not None
    users = [model.name for model in config.train.panel if uses_classes(model)]
    if config.popularity is None or not users:
        return None
    if CATALOG_NAME.fullmatch(config.lake):
        raise ConfigError(
            f"train: {users[0]} uses the popularity classes of the run, which are read without Spark, but the lake "
            f"{config.lake} is a catalog's. Give a folder or URI as `lake`, or leave out the section popularity."
        )
    return read_bounds(f"{full_path(config.lake)}/{POPULARITY_CLASSES.name}", config.run_id)


def _weighed_by_the_run(config: RunConfig) -> list[str]:
    """The models that are trained with the propensities of the run."""
    from models.logged_propensity import propensity_of
    from models.spec.propensities import RunPropensity

    assert config.train is not None
    return [model.name for model in config.train.panel if isinstance(propensity_of(model), RunPropensity)]


def _propensities(config: RunConfig) -> "RunPropensities | None":
    """What the run's stage propensity has estimated, if a model is trained with it."""
    from eval_engine.lake.lake import CATALOG_NAME
    from models.logged_propensity import read_run_propensities

    users = _weighed_by_the_run(config)
    if not users:
        return None
    if config.propensity is None:
        raise ConfigError(
            f"train: {users[0]} has propensity: {{kind: run}}, but this config has no section `propensity`. Add it, or "
            "give propensities as {kind: table, table: {path: ...}}."
        )
    if CATALOG_NAME.fullmatch(config.lake):
        raise ConfigError(
            f"train: {users[0]} uses the propensities of the run, which are read without Spark, but the lake "
            f"{config.lake} is a catalog's. Give a folder or URI as `lake`, or propensity: {{kind: popularity}}."
        )
    return read_run_propensities(full_path(config.lake), config.run_id)


if __name__ == "__main__":
    from jobs.runner import main

    main("train", on_spark)
