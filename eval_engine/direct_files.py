"""Which files of a table workers may read themselves, past Spark: Parquet files that hold the columns by name and no row that the table has no more."""

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable
from pyspark.sql import DataFrame

from eval_engine.delta_commit import delta_uri
from eval_engine.ranking.dense_file import unreadable
from eval_engine.stored_file import full_path, located, open_file, unreachable

UNKNOWN_BYTES = 2**30  # of files that Arrow does not reach: more cells than needed do no harm


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


def deleted_rows(df: DataFrame, files: tuple[str, ...], path: str, kind: str) -> bool:
    """Whether the files hold rows that the table has no more: Delta marks them as deleted elsewhere."""
    if kind not in ("delta", "table") or (kind == "delta" and not _may_mark_rows(path)):
        return False
    stored = 0
    for file in files:
        with open_file(file) as handle:
            stored += pq.ParquetFile(handle).metadata.num_rows
    return stored != df.count()


def _may_mark_rows(path: str) -> bool:
    try:
        return "deletionVectors" in (DeltaTable(delta_uri(full_path(path))).protocol().reader_features or [])
    except Exception:  # storage or features that delta-rs does not know: Spark tells
        return True


def stored_bytes(files: tuple[str, ...]) -> int:
    """What the files take, more or less."""
    try:
        systems = {file: located(file) for file in files[:10_000]}
        return sum(system.get_file_info(path).size or 0 for system, path in systems.values()) * len(files) // max(1, len(systems))
    except (OSError, pa.ArrowException):
        return UNKNOWN_BYTES
