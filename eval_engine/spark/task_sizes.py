"""How many tasks and partitions a job gets for its bytes, and which task gets which piece."""

from collections.abc import Sequence

import numpy as np

FEW_PARTITIONS = 4  # more only for more bytes: the start of a Python worker and its imports cost more than small tasks
PARTITION_BYTES = 16 * 2**20


def partitions_for(n_bytes: int, at_most: int) -> int:
    """The number of partitions for n_bytes; at_most: spark.sql.shuffle.partitions, 200 on a cluster by default.

    >>> partitions_for(1000, 2), partitions_for(1000, 200), partitions_for(10**9, 200), partitions_for(10**12, 200)
    (2, 4, 60, 200)
    """
    return max(1, min(at_most, max(FEW_PARTITIONS, -(-n_bytes // PARTITION_BYTES))))


def wanted_tasks(n_bytes: int, at_least: int, task_bytes: int) -> int:
    """The least number of tasks, a multiple of at_least, that have at most task_bytes each."""
    return at_least * max(1, -(-n_bytes // (task_bytes * at_least)))


def assign_tasks(sizes: Sequence[int], n_tasks: int) -> list[int]:
    """The task of each piece: neighbouring pieces together, tasks as even as the pieces allow, no task without a piece.

    >>> assign_tasks([5, 5, 5], 8), assign_tasks([4, 1, 1, 1, 1], 2), assign_tasks([], 4)
    ([0, 1, 2], [0, 1, 1, 1, 1], [])
    """
    ends = np.cumsum(sizes, dtype=np.float64)
    middle = ends - np.array(sizes) / 2
    number = np.minimum(middle * min(n_tasks, len(sizes)) // max(1.0, ends.max(initial=0.0)), n_tasks - 1)
    return [int(n) for n in np.unique(number, return_inverse=True)[1].reshape(-1)]
