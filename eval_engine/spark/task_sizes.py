"""How many tasks and partitions are worth their cost, and which task works on which piece."""

from collections.abc import Sequence

import numpy as np

FEW_PARTITIONS = 4  # a Python worker that starts, and its imports, cost more than what these are given at least
PARTITION_BYTES = 16 * 2**20


def partitions_for(n_bytes: int, at_most: int) -> int:
    """How many partitions are worth their cost; at_most: spark.sql.shuffle.partitions, which is 200 on a cluster where nobody has set it.

    >>> partitions_for(1000, 2), partitions_for(1000, 200), partitions_for(10**9, 200), partitions_for(10**12, 200)
    (2, 4, 60, 200)
    """
    return max(1, min(at_most, max(FEW_PARTITIONS, -(-n_bytes // PARTITION_BYTES))))


def wanted_tasks(n_bytes: int, at_least: int, task_bytes: int) -> int:
    """As many for each core, of so many bytes at most."""
    return at_least * max(1, -(-n_bytes // (task_bytes * at_least)))


def assign_tasks(sizes: Sequence[int], n_tasks: int) -> list[int]:
    """A task for each of some pieces: neighbours together, as even as the pieces allow; fewer tasks if there are not so many pieces.

    >>> assign_tasks([5, 5, 5], 8), assign_tasks([4, 1, 1, 1, 1], 2), assign_tasks([], 4)
    ([0, 1, 2], [0, 1, 1, 1, 1], [])
    """
    ends = np.cumsum(sizes, dtype=np.float64)
    middle = ends - np.array(sizes) / 2
    number = np.minimum(middle * min(n_tasks, len(sizes)) // max(1.0, ends.max(initial=0.0)), n_tasks - 1)
    return [int(n) for n in np.unique(number, return_inverse=True)[1].reshape(-1)]
