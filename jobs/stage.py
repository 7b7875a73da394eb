"""A stage of a run, as the runs table tells it: what it ran with, how long it took and how it ended."""

import json
import platform
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from eval_engine.config import Input
from eval_engine.delta_table import delta_version
from eval_engine.errors import told_plainly
from eval_engine.inputs import input_format
from eval_engine.lake import Lake
from eval_engine.masked import masked
from eval_engine.object_store import check_store
from eval_engine.stored_file import full_path
from eval_engine.tables import RUNS
from jobs.run_config import RunConfig


@contextmanager
def stage(lake: Lake, config: RunConfig, name: str, inputs: dict[str, Input]) -> Iterator[None]:
    """Marks the stage as running, then as done or failed. A lake that cannot be written fails here, before any work."""
    spark = lake.spark
    for table, where in inputs.items():
        check_store(spark, where.path, table)
    versions = {"plumbline": version("plumbline"), "spark": spark.version, "python": platform.python_version()}
    started, clock = datetime.now(UTC), time.monotonic()
    facts: tuple[str, dict[str, str], dict[str, str]] = (
        masked(json.dumps(config.model_dump(mode="json"), sort_keys=True)),
        versions,
        {},
    )

    def write(status: str, seconds: float | None, told: tuple[object, ...], error: str | None) -> None:
        lake.put(RUNS, [(status, started, seconds, *told, error)], {"run_id": config.run_id, "stage": name})

    write("running", None, facts, None)
    facts = (*facts[:2], {masked(table): masked(input_version(spark, where)) for table, where in inputs.items()})
    try:
        with told_plainly():
            yield
    except BaseException as error:
        write("failed", time.monotonic() - clock, facts, masked(f"{type(error).__name__}: {error}")[:2000])
        raise
    write("done", time.monotonic() - clock, facts, None)


def done_with(lake: Lake, run_id: str, name: str) -> dict[str, Any] | None:
    """The config of the stage when it last ran, as JSON has it; None if it never did, or failed."""
    return next(
        (
            json.loads(row["config"])
            for row in lake.rows(RUNS, {"run_id": run_id, "stage": name})
            if row["status"] == "done"
        ),
        None,
    )


def input_version(spark: SparkSession, where: Input) -> str:
    """What was read: path, format and, for Delta, the version."""
    kind = where.format or input_format(where.path)
    if kind == "delta" and (version := delta_version(where.path)):
        return f"{where.path} (delta version {version[1]})"
    if kind not in ("delta", "table"):
        return f"{where.path} ({kind})"
    return f"{where.path} (delta version {last_commit(spark, where.path, kind).get('version', 'unknown')})"


def last_commit(spark: SparkSession, path: str, kind: str = "delta") -> dict[str, Any]:
    """The newest entry of a Delta table's history; empty if there is no such table."""
    name = f"delta.`{full_path(path)}`" if kind == "delta" else path
    try:
        last = spark.sql(f"DESCRIBE HISTORY {name} LIMIT 1").first()
    except AnalysisException:  # not Delta, or not there: who reads it says so
        return {}
    return last.asDict() if last else {}
