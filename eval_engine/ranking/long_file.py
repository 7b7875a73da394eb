"""Reads a long score table's Parquet files inside a Python worker: which users lie where, and the rows of some of them.
Each column is read once per pass, a bounded number of rows at a time.

Items become catalogue positions as they are read. An id column of text is read as a dictionary, so that each distinct
id is looked at once per row group.
"""

from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from eval_engine.errors import DataError
from eval_engine.inputs.dense_file import unreadable
from eval_engine.inputs.score_files import Source
from eval_engine.kernels.item_positions import Catalogue, catalogue_of, in_order, positions_of
from eval_engine.kernels.spans import spans_of
from eval_engine.ranking.ranks_batch import catalogue_ids
from eval_engine.storage.stored_file import parquet_batches

BATCH_ROWS = 1 << 20
EXACT_WHOLE = 1 << 53  # a DOUBLE has every whole number up to here
Ints = npt.NDArray[np.integer[Any]]
Floats = npt.NDArray[np.floating[Any]]


class Rows(NamedTuple):
    """Some rows of a file."""

    positions: Ints  # int32, -1: not in the catalogue
    scores: Floats


def batches(
    file: str, columns: list[str], first_row: int, end_row: int | None = None
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """(number of its first row, batch) of the row groups that hold first_row..end_row, or all from first_row on; text
    comes as dictionaries."""
    try:
        yield from parquet_batches(file, columns, first_row, end_row, BATCH_ROWS)
    except (OSError, pa.ArrowException) as error:
        raise unreadable(file, error) from None


def models_of(batch: pa.RecordBatch, source: Source) -> Iterator[tuple[str | None, Ints | None]]:
    """Each model of a batch and its rows; None: all of them."""
    if source.model:
        yield source.model, None
        return
    column = batch.column("model")
    codes = column.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    for code in np.unique(codes):
        model = column.dictionary[int(code)].as_py() if code >= 0 else None
        yield model, None if (codes == code).all() else np.flatnonzero(codes == code)


class UserSpan(NamedTuple):
    """The places of some users' rows in a file: (n,) each."""

    users: pa.Array  # NULL: rows without a user
    first: Ints
    last: Ints
    n_rows: Ints


def spans(users: pa.Array, first_row: int, rows: Ints | None = None) -> UserSpan:
    """First and last row and number of rows of each user; rows, counted from first_row, are the numbers, rising, of the
    users' rows in the file; None: all from there on."""
    values = users.indices if pa.types.is_dictionary(users.type) else users.cast(pa.int64())
    nobody = values.is_null().to_numpy(zero_copy_only=False) if values.null_count else None
    distinct, low, high, n_rows = spans_of(
        values.fill_null(0).to_numpy(zero_copy_only=False) if values.null_count else values.to_numpy(), nobody
    )
    names = (
        pa.array(distinct)
        if not pa.types.is_dictionary(users.type)
        else users.dictionary.take(pa.array(distinct)).cast(pa.string())
    )
    if nobody is not None:
        without = np.flatnonzero(nobody)
        names = pa.concat_arrays([names, pa.nulls(1, names.type)])
        low, high, n_rows = np.append(low, without[0]), np.append(high, without[-1]), np.append(n_rows, without.size)
    return UserSpan(
        names,
        first_row + (low if rows is None else rows[low]),
        first_row + (high if rows is None else rows[high]),
        n_rows,
    )


def rows_of(batch: pa.RecordBatch, source: Source, items: "Ids") -> Rows:
    """Positions and scores of a batch's rows."""
    assert source.item is not None
    return Rows(items.positions(batch.column(source.item)), scores_of(batch.column(source.score), source))


def scores_of(scores: pa.Array, source: Source) -> Floats:
    """The scores as numbers; they lie where they were read, and may not be changed."""
    wanted = pa.float32() if source.dtype == "float32" else pa.float64()
    if pa.types.is_integer(scores.type) and scores.type.bit_width == 64:
        _refuse_large(scores, source)
    if scores.type != wanted:
        scores = scores.cast(wanted)
    if scores.null_count:
        scores = scores.fill_null(float("nan"))  # a NULL score is no score: counted with the NaNs
    return scores.to_numpy(zero_copy_only=False)


def _refuse_large(scores: pa.Array, source: Source) -> None:
    """An error if a whole number is too large for a DOUBLE to tell it from the next one."""
    ends = pc.min_max(scores).as_py()
    for value in (ends["min"], ends["max"]):
        if value is not None and abs(value) > EXACT_WHOLE:
            raise DataError(
                f"{source.name}: column {source.score!r} of type BIGINT has the score {value}, but scores are ranked "
                f"as DOUBLE, which has every whole number up to {EXACT_WHOLE} only: different scores could become "
                "equal. Subtract a number from all scores of a user, or divide them and cast to DOUBLE, where the "
                "table is made."
            )


class Ids:
    """Finds ids, BIGINT or STRING, in a list of them."""

    def __init__(self, ids: pa.Array) -> None:
        self.ids = ids
        self.table: Catalogue | None = (
            None if pa.types.is_string(ids.type) or pa.types.is_large_string(ids.type) else catalogue_of(ids.to_numpy())
        )

    def positions(self, items: pa.Array) -> Ints:
        """int32 positions in the list, -1 for an id that is NULL or not there."""
        if self.table is None:
            if not pa.types.is_dictionary(items.type):
                raise DataError(
                    f"scores: ids are {items.type}, but {self.ids.type} in the other tables. "
                    "Cast them where the tables are made."
                )
            known = (
                pc.index_in(items.dictionary.cast(self.ids.type), self.ids).fill_null(-1).to_numpy(zero_copy_only=False)
            )
            codes = items.indices.fill_null(-1).to_numpy(zero_copy_only=False)
            return np.asarray(np.append(known, -1)[codes], np.int32)  # code -1 takes the appended -1
        if items.null_count:
            found = positions_of(self.table, items.fill_null(0).to_numpy(zero_copy_only=False))
            found[items.is_null().to_numpy(zero_copy_only=False)] = -1
            return found
        return positions_of(self.table, items.to_numpy(zero_copy_only=False))

    def in_order(self, items: pa.Array) -> bool:
        """Whether these are all ids in their order, once or again and again; False if it would take a lookup to
        tell."""
        return (
            self.table is not None
            and not items.null_count
            and in_order(self.table, items.to_numpy(zero_copy_only=False))
        )


@lru_cache(maxsize=1)
def item_ids(files: tuple[str, ...]) -> Ids:
    """The catalogue's lookup; made once per worker process."""
    return Ids(catalogue_ids(files))
