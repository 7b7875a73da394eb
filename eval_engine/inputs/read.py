"""Reads input tables into one shape: column names mapped, ids BIGINT or STRING, values DOUBLE.

Nothing is filled or coerced in silence: a missing column, a type that does not fit, ids of different types or an empty
table is an error that names table and column. labels.py and catalogue.py check the rows, and that there are any. Python
workers read CSV files (csv_table.py), with the code that training uses: Spark's own reader has another dialect.
"""

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.parquet as pq
from py4j.protocol import Py4JError
from pyarrow import fs
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.pandas.types import from_arrow_type

from eval_engine.config import Csv, Input
from eval_engine.errors import DataError
from eval_engine.inputs.csv_file import CsvFile
from eval_engine.inputs.csv_table import (
    are_whole,
    csv_files,
    csv_table,
    delimiter_hint,
    table_columns,
    text_rows,
    typed_rows,
)
from eval_engine.inputs.input_format import input_format
from eval_engine.spark.worker_process import prepare_worker
from eval_engine.storage.stored_file import full_path, located, open_file, spelled

CSV_TASKS = 1000  # at most; a task reads one CSV file or more
CSV_TYPES = {"value": "DOUBLE", "position": "INT", "text": "STRING"}
WHOLE = (T.ByteType, T.ShortType, T.IntegerType, T.LongType)


def read_table(spark: SparkSession, table: str, path: str, kind: str) -> DataFrame:
    """A table that is not CSV, unchanged; `table` is its name in errors."""
    where = spelled(path, "spark")
    try:
        if kind == "table":
            return spark.table(path)
        schema = footer_schema(path) if kind == "parquet" else None
        return (spark.read.schema(schema) if schema else spark.read).format(kind).load(where)
    except Exception as error:  # for a broken file Spark raises the error of its job, which is of no single class
        raise _unreadable(table, path, kind, error) from None


def flat_files(path: str) -> tuple[str, ...] | None:
    """The files of a folder of Parquet files; None if Spark must list them: folders in the folder may be partitions."""
    try:
        system, place = located(full_path(path))
        info = system.get_file_info(place)
        files = [info] if info.is_file else system.get_file_info(fs.FileSelector(place))
    except (OSError, pa.ArrowException):
        return None
    seen = [file for file in files if not file.base_name.startswith(("_", "."))]
    if not seen or not all(file.is_file for file in seen):
        return None
    return tuple(sorted(f"{full_path(path)}{file.path.removeprefix(place)}" for file in seen))


def footer_schema(path: str) -> T.StructType | None:
    """The columns of a folder of Parquet files, from its first file; None if Spark must infer them, in a job."""
    files = flat_files(path)
    try:
        with open_file(files[0] if files else path) as handle:
            return T.StructType([T.StructField(f.name, from_arrow_type(f.type)) for f in pq.read_schema(handle)])
    except (OSError, pa.ArrowException, PySparkException):  # PySparkException: a type without a Spark equivalent here
        return None


def table_files(df: DataFrame, path: str, kind: str) -> tuple[str, ...]:
    """The files of a table."""
    if kind == "csv":
        return csv_files(path) or (path,)
    return (flat_files(path) if kind == "parquet" else None) or tuple(df.inputFiles())


def pick(
    df: DataFrame, table: str, wanted: dict[str, str], names: dict[str, str], optional: tuple[str, ...] = ()
) -> DataFrame:
    """The wanted columns (name: id, value, text or position) under our names, each in its type.

    An optional column may be missing, unless the config maps it.
    """
    chosen = matched(tuple(df.columns), table, wanted, names, optional)
    return df.select(
        *[
            _typed(F.col(f"`{theirs}`"), df.schema[theirs].dataType, wanted[name], f"{table}.{theirs}").alias(name)
            for name, theirs in chosen.items()
        ]
    )


def matched(
    have: tuple[str, ...],
    table: str,
    wanted: dict[str, str],
    names: dict[str, str],
    optional: tuple[str, ...],
    hint: str = "",
) -> dict[str, str]:
    """The table's own name of each wanted column, by our name.

    An optional column may be missing, unless the config maps it.
    """
    unknown = sorted(set(names) - set(wanted))
    if unknown:
        raise DataError(
            f"{table}: columns maps {', '.join(unknown)}, which is not a column of this table. "
            f"Known: {', '.join(wanted)}."
        )
    chosen = {}
    for name in wanted:
        theirs = names.get(name, name)
        if name in optional and name not in names and name not in have:
            continue
        if theirs not in have:
            raise DataError(
                f"{table}: column {theirs!r} is missing; found {', '.join(have)}. "
                f"Map it in the config, as in columns: {{{name}: its_name_there}}.{hint}"
            )
        chosen[name] = theirs
    return chosen


def _typed(column: Column, have: T.DataType, meaning: str, name: str) -> Column:
    if meaning == "id":
        if isinstance(have, (*WHOLE, T.StringType)):
            return column if isinstance(have, T.StringType) else column.cast("bigint")
        expected = "an integer or a string"
    elif meaning == "value":
        if isinstance(have, (T.NumericType, T.BooleanType)):
            return column.cast("double")
        expected = "a number"
    elif meaning == "position":
        if isinstance(have, WHOLE):
            return column.cast("int")
        expected = "an integer"
    else:
        if isinstance(have, T.StringType):
            return column
        expected = "a string"
    raise DataError(
        f"{name} has type {have.simpleString().upper()}, but {expected} is needed. "
        "Cast it where the table is made, or map another column."
    )


def read_input(
    spark: SparkSession, table: str, where: Input, wanted: dict[str, str], optional: tuple[str, ...] = ()
) -> DataFrame:
    """An input table in our columns and types."""
    kind = input_format(where)
    if kind == "csv":
        return _read_csv(spark, table, where, wanted, optional)
    return pick(read_table(spark, table, where.path, kind), table, wanted, where.columns, optional)


def empty(table: str, path: str) -> DataError:
    """The error of an input without rows."""
    return DataError(f"{table}: {path} is empty. Check the path and the job that makes it.")


def _unreadable(table: str, path: str, kind: str, error: Exception) -> DataError:
    """The error of a table that Spark cannot open, with the line of Spark's message that names the cause."""
    lines = [line.strip(" \t:") for line in str(error).splitlines() if line.strip()]
    if len(lines) > 1 and lines[0].startswith("An error occurred while calling"):  # Py4J: the next line has the cause
        lines = lines[1:]
    causes = [line.removeprefix("Caused by: ") for line in lines if line.startswith("Caused by: ")]
    reason = (causes[-1] if causes else lines[0] if lines else type(error).__name__)[:300].rstrip(".") + "."
    return DataError(
        f"{table}: {path} cannot be read as {kind}: {reason} "
        "Check its path and format in the config, and that its files are whole."
    )


def _read_csv(
    spark: SparkSession, table: str, where: Input, wanted: dict[str, str], optional: tuple[str, ...]
) -> DataFrame:
    """A CSV table, read by the workers, each file by one task; ids are BIGINT if all of them are whole numbers."""
    dialect = where.csv or Csv()
    files, source = _csv_source(spark, table, where.path)

    def columns(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for file in _files_in(batches, files):
            if names := table_columns(file, where.path, dialect, table):
                yield pa.RecordBatch.from_pydict({"own": [list(names[0])], "folders": [list(names[1])]})

    if files is None:
        row = source.mapInArrow(columns, "own ARRAY<STRING>, folders ARRAY<STRING>").first()
        header = (tuple(row["own"]), tuple(row["folders"])) if row else None
    else:
        each = (table_columns(CsvFile(file), where.path, dialect, table) for file in files)
        header = next((names for names in each if names), None)
    if header is None:
        raise empty(table, where.path)
    chosen = matched(sum(header, ()), table, wanted, where.columns, optional, delimiter_hint(header[0]))
    reading = csv_table(table, where, header, chosen, wanted)
    ids = reading.ids()
    only_ids = reading._replace(columns={name: chosen[name] for name in ids})

    def look(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for file in _files_in(batches, files):
            for _, rows in text_rows(file, only_ids):
                yield pa.RecordBatch.from_pydict({name: [are_whole(rows.column(name))] for name in ids})

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for file in _files_in(batches, files):
            for record, rows in text_rows(file, reading):
                yield typed_rows(file, reading, record, rows, whole)

    looked = source.mapInArrow(look, ", ".join(f"{name} BOOLEAN" for name in ids))
    all_whole = looked.agg(*[F.bool_and(name).alias(name) for name in ids]).first()
    if all_whole is None or any(all_whole[name] is None for name in ids):
        raise empty(table, where.path)
    whole = {name: bool(all_whole[name]) for name in ids}
    types = {name: CSV_TYPES.get(wanted[name]) or ("BIGINT" if whole[name] else "STRING") for name in chosen}
    return source.mapInArrow(read, ", ".join(f"{name} {kind}" for name, kind in types.items()))


def _csv_source(spark: SparkSession, table: str, path: str) -> tuple[tuple[str, ...] | None, DataFrame]:
    """The files, and a DataFrame of their indices; if Arrow does not reach them, None and rows of path and content."""
    files = csv_files(path)
    if files is None:
        try:
            reader = spark.read.format("binaryFile").option("recursiveFileLookup", "true")
            return None, reader.load(spelled(path, "spark")).select("path", "content")
        except (PySparkException, Py4JError) as error:
            raise _unreadable(table, path, "csv", error) from None
    if not files:
        raise empty(table, path)
    return files, spark.range(0, len(files), 1, min(len(files), CSV_TASKS))


def _files_in(batches: Iterator[pa.RecordBatch], files: tuple[str, ...] | None) -> Iterator[CsvFile]:
    """The files of a task's rows, given by their indices or with their content."""
    prepare_worker()
    for batch in batches:
        if files is not None:
            yield from (CsvFile(files[number]) for number in batch.column("id").to_pylist())
        else:
            for path, content in zip(batch.column("path"), batch.column("content"), strict=True):
                yield CsvFile(path.as_py(), content.as_py())


def same_id_types(frames: dict[str, DataFrame]) -> str:
    """The type of all ids, BIGINT or STRING; different types are an error."""
    types = {
        f"{table}.{name}": kind
        for table, df in frames.items()
        for name, kind in df.dtypes
        if name in ("user_id", "item_id")
    }
    if len(set(types.values())) > 1:
        listed = ", ".join(f"{name} {kind.upper()}" for name, kind in types.items())
        raise DataError(f"Ids must be of one type in all tables, found {listed}. Cast them where the tables are made.")
    return next(iter(types.values())).upper()


def plain_id(df: DataFrame, name: str) -> Column:
    """A column of ids as BIGINT or STRING."""
    column = F.col(f"`{name}`")
    return column if isinstance(df.schema[name].dataType, T.StringType) else column.cast("bigint")
