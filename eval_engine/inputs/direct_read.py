"""Which files of a table Python workers may read themselves, without Spark.

They must be Parquet files that have the columns under the table's names, and no row that was deleted from the table.
"""

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame

from eval_engine.inputs.dense_file import unreadable
from eval_engine.lake.commits import delta_uri
from eval_engine.storage.stored_file import full_path, located, open_file, unreachable

UNKNOWN_BYTES = 2**30  # assumed for files that Arrow does not reach: more shards than needed do no harm


def not_direct(files: tuple[str, ...], columns: list[str], table: str) -> str | None:
    """Why workers cannot read these columns of the files; None if they can."""
    if not files:
        return "it has no files"
    if reason := unreachable(files[0]):
        return reason
    try:
        with open_file(files[0]) as handle:
            names = pq.read_schema(handle).names
    except (OSError, pa.ArrowException) as error:
        raise unreadable(files[0], error, table) from None
    if missing := [column for column in columns if column not in names]:
        return f"its files have no column {missing[0]!r} of that name (column mapping or a partition column)"
    return None


def mapped_columns(df: DataFrame, path: str, kind: str) -> bool:
    """Whether a Delta table's columns may have other names in its files, by column mapping.

    A name in a file may then be the old name of another column.
    """
    if kind not in ("delta", "table"):
        return False
    known = _metadata(path) if kind == "delta" else None
    if known is None:
        name = f"delta.`{full_path(path)}`" if kind == "delta" else path
        try:
            detail = df.sparkSession.sql(f"DESCRIBE DETAIL {name}").first()
        except AnalysisException:  # a catalog's table that is not Delta
            return False
        properties = dict(detail["properties"] or {}) if detail else {}
    else:
        properties = known[0]
    return properties.get("delta.columnMapping.mode", "none") != "none"


def deleted_rows(df: DataFrame, files: tuple[str, ...], path: str, kind: str) -> bool:
    """Whether the files contain deleted rows: Delta marks them in deletion vectors, outside the files."""
    known = _metadata(path) if kind == "delta" else None
    if kind not in ("delta", "table") or (known is not None and "deletionVectors" not in known[1]):
        return False
    stored = 0
    for file in files:
        with open_file(file) as handle:
            stored += pq.ParquetFile(handle).metadata.num_rows
    return stored != df.count()


def _metadata(path: str) -> tuple[dict[str, str], list[str]] | None:
    """Properties and reader features of a Delta table; None if delta-rs cannot read them."""
    try:
        table = DeltaTable(delta_uri(full_path(path)))
        return table.metadata().configuration, [str(feature) for feature in table.protocol().reader_features or []]
    except Exception:  # a store or table features that delta-rs does not know: Spark is used instead
        return None


def stored_bytes(files: tuple[str, ...]) -> int:
    """An estimate of the files' bytes: the mean size of the first 100, times the number of files."""
    try:
        sample = [located(file) for file in files[:100]]
        return sum(system.get_file_info(path).size or 0 for system, path in sample) * len(files) // max(1, len(sample))
    except (OSError, pa.ArrowException):
        return UNKNOWN_BYTES
