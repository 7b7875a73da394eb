"""The registry of stages, and what it feeds: commands, scripts, rows, docs; no stage imports what another one needs."""

import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner

from eval_engine.errors import ConfigError, StageError
from eval_engine.lake.lake import Lake
from eval_engine.tables import POPULARITY_CLASSES, PROPENSITY_FITS, RANKS, RUNS, TABLES
from jobs import pipeline
from jobs.cli import app, load
from jobs.pipeline import STAGES, Stage, inputs_of, module_of, stages_of, stages_table
from jobs.run_config import RunConfig
from jobs.runner import Session, run_stages
from jobs.stage import lake_without_spark, stage

ROOT = Path(__file__).parent.parent.parent
QUIET = Console(quiet=True)
HEAVY = ("pyspark", "torch", "numba", "matplotlib", "scipy")


ALLOWED: dict[str, set[str]] = {
    "jobs.cli": set(),
    "jobs.train": {"pyspark"},
    "models.train": set(),
    "jobs.simulate": {"pyspark"},
    "jobs.split": {"pyspark"},
    "jobs.propensity": {"pyspark", "numba", "scipy"},
    "jobs.rank": {"pyspark", "numba", "scipy"},
    "jobs.evaluate": {"pyspark", "numba", "scipy"},
    "jobs.report": {"pyspark", "matplotlib", "scipy", "numba"},
}
# The first module is imported by the process itself, each other one by a fork of it: all need what the first imports.
IMPORT = f"""
import importlib, os, sys
for module in sys.argv[1:]:
    forked = "jobs.cli" in sys.modules
    if forked and os.fork():
        assert os.wait()[1] == 0
        continue
    importlib.import_module(module)
    print(module, *(name for name in {HEAVY} if name in sys.modules), flush=True)
    if forked:
        os._exit(0)
"""


@pytest.fixture(scope="module")
def imported() -> dict[str, set[str]]:
    """By module: the heavy libraries that are there once a process has imported the command line and the module."""
    command = [sys.executable, "-c", IMPORT, *ALLOWED]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    return {module: set(libraries) for module, *libraries in map(str.split, lines)}


def test_every_stage_has_a_file_a_command_a_script_and_a_line_in_the_docs() -> None:
    commands = {command.name for command in app.registered_commands}
    for name in STAGES:
        assert callable(module_of(name).run)
        assert name in commands
        assert f'main("{name}"' in (ROOT / "jobs" / f"{name}.py").read_text()
    assert stages_table() in (ROOT / "docs" / "stages.md").read_text(), "python -m jobs.pipeline prints the table"
    shown = CliRunner().invoke(app, ["--help"]).output
    assert all(name in shown for name in (*STAGES, "run", "demo", "show"))


def test_every_table_of_the_lake_is_written_by_a_stage() -> None:
    written = {table.name for plan in STAGES.values() for table in plan.lake_tables}
    assert {table.name for table in TABLES} - written == {"runs"}  # each stage writes its row


def test_stages_stand_in_the_order_in_which_they_run() -> None:
    earlier: dict[str, set[str]] = {}  # of each stage all that come before it
    for name, plan in STAGES.items():
        assert set(plan.after) <= set(earlier), name
        earlier[name] = set(plan.after).union(*(earlier[before] for before in plan.after))
        for table in plan.reads:  # who writes a table of the lake comes before who reads it
            if not isinstance(table, str):
                assert any(table in STAGES[before].writes for before in earlier[name]), (name, table.name)
        if plan.publishes:
            assert plan.publishes in plan.writes
        assert plan.section is None or plan.section in RunConfig.model_fields
        assert all(folder in RunConfig.model_fields for folder in plan.folders)


def test_what_fingerprints_are_made_of() -> None:
    assert {"model", "inputs"} <= set(RANKS.partitions)
    assert [plan.publishes for plan in STAGES.values() if plan.publishes] == [
        PROPENSITY_FITS,
        POPULARITY_CLASSES,
        RANKS,
    ]


@pytest.mark.parametrize("module", ALLOWED)
def test_no_stage_imports_what_only_others_need(module: str, imported: dict[str, set[str]]) -> None:
    assert imported[module] <= ALLOWED[module]


def test_a_run_does_what_its_config_has_sections_for(small_run: Any) -> None:
    config = load(small_run.write())
    assert stages_of(config) == ("rank", "evaluate", "report")
    assert [name for name, _ in inputs_of(config, "rank")] == [
        "catalogue",
        "exposures",
        "feedback",
        "truth",
        "scores of a",
        "scores of b",
    ]
    small_run.config["train"] = {"scores": str(small_run.folder / "s"), "models": [{"kind": "random", "name": "r"}]}
    trained = load(small_run.write())
    assert stages_of(trained) == ("train", "rank", "evaluate", "report")
    assert [name for name, _ in inputs_of(trained, "train")] == ["catalogue", "feedback", "exposures"]
    with pytest.raises(ConfigError, match="no study section, so there is nothing for the stage study to do"):
        run_stages(("rank", "study"), config, Session(QUIET))
    assert not Path(config.lake).exists()  # found before anything was done


def test_a_new_stage_is_an_entry_and_a_file(small_run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    toy = ModuleType("jobs.toy")

    def run(config: RunConfig, console: Console) -> None:
        lake = lake_without_spark(config.lake)
        assert lake
        with stage(lake, config, "toy"):
            console.print("toy")

    monkeypatch.setattr(toy, "run", run, raising=False)
    monkeypatch.setitem(sys.modules, "jobs.toy", toy)
    monkeypatch.setitem(pipeline.STAGES, "toy", Stage("A toy.", ("exposures",), (), (), spark="never"))
    config = load(small_run.write())
    assert stages_of(config)[-1] == "toy"
    run_stages(("toy",), config, Session(QUIET))
    (row,) = Lake(None, config.lake).rows(RUNS, {"run_id": "small"})  # type: ignore[arg-type]
    assert (row["stage"], row["status"]) == ("toy", "done")
    assert row["inputs"] == {"exposures": f"{config.inputs.exposures.path} (parquet)"}
    monkeypatch.setitem(
        pipeline.STAGES, "toy", Stage("A toy.", (), (), ("rank",), spark="never")
    )  # which rests on a stage that has not run
    with pytest.raises(StageError, match="there is no rank stage in the lake"):
        run_stages(("toy",), config, Session(QUIET))
