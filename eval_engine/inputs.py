"""Inputs as their owners keep them, brought to one shape: column names mapped, ids BIGINT or STRING, values DOUBLE.

Nothing is filled or coerced in silence: a missing column, a type that cannot be meant, ids of different types or an empty table are
errors that name table and column. Rows, and whether there are any, are judged later, in labels.py and catalogue.py.
"""

import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.pandas.types import from_arrow_type

from eval_engine.errors import ConfigError, DataError
from eval_engine.stored_file import full_path, located, open_file, spelled

CATALOG_NAME = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*){1,2}")
WHOLE_NUMBER = "^(0|-?[1-9][0-9]{0,17})$"  # what reads as BIGINT and prints back the same: 007 stays a STRING
WHOLE = (T.ByteType, T.ShortType, T.IntegerType, T.LongType)


def input_format(path: str) -> str:
    """parquet, delta, csv, or table (a catalog name), as the path shows."""
    if re.search(r"\.csv(\.gz|\.bz2|\.zst)?$", path):
        return "csv"
    if CATALOG_NAME.fullmatch(path) and not Path(path).exists() and not path.endswith(".parquet"):
        return "table"
    if "://" not in path:
        folder = Path(path)
        if (folder / "_delta_log").is_dir():
            return "delta"
        return "csv" if folder.is_dir() and any(folder.glob("*.csv*")) else "parquet"
    try:
        system, place = located(full_path(path))
    except (OSError, pa.ArrowException):
        raise ConfigError(
            f"{path}: its format cannot be guessed, since Arrow does not read such paths. "
            "Give `format`: parquet, delta or csv."
        ) from None
    return "delta" if system.get_file_info(f"{place}/_delta_log").type == fs.FileType.Directory else "parquet"


def read_table(spark: SparkSession, table: str, path: str, kind: str | None = None) -> DataFrame:
    """The table as it is; `table` is what errors call it."""
    kind = kind or input_format(path)
    where = spelled(path, "spark")
    try:
        if kind == "table":
            return spark.table(path)
        if kind == "csv":
            return spark.read.csv(where, header=True, mode="FAILFAST")
        schema = footer_schema(path) if kind == "parquet" else None
        return (spark.read.schema(schema) if schema else spark.read).format(kind).load(where)
    except Exception as error:  # Spark tells a broken file as an error of its own job, not as one class
        raise DataError(
            f"{table}: {path} cannot be read as {kind}: {_reason(error)} Check its path and format in the config, and that its files are whole."
        ) from None


def flat_files(path: str) -> tuple[str, ...] | None:
    """The files of a folder of Parquet files; None if only Spark can tell: folders in folders may be partitions."""
    try:
        system, place = located(full_path(path))
        found = system.get_file_info(place)
        files = [found] if found.is_file else system.get_file_info(fs.FileSelector(place))
    except (OSError, pa.ArrowException):
        return None
    seen = [file for file in files if not file.base_name.startswith(("_", "."))]
    if not seen or not all(file.is_file for file in seen):
        return None
    return tuple(sorted(f"{full_path(path)}{file.path.removeprefix(place)}" for file in seen))


def footer_schema(path: str) -> T.StructType | None:
    """The columns of a folder of Parquet files as its first file has them; None if Spark must find them out, which takes it a job."""
    files = flat_files(path)
    try:
        with open_file(files[0] if files else path) as handle:
            return T.StructType([T.StructField(f.name, from_arrow_type(f.type)) for f in pq.read_schema(handle)])
    except (OSError, pa.ArrowException, PySparkException):  # or a type that only Spark names
        return None


def table_files(df: DataFrame, path: str, kind: str) -> tuple[str, ...]:
    """The files behind a table."""
    return (flat_files(path) if kind == "parquet" else None) or tuple(df.inputFiles())


def pick(
    df: DataFrame, table: str, wanted: dict[str, str], names: dict[str, str], optional: tuple[str, ...] = ()
) -> DataFrame:
    """The wanted columns (name: id, value, text or position) under our names, each in its one type; an optional one may be missing, unless it is mapped."""
    unknown = sorted(set(names) - set(wanted))
    if unknown:
        raise DataError(
            f"{table}: columns maps {', '.join(unknown)}, which is not a column of this table. Known: {', '.join(wanted)}."
        )
    chosen = []
    for name, meaning in wanted.items():
        theirs = names.get(name, name)
        if name in optional and name not in names and name not in df.columns:
            continue
        if theirs not in df.columns:
            raise DataError(
                f"{table}: column {theirs!r} is missing; found {', '.join(df.columns)}. "
                f"Map it in the config, as in columns: {{{name}: its_name_there}}."
            )
        chosen.append(
            _typed(F.col(f"`{theirs}`"), df.schema[theirs].dataType, meaning, f"{table}.{theirs}").alias(name)
        )
    return df.select(*chosen)


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
        f"{name} has type {have.simpleString().upper()}, but {expected} is needed. Cast it where the table is made, or map another column."
    )


def read_input(
    spark: SparkSession,
    table: str,
    path: str,
    kind: str | None,
    names: dict[str, str],
    wanted: dict[str, str],
    optional: tuple[str, ...] = (),
) -> DataFrame:
    """An input in our shape. The columns of a CSV file are text, so those that mean numbers are parsed, strictly."""
    kind = kind or input_format(path)
    df = read_table(spark, table, path, kind)
    if kind == "csv":
        df = _parse_csv(df, table, wanted, names)
    return pick(df, table, wanted, names, optional)


def empty(table: str, path: str) -> DataError:
    """The error of an input without rows."""
    return DataError(f"{table}: {path} is empty. Check the path and the job that makes it.")


def _reason(error: Exception) -> str:
    """The one line of Spark's account that tells."""
    lines = [line.strip(" \t:") for line in str(error).splitlines() if line.strip()]
    if len(lines) > 1 and lines[0].startswith("An error occurred while calling"):  # of Py4J: the next line tells
        lines = lines[1:]
    causes = [line.removeprefix("Caused by: ") for line in lines if line.startswith("Caused by: ")]
    return (causes[-1] if causes else lines[0] if lines else type(error).__name__)[:300].rstrip(".") + "."


def _parse_csv(df: DataFrame, table: str, wanted: dict[str, str], names: dict[str, str]) -> DataFrame:
    """Ids become BIGINT if every one of them is a plain whole number; values and positions must parse."""
    have = {name: names.get(name, name) for name in wanted if names.get(name, name) in df.columns}
    ids = [theirs for name, theirs in have.items() if wanted[name] == "id"]
    whole = (
        df.agg(
            *[F.bool_and(F.col(f"`{c}`").rlike(WHOLE_NUMBER) | F.col(f"`{c}`").isNull()).alias(c) for c in ids]
        ).first()
        if ids
        else None
    )
    casts = {theirs: F.col(f"`{theirs}`").cast("bigint") for theirs in ids if whole and whole[theirs]}
    for name, theirs in have.items():
        if wanted[name] in ("value", "position"):
            kind = "double" if wanted[name] == "value" else "int"
            text = F.col(f"`{theirs}`")
            message = F.concat(F.lit(f"{table}.{theirs}: "), text, F.lit(" is not a number"))
            casts[theirs] = F.when(
                text.isNotNull() & F.expr(f"try_cast(`{theirs}` AS {kind})").isNull(), F.raise_error(message)
            ).otherwise(F.expr(f"try_cast(`{theirs}` AS {kind})"))
    return df.withColumns(casts)


def same_id_types(frames: dict[str, DataFrame]) -> str:
    """The one type of all ids, BIGINT or STRING."""
    found = {
        f"{table}.{name}": kind
        for table, df in frames.items()
        for name, kind in df.dtypes
        if name in ("user_id", "item_id")
    }
    if len(set(found.values())) > 1:
        listed = ", ".join(f"{name} {kind.upper()}" for name, kind in found.items())
        raise DataError(f"Ids must be of one type in all tables, found {listed}. Cast them where the tables are made.")
    return next(iter(found.values())).upper()
