"""A stored file as Arrow opens it, in a Python worker and on the driver; the spelling of a URI in each library."""

import os
import re
from collections.abc import Iterator
from typing import Any, Literal
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

READ_BYTES = 1 << 20
SCHEME = re.compile(r"[a-z][a-z0-9+.-]*:/")


def spelled(uri: str, library: Literal["spark", "arrow", "delta-rs"]) -> str:
    """The URI as a library takes it; the scheme of S3 differs, other schemes are the same in all three.

    >>> spelled("s3://bucket/lake", "spark"), spelled("s3a://bucket/lake", "arrow")
    ('s3a://bucket/lake', 's3://bucket/lake')
    """
    return re.sub(r"^s3[an]?://", "s3a://" if library == "spark" else "s3://", uri)


def full_path(path: str) -> str:
    """The path as Spark takes it, also in delta.`path`: a URI in its spelling, a local path from the root."""
    return spelled(path.rstrip("/"), "spark") if "://" in path else os.path.abspath(path)


def located(uri: str) -> tuple[fs.FileSystem, str]:
    """The file system of a path or of a URI as Spark writes it (file:/x, s3a://b/x), and the path in it."""
    if not SCHEME.match(uri):
        return fs.LocalFileSystem(), uri
    if uri.startswith("file:/"):
        return fs.LocalFileSystem(), unquote(urlsplit(re.sub(r"^file:/+", "file:///", uri)).path)
    system, path = fs.FileSystem.from_uri(spelled(uri, "arrow"))
    return system, path


def open_file(uri: str) -> Any:
    """The file, for reading."""
    system, path = located(uri)
    return system.open_input_file(path)


def parquet_batches(
    uri: str, columns: list[str], first_row: int, end_row: int | None, batch_rows: int
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """(number of its first row, batch) of the row groups of a Parquet file that hold first_row..end_row.

    end_row None: all from first_row on. Text comes as dictionaries. A column that the file lacks is left out. A local
    file is read by the megabyte, as it is decoded: memory for whole column chunks, which Arrow takes otherwise, costs
    more to get than to fill. From elsewhere a row group comes in few large reads.
    """
    system, path = located(uri)
    local = isinstance(system, fs.LocalFileSystem)
    with system.open_input_file(path) as handle:
        footer = pq.ParquetFile(handle)
        kinds = {name: footer.schema_arrow.field(name).type for name in columns if name in footer.schema_arrow.names}
        text = [name for name, kind in kinds.items() if pa.types.is_string(kind) or pa.types.is_large_string(kind)]
        parquet = pq.ParquetFile(
            handle,
            metadata=footer.metadata,
            read_dictionary=text,
            pre_buffer=not local,
            buffer_size=READ_BYTES if local else 0,
        )
        starts = [0]
        for group in range(parquet.num_row_groups):
            starts.append(starts[-1] + parquet.metadata.row_group(group).num_rows)
        for group in range(parquet.num_row_groups):
            if starts[group + 1] > first_row and (end_row is None or starts[group] < end_row):
                row = starts[group]
                for batch in parquet.iter_batches(batch_rows, [group], columns, use_threads=False):
                    n_rows = batch.num_rows
                    yield row, batch
                    del batch  # it is freed before the next is read: its memory is still in the CPU's cache
                    row += n_rows


def unreachable(uri: str) -> str | None:
    """Why Arrow cannot reach the file; None if it can."""
    try:
        system, path = located(uri)
        kind = system.get_file_info(path).type
    except (OSError, pa.ArrowException) as error:
        return str(error).splitlines()[0][:200]
    return None if kind != fs.FileType.NotFound else "Arrow finds no such file"
