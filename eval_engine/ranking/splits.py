"""Which task reads which rows of which score file: whole row groups, cut or packed to tasks of about the same number of
bytes.

A huge file is split between its row groups over several tasks; many tiny files share one task. Neighbours go to one
task, so that it reads on where it is. Only footers are read here.
"""

from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from eval_engine.inputs.row_groups import row_groups
from eval_engine.inputs.score_files import Files
from eval_engine.spark.task_sizes import assign_tasks, partitions_for, wanted_tasks

TASK_BYTES = 1280 * 2**20
READ_BYTES = (
    4 * 2**30
)  # of a task that reads on and on: some seconds, and a task costs Spark and Python some 15 ms or more beside its work
# A task gets 8 M rows of a long table. If they are scattered, all are in memory while they are ranked: under 1 GB.
ROW_BYTES = 160
STORED_ROW_BYTES = 8


class Split(NamedTuple):
    """Rows first_row to end_row of a file, read by one task."""

    file: int  # its number among the files
    first_row: int
    end_row: int
    n_bytes: int
    task: int


def plan_splits(files: Files, at_least: int) -> list[Split]:
    """Splits of the files, in order, each with its task; at_least tasks if there are row groups and bytes enough. Dense
    scores weigh what they take in the file, rows of long ones what they take in memory."""
    with ThreadPoolExecutor(16) as pool:
        groups = list(pool.map(lambda file: row_groups(file.path, file.source.score), files))
    sizes = [
        (number, n_rows, n_bytes if source.item is None else n_rows * ROW_BYTES)
        for number, ((_, source, _), found) in enumerate(zip(files, groups, strict=True))
        for n_rows, n_bytes in found or [(0, 0)]
    ]
    total = sum(n_bytes for _, _, n_bytes in sizes)
    tasks = assign_tasks(
        [n_bytes for _, _, n_bytes in sizes], wanted_tasks(total, partitions_for(total, at_least), TASK_BYTES)
    )
    splits: list[Split] = []
    for (file, n_rows, n_bytes), task in zip(sizes, tasks, strict=True):
        if splits and (splits[-1].file, splits[-1].task) == (file, task):
            before = splits.pop()
            splits.append(before._replace(end_row=before.end_row + n_rows, n_bytes=before.n_bytes + n_bytes))
        else:
            first = splits[-1].end_row if splits and splits[-1].file == file else 0
            splits.append(Split(file, first, first + n_rows, n_bytes, task))
    return splits


def reading_tasks(files: Files, splits: list[Split], at_least: int) -> int:
    """How many tasks to make of the splits' if no task holds its rows in memory: rows of long tables then weigh what
    they take in the file, too."""
    weight = sum(
        split.n_bytes if files[split.file].source.item is None else split.n_bytes // ROW_BYTES * STORED_ROW_BYTES
        for split in splits
    )
    return min(1 + max((split.task for split in splits), default=0), wanted_tasks(weight, at_least, READ_BYTES))
