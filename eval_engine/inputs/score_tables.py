"""The score tables of a run: dense or long, and whether workers read their files themselves or Spark copies them first.

Workers read the Parquet files of Parquet and Delta tables directly from storage. Tables that only Spark can read (CSV,
long Delta tables with deletion vectors, renamed columns, storage that Arrow does not reach) are copied by Spark,
without a shuffle, to Parquet files under `staging`, and ranked from there by the same code. The log says which of the
two was done, and why.
"""

from typing import NamedTuple

from pyarrow import fs
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from eval_engine.config import Scores
from eval_engine.errors import ConfigError, DataError
from eval_engine.inputs.direct_read import deleted_rows, mapped_columns, not_direct
from eval_engine.inputs.file_stamp import stamped, unchanged
from eval_engine.inputs.input_format import input_format
from eval_engine.inputs.read import plain_id, read_input, read_table, table_files
from eval_engine.inputs.score_files import Source
from eval_engine.storage.stored_file import full_path, located, unreachable

LONG = {"user_id": "id", "item_id": "id", "score": "value"}
DTYPES = ("float16", "float32", "float64")
EXACT_DIGITS = 15  # decimal numbers with as many digits are different as DOUBLE too


class ScoreTable(NamedTuple):
    """A score table that workers can read.

    scanned: a dense table of which only Spark can read the user ids, or knows the deleted rows. Spark then gives user
    and row number of each row.
    """

    df: DataFrame
    source: Source
    files: tuple[str, ...]
    scanned: bool
    path_taken: str  # for the log: who reads the files, and why


def score_table(spark: SparkSession, number: int, name: str, where: Scores, staging: str | None) -> ScoreTable:
    """The score table of this config entry, checked, and copied to staging if workers cannot read its files."""
    kind = input_format(where)
    table = _declared(spark, number, name, where, kind)
    source = table.source
    files = table_files(table.df, where.path, kind) if kind != "csv" else ()
    users = [source.user, *([] if source.model else ["model"])]
    scores = [source.score] if source.item is None else [*users, source.item, source.score]
    reason = "CSV is text" if kind == "csv" else not_direct(files, scores, name) if files else None
    if reason is None and files and mapped_columns(table.df, where.path, kind):
        reason = "its columns have other names in its files"
    why_scanned = None
    if reason is None and files:
        if source.item is None:
            why_scanned = not_direct(files, users, name)
        if why_scanned is None and deleted_rows(table.df, files, where.path, kind):
            why_scanned = "it has deletion vectors"
        if source.item is not None:
            reason = why_scanned
    if reason is None:
        path_taken = (
            f"files read by the workers, user ids read by Spark, since {why_scanned}"
            if why_scanned
            else "files read by the workers"
        )
        return table._replace(files=files, scanned=bool(why_scanned), path_taken=path_taken)
    if staging is None:
        raise ConfigError(
            f"{name}: workers cannot read its files ({reason}). "
            "Give `staging`, a folder that Spark and the Python workers both reach."
        )
    copied = _copied(spark, table, staging)
    return copied._replace(path_taken=f"copied to {staging} by Spark, since {reason}")


def forget_copy(staging: str) -> None:
    """Removes the copied tables."""
    system, path = located(full_path(staging))
    if system.get_file_info(path).type == fs.FileType.Directory:
        system.delete_dir(path)


def _declared(spark: SparkSession, number: int, name: str, where: Scores, kind: str) -> ScoreTable:
    """The table, with its columns and their types checked."""
    names = {ours: where.columns.get(ours, ours) for ours in ("user_id", "item_id", "score", "scores", "model")}
    if kind == "csv":
        wanted = LONG | ({} if where.model else {"model": "text"})
        df = read_input(spark, name, where, wanted)
        return ScoreTable(
            df,
            Source(number, name, where.model, "user_id", "item_id", "score", "float64", where.partial),
            (),
            False,
            "",
        )
    df = read_table(spark, name, where.path, kind)
    dense = names["scores"] in df.columns
    needed = [
        names["user_id"],
        *([names["scores"]] if dense else [names["item_id"], names["score"]]),
        *([] if where.model else [names["model"]]),
    ]
    for column in needed:
        if column not in df.columns:
            raise DataError(
                f"{name}: column {column!r} is missing; found {', '.join(df.columns)}. "
                "A dense score table has user_id and scores (a vector in catalogue order), "
                "a long one user_id, item_id and score; either has model if the config gives no model name. "
                "Map them with columns, or give model."
            )
    for column in (names["user_id"], *([] if dense else [names["item_id"]])):
        if not isinstance(df.schema[column].dataType, (T.IntegralType, T.StringType)):
            raise DataError(
                f"{name}: {column} has type {df.schema[column].dataType.simpleString().upper()}, "
                "but an integer or a string is needed."
            )
    if dense:
        if where.partial:
            raise ConfigError(f"{name}: partial: true is for long tables; a dense vector has a score for every item.")
        return ScoreTable(
            df,
            Source(
                number,
                name,
                where.model,
                names["user_id"],
                None,
                names["scores"],
                _vector_dtype(spark, df, name, names["scores"], where, kind),
            ),
            (),
            False,
            "",
        )
    score = df.schema[names["score"]].dataType
    if not isinstance(score, T.NumericType):
        raise DataError(
            f"{name}: column {names['score']!r} has type {score.simpleString().upper()}, but a number is needed."
        )
    if isinstance(score, T.DecimalType) and score.precision > EXACT_DIGITS:
        raise DataError(
            f"{name}: column {names['score']!r} has type {score.simpleString().upper()}, but scores are ranked as "
            f"DOUBLE, which keeps {EXACT_DIGITS} digits: different scores could become equal. Cast it to DOUBLE where "
            "the table is made, if ties are meant, or make it smaller."
        )
    dtype = "float32" if isinstance(score, T.FloatType) else "float64"
    return ScoreTable(
        df,
        Source(number, name, where.model, names["user_id"], names["item_id"], names["score"], dtype, where.partial),
        (),
        False,
        "",
    )


def _vector_dtype(spark: SparkSession, df: DataFrame, name: str, column: str, where: Scores, kind: str) -> str:
    """The type of the numbers in a dense table's vectors."""
    have = df.schema[column].dataType
    if isinstance(have, T.ArrayType) and isinstance(have.elementType, (T.FloatType, T.DoubleType)):
        return "float32" if isinstance(have.elementType, T.FloatType) else "float64"
    if not isinstance(have, T.BinaryType):
        raise DataError(
            f"{name}: column {column!r} has type {have.simpleString().upper()}, but BINARY (float32 little-endian; "
            "float16 or float64 by the table property plumbline.dtype), ARRAY<FLOAT> or ARRAY<DOUBLE> is needed."
        )
    dtype = _properties(spark, where, kind).get("plumbline.dtype", where.dtype or "float32")
    if dtype not in DTYPES:
        raise DataError(
            f"{name}: its property plumbline.dtype is {dtype!r}, but {', '.join(DTYPES)} are known. "
            "Set it to the type of the numbers in the vectors."
        )
    if where.dtype and where.dtype != dtype:
        raise DataError(
            f"{name}: the config says dtype {where.dtype}, the table's property plumbline.dtype {dtype}. "
            "Correct one of them."
        )
    return dtype


def _properties(spark: SparkSession, where: Scores, kind: str) -> dict[str, str]:
    """The properties of a Delta table; {} for another table."""
    if kind not in ("delta", "table"):
        return {}
    name = f"delta.`{full_path(where.path)}`" if kind == "delta" else where.path
    try:
        detail = spark.sql(f"DESCRIBE DETAIL {name}").first()
    except AnalysisException:  # a catalog's table that is not Delta
        return {}
    return dict(detail["properties"] or {}) if detail else {}


def _copied(spark: SparkSession, table: ScoreTable, staging: str) -> ScoreTable:
    """Copies the table to Parquet files under staging."""
    source, df = table.source, table.df
    folder = f"{full_path(staging)}/{source.number}"
    columns = [plain_id(df, source.user).alias("user_id")]
    if source.item is None:
        columns.append(F.col(f"`{source.score}`").alias("scores"))
    else:
        columns += [F.col(f"`{source.item}`").alias("item_id"), F.col(f"`{source.score}`").alias("score")]
    if not source.model:
        columns.append(F.col("model"))
    with unchanged(stamped(source.name, df.inputFiles())):
        df.select(*columns).write.mode("overwrite").parquet(folder)
    copy = spark.read.parquet(folder)
    files = tuple(copy.inputFiles())
    if files and (reason := unreachable(files[0])):
        raise ConfigError(
            f"{source.name}: workers cannot read {folder} either ({reason}). "
            "Give `staging`, a folder that Spark and the workers both reach."
        )
    renamed = source._replace(
        user="user_id", item=source.item and "item_id", score="score" if source.item else "scores"
    )
    return ScoreTable(copy, renamed, files, False, "")
