"""Ensembles and dynamic oversampling take the run's popularity classes, and are trained again if these change."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from deltalake import write_deltalake
from rich.progress import Progress

from eval_engine import popularity_classes
from eval_engine.config import Input
from eval_engine.errors import ConfigError, DataError
from eval_engine.positive import Positive
from jobs.train import _bounds
from models.ensemble import low_only
from models.item_classes import Bounds, read_bounds, with_classes
from models.logged import Logged
from models.oversampling import mean_comparisons
from models.spec.ensemble import Ensemble
from models.spec.gradient import MF
from models.spec.samplers import Oversampled
from models.spec.train import MODEL, Train
from models.train import train_all

COUNTS = np.array([9, 1, 2, 40, 2, 0, 7, 1, 12, 2, 1, 3])


def found(method: str) -> tuple[Bounds, np.ndarray]:
    classes = popularity_classes(COUNTS, method)  # type: ignore[arg-type]
    return Bounds(classes.low_at_most, classes.high_above), classes.class_of_each


def table(folder: Path, run_id: str, bounds: Bounds) -> str:
    columns = {"run_id": [run_id], "low_at_most": [bounds.low_at_most], "high_above": [bounds.high_above]}
    write_deltalake(folder / "popularity_classes", pa.table(columns), partition_by=["run_id"], mode="append")
    return str(folder / "popularity_classes")


@pytest.mark.parametrize("method", ["quantile", "share"])
def test_low_and_high_are_the_items_of_the_run_s_classes(method: str) -> None:
    bounds, classes = found(method)
    items = np.repeat(np.arange(len(COUNTS)), COUNTS)
    users = np.concatenate([np.arange(n) for n in COUNTS])
    logged = Logged(users, items, np.ones(len(items), bool), np.ones(len(items)), 40, len(COUNTS))
    ensemble = with_classes(MODEL.validate_python({"model": "bpr_ensemble"}), bounds, COUNTS)
    assert isinstance(ensemble, Ensemble)
    assert set(low_only(logged, ensemble.low_share).items) == set(np.flatnonzero(classes == "low"))
    model = with_classes(MODEL.validate_python({"model": "bpr_oversampled"}), bounds, COUNTS)
    n_high, rank = int((classes == "high").sum()), np.argsort(np.argsort(-COUNTS, kind="stable"), kind="stable")
    with np.errstate(divide="ignore"):
        wanted = np.where(COUNTS > 0, 4 * 40 / COUNTS / (rank / max(1, n_high - 1) + 1), 0)
    assert isinstance(model, MF)
    assert isinstance(model.sampler, Oversampled)
    assert mean_comparisons(COUNTS, model.sampler) == pytest.approx(wanted)
    within = MODEL.validate_python({"model": "bpr_ensemble", "base": {"sampler": {"kind": "oversampled"}}})
    both = with_classes(within, bounds, COUNTS)
    assert isinstance(both, Ensemble)
    assert both.base.sampler == model.sampler


@pytest.mark.parametrize("name", ["bpr_mf", "bpr_oversampled_evenly", "popularity", "mf_dr"])
def test_other_models_stay_as_they_are(name: str) -> None:
    model = MODEL.validate_python({"model": name})
    assert with_classes(model, found("quantile")[0], COUNTS) is model


def run_of(lake: Path | str, name: str, popularity: object) -> Any:
    train = Train.model_validate({"scores": "s", "models": [{"model": name}]})
    return SimpleNamespace(lake=str(lake), run_id="a", train=train, popularity=popularity)


def test_the_bounds_are_those_of_the_run_and_are_read_if_a_model_uses_them(tmp_path: Path) -> None:
    table(tmp_path, "b", Bounds(7.0, 9.0))
    uri = table(tmp_path, "a", Bounds(2.0, 5.0))
    assert read_bounds(uri, "a") == _bounds(run_of(tmp_path, "bpr_ensemble", {})) == Bounds(2.0, 5.0)
    assert _bounds(run_of(tmp_path, "bpr_ensemble", None)) is None
    assert _bounds(run_of(tmp_path / "none", "bpr_mf", {})) is None
    with pytest.raises(DataError, match=r"no row of run c, .* Run the\s+stage popularity first"):
        read_bounds(uri, "c")
    with pytest.raises(DataError, match=r"no row of run a"):
        _bounds(run_of(tmp_path / "none", "bpr_oversampled", {}))
    with pytest.raises(ConfigError, match=r"bpr_ensemble uses the popularity classes.*catalog's. Give a folder"):
        _bounds(run_of("spark_catalog.plumbline", "bpr_ensemble", {}))


def test_models_with_other_classes_are_trained_again(tmp_path: Path, platform: tuple[Input, Input]) -> None:
    models = [
        {"model": "bpr_mf", "epochs": 1, "dims": 4},
        {"model": "bpr_oversampled", "epochs": 1, "dims": 4},
        {"model": "bpr_ensemble", "base": {"epochs": 1, "dims": 4}},
    ]
    spec = Train.model_validate({"scores": str(tmp_path), "models": models})

    def trained(bounds: Bounds | None) -> list[bool]:
        quiet = Progress(disable=True)
        trials = train_all(spec, *platform, None, Positive(">", 3.0), quiet, bounds=bounds)
        assert [trial.error for trial in trials] == [None] * 3
        return [trial.fit is not None for trial in trials]

    assert trained(None) == [True, True, True]
    assert trained(Bounds(6.0, 8.0)) == [False, True, True]
    assert trained(Bounds(6.0, 8.0)) == [False, False, False]
    assert trained(Bounds(8.0, 9.0)) == [False, True, True]
