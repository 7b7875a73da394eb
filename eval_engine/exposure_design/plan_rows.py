"""The plan of a run's exposures with Spark: from the top lists in the ranks table, and nothing that is scored is read.

    ranks: lists of each model ──┐ of users whom the hash    one shard: lists of all models,    rows of exposure_plan
    feedback: training pairs ────┴──────────────────────> training pairs, two arms ──────────>
                                   draws, by user shard

Users are drawn by hash(seed, user): those below a threshold that leaves at most as many as asked. What moves between
workers are the lists of these users up to the largest cutoff, as positions, in blobs (spark/arrow_blobs.py). Training
pairs are read where the frame leaves them out (`unseen`). The plan is that of design_exposures with the ids of users
and of the catalogue, on any number of partitions.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from eval_engine.errors import DataError
from eval_engine.exposure_design.design import Arms, drawn_plan, item_keys, user_keys
from eval_engine.inputs.pair_rows import PairRows
from eval_engine.kernels.arrays import Bools, Ints
from eval_engine.kernels.splitmix64 import mix
from eval_engine.ranking.long_file import item_ids
from eval_engine.ranking.ranks_batch import catalogue_ids
from eval_engine.ranking.user_shards import shards_of
from eval_engine.spark.arrow_blobs import decode, encode_by_key, rebatch
from eval_engine.spark.binary_lists import pack, unpack
from eval_engine.spark.task_sizes import assign_tasks
from eval_engine.spark.worker_process import prepare_worker
from eval_engine.spark.worker_types import Plan, Worker
from eval_engine.storage.stored_file import open_file

BLOBS = "shard INT, kind STRING, rows BINARY"
LISTS, TRAINED = "lists", "trained"
BINS = 1 << 16  # of the hash that draws users
AT_ONCE = 1 << 13  # users
SHARD_BYTES = 32 * 2**20  # lists and training pairs of a shard, about
FEW_TASKS = 8
DRAWING = np.uint64(0x2545F4914F6CDD1D)  # apart from the hashes that draw items


class ListFile(NamedTuple):
    """A file of the ranks table."""

    path: str
    model: str
    n_bytes: int


class Lists(NamedTuple):
    """Where the top lists are: files that workers read, or rows (model, user_id, items) where only Spark can."""

    spark: SparkSession
    files: tuple[ListFile, ...]
    rows: DataFrame | None = None

    def mapped(
        self, worker: Worker, ddl: str, models: Sequence[str] | None = None, only_users: bool = False
    ) -> DataFrame:
        """What a function gives for batches of model, user_id and items; without items if only_users."""
        if self.rows is not None:
            chosen = self.rows if models is None else self.rows.where(self.rows["model"].isin(*models))
            return (chosen.drop("items") if only_users else chosen).mapInArrow(worker, ddl)
        files = [file for file in self.files if models is None or file.model in models]
        tasks = assign_tasks([file.n_bytes for file in files], max(FEW_TASKS, sum(f.n_bytes for f in files) >> 27))

        def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            mine = {number for batch in batches for number in batch.column(0).to_pylist()}
            chosen = [file for file, task in zip(files, tasks, strict=True) if task in mine]
            return worker(rows for file in chosen for rows in _read(file, only_users))

        n_tasks = max(tasks, default=0) + 1
        return self.spark.range(0, n_tasks, 1, n_tasks).mapInArrow(run, ddl)


class Drawing(NamedTuple):
    """Everything that a task needs; travels to every task."""

    arms: Arms
    models: tuple[str, ...]
    catalogue: tuple[str, ...]  # files of the run's catalogue
    n_bins: int  # of the hash of users: those in the first n_bins are drawn
    n_shards: int
    unseen: bool  # training pairs are not in the frame


def _read(file: ListFile, only_users: bool) -> Iterator[pa.RecordBatch]:
    wanted = ["user_id"] if only_users else ["user_id", "top.items"]
    try:
        with open_file(file.path) as handle, pq.ParquetFile(handle) as parquet:
            for batch in parquet.iter_batches(AT_ONCE, columns=wanted):
                columns = {"model": pa.repeat(file.model, batch.num_rows), "user_id": batch.column("user_id")}
                if not only_users:
                    columns["items"] = batch.column("top").field("items")
                yield pa.RecordBatch.from_pydict(columns)
    except (OSError, pa.ArrowException) as error:
        raise DataError(
            f"ranks: {file.path} of model {file.model} cannot be read ({' '.join(str(error).split())[:200]}). Run "
            "jobs/rank.py again: it ranks what is gone."
        ) from None


def bins_of(users: Any, seed: int) -> Ints:
    """The bin of each user, by which users are drawn."""
    found: Ints = (mix(user_keys(users, seed) ^ DRAWING) >> np.uint64(48)).astype(np.int64)
    return found


class DrawnUsers(NamedTuple):
    """How many users are drawn, and by which bins."""

    n_bins: int
    n_users: int  # drawn
    n_ranked: int  # of the run


def draw_users(lists: Lists, model: str, seed: int, wanted: int) -> DrawnUsers:
    """The most bins that hold no more users than wanted."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        prepare_worker()
        counts = np.zeros(BINS, np.int32)
        for batch in batches:
            counts += np.bincount(bins_of(batch.column("user_id"), seed), minlength=BINS).astype(np.int32)
        yield pa.RecordBatch.from_pydict({"counts": pa.array([counts.tobytes()], pa.binary())})

    found = lists.mapped(run, "counts BINARY", [model], only_users=True).collect()
    ends = np.cumsum(np.sum([np.frombuffer(row["counts"], np.int32) for row in found], axis=0, dtype=np.int64))
    n_bins = int(np.searchsorted(ends, wanted, side="right"))
    return DrawnUsers(n_bins, int(ends[n_bins - 1]) if n_bins else 0, int(ends[-1]))


def plan_rows(lists: Lists, trained: PairRows | None, drawing: Drawing, n_partitions: int) -> Plan:
    """The rows of exposure_plan, without run_id."""
    blobs = lists.mapped(_lists_by_shard(drawing), BLOBS, drawing.models)
    if drawing.unseen:
        assert trained is not None
        blobs = blobs.unionByName(trained.mapped(_pairs_by_shard(drawing), BLOBS))
    return Plan(blobs.repartition(n_partitions, "shard").sortWithinPartitions("shard"), _planned(drawing))


def _lists_by_shard(drawing: Drawing) -> Worker:
    """In: model, user_id, items. Out: BLOBS of user_id, model (its number), list (positions), of drawn users."""

    def kept(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        items, longest = item_ids(drawing.catalogue), max(drawing.arms.cutoffs)
        for batch in batches:
            rows = batch.filter(pa.array(bins_of(batch.column("user_id"), drawing.arms.seed) < drawing.n_bins))
            for model in pc.unique(rows.column("model")).to_pylist():
                own = rows.filter(pc.equal(rows.column("model"), model))
                flat, offsets = _first(own.column("items"), longest)
                positions = items.positions(flat if pa.types.is_integer(flat.type) else flat.dictionary_encode())
                number = np.full(own.num_rows, drawing.models.index(model), np.int16)
                yield pa.RecordBatch.from_pydict(
                    {
                        "user_id": own.column("user_id"),
                        "model": pa.array(number),
                        "list": pack(positions.astype(np.int32, copy=False), offsets),
                    }
                )

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        prepare_worker()
        for rows in rebatch(kept(batches)):
            yield _by_shard(rows, LISTS, drawing.n_shards)

    return run


def _first(lists: pa.Array, n: int) -> tuple[pa.Array, Ints]:
    """The first n of each list: flat, and their offsets; NULL is an empty list."""
    lengths = pc.list_value_length(lists).fill_null(0).to_numpy(zero_copy_only=False)
    flat, kept = lists.flatten(), np.minimum(lengths, n)
    offsets = np.concatenate([[0], np.cumsum(kept)])
    if (kept == lengths).all():
        return flat, offsets
    starts = np.cumsum(lengths) - lengths
    return flat.take(pa.array(np.arange(offsets[-1]) + np.repeat(starts - offsets[:-1], kept))), offsets


def _pairs_by_shard(drawing: Drawing) -> Worker:
    """In: user_id, item_id of training pairs. Out: BLOBS of user_id, position, of drawn users."""

    def kept(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        items = item_ids(drawing.catalogue)
        for batch in batches:
            rows = batch.filter(pa.array(bins_of(batch.column("user_id"), drawing.arms.seed) < drawing.n_bins))
            own = rows.column("item_id")
            positions = items.positions(own if pa.types.is_integer(own.type) else own.dictionary_encode())
            found = {"user_id": rows.column("user_id"), "position": pa.array(positions.astype(np.int32, copy=False))}
            yield pa.RecordBatch.from_pydict(found).filter(pa.array(positions >= 0))

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        prepare_worker()
        for rows in rebatch(kept(batches)):
            yield _by_shard(rows, TRAINED, drawing.n_shards)

    return run


def _by_shard(rows: pa.RecordBatch, kind: str, n_shards: int) -> pa.RecordBatch:
    (shard,), blobs = encode_by_key(rows, shards_of(rows.column("user_id"), n_shards))
    columns = {"shard": pa.array(shard, pa.int32()), "kind": pa.repeat(kind, len(blobs)), "rows": blobs}
    return pa.RecordBatch.from_pydict(columns)


def _planned(drawing: Drawing) -> Worker:
    """In: BLOBS, sorted by shard. Out: rows of exposure_plan."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        prepare_worker()
        ids = catalogue_ids(drawing.catalogue)
        keys = item_keys(ids)
        now, waiting = None, {LISTS: [], TRAINED: []}  # type: ignore[var-annotated]
        for batch in batches:
            for shard, kind, rows in zip(
                *(batch.column(n).to_pylist() for n in ("shard", "kind")), batch.column("rows"), strict=True
            ):
                if now is not None and shard != now:
                    yield from _shard(waiting, drawing, ids, keys)
                    waiting = {LISTS: [], TRAINED: []}
                now = shard
                waiting[kind].append(rows)
        if now is not None:
            yield from _shard(waiting, drawing, ids, keys)

    return run


def _shard(
    blobs: dict[str, list[Any]], drawing: Drawing, ids: pa.Array, keys: npt.NDArray[np.uint64]
) -> Iterator[pa.RecordBatch]:
    """The plan of one shard's users."""
    if not blobs[LISTS]:
        return
    rows = decode(blobs[LISTS])
    coded = rows.column("user_id").dictionary_encode()
    users, user = coded.dictionary, coded.indices.to_numpy()
    model = rows.column("model").to_numpy()
    lists = _matrix(rows.column("list"), user, model, (len(drawing.models), len(users), max(drawing.arms.cutoffs)))
    there = np.zeros((len(drawing.models), len(users)), np.bool_)
    there[model, user] = True
    whole = there.all(axis=0)
    out = _excluded(blobs[TRAINED], users)
    for some in np.array_split(np.flatnonzero(whole), -(-int(whole.sum()) // AT_ONCE) or 1):
        if some.size:
            yield _rows(lists[:, some], users.take(pa.array(some)), _of_users(out, some), drawing.arms, ids, keys)


def _matrix(lists: pa.Array, user: Ints, model: Ints, shape: tuple[int, int, int]) -> Ints:
    """The lists as (models, users, length), -1 after the end."""
    offsets, flat = unpack(lists, np.int32)
    lengths = np.diff(offsets)
    found = np.full(shape, -1, np.int32)
    if (lengths == shape[2]).all():
        found[model, user] = flat.reshape(-1, shape[2])
        return found
    place = np.arange(flat.size) - np.repeat(offsets[:-1], lengths)
    found[np.repeat(model, lengths), np.repeat(user, lengths), place] = flat
    return found


def _excluded(blobs: list[Any], users: pa.Array) -> tuple[Ints, Ints]:
    """The training pairs of users, each once: offsets and positions."""
    if not blobs:
        return np.zeros(len(users) + 1, np.int64), np.zeros(0, np.int32)
    rows = decode(blobs)
    user = pc.index_in(rows.column("user_id"), users)
    rows = rows.filter(user.is_valid())
    codes = user.drop_null().to_numpy().astype(np.int64)
    pair = np.unique((codes << 32) + rows.column("position").to_numpy())
    return np.searchsorted(pair >> 32, np.arange(len(users) + 1)), (pair & 0xFFFFFFFF).astype(np.int32)


def _of_users(out: tuple[Ints, Ints], some: Ints) -> tuple[Ints, Ints]:
    lengths = np.diff(out[0])[some]
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    return offsets, out[1][np.arange(offsets[-1]) + np.repeat(out[0][:-1][some] - offsets[:-1], lengths)]


def _rows(
    lists: Ints, users: pa.Array, out: tuple[Ints, Ints], arms: Arms, ids: pa.Array, keys: npt.NDArray[np.uint64]
) -> pa.RecordBatch:
    found, error = drawn_plan(lists, arms, user_keys(users, arms.seed), keys, out)
    if error is not None:
        raise DataError(f"ranks: user_id={users[error[0]].as_py()} {error[1]}")
    offsets = pa.array(found.offsets, pa.int32())

    def by_user(values: pa.Array) -> pa.Array:
        kind = pa.list_(pa.field("element", values.type))
        return pa.ListArray.from_arrays(offsets, values, type=kind)

    return pa.RecordBatch.from_pydict(
        {
            "user_id": users,
            "items": by_user(ids.take(pa.array(found.items))),
            "probabilities": by_user(pa.array(found.probabilities)),
            "in_uniform": by_user(_flags(found.in_uniform)),
            "in_targeted": by_user(_flags(found.in_targeted)),
            "candidates": pa.array(found.frame, pa.int32()),
            "listed": pa.array(found.union, pa.int32()),
            "in_lists": pa.array(found.in_lists),
            "alike": _flags((lists == lists[:1]).all(axis=(0, 2))),
        }
    )


def _flags(flags: Bools) -> pa.Array:
    return pa.array(flags, pa.bool_())
