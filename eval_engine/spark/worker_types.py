"""What a Python worker of Spark runs: a function from Arrow batches to Arrow batches, and the rows that it is given."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Worker = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


class Plan(NamedTuple):
    """Rows for tasks, in the order a task works them off, and the worker function for mapInArrow that ranks them."""

    rows: "DataFrame"
    worker: Worker
