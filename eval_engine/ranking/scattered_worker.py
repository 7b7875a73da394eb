"""What a Python worker does with users whose long rows are scattered over files: each task has a part of each user's
list.

    parts_of       the plan of the tasks: which users they have rows of, with these users' labels
    find_labels    first pass: the scores of the labels that are in this part
    merge_labels   a user's parts together: the score of every label
    count_parts    second pass: above and level of every label, and the first k, among the rows of this part
    merge_parts    a user's parts together: its row of the ranks table

Between them travel, per user and part, numbers of labels, top lists and, where they are candidates, scores of training
pairs, packed (spark/binary_lists.py), many to a blob: to the task that has the part, or to the user's shard.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eval_engine.inputs.file_stamp import Stamped, unchanged
from eval_engine.inputs.label_sets import LABEL_SETS
from eval_engine.inputs.score_files import Files, Source
from eval_engine.kernels import rank_lists
from eval_engine.ranking.long_file import Ids, batches, item_ids, models_of, rows_of
from eval_engine.ranking.long_worker import ListFacts, list_ranks
from eval_engine.ranking.ranks_batch import Floats, Ints, Users, labels_side_by_side, users_of_plan
from eval_engine.ranking.settings import Ranking
from eval_engine.ranking.splits import Split
from eval_engine.ranking.user_shards import LABELS, by_shard
from eval_engine.spark.arrow_blobs import decode, encode_by_key, rebatch
from eval_engine.spark.binary_lists import pack, unpack
from eval_engine.spark.worker_process import prepare_worker
from eval_engine.spark.worker_types import Worker

TASK_PARCELS = "task INT, kind STRING, rows BINARY"
PARTS, SCORES, COUNTED = "parts", "scores", "counted"  # kinds
COUNTS = ("n_rows", "candidates", "outside", "nan", "twice", "checksum")  # BIGINT, added up over the parts
KEYS = ("model", "user_id", "input")


class Part(NamedTuple):
    """The users of a task's plan that one model's table has rows of, and these rows."""

    plan: pa.RecordBatch
    users: Users
    lists: rank_lists.Lists


def parts_of() -> Worker:
    """In: kind, task, rows of blobs of labels, each followed by those of its users' parts. Out: TASK_PARCELS of the
    parts, with the labels."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        prepare_worker()
        labels: pa.RecordBatch | None = None
        for batch in batches:
            for kind, task, blob in zip(
                batch.column("kind").to_pylist(), batch.column("task").to_pylist(), batch.column("rows"), strict=True
            ):
                rows = decode([blob])
                if kind == "labels":
                    labels = rows
                    continue
                assert labels is not None
                known = labels.take(_found(rows.column("user_id"), labels.column("user_id")))
                columns = {name: rows.column(name) for name in KEYS} | _labels(known)
                yield _blobs("task", np.full(rows.num_rows, task, np.int32), PARTS, pa.RecordBatch.from_pydict(columns))

    return run


def labels_by_shard(n_shards: int) -> Worker:
    """In: rows, blobs of labels. Out: BLOBS of them."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        prepare_worker()
        for rows in rebatch(decode([blob]) for batch in batches for blob in batch.column("rows")):
            yield by_shard(rows, LABELS, n_shards)

    return run


def find_labels(ranking: Ranking, files: Files, splits: Sequence[Split], n_shards: int) -> Worker:
    """In: TASK_PARCELS of one task's parts. Out: BLOBS of KEYS, task, scores (of the labels), COUNTS."""

    def run(blobs: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        prepare_worker()
        task, plan, _ = _task(blobs)
        for part in _parts(task, plan, files, splits, ranking):
            labels = labels_side_by_side(part.users, ranking.frame)
            found = rank_lists.find(part.lists, labels.offsets, labels.positions, *part.users.excluded, ranking.n_items)
            sums = (
                np.diff(part.lists.offsets),
                found.candidates,
                found.outside,
                found.nan,
                found.twice,
                rank_lists.checksums(part.lists),
            )
            columns = {name: part.plan.column(name) for name in KEYS}
            columns |= {
                "task": pa.array(np.full(len(part.users), task, np.int32)),
                "scores": pack(found.label_scores.astype(np.float64), labels.offsets),
            }
            columns |= {name: pa.array(values, pa.int64()) for name, values in zip(COUNTS, sums, strict=True)}
            yield by_shard(pa.RecordBatch.from_pydict(columns), SCORES, n_shards)

    return run


def merge_labels() -> Worker:
    """In: BLOBS of whole shards, as find_labels makes them. Out: TASK_PARCELS of KEYS, scores, COUNTS of each list, for
    every task that has a part of it."""

    def run(blobs: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        prepare_worker()
        for shard in _shards(blobs):
            rows, heads = _lists(decode(shard[SCORES]))
            sizes = pc.binary_length(rows.column("scores")).to_numpy(zero_copy_only=False) // 8
            offsets = np.concatenate([[0], np.cumsum(sizes[heads[:-1]])])
            scores, twice = rank_lists.merged_scores(heads, offsets, unpack(rows.column("scores"), np.float64)[1])
            first = rows.take(pa.array(heads[:-1]))
            sums = {name: np.add.reduceat(rows.column(name).to_numpy(), heads[:-1]) for name in COUNTS}
            sums["twice"] = sums["twice"] + twice
            columns = {name: first.column(name) for name in KEYS} | {"scores": pack(scores, offsets)}
            merged = pa.RecordBatch.from_pydict(
                columns | {name: pa.array(values, pa.int64()) for name, values in sums.items()}
            )
            list_of_part = np.repeat(np.arange(heads.size - 1), np.diff(heads))
            yield _blobs("task", rows.column("task").to_numpy(), SCORES, merged.take(pa.array(list_of_part)))

    return run


def count_parts(ranking: Ranking, files: Files, splits: Sequence[Split], n_shards: int) -> Worker:
    """In: TASK_PARCELS of one task's parts and scores. Out: BLOBS of what merge_labels made, and above, level,
    top_positions, top_scores, trained_scores of this part."""

    def run(blobs: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        prepare_worker()
        task, plan, scores = _task(blobs)
        for part in _parts(task, plan, files, splits, ranking):
            assert scores is not None
            number, model = (part.plan.column(name)[0] for name in ("input", "model"))
            known = scores.filter(
                pc.and_(pc.equal(scores.column("input"), number), pc.equal(scores.column("model"), model))
            )
            known = known.take(_found(part.plan.column("user_id"), known.column("user_id")))
            offsets, label_scores = unpack(known.column("scores"), np.float64)
            nothing, out = (np.zeros(offsets.size, np.int64), np.zeros(0, np.int32)), part.users.excluded
            found = rank_lists.find(part.lists, *nothing, *out, ranking.n_items)
            lists, whole = found.lists, labels_side_by_side(part.users, ranking.frame).whole
            label_scores = label_scores.astype(lists.scores.dtype)
            above, level = rank_lists.count(lists, offsets, label_scores)
            rank_lists.add_excluded((above, level), offsets, label_scores, whole, out.offsets, found.excluded_scores)
            top_positions, top_scores = rank_lists.first(lists, min(ranking.top, ranking.n_items))
            there = top_positions >= 0
            starts = np.concatenate([[0], np.cumsum(there.sum(axis=1))])
            columns = {name: known.column(name) for name in (*KEYS, "scores", *COUNTS)}
            columns |= {"above": pack(above.astype(np.int32), offsets), "level": pack(level.astype(np.int32), offsets)}
            columns |= {
                "top_positions": pack(top_positions[there].astype(np.int32), starts),
                "top_scores": pack(top_scores[there].astype(np.float64), starts),
                "trained_scores": _trained_scores(out.offsets, found.excluded_scores, ranking.frame),
            }
            yield by_shard(pa.RecordBatch.from_pydict(columns), COUNTED, n_shards)

    return run


def merge_parts(ranking: Ranking, sources: dict[int, Source]) -> Worker:
    """In: BLOBS of whole shards: of labels, and as count_parts makes them. Out: rows of the ranks table."""
    whole = rank_lists.whole_checksum(ranking.n_items)

    def run(blobs: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        prepare_worker()
        for shard in _shards(blobs):
            if COUNTED not in shard:  # labels of users whose rows are contiguous
                continue
            labels, counted = decode(shard[LABELS]), decode(shard[COUNTED])
            for number in pc.unique(counted.column("input")).to_pylist():
                yield _merged(
                    *_lists(counted.filter(pc.equal(counted.column("input"), number))),
                    labels,
                    sources[number],
                    ranking,
                    whole,
                )

    return run


def _merged(
    parts: pa.RecordBatch, heads: Ints, labels: pa.RecordBatch, source: Source, ranking: Ranking, whole: int
) -> pa.RecordBatch:
    """The lists' rows of the ranks table; list n's parts are heads[n] : heads[n + 1]."""
    first = parts.take(pa.array(heads[:-1]))
    known = labels.take(_found(first.column("user_id"), labels.column("user_id")))
    columns = {name: first.column(name) for name in KEYS} | _labels(known)
    users = users_of_plan(pa.RecordBatch.from_pydict(columns))
    own = labels_side_by_side(users, ranking.frame)
    above, level = (
        rank_lists.merged_counts(heads, own.offsets, unpack(parts.column(name), np.int32)[1])
        for name in ("above", "level")
    )
    rows, positions = unpack(parts.column("top_positions"), np.int32)
    scores = unpack(parts.column("top_scores"), np.float64)[1].astype(source.dtype)
    top = rank_lists.first(
        rank_lists.Lists(rows[heads], positions, scores), min(ranking.top, ranking.n_items)
    )  # of all its parts' first k
    trained, trained_scores = unpack(parts.column("trained_scores"), np.float64)
    sums = {name: first.column(name).to_numpy() for name in COUNTS}
    # Rows as many as items, but not each item once: some item is there twice, in different parts.
    again = (sums["n_rows"] == ranking.n_items) & (sums["outside"] == 0) & (sums["checksum"] != whole)
    twice = np.maximum.reduce(
        [sums["twice"], again.astype(np.int64), _copies(top[0])]
    )  # three ways to see the same: at least so many
    facts = ListFacts(
        unpack(first.column("scores"), np.float64)[1],
        above,
        level,
        *top,
        (trained[heads], trained_scores.astype(source.dtype)),
        sums["n_rows"],
        sums["candidates"],
        sums["outside"],
        sums["nan"],
        twice,
    )
    return list_ranks(users, facts, own, source, ranking)


def _labels(rows: pa.RecordBatch) -> dict[str, pa.Array]:
    """The columns of rows of labels that tell the labels."""
    return {name: rows.column(name) for name in (*LABEL_SETS, "excluded") if name in rows.schema.names}


def _trained_scores(offsets: Ints, scores: Floats, frame: str) -> pa.Array:
    """The scores of each user's training pairs that have one, if they are candidates of some labels."""
    there = ~np.isnan(scores) if frame == "all_items" else np.zeros(scores.size, np.bool_)
    starts = np.concatenate([[0], np.cumsum(there)])[offsets]
    return pack(scores[there].astype(np.float64), starts)


def _copies(top_positions: Ints) -> Ints:
    """How many positions each top list has more than once."""
    ordered = np.sort(top_positions, axis=1)
    return ((ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] >= 0)).sum(axis=1)


def _task(blobs: Iterator[pa.RecordBatch]) -> tuple[int, pa.RecordBatch | None, pa.RecordBatch | None]:
    """The task, its parts, and the scores that came for them."""
    task, found = -1, dict[str, list[Any]]()
    for batch in blobs:
        for task, kind, rows in zip(  # noqa: B007
            batch.column("task").to_pylist(), batch.column("kind").to_pylist(), batch.column("rows"), strict=True
        ):
            found.setdefault(kind, []).append(rows)
    plan, scores = (decode(found[kind]) if kind in found else None for kind in (PARTS, SCORES))
    return task, plan, scores


def _shards(blobs: Iterator[pa.RecordBatch]) -> Iterator[dict[str, list[Any]]]:
    """The blobs of each shard, by kind."""
    now, found = None, dict[str, list[Any]]()
    for batch in blobs:
        for shard, kind, rows in zip(
            batch.column("shard").to_pylist(), batch.column("kind").to_pylist(), batch.column("rows"), strict=True
        ):
            if shard != now and found:
                yield found
                found = {}
            now = shard
            found.setdefault(kind, []).append(rows)
    if found:
        yield found


def _lists(parts: pa.RecordBatch) -> tuple[pa.RecordBatch, Ints]:
    """Parts list by list, and where each list begins, with the end."""
    keys = [parts.column(name).dictionary_encode().indices.to_numpy() for name in KEYS]
    order = np.lexsort(keys)
    new = np.logical_or.reduce([np.diff(key[order], prepend=-1) != 0 for key in keys])
    return parts.take(pa.array(order)), np.append(np.flatnonzero(new), order.size)


def _found(users: pa.Array, among: pa.Array) -> pa.Array:
    """Where each user is among others; all of them are."""
    found = pc.index_in(users, among)
    assert not found.null_count
    return found


def _blobs(key: str, number: Ints, kind: str, rows: pa.RecordBatch) -> pa.RecordBatch:
    (numbers,), blobs = encode_by_key(rows, number)
    return pa.RecordBatch.from_pydict(
        {key: pa.array(numbers, pa.int32()), "kind": pa.repeat(kind, len(blobs)), "rows": blobs}
    )


def _parts(
    task: int, plan: pa.RecordBatch | None, files: Files, splits: Sequence[Split], ranking: Ranking
) -> Iterator[Part]:
    """The rows of the plan's users in the splits of the task; one part per score table and model."""
    if plan is None:
        return
    mine = [split for split in splits if split.task == task]
    read: set[Stamped] = set()
    with unchanged(read):
        for number in pc.unique(plan.column("input")).to_pylist():
            of_table = plan.filter(pc.equal(plan.column("input"), number))
            where = [split for split in mine if files[split.file].source.number == number]
            read |= {files[split.file].stamped for split in where}
            for model in pc.unique(of_table.column("model")).to_pylist():
                chosen = of_table.filter(pc.equal(of_table.column("model"), model))
                yield Part(chosen, users_of_plan(chosen), _rows(chosen.column("user_id"), model, files, where, ranking))


def _rows(user_ids: pa.Array, model: str, files: Files, splits: Sequence[Split], ranking: Ranking) -> rank_lists.Lists:
    """All rows of these users in these splits, user by user."""
    ids, items, source = Ids(user_ids), item_ids(ranking.catalogue), files[splits[0].file].source
    assert source.item is not None
    columns = [source.user, source.item, source.score, *([] if source.model else ["model"])]
    found: list[tuple[Ints, Ints, Any]] = []
    for split in splits:
        for _, batch in batches(files[split.file].path, columns, split.first_row, split.end_row):
            for name, mine in models_of(batch, source):
                if name == model:
                    rows = batch if mine is None else batch.take(pa.array(mine))
                    found.append((ids.positions(rows.column(source.user)), *rows_of(rows, source, items)))
    user, positions, scores = (np.concatenate(arrays) for arrays in zip(*found, strict=True))
    return rank_lists.grouped(user, len(user_ids), positions, scores)
