"""Imports go one way: kernels and statistics <- Spark modules <- jobs; eval_engine never imports torch, models never Spark."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
STANDARD = {
    "collections",
    "contextlib",
    "datetime",
    "decimal",
    "enum",
    "fractions",
    "functools",
    "itertools",
    "math",
    "operator",
    "os",
    "re",
    "typing",
}
PURE = STANDARD | {"numpy", "scipy", "numba", "llvmlite", "eval_engine"}


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


@pytest.mark.parametrize("folder", ["eval_engine/kernels", "eval_engine/statistics"])
def test_the_pure_layers_import_numpy_scipy_numba_only(folder: str) -> None:
    for file in files(folder):
        assert tops(file) <= PURE, file
        inner = {name for name in imported(file) if name.startswith("eval_engine.")}
        allowed = ("eval_engine.kernels", "eval_engine.statistics", "eval_engine.errors")
        assert all(name.startswith(allowed) for name in inner), (file, inner)


def test_eval_engine_imports_neither_torch_nor_what_is_above_it() -> None:
    for file in files("eval_engine"):
        assert not tops(file) & {"torch", "models", "jobs"}, file


def test_models_import_neither_spark_nor_jobs() -> None:
    for file in files("models"):
        assert not tops(file) & {"pyspark", "jobs"}, file
        spark_side = {name for name in imported(file) if name.startswith("eval_engine.")}
        assert not spark_side & {
            "eval_engine.session",
            "eval_engine.lake",
            "eval_engine.inputs",
            "eval_engine.ranking.rank",
        }, file


def test_no_module_hides_behind_a_vague_name() -> None:
    vague = {"utils", "common", "misc", "helpers", "manager"}
    assert not [file for folder in ("eval_engine", "models", "jobs") for file in files(folder) if file.stem in vague]
