"""The rows (user_id, item_id) of a table of pairs, as a Spark job gets them: workers read its Parquet files themselves.

Through Spark's reader and Arrow's Java the same rows take five times as long. Spark reads them where workers cannot
(direct_read.py: CSV, deletion vectors, renamed columns, storage that Arrow does not reach), or where some rows must be
left out. The rows are the same; in which order, and in which task, is not.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from eval_engine.config import Input
from eval_engine.errors import DataError
from eval_engine.inputs.direct_read import deleted_rows, mapped_columns, not_direct
from eval_engine.inputs.input_format import input_format
from eval_engine.inputs.read import read_table, table_files
from eval_engine.inputs.row_groups import row_groups
from eval_engine.kernels.xxhash64 import xxhash64
from eval_engine.spark.task_sizes import assign_tasks
from eval_engine.spark.worker_types import Worker
from eval_engine.storage.stored_file import parquet_batches

PAIR = ("user_id", "item_id")
ROWS_AT_ONCE = 1 << 17
TASK_ROWS = 1 << 22
FEW_TASKS = 16  # as many tasks at least, if there are as many row groups


class PairFiles(NamedTuple):
    """Parquet files with one pair per row."""

    files: tuple[str, ...]
    columns: tuple[str, str]  # user and item, by their names in the files
    table: str  # its name in errors


class Span(NamedTuple):
    """Rows of a file that one task reads."""

    file: str
    first_row: int
    end_row: int
    task: int


class PairRows(NamedTuple):
    """Pairs, each in one row."""

    df: DataFrame  # user_id, item_id
    source: PairFiles | None = None  # the same rows; None: only Spark can read them

    def mapped(self, worker: Worker, ddl: str, one_of: int = 1) -> DataFrame:
        """The rows that a worker function gives for batches of pairs; of about one of `one_of` pairs, by their hash."""
        if self.source is None:
            some = self.df if one_of == 1 else self.df.where(F.xxhash64(*PAIR) < F.lit(_below(one_of)))
            return some.mapInArrow(worker, ddl)
        source, spans = self.source, spans_of(self.source)

        def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            mine = {number for batch in batches for number in batch.column(0).to_pylist()}
            return worker(_read(source, [span for span in spans if span.task in mine], one_of))

        n_tasks = 1 + max((span.task for span in spans), default=0)
        return self.df.sparkSession.range(0, n_tasks, 1, n_tasks).mapInArrow(run, ddl)


def spans_of(source: PairFiles) -> list[Span]:
    """All rows of the files, in whole row groups, with their tasks."""
    with ThreadPoolExecutor(16) as pool:
        groups = list(pool.map(lambda file: row_groups(file, source.columns[0], source.table), source.files))
    sizes = [(file, rows) for file, own in zip(source.files, groups, strict=True) for rows, _ in own]
    n_rows = [rows for _, rows in sizes]
    spans: list[Span] = []
    for (file, rows), task in zip(sizes, assign_tasks(n_rows, max(FEW_TASKS, sum(n_rows) // TASK_ROWS)), strict=True):
        if spans and (spans[-1].file, spans[-1].task) == (file, task):
            spans[-1] = spans[-1]._replace(end_row=spans[-1].end_row + rows)
        else:
            first = spans[-1].end_row if spans and spans[-1].file == file else 0
            spans.append(Span(file, first, first + rows, task))
    return spans


def pair_files(spark: SparkSession, table: str, where: Input) -> PairFiles | None:
    """The files of a table of pairs, if workers can read them."""
    kind = input_format(where)
    if kind == "csv":
        return None
    df = read_table(spark, table, where.path, kind)
    user, item = (where.columns.get(name, name) for name in PAIR)
    files = table_files(df, where.path, kind)
    if not_direct(files, [user, item], table) or mapped_columns(df, where.path, kind):
        return None
    return None if deleted_rows(df, files, where.path, kind) else PairFiles(files, (user, item), table)


def _read(source: PairFiles, spans: list[Span], one_of: int) -> Iterator[pa.RecordBatch]:
    """The pairs of some rows, in batches of user_id and item_id."""
    for span in spans:
        for _, rows in parquet_batches(span.file, list(source.columns), span.first_row, span.end_row, ROWS_AT_ONCE):
            pairs = pa.RecordBatch.from_arrays([_plain(rows.column(name)) for name in source.columns], list(PAIR))
            if pairs.column(0).null_count or pairs.column(1).null_count:
                raise DataError(
                    f"{source.table}: {span.file} has a row without user_id or item_id, which was not there when the "
                    "table was checked. Run it again on a table that is not written meanwhile."
                )
            if one_of > 1:
                hashes = xxhash64(pairs.column(1), xxhash64(pairs.column(0)))
                pairs = pairs.filter(pa.array(hashes < _below(one_of)))
            yield pairs


def _below(one_of: int) -> int:
    """One of `one_of` hashes, which are BIGINT, is below this number."""
    return -(2**63) + 2**64 // one_of


def _plain(ids: pa.Array) -> pa.Array:
    """Ids as BIGINT or STRING."""
    if pa.types.is_dictionary(ids.type) or pa.types.is_large_string(ids.type):
        return ids.cast(pa.string())
    return ids if pa.types.is_string(ids.type) else ids.cast(pa.int64())
