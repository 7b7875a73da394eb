"""The catalogue: item_id and position, 0 to N-1, the order of dense score vectors. A catalogue that is out of order is
never mended.

One worker reads and judges it whole, as every worker that ranks reads it whole later, from the file that is written
here.
"""

import json
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from eval_engine.errors import DataError
from eval_engine.lake.part_files import Target, WrittenFile, write_few
from eval_engine.spark.worker_types import Worker


class Checked(NamedTuple):
    """A catalogue that is in order."""

    n_items: int  # 0: the table is empty
    file: WrittenFile | None  # in the folder that was asked for


def check_catalogue(catalogue: DataFrame, target: Target | None) -> Checked:
    """Makes sure that each item has a position of its own from 0 to N-1, and writes them to a file of the target, if
    there is one."""
    rows = (
        catalogue.select("item_id", "position")
        .coalesce(1)
        .mapInArrow(_checked(target), "n_items BIGINT, file STRING")
        .collect()
    )
    whole = next((row for row in rows if row["n_items"]), None)
    if whole is None:
        return Checked(0, None)
    return Checked(whole["n_items"], WrittenFile(*json.loads(whole["file"])) if target else None)


def _checked(target: Target | None) -> Worker:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        filled = [batch for batch in batches if batch.num_rows]
        if not filled:
            return
        rows = pa.Table.from_batches(filled)
        judge_catalogue(rows)
        file = write_few(rows.sort_by("position").to_batches(), target)[0] if target else None
        yield pa.RecordBatch.from_pydict(
            {"n_items": pa.array([rows.num_rows], pa.int64()), "file": pa.array([json.dumps(file)])}
        )

    return run


def judge_catalogue(rows: pa.Table) -> None:
    """Raises if the rows (item_id, position) are no catalogue."""
    n, item, position = rows.num_rows, rows.column("item_id").combine_chunks(), rows.column("position").combine_chunks()
    if item.null_count:
        raise DataError(f"catalogue: {item.null_count} rows have item_id=NULL. Fix the job that makes the catalogue.")
    counts = pc.value_counts(item)
    twice = counts.filter(pc.greater(counts.field("counts"), 1)).field("values")
    if len(twice):
        raise DataError(
            f"catalogue: item_id={pc.min(twice).as_py()} stands in it more than once. "
            "An item has one position: remove the copies."
        )
    if position.null_count:
        nowhere = pc.min(item.filter(position.is_null())).as_py()
        raise DataError(
            f"catalogue: item_id={nowhere} has position=NULL. "
            f"Give every item its place in the score vectors, 0 to {n - 1}."
        )
    places = np.unique(position.to_numpy())
    if (places[0], places[-1], places.size) != (0, n - 1, n):
        raise DataError(
            f"catalogue: positions of {n} items must be 0 to {n - 1}, each once; found {places.size} different ones "
            f"from {places[0]} to {places[-1]}. "
            "They are the order of the score vectors: take them from the job that writes the scores."
        )
