"""The row groups of a Parquet file, from its footer."""

import pyarrow as pa
import pyarrow.parquet as pq

from eval_engine.errors import DataError
from eval_engine.inputs.dense_file import unreadable
from eval_engine.storage.stored_file import open_file


def row_groups(file: str, column: str, table: str = "scores") -> list[tuple[int, int]]:
    """Rows of each row group, and bytes of the column in it, from the file's footer."""
    try:
        with open_file(file) as handle:
            footer = pq.ParquetFile(handle).metadata
    except (OSError, pa.ArrowException) as error:
        raise unreadable(file, error, table) from None
    groups = [footer.row_group(g) for g in range(footer.num_row_groups)]
    names = [groups[0].column(c).path_in_schema.split(".")[0] for c in range(footer.num_columns)] if groups else []
    if groups and column not in names:
        raise DataError(
            f"{table}: {file} has no column {column!r}, found {', '.join(names)}. "
            "All files of a table have the same columns."
        )
    return [(group.num_rows, group.column(names.index(column)).total_compressed_size) for group in groups]
