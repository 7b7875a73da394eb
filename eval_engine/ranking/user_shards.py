"""What is known of users, on its way to their shards: labelled pairs, and entries that tell where scores are stored
(model, user, file, rows). No score is read.

    read_splits      workers read label files, and the user column of score files, themselves
    scanned_pairs    pairs of a label table that Spark reads
    scanned_rows     entries of a dense score table of which only Spark knows which rows count, or what its columns are
                     called
    kept_users       users of models that are ranked already: they are in no file

An entry of a dense table is one row; of a long table it is the rows of a user in a part of a file, which may have rows
of others between them. Rows travel in blobs (spark/arrow_blobs.py), one per shard; a shard is a hash of the user's id,
so that all that is known of a user meets in one shard.
"""

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from eval_engine.errors import DataError
from eval_engine.inputs.dense_file import unreadable
from eval_engine.inputs.file_stamp import Stamped, stamped, unchanged
from eval_engine.inputs.label_sets import NUMBER, TABLE, probability_column
from eval_engine.inputs.labels import PROBABILITY
from eval_engine.inputs.row_groups import row_groups
from eval_engine.inputs.score_files import Files
from eval_engine.kernels.user_shards import shards_of_numbers, shards_of_text
from eval_engine.ranking.long_file import BATCH_ROWS, batches, models_of, spans
from eval_engine.ranking.splits import Split
from eval_engine.spark.arrow_blobs import Ints, encode_by_key, rebatch
from eval_engine.spark.task_sizes import assign_tasks
from eval_engine.spark.worker_process import prepare_worker
from eval_engine.spark.worker_types import Worker
from eval_engine.storage.stored_file import located, parquet_batches

BLOBS = "shard INT, kind STRING, rows BINARY"
LABELS, SCORED = "labels", "scored"  # kinds
NO_FILE = -1
PAIRS = {"source": pa.int8(), "user_id": None, "item_id": None, "value": pa.float64()}  # None: the type of ids
ENTRIES = {
    "model": pa.string(),
    "user_id": None,
    "input": pa.int32(),
    "file": pa.int32(),
    "task": pa.int32(),
} | dict.fromkeys(("first_row", "last_row", "n_rows"), pa.int64())


class PairSplit(NamedTuple):
    """Rows first_row to end_row of a file of a label table, read by one reader."""

    source: str  # a label set, or feedback
    file: Stamped
    columns: dict[
        str, str
    ]  # what our columns (inputs/label_sets.py) are called there; the optional one if there is one
    first_row: int
    end_row: int
    reader: int


def read_splits(
    files: Files, splits: Sequence[Split], pairs: Sequence[PairSplit], n_readers: int, n_shards: int
) -> Worker:
    """In: numbers of readers, `id`. Out: BLOBS of the pairs and entries in these readers' splits."""

    def run(readers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        prepare_worker()
        mine = {reader for batch in readers for reader in batch.column("id").to_pylist()}
        my_pairs = [split for split in pairs if split.reader in mine]
        my_splits = [split for split in splits if split.task % n_readers in mine]
        with unchanged({split.file for split in my_pairs} | {files[split.file].stamped for split in my_splits}):
            for rows in rebatch(found for split in my_pairs for found in _pairs_of(split)):
                yield by_shard(rows, LABELS, n_shards)
            for rows in rebatch(found for split in my_splits for found in _entries_of(files, split)):
                yield by_shard(rows, SCORED, n_shards)

    return run


def _pairs_of(split: PairSplit) -> Iterator[pa.RecordBatch]:
    names, probability = (
        [split.columns[name] for name in ("user_id", "item_id", "value")],
        split.columns.get(probability_column(split.source) or ""),
    )
    wanted = names if probability is None else [*names, probability]
    try:
        for start, batch in parquet_batches(split.file.path, wanted, split.first_row, split.end_row, BATCH_ROWS):
            first, last = max(start, split.first_row), min(start + batch.num_rows, split.end_row)
            user, item, value = (batch.column(name).slice(first - start, max(0, last - first)) for name in names)
            source = pa.array(np.full(len(user), NUMBER[split.source], np.int8))
            columns = {
                "source": source,
                "user_id": plain_ids(user),
                "item_id": plain_ids(item),
                "value": value.cast(pa.float64()),
            }
            if probability in batch.schema.names:
                columns[PROBABILITY] = batch.column(probability).slice(first - start, len(user)).cast(pa.float64())
            elif probability is not None:  # a file from before the table had the column: NULL, as Spark reads it
                columns[PROBABILITY] = pa.nulls(len(user), pa.float64())
            yield pa.RecordBatch.from_pydict(columns)
    except (OSError, pa.ArrowException) as error:
        raise unreadable(split.file.path, error, split.file.table) from None


def pair_splits(tables: Mapping[str, tuple[Sequence[str], dict[str, str]]], n_readers: int) -> list[PairSplit]:
    """Splits of the label tables' files (source: files, columns): row groups, cut further where there are fewer of them
    than readers. Neighbours in a file that go to one reader are one split: to read a split takes the file's footer, and
    that of a file of 12,500 row groups as long as its rows."""
    jobs = [
        (source, file, columns) for source, (files, columns) in tables.items() for file in stamped(TABLE[source], files)
    ]

    def groups(job: tuple[str, Stamped, dict[str, str]]) -> list[int]:
        _, file, columns = job
        return [n_rows for n_rows, _ in row_groups(file.path, columns["user_id"], file.table)]

    with ThreadPoolExecutor(16) as pool:
        sizes = list(pool.map(groups, jobs))
    n_cuts = -(-n_readers // max(1, sum(map(len, sizes))))
    pieces = []
    for (source, file, columns), of_file in zip(jobs, sizes, strict=True):
        first = 0
        for n_rows in of_file:
            cuts = np.linspace(first, first + n_rows, n_cuts + 1).astype(np.int64).tolist()
            pieces += [PairSplit(source, file, columns, start, end, 0) for start, end in pairwise(cuts)]
            first += n_rows
    readers = assign_tasks([piece.end_row - piece.first_row for piece in pieces], n_readers)
    splits: list[PairSplit] = []
    for piece, reader in zip(pieces, readers, strict=True):
        before = splits[-1] if splits else None
        if before and before.reader == reader and before.source == piece.source and before.file == piece.file:
            splits[-1] = before._replace(end_row=piece.end_row)
        else:
            splits.append(piece._replace(reader=reader))
    return splits


def scanned_pairs(n_shards: int) -> Worker:
    """In: source (a NUMBER), user_id, item_id, value and, if the table has it, probability. Out: BLOBS of them."""

    def run(scanned: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        prepare_worker()
        for rows in rebatch(scanned):
            yield by_shard(rows, LABELS, n_shards)

    return run


def _entries_of(files: Files, split: Split) -> Iterator[pa.RecordBatch]:
    path, source, _ = files[split.file]
    columns = [source.user] if source.model else ["model", source.user]
    for start, batch in batches(path, columns, split.first_row, split.end_row):
        first, last = max(start, split.first_row), min(start + batch.num_rows, split.end_row)
        batch = batch.slice(first - start, last - first)
        for model, mine in models_of(batch, source):
            users = batch.column(source.user) if mine is None else batch.column(source.user).take(pa.array(mine))
            if source.item is None:
                at = first + (np.arange(batch.num_rows) if mine is None else mine)
                yield _entries(
                    model, plain_ids(users), source.number, split.file, split.task, at, at, np.ones(at.size, np.int64)
                )
            else:
                span = spans(users, first, mine)
                yield _entries(
                    model, span.users, source.number, split.file, split.task, span.first, span.last, span.n_rows
                )


def scanned_rows(files: Files, splits: Sequence[Split], table: int, n_shards: int) -> Worker:
    """In: model, user_id, path (of the file), row_index of a table's rows. Out: BLOBS of their entries."""
    numbers = {located(path)[1]: number for number, (path, source, _) in enumerate(files) if source.number == table}
    of_file: dict[int, list[Split]] = {number: [] for number in numbers.values()}
    for split in sorted(splits, key=lambda s: s.first_row):
        if split.file in of_file:
            of_file[split.file].append(split)

    def entries(scanned: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in scanned:
            paths = batch.column("path").dictionary_encode()
            for code, path in enumerate(paths.dictionary.to_pylist()):
                number = numbers.get(located(path)[1])
                if number is None:
                    raise DataError(f"scores: {path} came into the table while it was read. Start the run again.")
                rows = batch.take(pa.array(np.flatnonzero(paths.indices.to_numpy() == code)))
                at = rows.column("row_index").to_numpy()
                split = np.searchsorted([s.first_row for s in of_file[number]], at, side="right") - 1
                task = np.array([s.task for s in of_file[number]], np.int32)[split]
                models = rows.column("model").dictionary_encode()
                for name in models.dictionary.to_pylist():
                    mine = np.flatnonzero(
                        models.indices.fill_null(-1).to_numpy() == models.dictionary.index(name).as_py()
                    )
                    users = plain_ids(rows.column("user_id").take(pa.array(mine)))
                    yield _entries(
                        name, users, table, number, task[mine], at[mine], at[mine], np.ones(mine.size, np.int64)
                    )

    def run(scanned: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        prepare_worker()
        for rows in rebatch(entries(scanned)):
            yield by_shard(rows, SCORED, n_shards)

    return run


def kept_users(n_shards: int) -> Worker:
    """In: model, user_id. Out: BLOBS of entries that are in no file."""

    def run(kept: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        prepare_worker()
        for rows in rebatch(kept):
            nowhere = np.full(rows.num_rows, NO_FILE, np.int64)
            places = _entries(
                None,
                rows.column("user_id"),
                NO_FILE,
                NO_FILE,
                NO_FILE,
                nowhere,
                nowhere,
                np.ones(rows.num_rows, np.int64),
            )
            yield by_shard(places.set_column(0, "model", rows.column("model")), SCORED, n_shards)

    return run


def _entries(
    model: str | None, users: pa.Array, table: int, file: int, task: int | Ints, first: Ints, last: Ints, n_rows: Ints
) -> pa.RecordBatch:
    n = len(users)
    return pa.RecordBatch.from_pydict(
        {
            "model": pa.repeat(pa.scalar(model, pa.string()), n),
            "user_id": users,
            "input": pa.array(np.full(n, table, np.int32)),
            "file": pa.array(np.full(n, file, np.int32)),
            "task": pa.array(np.broadcast_to(task, n).astype(np.int32)),
            "first_row": pa.array(first, pa.int64()),
            "last_row": pa.array(last, pa.int64()),
            "n_rows": pa.array(n_rows, pa.int64()),
        }
    )


def by_shard(rows: pa.RecordBatch, kind: str, n_shards: int) -> pa.RecordBatch:
    """BLOBS of some rows with a user_id. Labels without one are spread over the shards: each is judged alone, and there
    may be many."""
    shards = shards_of(rows.column("user_id"), n_shards)
    if kind == LABELS and (nobody := np.flatnonzero(rows.column("user_id").is_null())).size:
        shards[nobody] = nobody % n_shards
    (shard,), blobs = encode_by_key(rows, shards)
    return pa.RecordBatch.from_pydict({"shard": pa.array(shard), "kind": pa.repeat(kind, len(blobs)), "rows": blobs})


def shards_of(users: pa.Array, n_shards: int) -> Ints:
    """The shard of each user id; 0 of NULL."""
    if pa.types.is_integer(users.type):
        shards = shards_of_numbers(users.fill_null(0).to_numpy(zero_copy_only=False), n_shards)
    else:
        users = users.cast(pa.string())
        _, offsets, text = users.buffers()
        starts = (
            np.frombuffer(offsets, np.int32)[users.offset : users.offset + len(users) + 1]
            if len(users)
            else np.zeros(1, np.int32)
        )
        shards = shards_of_text(starts, np.frombuffer(text or b"", np.uint8), n_shards)
    if users.null_count:
        shards[users.is_null().to_numpy(zero_copy_only=False)] = 0
    return shards


def plain_ids(users: pa.Array) -> pa.Array:
    """User ids as BIGINT or STRING."""
    if pa.types.is_dictionary(users.type):
        users = users.dictionary_decode()
    return users.cast(pa.int64() if pa.types.is_integer(users.type) else pa.string())
