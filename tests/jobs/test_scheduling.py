"""What a scheduler asks: stages and plans as JSON, one model at a time, verdicts, and a gate that may do neither."""

import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner

from eval_engine.errors import ConfigError, DataError, GateError
from eval_engine.lake.lake import Lake
from eval_engine.quality.quality_row import QualityRow
from eval_engine.tables import QUALITY, RUNS, TRIALS
from jobs import train
from jobs.cli import load
from jobs.pipeline import STAGES
from jobs.scheduling import NOT_APPROVED, app

MODELS = [{"kind": "random", "name": "a"}, {"kind": "popularity", "name": "b"}]


def said(*words: str) -> Any:
    """The JSON that is printed."""
    done = CliRunner().invoke(app, [*words])
    assert done.exception is None, done.exception
    return json.loads(done.stdout)


def error_of(*words: str) -> BaseException | None:
    return CliRunner().invoke(app, [*words]).exception


def test_every_stage_has_its_script() -> None:
    stages = said("stages")
    assert list(stages) == list(STAGES)
    for name, stage in stages.items():
        assert Path(stage["script"]).name == f"{name}.py"
        assert stage["after"] == list(STAGES[name].after)
    assert stages["train"]["spark"] == "never"
    assert stages["rank"]["writes"] == ["ranks", "catalogue", "quality", "quarantine"]


def test_a_plan_has_what_the_config_has(small_run: Any) -> None:
    path = str(small_run.write())
    planned = said("plan", path, "--run-id", "manual__2026-11-17T00:00:00+00:00")
    assert planned["run_id"] == "manual__2026-11-17T00:00:00+00:00"
    assert (planned["stages"], planned["models"]) == (["rank", "evaluate", "report"], [])
    assert isinstance(error_of("plan", path, "--run-id", "a/b"), ConfigError)
    small_run.config["metrcs"] = 1
    assert isinstance(error_of("plan", str(small_run.write()), "--run-id", "x"), ConfigError)


def test_models_that_were_trained_one_by_one_are_kept(small_run: Any) -> None:
    small_run.config.pop("scores")
    small_run.config["train"] = {"scores": str(small_run.folder / "scores"), "models": MODELS}
    path = str(small_run.write())
    assert said("plan", path, "--run-id", "x")["models"] == ["a", "b"]
    config = load(path, "x")
    lake = Lake(None, config.lake)  # type: ignore[arg-type]
    for model in ("b", "a"):
        assert error_of("train-model", path, "--model", model, "--run-id", "x") is None
    seconds = {row["model"]: row["seconds"] for row in lake.rows(TRIALS, {"run_id": "x"})}
    assert set(seconds) == {"a", "b"}
    assert not lake.rows(RUNS, {"run_id": "x"})  # the stage has not run
    trials = train.run(config, Console(quiet=True))
    assert [(trial.model.name, trial.seconds) for trial in trials] == [("a", None), ("b", None)]  # both there already
    assert {row["model"]: row["seconds"] for row in lake.rows(TRIALS, {"run_id": "x"})} == seconds
    assert [row["status"] for row in lake.rows(RUNS, {"run_id": "x"})] == ["done"]
    unknown = error_of("train-model", path, "--model", "c", "--run-id", "x")
    assert isinstance(unknown, ConfigError)
    assert "no model c. It has a, b" in str(unknown)


@pytest.mark.parametrize(
    ("verdict", "stop_on", "stops"),
    [("fail", "fail", True), ("warn", "fail", False), ("warn", "warn", True), ("fail", "nothing", False)],
)
def test_a_verdict_stops_the_run_or_is_told(small_run: Any, verdict: str, stop_on: str, stops: bool) -> None:
    path = str(small_run.write())
    lake = Lake(None, small_run.config["lake"])  # type: ignore[arg-type]
    rows = [
        QualityRow("exposures", "uniform_exposure", 9, "Some figures.", "reported", verdict, 1.0, 1e-9),
        QualityRow("feedback", "null_key", 1, "a row", "quarantined"),
    ]
    lake.put(QUALITY, rows, {"run_id": "x"})
    done = CliRunner().invoke(app, ["checks", path, "--run-id", "x", "--stop-on", stop_on])
    assert done.stdout == f"uniform_exposure: {verdict}. Some figures.\n"
    assert isinstance(done.exception, DataError) == stops
    assert stops or done.exit_code == 0
    assert "no verdict on the exposures of run_id=y" in str(error_of("checks", path, "--run-id", "y"))


@pytest.mark.parametrize(("on_fail", "at_least", "ends"), [("stop", 0, 0), ("warn", 2, NOT_APPROVED), ("stop", 2, 5)])
def test_a_gate_approves_or_says_no_or_neither(own_lake: Any, on_fail: str, at_least: int, ends: int) -> None:
    rule = {"name": "level", "kind": "estimate", "model": "a", "estimator": "full_macro", "metric": "recall@3"}
    own_lake.config = own_lake.config | {"gates": {"rules": [rule | {"at_least": at_least, "on_fail": on_fail}]}}
    path = own_lake.folder / "gated.yaml"
    path.write_text(json.dumps(own_lake.config))
    done = CliRunner().invoke(app, ["gate", str(path), "--run-id", "small"])
    if ends == 5:
        assert isinstance(done.exception, GateError)
    else:
        assert done.exit_code == ends
