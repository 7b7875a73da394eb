"""The source tables of slices, prepared for workers: values become codes, ids become keys (keyed_table.py).

Small Parquet tables are read by this process. Of the others, two Spark jobs for all together: one collects the distinct
values of the columns whose values are not known, one writes codes to files. Rows go through one shuffle by id, which
detects duplicate ids in a table.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from typing import Any, NamedTuple
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.pandas.types import to_arrow_type

from eval_engine.config import Input, Slices, SliceTable
from eval_engine.errors import DataError, as_operator_error
from eval_engine.evaluation.spec import Slicing
from eval_engine.inputs.input_format import input_format
from eval_engine.inputs.read import flat_files, pick, read_input, read_table
from eval_engine.kernels.xxhash64 import xxhash64
from eval_engine.spark.worker_types import Worker
from eval_engine.storage.keyed_table import KEY, KeyedTable
from eval_engine.storage.stored_file import located, open_file

SMALL_BYTES = 32 * 2**20  # of a table's files: below, starting Spark tasks takes longer than the work
MOST_VALUES = 100  # of a slicing: each value adds an estimate per model, estimator, metric and cutoff
NULL = "NULL"  # name of the slice of items and users without a value
STORED = "number INT, path STRING, counts ARRAY<BIGINT>"
WORDS = (T.StringType, T.BooleanType, T.ByteType, T.ShortType, T.IntegerType, T.LongType, T.DateType)


class SourceTable(NamedTuple):
    """A table of items or users."""

    name: str  # in errors
    of: str  # item, user
    rows: DataFrame  # id, and the columns
    columns: tuple[str, ...]
    coded: bool  # columns are values of slices, not numbers
    values: tuple[str, ...] | None = None  # of a coded table's one column, if they are known; sorted
    here: pa.Table | None = None  # the rows, of a small table


class SlicesRead(NamedTuple):
    """The tables that slices and weights need."""

    slicings: tuple[Slicing, ...]
    item_tables: tuple[KeyedTable, ...]
    user_tables: tuple[KeyedTable, ...]
    n_items: Mapping[str, int] = {}  # by slice of items: items of the table with this value


def read_slices(
    spark: SparkSession,
    slices: Slices,
    item_values: Sequence[SliceTable],
    id_type: str,
    folder: str,
    more: Sequence[SourceTable] = (),
) -> SlicesRead:
    """The slices of these tables, with their codes in files of the folder. item_values: tables of items whose columns
    are numbers. more: further tables.
    """
    tables = [
        *(_read(spark, f"slices.items[{n}]", "item", where, True) for n, where in enumerate(slices.items)),
        *(_read(spark, f"item_values[{n}]", "item", where, False) for n, where in enumerate(item_values)),
        *(_read(spark, f"slices.users[{n}]", "user", where, True) for n, where in enumerate(slices.users)),
        *more,
    ]
    if not tables:
        return SlicesRead((), (), ())
    for table in tables:
        kind = dict(table.rows.dtypes)[f"{table.of}_id"].upper()
        if kind != id_type:
            raise DataError(
                f"{table.name}.{table.of}_id is {kind}, but ids of the run are {id_type}. Cast them where the table is "
                "made."
            )
    with as_operator_error():
        values = _values(tables)
        stored = _stored(tables, values, folder)
    kinds = {"item": [], "user": []}  # type: dict[str, list[KeyedTable]]
    slicings: list[Slicing] = []
    n_items: dict[str, int] = {}
    for table, (files, counts) in zip(tables, stored, strict=True):
        if table.coded:
            own = [Slicing(name, table.of, len(kinds[table.of]), values[name]) for name in table.columns]
            slicings += own
            if table.of == "item":
                names = [name for slicing in own for name in slicing.names()]
                n_items |= dict(zip(names, counts, strict=True))
        kinds[table.of].append(KeyedTable(table.name, files, table.columns))
    return SlicesRead(tuple(slicings), tuple(kinds["item"]), tuple(kinds["user"]), n_items)


def _read(spark: SparkSession, name: str, of: str, where: SliceTable, coded: bool) -> SourceTable:
    """The table's id and columns; slice columns as text."""
    own = Input(path=where.path, format=where.format, columns=where.columns, csv=where.csv)
    wanted = {f"{of}_id": "id"} | dict.fromkeys(where.by, "text" if coded else "value")
    kind = input_format(own)
    if kind == "csv":
        return SourceTable(name, of, read_input(spark, name, own, wanted), where.by, coded)
    rows = read_table(spark, name, where.path, kind)
    theirs_of = {column: where.columns.get(column, column) for column in wanted}
    for column in where.by if coded else ():
        theirs = where.columns.get(column, column)
        if theirs in rows.columns and not isinstance(rows.schema[theirs].dataType, T.StringType):
            if not isinstance(rows.schema[theirs].dataType, WORDS):
                raise DataError(
                    f"{name}.{theirs} has type {rows.schema[theirs].dataType.simpleString().upper()}, but the values "
                    "of a slice are text, whole numbers, "
                    "dates or booleans. Cut it into classes where the table is made."
                )
            rows = rows.withColumn(theirs, F.col(f"`{theirs}`").cast("string"))
    picked = pick(rows, name, wanted, where.columns)
    kinds = {column: pa.string() if coded else pa.float64() for column in where.by}
    kinds = {f"{of}_id": to_arrow_type(picked.schema[f"{of}_id"].dataType)} | kinds
    here = _small_table(where.path, theirs_of, kinds) if kind == "parquet" else None
    return SourceTable(name, of, picked, where.by, coded, here=here)


def _small_table(path: str, theirs: Mapping[str, str], kinds: Mapping[str, pa.DataType]) -> pa.Table | None:
    """The columns of a folder of small Parquet files in these types; None where Spark must read them. theirs: the name
    of each column in the files.
    """
    try:
        files = flat_files(path)
        parts, n_bytes = [], 0
        for file in files or ():
            with open_file(file) as handle:
                n_bytes += handle.size()
                if n_bytes > SMALL_BYTES:
                    return None
                parts.append(pq.read_table(handle, columns=list(theirs.values())))
        if len({tuple((field.name, field.type) for field in part.schema) for part in parts}) != 1:
            return None
        columns = {name: [part.column(own) for part in parts] for name, own in theirs.items()}
        return pa.table(
            {
                name: pa.chunked_array([chunk for one in own for chunk in one.chunks], own[0].type).cast(kinds[name])
                for name, own in columns.items()
            }
        )
    except (OSError, KeyError, pa.ArrowException):  # Spark's reader has the error
        return None


def _values(tables: list[SourceTable]) -> dict[str, tuple[str, ...]]:
    """The sorted values of each slicing; an error if there are too many."""
    known = {table.columns[0]: table.values for table in tables if table.values is not None}
    coded = [table for table in tables if table.coded and table.values is None]
    if not coded:
        return known

    def distinct(columns: tuple[str, ...]) -> Worker:
        def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            seen: dict[str, set[str]] = {name: set() for name in columns}
            for batch in batches:
                for name, values in seen.items():
                    if len(values) <= MOST_VALUES:
                        values |= {value for value in pc.unique(batch.column(name)).to_pylist() if value is not None}
            rows = [(name, value) for name, values in seen.items() for value in sorted(values)[: MOST_VALUES + 1]]
            yield pa.RecordBatch.from_pydict(
                {
                    "slicing": pa.array([r[0] for r in rows], pa.string()),
                    "value": pa.array([r[1] for r in rows], pa.string()),
                }
            )

        return run

    parts = [
        table.rows.select(*table.columns).mapInArrow(distinct(table.columns), "slicing STRING, value STRING")
        for table in coded
        if table.here is None
    ]
    rows: list[Any] = reduce(DataFrame.unionByName, parts).collect() if parts else []
    for table in coded:
        if table.here is not None:
            rows += [
                row for batch in distinct(table.columns)(iter(table.here.to_batches())) for row in batch.to_pylist()
            ]
    found: dict[str, set[str]] = {name: set() for table in coded for name in table.columns}
    for row in rows:
        found[row["slicing"]].add(row["value"])
    for table in coded:
        for name in table.columns:
            if len(found[name]) > MOST_VALUES:
                raise DataError(
                    f"{table.name}.{name} has more than {MOST_VALUES} different values (such as {min(found[name])!r}), "
                    "and each becomes a slice with estimates of its own. "
                    "Put them into fewer classes where the table is made."
                )
            if NULL in found[name]:
                raise DataError(
                    f"{table.name}.{name} has the text {NULL!r} as a value, which is what the slice without a value is "
                    "called. "
                    "Use NULL itself, or another word."
                )
    return known | {name: tuple(sorted(values)) for name, values in found.items()}


def _stored(
    tables: list[SourceTable], values: dict[str, tuple[str, ...]], folder: str
) -> list[tuple[tuple[str, ...], list[int]]]:
    """The files of each table, keys with codes or numbers; and the number of its rows with each code, column by
    column.
    """
    n = int(tables[0].rows.sparkSession.conf.get("spark.sql.shuffle.partitions") or 1)
    parts = []
    written: list[Any] = []
    for number, table in enumerate(tables):
        about = (table.name, table.of, table.columns, table.coded)
        write = _writer(number, about, values, folder)
        if table.here is None:
            parts.append(table.rows.repartition(n, f"{table.of}_id").mapInArrow(write, STORED))
        else:
            written += [row for batch in write(iter(table.here.to_batches())) for row in batch.to_pylist()]
    paths: list[list[str]] = [[] for _ in tables]
    counts = [[0] * sum(len(values[name]) + 1 for name in table.columns if table.coded) for table in tables]
    written += reduce(DataFrame.unionByName, parts).collect() if parts else []
    for row in written:
        paths[row["number"]].append(row["path"])
        counts[row["number"]] = [a + b for a, b in zip(counts[row["number"]], row["counts"], strict=True)]
    return [(tuple(sorted(own)), numbers) for own, numbers in zip(paths, counts, strict=True)]


def _writer(
    number: int, table: tuple[str, str, tuple[str, ...], bool], values: dict[str, tuple[str, ...]], folder: str
) -> Worker:
    name_of_table, of, names, coded = table

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        parts = [batch for batch in batches if batch.num_rows]
        if not parts:
            return
        rows = pa.Table.from_batches(parts)
        ids = rows.column(f"{of}_id").combine_chunks()
        _refuse(ids, name_of_table, of)
        columns: dict[str, Any] = {KEY: pa.array(xxhash64(ids), pa.int64())}
        counts: list[int] = []
        for name in names:
            column = rows.column(name).combine_chunks()
            if coded:
                codes = pc.index_in(column, pa.array(values[name], pa.string()))
                columns[name] = codes.fill_null(len(values[name])).cast(pa.int32())  # the last code: no value
                counts += np.bincount(columns[name].to_numpy(), minlength=len(values[name]) + 1).tolist()
            else:
                columns[name] = column.fill_null(float("nan"))
        system, place = located(folder)
        system.create_dir(place, recursive=True)
        path = f"{number}-{uuid4().hex}.parquet"
        with system.open_output_stream(f"{place}/{path}") as handle:
            pq.write_table(pa.table(columns), handle)
        yield pa.RecordBatch.from_pydict(
            {
                "number": pa.array([number], pa.int32()),
                "path": pa.array([f"{folder}/{path}"], pa.string()),
                "counts": pa.array([counts], pa.list_(pa.int64())),
            }
        )

    return run


def _refuse(ids: pa.Array, table: str, of: str) -> None:
    if ids.null_count:
        raise DataError(
            f"{table}: {ids.null_count} rows have {of}_id=NULL. Remove them: what the table does not have is the slice "
            "NULL."
        )
    counts = pc.value_counts(ids)
    twice = counts.filter(pc.greater(counts.field("counts"), 1)).field("values")
    if len(twice):
        raise DataError(
            f"{table}: {of}_id={pc.min(twice).as_py()} stands in it more than once, so its slice is not clear. Keep "
            f"one row for each {of}."
        )
