"""Which files of a table workers may read themselves, past Spark: Parquet files that hold the columns by name and no row that the table has no more."""

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame

from eval_engine.inputs.dense_file import unreadable
from eval_engine.lake.commits import delta_uri
from eval_engine.storage.stored_file import full_path, located, open_file, unreachable

UNKNOWN_BYTES = 2**30  # of files that Arrow does not reach: more shards than needed do no harm


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
    """Whether a Delta table's columns may have other names in its files: a name that is there may be another column's old one."""
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
    """Whether the files hold rows that the table has no more: Delta marks them as deleted elsewhere."""
    known = _metadata(path) if kind == "delta" else None
    if kind not in ("delta", "table") or (known is not None and "deletionVectors" not in known[1]):
        return False
    stored = 0
    for file in files:
        with open_file(file) as handle:
            stored += pq.ParquetFile(handle).metadata.num_rows
    return stored != df.count()


def _metadata(path: str) -> tuple[dict[str, str], list[str]] | None:
    """Properties and reader features of a Delta table; None if delta-rs cannot tell."""
    try:
        found = DeltaTable(delta_uri(full_path(path)))
        return found.metadata().configuration, [str(feature) for feature in found.protocol().reader_features or []]
    except Exception:  # storage or features that it does not know: Spark tells
        return None


def stored_bytes(files: tuple[str, ...]) -> int:
    """What the files take, more or less: as much as the first of them, times their number."""
    try:
        asked = [located(file) for file in files[:100]]
        return sum(system.get_file_info(path).size or 0 for system, path in asked) * len(files) // max(1, len(asked))
    except (OSError, pa.ArrowException):
        return UNKNOWN_BYTES
