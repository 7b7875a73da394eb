"""A stage of a run, as the runs table tells it: what it ran with, how long it took and how it ended; and whether one can start from it.

A stage is published by its row of `runs`: its tables are written one after the other, and hold together once the row says done. Whoever reads them asks for
that row first (done_stage), and whether the ranks are still those that the stage was made from (ranks_token).
"""

import json
import platform
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from eval_engine.config import Input
from eval_engine.errors import StageError, as_operator_error
from eval_engine.inputs.fingerprints import digest
from eval_engine.inputs.input_format import input_format
from eval_engine.lake.delta_table import delta_version
from eval_engine.lake.lake import Lake
from eval_engine.masked import masked
from eval_engine.spark.object_store import check_store
from eval_engine.storage.process_id import is_gone, process_id
from eval_engine.storage.stored_file import full_path
from eval_engine.tables import RANKS, RUNS, Table
from jobs.run_config import RunConfig


@contextmanager
def stage(
    lake: Lake, config: RunConfig, name: str, inputs: Mapping[str, Input | str], writes: Sequence[Table]
) -> Iterator[dict[str, str]]:
    """Marks the stage as running, then as done or failed; takes what it wrote, by table. inputs: tables, or fingerprints of them. A lake that cannot be written fails here, before any work."""
    spark = lake.spark
    for table, where in inputs.items():
        if isinstance(where, Input):
            check_store(spark, where.path, table)
    versions = {"plumbline": version("plumbline"), "spark": spark.version, "python": platform.python_version()}
    started, clock, process = datetime.now(UTC), time.monotonic(), process_id()
    shown = masked(json.dumps(config.model_dump(mode="json"), sort_keys=True))
    read: dict[str, str] = {}
    outputs: dict[str, str] = {}

    def write(status: str, seconds: float | None, error: str | None) -> None:
        row = {
            "status": status,
            "started_at": started,
            "seconds": seconds,
            "config": shown,
            "versions": versions,
            "inputs": read,
            "error": error,
            "process": process,
            "outputs": outputs,
        }
        lake.put(RUNS, [row], {"run_id": config.run_id, "stage": name})

    write("running", None, None)
    try:
        with as_operator_error():
            lake.clean((RUNS, *writes), config.run_id)
            lake.watch(writes, config.run_id)
            read |= {
                masked(table): where if isinstance(where, str) else masked(input_version(spark, where))
                for table, where in inputs.items()
            }
            yield outputs
    except BaseException as error:
        now = stage_row(lake, config.run_id, name)
        if now and now.get("process") == process:  # else another job has started the stage since: its row stays
            write("failed", time.monotonic() - clock, masked(f"{type(error).__name__}: {error}")[:2000])
        raise
    write("done", time.monotonic() - clock, None)


def stage_row(lake: Lake, run_id: str, name: str) -> dict[str, Any] | None:
    """The row of a stage, None if it never ran; status is `gone` if it says running, but its process is not there any more."""
    rows = lake.rows(RUNS, {"run_id": run_id, "stage": name})
    if not rows:
        return None
    return rows[0] | {"status": status_of(rows[0]), "outputs": rows[0].get("outputs") or {}}


def status_of(row: dict[str, Any]) -> str:
    """running, done, failed, or gone. Rows of older versions do not tell their process."""
    process = row.get("process")
    return "gone" if row["status"] == "running" and process and is_gone(process) else row["status"]


def done_stage(lake: Lake, run_id: str, name: str) -> dict[str, Any]:
    """The row of a stage that is done; an error that says how it stands otherwise."""
    row = stage_row(lake, run_id, name)
    if row is None:
        raise StageError(
            f"run {run_id}: there is no {name} stage in the lake {lake.root}. Run jobs/{name}.py with this run_id first."
        )
    if row["status"] == "done":
        return row
    how = {
        "failed": f"failed ({row['error']})",
        "gone": "was killed before it was done",
        "running": "is not done: it still runs, or was killed on another machine",
    }[row["status"]]
    raise StageError(
        f"run {run_id}: its {name} stage of {row['started_at']:%Y-%m-%d %H:%M} UTC {how}, so its tables may be old or incomplete. "
        f"Run jobs/{name}.py with this run_id again."
    )


def ranks_token(lake: Lake, run_id: str) -> str:
    """A fingerprint of what the run's ranks are made from: the same for the same rows, however they are stored."""
    return digest(sorted((part["model"], part["inputs"]) for part in lake.partitions(RANKS, run_id)))


def fresh_ranks(lake: Lake, run_id: str) -> dict[str, Any]:
    """The row of a rank stage that is done and that made the ranks as they are now; else an error."""
    row = done_stage(lake, run_id, "rank")
    if row["outputs"].get(RANKS.name, ranks_token(lake, run_id)) != ranks_token(lake, run_id):
        raise StageError(
            f"run {run_id}: its ranks were written after its rank stage of {row['started_at']:%Y-%m-%d %H:%M} UTC was done, so "
            "nobody has checked them together. Run jobs/rank.py with this run_id again: models that have not changed are not ranked again."
        )
    return row


def fresh_answers(lake: Lake, run_id: str) -> dict[str, Any]:
    """The row of an evaluate stage that is done and rests on the ranks as they are now; else an error."""
    row = done_stage(lake, run_id, "evaluate")
    fresh_ranks(lake, run_id)
    if row["inputs"].get(RANKS.name, ranks_token(lake, run_id)) != ranks_token(lake, run_id):
        raise StageError(
            f"run {run_id}: its estimates of {row['started_at']:%Y-%m-%d %H:%M} UTC are older than its ranks. "
            "Run jobs/evaluate.py with this run_id."
        )
    return row


def done_with(lake: Lake, run_id: str, name: str) -> dict[str, Any] | None:
    """The config of the stage when it last ran, as JSON has it; None if it never did, or failed."""
    row = stage_row(lake, run_id, name)
    return json.loads(row["config"]) if row and row["status"] == "done" else None


def input_version(spark: SparkSession, where: Input) -> str:
    """What was read: path, format and, for Delta, the version."""
    kind = input_format(where)
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
