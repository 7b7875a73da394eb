"""Which task reads which rows of which score file: whole row groups, cut or packed to tasks of about the same number of bytes.

A huge file is split between its row groups over several tasks; many tiny files share one task. Only footers are read here.
"""

from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from eval_engine.errors import DataError
from eval_engine.ranking.dense_file import unreadable
from eval_engine.ranking.settings import Files
from eval_engine.stored_file import open_file

TASK_BYTES = 1280 * 2**20  # a task costs Spark and Python some 30 ms beside its work
ROW_BYTES = 160  # a task gets 8 M rows of a long table: all of them are in memory while they are ranked, if users lie apart, and it stays under 1 GB


class Split(NamedTuple):
    """Rows first_row to end_row of a file, read by one task."""

    file: int  # its number among the files
    first_row: int
    end_row: int
    n_bytes: int
    task: int = -1


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
        raise DataError(f"{table}: {file} has no column {column!r}, found {', '.join(names)}. All files of a table have the same columns.")
    return [(group.num_rows, group.column(names.index(column)).total_compressed_size) for group in groups]


def file_splits(file: int, groups: list[tuple[int, int]], task_bytes: int) -> list[Split]:
    """The file cut between row groups into pieces of at most task_bytes of scores (one row group at least)."""
    splits, first, end, size = [], 0, 0, 0
    for n_rows, n_bytes in groups:
        if size and size + n_bytes > task_bytes:
            splits.append(Split(file, first, end, size))
            first, size = end, 0
        end += n_rows
        size += n_bytes
    return [*splits, Split(file, first, end, size)]


def plan_splits(files: Files, at_least: int) -> list[Split]:
    """Splits of the files, each with its task; at_least tasks if there are row groups enough. Dense scores weigh what they take in the file, rows of long ones
    what they take in memory."""
    with ThreadPoolExecutor(16) as pool:
        groups = list(pool.map(lambda file: row_groups(file[0], file[1].score), files))
    groups = [
        found if source.item is None else [(n_rows, n_rows * ROW_BYTES) for n_rows, _ in found]
        for (_, source), found in zip(files, groups, strict=True)
    ]
    total = sum(n_bytes for found in groups for _, n_bytes in found)
    wanted = at_least * max(1, -(-total // (TASK_BYTES * at_least)))  # as many for each core
    splits = [split for number, found in enumerate(groups) for split in file_splits(number, found, max(1, total // (8 * wanted)))]
    n_tasks = max(1, min(wanted, len(splits)))
    loads = [(0, task) for task in range(n_tasks)]
    placed = []
    for split in sorted(splits, key=lambda s: (-s.n_bytes, s.file, s.first_row)):  # largest first to the least loaded
        load, task = min(loads)
        loads[task] = (load + split.n_bytes, task)
        placed.append(split._replace(task=task))
    return placed
