"""A lake holds Plumbline's tables as Delta: under a folder or URI, or in a schema of a catalog (`catalog.schema`).

Writing replaces the rows of one run (or one stage of it) in a single commit: readers see the old rows or the new ones, never a part,
and a retry leaves the same table. Runs are partitions, so different runs can be written at once. Rows come from Spark (replace), or lie there
already as files that workers wrote (commit). Small tables are written and read without Spark where that is possible (put, rows): its own commit takes 2 to 5 s.
"""

import logging
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any
from uuid import uuid4

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from eval_engine.config import check_run_id
from eval_engine.errors import DataError, LakeError, PlumblineError, as_operator_error
from eval_engine.lake.arrow_schema import arrow_schema
from eval_engine.lake.commits import (
    Expected,
    WrittenFile,
    active_files,
    commit_files,
    delta_uri,
    new_attempt,
    write_file,
)
from eval_engine.lake.delta_table import StoredFile, files_of, make_table, partitions_of, rows_of
from eval_engine.lake.part_files import Target, delete_uncommitted
from eval_engine.lake.vacuum import remove_leftovers
from eval_engine.spark.object_store import check_store
from eval_engine.spark.worker_types import Worker
from eval_engine.storage.stored_file import full_path, located
from eval_engine.tables import Table

log = logging.getLogger(__name__)
UNWRITABLE = re.compile(
    r"Permission denied|Mkdirs failed|CANNOT_CREATE_LOG_PATH|Read-only|AccessDenied|not permitted|Not a directory|FileAlreadyExists|ParentNotDirectory"
)
NO_TABLE = re.compile(
    r"TABLE_OR_VIEW_NOT_FOUND|DELTA_TABLE_NOT_FOUND|DELTA_MISSING_DELTA_TABLE|PATH_NOT_FOUND|DELTA_PATH_DOES_NOT_EXIST|is not a Delta table"
)
CONFLICT = re.compile(r"DELTA_CONCURRENT|DELTA_METADATA_CHANGED|DELTA_PROTOCOL_CHANGED|Concurrent\w+Exception")
ONLY_SPARK = (
    DeltaError,
    OSError,
    pa.ArrowException,
)  # where only Spark reaches the storage, or knows a feature of the table
CATALOG_NAME = re.compile(r"[A-Za-z_]\w*\.[A-Za-z_]\w*")


class Lake:
    """The written tables at one place."""

    def __init__(self, spark: SparkSession, root: str) -> None:
        self.spark = spark
        self.in_catalog = bool(CATALOG_NAME.fullmatch(root))
        self.root = root if self.in_catalog else full_path(root)
        self._expected: dict[
            str, Expected
        ] = {}  # table: the run's files when its stage began, or that were committed here since
        check_store(spark, root, "lake")

    def name(self, table: Table) -> str:
        """The table as SQL names it."""
        return f"{self.root}.{table.name}" if self.in_catalog else f"delta.`{self.root}/{table.name}`"

    def rows(self, table: Table, where: dict[str, str]) -> list[dict[str, Any]]:
        """The rows of a small table that match; none if there is no such table."""
        check_run_id(where["run_id"])
        if not self.in_catalog:
            try:
                return rows_of(self._uri(table), where)
            except TableNotFoundError:
                return []
            except ONLY_SPARK as error:
                self._by_spark(table, error)
        if not self.has(table):
            return []
        found = self.spark.table(self.name(table))
        for name, value in where.items():
            found = found.where(F.col(name) == value)
        return [row.asDict() for row in found.collect()]

    def partitions(self, table: Table, run_id: str) -> list[dict[str, str]]:
        """The partitions of a run, each as its columns' values; none if there is no such table."""
        if not self.in_catalog:
            try:
                return partitions_of(self._uri(table), {"run_id": run_id})
            except TableNotFoundError:
                return []
            except ONLY_SPARK as error:
                self._by_spark(table, error)
        if not self.has(table):
            return []
        return [row.asDict() for row in self.read(table, run_id).select(*table.partitions).distinct().collect()]

    def files(self, table: Table, run_id: str) -> list[StoredFile]:
        """The files of a run's rows; none if only Spark can tell or read them."""
        if self.spark_only_reason:
            return []
        try:
            return files_of(self._uri(table), {"run_id": run_id})
        except TableNotFoundError:
            return []
        except ONLY_SPARK as error:  # rows that were deleted from files, among others
            self._by_spark(table, error)
            return []

    def clean(self, tables: Iterable[Table], run_id: str) -> None:
        """Removes what killed jobs left of the run in these tables' folders."""
        if self.spark_only_reason:  # Spark's own writers leave files that VACUUM removes
            return
        for table in tables:
            with self._told(table):
                if DeltaTable.is_deltatable(delta_uri(self._uri(table))):
                    remove_leftovers(self._uri(table), run_id)

    def watch(self, tables: Iterable[Table], run_id: str) -> None:
        """From now on commits to these tables are refused if another job has written the run since."""
        if self.spark_only_reason:  # Spark's own commits find out
            return
        for table in tables:
            place = delta_uri(self._uri(table))
            with self._told(table):
                there = DeltaTable.is_deltatable(place)
                self._expected[table.name] = active_files(DeltaTable(place), {"run_id": run_id}) if there else {}

    def put(self, table: Table, rows: Sequence[Sequence[Any]], where: dict[str, str], id_type: str = "BIGINT") -> None:
        """Like replace, of a few rows; each has the table's columns, without those in `where`, in order."""
        names = [name for name in table.names if name not in where]
        if self.spark_only_reason:
            schema = table.row_ddl(id_type, without=where)
            self.replace(table, self.spark.createDataFrame([tuple(row) for row in rows], schema), where)
            return
        self.create(table, id_type, where)
        schema = arrow_schema(table, id_type)
        stored = [name for name in table.names if name not in table.partitions]
        assert set(table.partitions) <= set(where), "a few rows go to one partition"
        columns = {name: pa.array([row[names.index(name)] for row in rows], schema.field(name).type) for name in stored}
        with self._told(table):
            files = [write_file(self._uri(table), pa.table(columns), where)] if rows else []
            self.commit(table, files, where)

    def read(self, table: Table, run_id: str) -> DataFrame:
        """One run's rows."""
        check_run_id(run_id)
        if not self.has(table):
            raise LakeError(
                f"There is no table {self.name(table)} yet. Run `plumbline evaluate` on this lake first, or give the right lake."
            )
        return self.spark.table(self.name(table)).where(F.col("run_id") == run_id)

    def replace(self, table: Table, rows: DataFrame, where: dict[str, str], except_models: Sequence[str] = ()) -> None:
        """Put these rows in place of those that match `where` (run_id at least) but for some models', in one commit; creates the table."""
        id_type = dict(rows.dtypes).get("user_id", dict(rows.dtypes).get("item_id", "bigint")).upper()
        self.create(table, id_type, where)
        rows = rows.withColumns({name: F.lit(value) for name, value in where.items()})
        target = self.spark.table(self.name(table))
        chosen = rows.select(*target.columns)
        writer = chosen.write.format("delta").mode("overwrite").option("replaceWhere", _predicate(where, except_models))
        with self._told(table):
            if self.in_catalog:
                writer.saveAsTable(self.name(table))
            else:
                writer.save(f"{self.root}/{table.name}")

    def replace_by_workers(self, table: Table, rows: DataFrame, worker: Worker, where: dict[str, str]) -> DataFrame:
        """Like replace, of what `worker` makes of the rows by mapInArrow: the table's columns, less those in `where`; a few per task. The rows that were written."""
        schema = table.row_ddl(without=where)
        if self.spark_only_reason:
            self.replace(table, rows.mapInArrow(worker, schema), where)
            return self.read(table, where["run_id"])
        self.create(table, "BIGINT", where)
        uri, target = self._uri(table), Target(self._uri(table), where["run_id"], new_attempt())

        def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            made = [batch for batch in worker(batches) if batch.num_rows]
            files = [write_file(uri, pa.Table.from_batches(made), where, target.attempt)] if made else []
            columns = [[file.path for file in files], [file.n_bytes for file in files], [file.stats for file in files]]
            kinds = [pa.string(), pa.int64(), pa.string()]
            yield pa.RecordBatch.from_arrays(
                [pa.array(c, k) for c, k in zip(columns, kinds, strict=True)], ["path", "n_bytes", "stats"]
            )

        files: list[WrittenFile] = []
        try:
            with self._told(table):
                found = rows.mapInArrow(write, "path STRING, n_bytes BIGINT, stats STRING").collect()
                written = [WrittenFile(row["path"], row["n_bytes"], where, row["stats"]) for row in found]
                self.commit(table, written, where)
            files = written
        finally:
            delete_uncommitted(target, files)
        return (
            self.spark.read.schema(schema).parquet(*[f"{uri}/{file.path}" for file in files])
            if files
            else self.spark.createDataFrame([], schema)
        )

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
                raise LakeError(
                    f"The lake {self.root} cannot be written: {_first_line(error)} Give a writable `lake` in the config."
                ) from None
            return f"Arrow cannot write there: {str(error).splitlines()[0][:200]}"
        return None

    def _uri(self, table: Table) -> str:
        return f"{self.root}/{table.name}"

    def commit(
        self, table: Table, files: Iterable[WrittenFile], where: dict[str, str], except_models: Sequence[str] = ()
    ) -> None:
        """Like replace, with files that lie in the table's folder already; the table must exist."""
        uri = self._uri(table)
        commit_files(uri, table, files, where, except_models, self._expected.get(table.name))
        if table.name in self._expected:
            self._expected[table.name] = active_files(DeltaTable(delta_uri(uri)), {"run_id": where["run_id"]})

    def forget(self, table: Table, file: WrittenFile) -> None:
        """Remove a file from the table's folder, unless a commit names it."""
        place = delta_uri(self._uri(table))
        named = DeltaTable(place).file_uris() if DeltaTable.is_deltatable(place) else []
        if not any(uri.endswith(file.path.rsplit("/", 1)[1]) for uri in named):  # the name is unique
            system, path = located(f"{self._uri(table)}/{file.path}")
            system.delete_file(path)

    def remove(self, table: Table, where: dict[str, str], except_models: Sequence[str]) -> None:
        """Take out the rows that match `where`, but for some models'."""
        with self._told(table):
            if self.spark_only_reason is None:
                self.commit(table, [], where, except_models)
                return
            self.spark.sql(f"DELETE FROM {self.name(table)} WHERE {_predicate(where, except_models)}")

    def view(self, name: str, query: str) -> None:
        """A view of the lake's catalog; paths have none."""
        self.spark.sql(f"CREATE OR REPLACE VIEW {self.root}.{name} AS {query}")

    def has(self, table: Table) -> bool:
        """Whether the table is there."""
        try:
            self.spark.table(self.name(table)).schema  # noqa: B018  asks for the table
        except AnalysisException as error:
            if NO_TABLE.search(str(error)):
                return False
            raise
        return True

    def create(self, table: Table, id_type: str, where: dict[str, str]) -> None:
        """The table, if it is not there yet, with all columns of the contract."""
        check_run_id(where["run_id"])
        with self._told(table):
            if self.spark_only_reason is None:
                make_table(self._uri(table), table, id_type)
            else:
                self._create_by_spark(table, id_type)

    def _create_by_spark(self, table: Table, id_type: str) -> None:
        have = self._columns(table)
        if have is None:
            rules = ", ".join(f"'delta.constraints.rule_{n}' = {_quoted(rule)}" for n, rule in enumerate(table.rules))
            properties = f"TBLPROPERTIES ({rules})" if rules else ""
            self.spark.sql(
                f"CREATE TABLE IF NOT EXISTS {self.name(table)} ({table.ddl(id_type)}) USING DELTA "
                f"PARTITIONED BY ({', '.join(table.partitions)}) COMMENT {_quoted(table.about)} {properties}"
            )
            have = self._columns(table) or {}
        if not set(table.names) <= set(have):
            self.spark.sql(f"ALTER TABLE {self.name(table)} ADD COLUMNS ({table.row_ddl(id_type, without=have)})")
            have = self._columns(table) or {}
        if set(have) != set(table.fields):
            raise LakeError(
                f"{self.name(table)} has the columns {', '.join(sorted(have))}, not {', '.join(sorted(table.fields))}: "
                "another version made it. Give another `lake`."
            )
        for name in ("user_id", "item_id"):
            if name in have and have[name] != id_type:
                raise DataError(
                    f"{table.name}.{name} is {id_type} in this run but {have[name]} in the lake: ids are of one type in a lake. "
                    "Give another `lake`, or cast the input."
                )

    def _columns(self, table: Table) -> dict[str, str] | None:
        """The columns of the table, the fields of structs (`random.items`) among them, and their types; None if there is no such table."""
        if not self.has(table):
            return None
        found = self.spark.table(self.name(table))
        inside = [
            f"{column.name}.{name}"
            for column in found.schema
            if isinstance(column.dataType, StructType)
            for name in column.dataType.names
        ]
        return dict.fromkeys(inside, "") | {name: kind.upper() for name, kind in found.dtypes}

    def _by_spark(self, table: Table, error: Exception) -> None:
        """Notes why Spark is asked instead of delta-rs."""
        log.info("%s is read by Spark, since delta-rs cannot: %s", self.name(table), _first_line(error))

    @contextmanager
    def _told(self, table: Table) -> Iterator[None]:
        """Spark's errors as errors with a remedy."""
        try:
            with as_operator_error():
                yield
        except PlumblineError:
            raise
        except Exception as error:
            if CONFLICT.search(str(error)):
                raise LakeError(
                    f"{self.name(table)} was written by another job at the same time, so this one has committed nothing "
                    f"to it: {_first_line(error)} Let one job at a time write a run, then run this one again."
                ) from None
            if UNWRITABLE.search(str(error)):
                raise LakeError(
                    f"The lake {self.root} cannot be written (table {table.name}): {_first_line(error)} Give a writable `lake` in the config."
                ) from None
            raise


def _predicate(where: dict[str, str], except_models: Sequence[str]) -> str:
    """The rows of a run, but for some models'."""
    chosen = [f"{name} = {_quoted(value)}" for name, value in where.items()]
    kept = [f"model NOT IN ({', '.join(map(_quoted, except_models))})"] if except_models else []
    return " AND ".join([*chosen, *kept])


def _quoted(text: str) -> str:
    """A SQL literal."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    told = next(
        (
            line
            for line in lines
            if re.search(r"denied|Mkdirs|Cannot create|Read-only|permitted|directory|Already", line)
        ),
        lines[0] if lines else "",
    )
    return told[:300].rstrip(".") + "."
