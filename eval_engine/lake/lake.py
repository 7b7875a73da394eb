"""A lake holds Plumbline's tables as Delta: under a folder or URI, or in a schema of a catalog (`catalog.schema`).

A write replaces the rows of one run, or of one stage or model of it, in a single commit. Readers see the old rows or
the new ones, never a part, and a retry leaves the same table. Runs are partitions, so different runs can be written
at once.

    put                    a few rows, by name; without Spark, whose own commit takes 2 to 5 s
    replace                rows of a DataFrame, by Spark's writer
    replace_by_workers     rows that a function for mapInArrow makes; its workers write files, and one commit names them
    write_files, commit    files in the table's folder; one commit names them

Where only Spark can write to the lake (spark_only_reason), it does all of this. A table of an older version gets the
columns that it lacks before it is written; where it is only read, they are NULL.
"""

import logging
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any, TypeVar
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import StructField, StructType

from eval_engine.config import check_run_id
from eval_engine.errors import LakeError, PlumblineError, as_operator_error
from eval_engine.lake.commits import Expected, active_files, commit_files, delta_uri, replace_files
from eval_engine.lake.delta_table import (
    StoredFile,
    files_of,
    first_line,
    id_types_of,
    make_table,
    partitions_of,
    rows_of,
)
from eval_engine.lake.part_files import MANIFEST, Target, WrittenFile, files_of_manifest, write_few, writing
from eval_engine.lake.rows import Row, as_dicts, write_rows
from eval_engine.lake.spark_table import has_table, make_spark_table, quoted, with_new_columns
from eval_engine.lake.vacuum import remove_leftovers
from eval_engine.spark.object_store import check_store
from eval_engine.spark.running_tasks import wait_for_tasks
from eval_engine.spark.worker_types import Worker
from eval_engine.storage.stored_file import full_path, located, open_file
from eval_engine.tables import Table

log = logging.getLogger(__name__)
UNWRITABLE = re.compile(
    r"Permission denied|Mkdirs failed|CANNOT_CREATE_LOG_PATH|Read-only|AccessDenied|not permitted|Not a directory|"
    r"FileAlreadyExists|ParentNotDirectory"
)
CONFLICT = re.compile(r"DELTA_CONCURRENT|DELTA_METADATA_CHANGED|DELTA_PROTOCOL_CHANGED|Concurrent\w+Exception")
STORAGE_ERRORS = (DeltaError, OSError, pa.ArrowException)  # of delta-rs and Arrow
SPARK_ERRORS = (PySparkException, Py4JError)
CATALOG_NAME = re.compile(r"[A-Za-z_]\w*\.[A-Za-z_]\w*")
T = TypeVar("T")


class Lake:
    """The written tables at one place."""

    def __init__(self, spark: SparkSession, root: str) -> None:
        self.spark = spark
        self.in_catalog = bool(CATALOG_NAME.fullmatch(root))
        self.root = root if self.in_catalog else full_path(root)
        # table: the run's files when its stage began, or that were committed here since
        self._expected: dict[str, Expected] = {}
        check_store(spark, root, "lake")

    def name(self, table: Table) -> str:
        """The table as SQL names it."""
        return f"{self.root}.{table.name}" if self.in_catalog else f"delta.`{self.root}/{table.name}`"

    def uri(self, table: Table) -> str:
        """The path or URI of the table's folder; only where the lake is no catalog."""
        return f"{self.root}/{table.name}"

    def rows(self, table: Table, where: dict[str, str]) -> list[dict[str, Any]]:
        """The rows of a small table that match, with every column of the table; none if there is no such table."""
        check_run_id(where["run_id"])
        stored = self._by_delta_rs(table, lambda uri: rows_of(uri, table, where))
        if stored is not None:
            return stored
        if not self.has(table):
            return []
        chosen = self.read(table, where["run_id"])
        for name, value in where.items():
            chosen = chosen.where(F.col(name) == value)
        return [row.asDict() for row in chosen.collect()]

    def rows_of_runs(self, table: Table, where: dict[str, str]) -> list[dict[str, Any]]:
        """The rows of every run of a small table that match; none if there is no such table."""
        stored = self._by_delta_rs(table, lambda uri: rows_of(uri, table, where))
        if stored is None:
            raise LakeError(f"{self.name(table)} can only be read by Spark, which this command does without.")
        return stored

    def partitions(self, table: Table, run_id: str) -> list[dict[str, str]]:
        """The partitions of a run, each as its columns' values; none if there is no such table."""
        stored = self._by_delta_rs(table, lambda uri: partitions_of(uri, {"run_id": run_id}))
        if stored is not None:
            return stored
        if not self.has(table):
            return []
        return [row.asDict() for row in self.read(table, run_id).select(*table.partitions).distinct().collect()]

    def files(self, table: Table, run_id: str) -> list[StoredFile]:
        """The files of a run's rows; none if only Spark can name or read them."""
        if self.spark_only_reason:
            return []
        return self._by_delta_rs(table, lambda uri: files_of(uri, {"run_id": run_id})) or []

    def _by_delta_rs(self, table: Table, ask: Callable[[str], list[T]]) -> list[T] | None:
        """What delta-rs finds in a table: nothing if there is no such table; None if only Spark can tell."""
        if self.in_catalog:
            return None
        try:
            return ask(self.uri(table))
        except TableNotFoundError as error:
            if "Unknown scheme" not in str(error):
                return []
            reason = first_line(error)
        except STORAGE_ERRORS as error:  # storage it does not know, or a feature of the table: deleted rows for one
            reason = first_line(error)
        log.info("%s is read by Spark, since delta-rs cannot: %s", self.name(table), reason)
        return None

    def clean(self, tables: Iterable[Table], run_id: str, process: str | None = None) -> None:
        """Delete the uncommitted files of killed jobs, and of the process, from the run's folders of these tables."""
        if self.spark_only_reason:  # Spark's own writers leave files that VACUUM deletes
            return
        for table in tables:
            with self._with_remedy(table):
                if DeltaTable.is_deltatable(delta_uri(self.uri(table))):
                    remove_leftovers(self.uri(table), run_id, process)

    def watch(self, tables: Iterable[Table], run_id: str) -> None:
        """From now on commits to these tables are refused if another job has written the run since."""
        if self.spark_only_reason:  # Spark's own commits find conflicts themselves
            return
        for table in tables:
            place = delta_uri(self.uri(table))
            with self._with_remedy(table):
                there = DeltaTable.is_deltatable(place)
                self._expected[table.name] = active_files(DeltaTable(place), {"run_id": run_id}) if there else {}

    def put(self, table: Table, rows: Sequence[Row], where: dict[str, str], id_type: str = "BIGINT") -> None:
        """Put a few rows in place of those that match `where`; creates the table.

        A row is a dict or a NamedTuple with the table's columns, without those in `where`.
        """
        dicts = as_dicts(table, rows, where)
        if self.spark_only_reason:
            names = [name for name in table.names if name not in where]
            values = [tuple(row[name] for name in names) for row in dicts]
            schema = table.row_ddl(id_type, without=where)
            self.replace(table, self.spark.createDataFrame(values, schema), where)
            return
        self.create(table, id_type, where)
        with self._with_remedy(table):
            uri = self.uri(table)
            self.write_files(table, where, lambda attempt: write_rows(uri, table, dicts, where, attempt, id_type))

    def read(self, table: Table, run_id: str) -> DataFrame:
        """One run's rows, with every column of the table."""
        check_run_id(run_id)
        if not self.has(table):
            raise LakeError(
                f"There is no table {self.name(table)} yet. Run `plumbline run` on this lake first, or give the "
                "right lake."
            )
        return with_new_columns(self.spark.table(self.name(table)), table).where(F.col("run_id") == run_id)

    def id_type(self, table: Table, name: str, run_id: str) -> str:
        """The stored type of a column of ids, BIGINT or STRING."""
        stored = self._by_delta_rs(table, lambda uri: id_types_of(uri, name))
        return stored[0] if stored else dict(self.read(table, run_id).dtypes)[name].upper()

    def read_files(self, table: Table, run_id: str) -> DataFrame:
        """One run's rows without run_id, from the files that the table's log names: Delta starts a job for each read to
        find them. For a table whose files have all its columns. Where only Spark can name the files, Delta reads.
        """
        files = self.files(table, run_id)
        if not files:
            return self.read(table, run_id).drop("run_id")
        with self._with_remedy(table), open_file(files[0].path) as handle:
            schema = StructType([StructField(f.name, from_arrow_type(f.type)) for f in pq.read_schema(handle)])
        return self.spark.read.schema(schema).parquet(*[file.path for file in files])

    def replace(self, table: Table, rows: DataFrame, where: dict[str, str], except_models: Sequence[str] = ()) -> None:
        """Put rows in place of those that match `where` (run_id at least), except some models'; creates the table."""
        id_type = dict(rows.dtypes).get("user_id", dict(rows.dtypes).get("item_id", "bigint")).upper()
        self.create(table, id_type, where)
        rows = rows.withColumns({name: F.lit(value) for name, value in where.items()})
        target = self.spark.table(self.name(table))
        chosen = rows.select(*target.columns)
        writer = chosen.write.format("delta").mode("overwrite").option("replaceWhere", _predicate(where, except_models))
        with self._with_remedy(table):
            if self.in_catalog:
                writer.saveAsTable(self.name(table))
            else:
                writer.save(self.uri(table))

    def replace_by_workers(
        self, table: Table, rows: DataFrame, worker: Worker, where: dict[str, str], id_type: str = "BIGINT"
    ) -> DataFrame:
        """Like replace, of what `worker` makes of the rows by mapInArrow; the rows that were written.

        It makes the table's columns without those in `where`, a few rows per task.
        """
        schema = table.row_ddl(id_type, without=where)
        if self.spark_only_reason:
            self.replace(table, rows.mapInArrow(worker, schema), where)
            return self.read(table, where["run_id"])
        self.create(table, id_type, where)
        uri = self.uri(table)

        def write(attempt: str) -> list[WrittenFile]:
            target = Target(uri, where["run_id"], attempt)
            return files_of_manifest(rows.mapInArrow(writing(worker, target, write_few), MANIFEST).collect())

        with self._with_remedy(table):
            files = self.write_files(table, where, write)
        if not files:
            return self.spark.createDataFrame([], schema)
        return self.spark.read.schema(schema).parquet(*[f"{uri}/{file.path}" for file in files])

    @cached_property
    def spark_only_reason(self) -> str | None:
        """Why workers and delta-rs cannot put files of their own into the lake's tables; None if they can."""
        if self.in_catalog:
            return "a catalog's tables are written through the catalog"
        probe = f"{self.root}/_probe-{uuid4()}"
        try:
            system, path = located(probe)
            system.create_dir(path)
            system.delete_dir(path)
        except (OSError, pa.ArrowException) as error:
            if UNWRITABLE.search(str(error)):
                raise self._unwritable(error) from None
            reason = f"Arrow cannot write there: {first_line(error)}"
            log.info("The lake %s is written by Spark: %s", self.root, reason)
            return reason
        return None

    def write_files(
        self,
        table: Table,
        where: dict[str, str],
        write: Callable[[str], list[WrittenFile]],
        except_models: Sequence[str] = (),
    ) -> list[WrittenFile]:
        """Like replace, with files that `write` writes to the table's folder (replace_files); the table must exist."""
        expected = self._expected.get(table.name)

        def written(attempt: str) -> list[WrittenFile]:
            try:
                return write(attempt)
            except Exception:
                wait_for_tasks(self.spark)  # else one of them may write a file after the files were deleted
                raise

        files = replace_files(self.uri(table), table, where, written, except_models, expected)
        self._watch_on(table, where)
        return files

    def commit(
        self, table: Table, files: Iterable[WrittenFile], where: dict[str, str], except_models: Sequence[str] = ()
    ) -> None:
        """Like replace, with files that were written to the table's folder before; the table must exist."""
        commit_files(self.uri(table), table, files, where, except_models, self._expected.get(table.name))
        self._watch_on(table, where)

    def _watch_on(self, table: Table, where: dict[str, str]) -> None:
        """The files of the run as this job has just left them are those that its next commit expects."""
        if table.name in self._expected:
            self.watch((table,), where["run_id"])

    def remove(self, table: Table, where: dict[str, str], except_models: Sequence[str]) -> None:
        """Take out the rows that match `where`, except some models'."""
        with self._with_remedy(table):
            if self.spark_only_reason is None:
                self.commit(table, [], where, except_models)
                return
            self.spark.sql(f"DELETE FROM {self.name(table)} WHERE {_predicate(where, except_models)}")

    def view(self, name: str, query: str) -> None:
        """A view of the lake's catalog; paths have none."""
        self.spark.sql(f"CREATE OR REPLACE VIEW {self.root}.{name} AS {query}")

    def has(self, table: Table) -> bool:
        """Whether the table is there."""
        return has_table(self.spark, self.name(table))

    def create(self, table: Table, id_type: str, where: dict[str, str]) -> None:
        """Make the table, or give an older one the columns and rules of the contract; an error if it does not fit."""
        check_run_id(where["run_id"])
        with self._with_remedy(table):
            if self.spark_only_reason is None:
                make_table(self.uri(table), table, id_type)
            else:
                make_spark_table(self.spark, self.name(table), table, id_type)

    def _unwritable(self, error: Exception, table: str = "") -> LakeError:
        where = f" (table {table})" if table else ""
        return LakeError(
            f"The lake {self.root} cannot be written{where}: {_telling_line(error)} "
            "Give a writable `lake` in the config."
        )

    @contextmanager
    def _with_remedy(self, table: Table) -> Iterator[None]:
        """Errors of Spark, delta-rs and Arrow as errors with a remedy, where there is one."""
        try:
            with as_operator_error():
                yield
        except PlumblineError:
            raise
        except (*STORAGE_ERRORS, *SPARK_ERRORS) as error:
            if CONFLICT.search(str(error)):
                raise LakeError(
                    f"{self.name(table)} was written by another job at the same time, so this one has committed "
                    f"nothing to it: {first_line(error)} Let one job at a time write a run, then run this one again."
                ) from None
            if UNWRITABLE.search(str(error)):
                raise self._unwritable(error, table.name) from None
            raise


def _predicate(where: dict[str, str], except_models: Sequence[str]) -> str:
    """The rows of a run, except some models'."""
    chosen = [f"{name} = {quoted(value)}" for name, value in where.items()]
    kept = [f"model NOT IN ({', '.join(map(quoted, except_models))})"] if except_models else []
    return " AND ".join([*chosen, *kept])


def _telling_line(error: Exception) -> str:
    """The line of a long error that says why something cannot be written."""
    lines = [line.strip() for line in str(error).splitlines()]
    why = re.compile(r"denied|Mkdirs|Cannot create|Read-only|permitted|directory|Already")
    line = next((line for line in lines if why.search(line)), None)
    return f"{line[:300].rstrip('.')}." if line else first_line(error)
