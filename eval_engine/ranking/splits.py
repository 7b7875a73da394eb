"""Which task reads which rows of which score file: whole row groups, cut or packed to tasks of about the same number of bytes.

A huge file is split between its row groups over several tasks; many tiny files share one task. Only footers are read here.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from eval_engine.errors import DataError
from eval_engine.ranking.dense_file import unreadable
from eval_engine.stored_file import open_file

TASK_BYTES = 512 * 2**20  # a task costs Spark and Python some 30 ms beside its work


class Split(NamedTuple):
    """Rows first_row to end_row of a file, read by one task."""

    file: str
    first_row: int
    end_row: int
    n_bytes: int
    task: int = -1


def row_groups(file: str, column: str) -> list[tuple[int, int]]:
    """Rows and bytes of scores of each row group, from the file's footer."""
    try:
        with open_file(file) as handle:
            footer = pq.ParquetFile(handle).metadata
    except (OSError, pa.ArrowException) as error:
        raise unreadable(file, error) from None
    groups = [footer.row_group(g) for g in range(footer.num_row_groups)]
    names = [groups[0].column(c).path_in_schema.split(".")[0] for c in range(footer.num_columns)] if groups else []
    if groups and column not in names:
        raise DataError(f"scores: {file} has no column {column!r}, found {', '.join(names)}. All files of a score table have the same columns.")
    return [(group.num_rows, group.column(names.index(column)).total_compressed_size) for group in groups]


def file_splits(file: str, groups: list[tuple[int, int]], task_bytes: int) -> list[Split]:
    """The file cut between row groups into pieces of at most task_bytes of scores (one row group at least)."""
    splits, first, end, size = [], 0, 0, 0
    for n_rows, n_bytes in groups:
        if size and size + n_bytes > task_bytes:
            splits.append(Split(file, first, end, size))
            first, size = end, 0
        end += n_rows
        size += n_bytes
    return [*splits, Split(file, first, end, size)]


def plan_splits(files: Sequence[tuple[str, str]], at_least: int, row_bytes: int | None = None) -> list[Split]:
    """Splits of (file, score column) pairs, each with its task; at_least tasks if there are row groups enough. row_bytes: what a row of scores takes in
    memory; left out, what it takes in the file."""
    with ThreadPoolExecutor(16) as pool:
        groups = list(pool.map(lambda f: row_groups(*f), files))
    if row_bytes:
        groups = [[(n_rows, n_rows * row_bytes) for n_rows, _ in found] for found in groups]
    total = sum(n_bytes for found in groups for _, n_bytes in found)
    wanted = at_least * max(1, -(-total // (TASK_BYTES * at_least)))  # as many for each core
    splits = [split for (file, _), found in zip(files, groups, strict=True) for split in file_splits(file, found, max(1, total // (2 * wanted)))]
    n_tasks = max(1, min(wanted, len(splits)))
    loads = [(0, task) for task in range(n_tasks)]
    placed = []
    for split in sorted(splits, key=lambda s: (-s.n_bytes, s.file, s.first_row)):  # largest first to the least loaded
        load, task = min(loads)
        loads[task] = (load + split.n_bytes, task)
        placed.append(split._replace(task=task))
    return placed
