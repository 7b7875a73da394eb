"""Imports go one way, down the rooms of the README; the engine never imports torch, models never Spark."""

import ast
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
VOCABULARY = ("errors", "config", "metric", "positive", "columns", "tables", "masked", "plain_text")
ROOMS = (  # a room imports itself, the vocabulary and the rooms before it
    "kernels",
    "statistics",
    "estimators",
    "storage",
    "spark",
    "lake",
    "inputs",
    "ranking",
    "propensity",
    "test_sets",
    "popularity",
    "exposure_design",
    "evaluation",
    "quality",
    "datasets",
    "studies",
    "report",
)
SPARK_FREE = ("kernels", "statistics", "estimators", "storage", "report")
NUMPY_ONLY = {"numpy", "scipy", "numba", "llvmlite", "eval_engine"}


def imported(file: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}: imports are written out in full"
            found |= {node.module or ""} | {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def files(folder: str) -> list[Path]:
    found = sorted((ROOT / folder).rglob("*.py"))
    assert found
    return found


def tops(file: Path) -> set[str]:
    return {name.split(".")[0] for name in imported(file)}


def rooms_of(file: Path) -> set[str]:
    """The rooms and words of eval_engine that a file imports."""
    return {name.split(".")[1] for name in imported(file) if name.startswith("eval_engine.")}


def test_every_file_of_the_engine_is_in_a_room_or_in_the_vocabulary() -> None:
    folder = ROOT / "eval_engine"
    assert {path.name for path in folder.iterdir() if path.is_dir() and path.name != "__pycache__"} <= set(ROOMS)
    assert {path.stem for path in folder.glob("*.py")} == {"__init__", *VOCABULARY}


def test_a_room_imports_only_the_rooms_before_it() -> None:
    for number, room in enumerate(ROOMS):
        if (ROOT / "eval_engine" / room).exists():
            allowed = {*VOCABULARY, *ROOMS[: number + 1]}
            for file in files(f"eval_engine/{room}"):
                assert rooms_of(file) <= allowed, (file, rooms_of(file) - allowed)


def test_the_vocabulary_imports_no_room() -> None:
    for word in VOCABULARY:
        file = ROOT / "eval_engine" / f"{word}.py"
        assert rooms_of(file) <= set(VOCABULARY), file
        assert not tops(file) & {"pyspark", "pyarrow", "numba"}, file


@pytest.mark.parametrize("room", ["kernels", "statistics"])
def test_kernels_and_statistics_import_numpy_scipy_and_numba_only(room: str) -> None:
    for file in files(f"eval_engine/{room}"):
        assert tops(file) - sys.stdlib_module_names <= NUMPY_ONLY, file


@pytest.mark.parametrize("room", SPARK_FREE)
def test_rooms_that_need_no_spark_import_none(room: str) -> None:
    for file in files(f"eval_engine/{room}"):
        assert "pyspark" not in tops(file), file


def test_eval_engine_imports_neither_torch_nor_what_is_above_it() -> None:
    for file in files("eval_engine"):
        assert not tops(file) & {"torch", "models", "jobs"}, file


def test_models_import_neither_spark_nor_jobs() -> None:
    for file in files("models"):
        assert not tops(file) & {"pyspark", "jobs"}, file
        for name in imported(file):
            module = ROOT / f"{name.replace('.', '/')}.py"
            if name.startswith("eval_engine.") and module.exists():
                assert "pyspark" not in runtime_tops(module), (file, name)


def runtime_tops(file: Path) -> set[str]:
    """What a module imports when it is imported, not for the type checker only."""
    tree = ast.parse(file.read_text())
    found: set[str] = set()
    for node in tree.body:
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add((node.module or "").split(".")[0])
    return found


def test_no_module_hides_behind_a_vague_name() -> None:
    vague = {"utils", "common", "misc", "helpers", "manager"}
    assert not [file for folder in ("eval_engine", "models", "jobs") for file in files(folder) if file.stem in vague]
