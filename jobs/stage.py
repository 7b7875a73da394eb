"""A stage of a run and its row of the `runs` table: what it ran with, how long it took, how it ended, and whether
others can start from it.

A stage is published by its row: its tables are committed one after the other, and belong together once the row says
done. So a stage starts only if the stages before it (`after` in jobs/pipeline.py) are done, and if the table that
they publish is the one they wrote: a fingerprint of its content is kept in the row of who wrote it (`outputs`) and of
who read it (`inputs`).
"""

import json
import platform
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any, NamedTuple, cast

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from eval_engine.config import Input
from eval_engine.errors import StageError, Terminated, as_operator_error
from eval_engine.inputs.fingerprints import digest
from eval_engine.inputs.input_format import input_format
from eval_engine.lake.delta_table import delta_version
from eval_engine.lake.lake import CATALOG_NAME, Lake
from eval_engine.masked import masked
from eval_engine.spark.object_store import check_store
from eval_engine.storage.process_id import is_gone, process_id
from eval_engine.storage.stored_file import full_path
from eval_engine.tables import RANKS, RUNS, Table
from jobs.pipeline import STAGES, inputs_of
from jobs.run_config import AnyConfig


class Running(NamedTuple):
    """A stage that runs."""

    before: dict[str, dict[str, Any]]  # rows of the stages that it rests on, by name
    outputs: dict[str, str]  # of its own row: what it wrote, by table; the stage may add to it


@contextmanager
def stage(lake: Lake, config: AnyConfig, name: str, after: Sequence[str] | None = None) -> Iterator[Running]:
    """Marks the stage as running, then as done or failed. after: the stages before it, if not those of the plan.

    A stage before it that is not done, a store that is not reached and a lake that cannot be written are errors here,
    before any work.
    """
    plan, spark = STAGES[name], lake.spark
    before = {
        other: row for other in (plan.after if after is None else after) if (row := _done_before(lake, config, other))
    }
    if spark is not None:  # without Spark, who reads a table says what is wrong with its store
        for table, where in inputs_of(config, name):
            check_store(spark, where.path, table)
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
            "versions": _versions(spark),
            "inputs": read,
            "error": error,
            "process": process,
            "outputs": outputs,
        }
        lake.put(RUNS, [row], {"run_id": config.run_id, "stage": name})

    write("running", None, None)
    try:
        with as_operator_error():
            lake.clean((RUNS, *plan.lake_tables), config.run_id)
            lake.watch(plan.lake_tables, config.run_id)
            read |= _read_versions(lake, config, name)
            yield Running(before, outputs)
            if plan.publishes:
                outputs[plan.publishes.name] = fingerprint(lake, plan.publishes, config.run_id)
            # once more: workers of a killed job may have written on for a while, or to a table that did not exist yet
            lake.clean(plan.lake_tables, config.run_id)
    except BaseException as error:
        now = stage_row(lake, config.run_id, name)
        if now and now.get("process") == process:  # else another job has started the stage since: its row stays
            write("failed", time.monotonic() - clock, masked(f"{type(error).__name__}: {error}")[:2000])
        if isinstance(error, Terminated):
            _end_workers(lake, plan.lake_tables, config.run_id, process)
        raise
    write("done", time.monotonic() - clock, None)


def _end_workers(lake: Lake, tables: Sequence[Table], run_id: str, process: str) -> None:
    """Stops Spark, then deletes the files of this process: a cancelled task may write a file after it was cancelled."""
    if lake.spark_only_reason is None:
        if lake.spark is not None:
            lake.spark.stop()
        lake.clean(tables, run_id, process)


def lake_without_spark(root: str) -> Lake | None:
    """The lake for a stage that has no Spark; None if only Spark can write to it."""
    if CATALOG_NAME.fullmatch(root):
        return None
    lake = Lake(cast(SparkSession, None), root)
    return None if lake.spark_only_reason else lake


def stage_row(lake: Lake, run_id: str, name: str) -> dict[str, Any] | None:
    """The row of a stage, None if it never ran; status is `gone` if it says running, but its process has ended."""
    rows = lake.rows(RUNS, {"run_id": run_id, "stage": name})
    if not rows:
        return None
    return rows[0] | {"status": status_of(rows[0]), "outputs": rows[0].get("outputs") or {}}


def status_of(row: dict[str, Any]) -> str:
    """running, done, failed, or gone. Rows of older versions do not name their process."""
    process = row.get("process")
    return "gone" if row["status"] == "running" and process and is_gone(process) else row["status"]


def done_stage(lake: Lake, run_id: str, name: str) -> dict[str, Any]:
    """The row of a stage that is done; an error that says how the stage ended otherwise."""
    row = stage_row(lake, run_id, name)
    if row is None:
        raise StageError(
            f"run {run_id}: there is no {name} stage in the lake {lake.root}. "
            f"Run jobs/{name}.py with this run_id first."
        )
    if row["status"] == "done":
        return row
    how = {
        "failed": f"failed ({row['error']})",
        "gone": "was killed before it was done",
        "running": "is not done: it still runs, or was killed on another machine",
    }[row["status"]]
    raise StageError(
        f"run {run_id}: its {name} stage of {row['started_at']:%Y-%m-%d %H:%M} UTC {how}, so its tables may be old "
        f"or incomplete. Run jobs/{name}.py with this run_id again."
    )


def fresh(lake: Lake, run_id: str, name: str) -> dict[str, Any]:
    """The row of a stage that is done, whose published table is as it left it, and that read the tables that the
    stages before it publish now; else an error."""
    plan, row = STAGES[name], done_stage(lake, run_id, name)
    when = f"{row['started_at']:%Y-%m-%d %H:%M} UTC"
    if (own := plan.publishes) and row["outputs"].get(own.name, now := fingerprint(lake, own, run_id)) != now:
        raise StageError(
            f"run {run_id}: its {own.name} were written after its {name} stage of {when} was done, so they were not "
            f"checked together. Run jobs/{name}.py with this run_id again: what has not changed is kept."
        )
    for other in plan.after:
        read = STAGES[other].publishes
        if read and _is_read(lake, row, other):
            fresh(lake, run_id, other)
            now = fingerprint(lake, read, run_id)
            if row["inputs"].get(read.name, now) != now:
                raise StageError(
                    f"run {run_id}: its {plan.lake_tables[0].name} of {when} are older than its {read.name}. "
                    f"Run jobs/{name}.py with this run_id."
                )
    return row


def answered(lake: Lake, run_id: str) -> dict[str, Any]:
    """The row of the stage that made the answers of a run: evaluate, or merge for one that was added up from others."""
    if stage_row(lake, run_id, "evaluate") is None and stage_row(lake, run_id, "merge") is not None:
        return done_stage(lake, run_id, "merge")
    return fresh(lake, run_id, "evaluate")


def _is_read(lake: Lake, row: dict[str, Any], other: str) -> bool:
    """Whether the stage of this row rests on another stage of its run: one without a section in its config does not
    run.
    """
    section = STAGES[other].section
    if section is None:
        return True
    return bool(json.loads(row["config"]).get(section)) and stage_row(lake, row["run_id"], other) is not None


def _done_before(lake: Lake, config: AnyConfig, name: str) -> dict[str, Any] | None:
    """The row of a stage that another one starts from. A stage that has a section of its own makes inputs: they may
    come from elsewhere, or from another run, so that the run has no row of it."""
    plan = STAGES[name]
    if name == "evaluate":
        return answered(lake, config.run_id)
    if not plan.is_asked(config) or (plan.section and stage_row(lake, config.run_id, name) is None):
        return None
    return fresh(lake, config.run_id, name)


def fingerprint(lake: Lake, table: Table, run_id: str) -> str:
    """What the run's rows of a published table are made from, or for a small table the rows: the same for the same
    rows, however they are stored.
    """
    if table.name != RANKS.name:
        return digest(lake.rows(table, {"run_id": run_id}))
    return digest(sorted((part["model"], part["inputs"]) for part in lake.partitions(table, run_id)))


def done_with(lake: Lake, run_id: str, name: str) -> dict[str, Any] | None:
    """The config of the stage when it last ran, as JSON has it; None if it never did, or failed."""
    row = stage_row(lake, run_id, name)
    return json.loads(row["config"]) if row and row["status"] == "done" else None


def _versions(spark: SparkSession | None) -> dict[str, str]:
    """Of the software."""
    versions = {"plumbline": version("plumbline"), "python": platform.python_version()}
    return versions if spark is None else versions | {"spark": spark.version}


def _read_versions(lake: Lake, config: AnyConfig, name: str) -> dict[str, str]:
    """What the stage reads: of a table that another stage publishes its fingerprint, of others path and version."""
    published = {plan.publishes.name for plan in STAGES.values() if plan.publishes}
    read = {table: input_version(lake.spark, where) for table, where in inputs_of(config, name)}
    for table in STAGES[name].reads:
        if isinstance(table, Table):
            where = Input(path=f"{lake.root}.{table.name}" if lake.in_catalog else f"{lake.root}/{table.name}")
            read[table.name] = (
                fingerprint(lake, table, config.run_id) if table.name in published else input_version(lake.spark, where)
            )
    return {masked(table): masked(text) for table, text in read.items()}


def input_version(spark: SparkSession | None, where: Input) -> str:
    """What was read: path, format and, for Delta, the version."""
    kind = input_format(where)
    if kind == "delta" and (found := delta_version(where.path)):
        return f"{where.path} (delta version {found[1]})"
    if spark is None or kind not in ("delta", "table"):
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
