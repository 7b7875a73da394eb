"""The type of a function that Python workers of Spark run, from Arrow batches to Arrow batches, and its input rows."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Worker = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


class Plan(NamedTuple):
    """Rows in the order in which a task handles them, and the function for mapInArrow that ranks them."""

    rows: "DataFrame"
    worker: Worker
