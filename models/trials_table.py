"""The lake's trials table as training writes it, without Spark: a row per model that is done or has failed."""

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from deltalake.exceptions import DeltaError, TableNotFoundError

from eval_engine.errors import LakeError
from eval_engine.lake.commits import replace_files
from eval_engine.lake.delta_table import first_line, make_table, rows_of
from eval_engine.lake.rows import write_rows
from eval_engine.tables import TRIALS
from models.spec.ensemble import Ensemble
from models.spec.train import Model

if TYPE_CHECKING:  # it imports torch
    from models.training import Fit


class Trial(NamedTuple):
    """How one model's training went."""

    model: Model
    inputs: str  # hash of what it is made from
    fit: "Fit | None"  # None: not by gradient, or failed, or there already
    seconds: float | None  # None: there already
    error: str | None = None
    held_out: float | None = None  # of the best epoch, in units of stop_on


def note_trial(uri: str, run_id: str, trial: Trial) -> None:
    """Put the trial's row in place; a row of the same inputs stays if the model was there already."""
    name = trial.model.name
    if trial.seconds is None and any(
        row["inputs"] == trial.inputs and row["status"] == "done" for row in trials_of(uri, run_id, name)
    ):
        return
    where = {"run_id": run_id, "model": name}
    try:
        make_table(uri, TRIALS, "BIGINT")
        replace_files(uri, TRIALS, where, lambda attempt: write_rows(uri, TRIALS, [_row(trial)], where, attempt))
    except (DeltaError, OSError) as error:
        raise LakeError(
            f"The lake's table {uri} cannot be written: {first_line(error)} Give a writable `lake` in the config."
        ) from None


def trials_of(uri: str, run_id: str, model: str | None = None) -> list[dict[str, Any]]:
    """The rows of a run, or of one model of it; none if there is no table."""
    try:
        return rows_of(uri, TRIALS, {"run_id": run_id} | ({"model": model} if model else {}))
    except TableNotFoundError:
        return []


def better(stop_on: str) -> str:
    """Which results of this kind are better: lower losses, higher metrics."""
    return "lower" if stop_on == "loss" else "higher"


def _row(trial: Trial) -> dict[str, Any]:
    """The columns, but for the partition's."""
    model, fit = trial.model, trial.fit
    stop_on = model.result if isinstance(model, Ensemble) else getattr(model, "stop_on", None)
    return {
        "kind": model.kind,
        "spec": json.dumps(model.model_dump(mode="json"), sort_keys=True),
        "status": "failed" if trial.error else "done",
        "stop_on": stop_on,
        "held_out": trial.held_out,
        "train_loss": fit.losses[-1] if fit else None,
        "epochs": fit.epochs if fit else None,
        "best_epoch": fit.best_epoch if fit else None,
        "seconds": trial.seconds,
        "inputs": trial.inputs,
        "error": trial.error,
        "better": None if trial.held_out is None or stop_on is None else better(stop_on),
    }
