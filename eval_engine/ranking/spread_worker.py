"""What a Python worker does with users whose long rows lie in several places: each task has a part of each user's list.

    find_labels    first pass: the scores of the labels that are in this part
    merge_labels   a user's parts together: the score of every label
    count_parts    second pass: above and level of every label, and the first k, among the rows of this part
    merge_parts    a user's parts together: its row of the ranks table

Between the passes travel, per user and part, numbers of labels and top lists, packed (packed.py).
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eval_engine.judged_labels import SOURCES
from eval_engine.kernels import rank_lists
from eval_engine.kernels.ragged import side_by_side
from eval_engine.packed import pack, unpack
from eval_engine.ranking.long_file import Ids, batches, item_ids, models_of, rows_of
from eval_engine.ranking.long_worker import ListFacts, list_ranks
from eval_engine.ranking.part_files import Worker
from eval_engine.ranking.ranks_batch import Ints, Users, users_of_plan
from eval_engine.ranking.settings import Files, Ranking, Source
from eval_engine.ranking.splits import Split
from eval_engine.worker_process import settle

COUNTS = ("n_rows", "candidates", "outside", "nan", "twice", "checksum")  # BIGINT, added up over the parts


class Part(NamedTuple):
    """The users of a task's plan that one model's table has rows of, and these rows."""

    plan: pa.RecordBatch
    users: Users
    lists: rank_lists.Lists


def find_labels(ranking: Ranking, files: Files, splits: Sequence[Split]) -> Worker:
    """In: task, model, user_id, input, labels. Out: model, user_id, input, scores (of the labels), COUNTS."""

    def run(plans: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        settle()
        for part in _parts(plans, files, splits, ranking):
            offsets, positions, _ = side_by_side([part.users.positions[name] for name in SOURCES])
            found = rank_lists.find(part.lists, offsets, positions, *part.users.excluded, ranking.n_items)
            sums = (np.diff(part.lists.offsets), found.candidates, found.outside, found.nan, found.twice, rank_lists.checksums(part.lists))
            columns = _keys(part.plan) | {"scores": pack(found.label_scores.astype(np.float64), offsets)}
            yield pa.RecordBatch.from_pydict(columns | {name: pa.array(values, pa.int64()) for name, values in zip(COUNTS, sums, strict=True)})

    return run


def merge_labels() -> Worker:
    """In: model, user_id, input, scores (a list of the parts'), COUNTS. Out: the same with one `scores`."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        settle()
        for batch in batches:
            parts = batch.column("scores")
            part_offsets = _offsets(pc.list_value_length(parts))
            sizes = pc.binary_length(parts.flatten()).to_numpy(zero_copy_only=False) // 8
            offsets = np.concatenate([[0], np.cumsum(sizes[part_offsets[:-1]])])
            scores, twice = rank_lists.merged_scores(part_offsets, offsets, unpack(parts.flatten(), np.float64)[1])
            columns = _keys(batch) | {"scores": pack(scores, offsets)} | {name: batch.column(name) for name in COUNTS}
            columns["twice"] = pc.add(columns["twice"], pa.array(twice, pa.int64()))
            yield pa.RecordBatch.from_pydict(columns)

    return run


def count_parts(ranking: Ranking, files: Files, splits: Sequence[Split]) -> Worker:
    """In: task, model, user_id, input, labels, and what merge_labels made. Out: that, and above, level, top_positions, top_scores of this part."""

    def run(plans: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        settle()
        for part in _parts(plans, files, splits, ranking):
            offsets, positions, _ = side_by_side([part.users.positions[name] for name in SOURCES])
            lists = rank_lists.find(part.lists, offsets[:1].repeat(offsets.size), positions[:0], *part.users.excluded, ranking.n_items).lists
            thresholds = unpack(part.plan.column("scores"), np.float64)[1].astype(lists.scores.dtype)
            above, level = rank_lists.count(lists, offsets, thresholds)
            top_positions, top_scores = rank_lists.first(lists, min(ranking.top, ranking.n_items))
            there = top_positions >= 0
            starts = np.concatenate([[0], np.cumsum(there.sum(axis=1))])
            yield pa.RecordBatch.from_pydict(
                _keys(part.plan)
                | {name: part.plan.column(name) for name in ("scores", *COUNTS)}
                | {"above": pack(above.astype(np.int32), offsets), "level": pack(level.astype(np.int32), offsets)}
                | {
                    "top_positions": pack(top_positions[there].astype(np.int32), starts),
                    "top_scores": pack(top_scores[there].astype(np.float64), starts),
                }
            )

    return run


def merge_parts(ranking: Ranking, sources: dict[int, Source]) -> Worker:
    """In: model, user_id, input, labels, scores, COUNTS, and lists of the parts' above, level, top_positions, top_scores. Out: rows of the ranks table."""
    whole = rank_lists.whole_checksum(ranking.n_items)

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        settle()
        for batch in batches:
            for number in pc.unique(batch.column("input")).to_pylist():
                rows = batch.filter(pc.equal(batch.column("input"), number))
                yield _merged(rows, sources[number], ranking, whole)

    return run


def _merged(batch: pa.RecordBatch, source: Source, ranking: Ranking, whole: int) -> pa.RecordBatch:
    users = users_of_plan(batch)
    offsets, _, where = side_by_side([users.positions[name] for name in SOURCES])
    part_offsets = _offsets(pc.list_value_length(batch.column("above")))
    above, level = (rank_lists.merged_counts(part_offsets, offsets, unpack(batch.column(name).flatten(), np.int32)[1]) for name in ("above", "level"))
    sizes = pc.binary_length(batch.column("top_positions").flatten()).to_numpy(zero_copy_only=False) // 4
    rows = np.concatenate([[0], np.cumsum(sizes)])[part_offsets]  # of each user, all its parts' first k
    candidates = rank_lists.Lists(
        rows,
        unpack(batch.column("top_positions").flatten(), np.int32)[1],
        unpack(batch.column("top_scores").flatten(), np.float64)[1].astype(source.dtype),
    )
    top = rank_lists.first(candidates, min(ranking.top, ranking.n_items))
    sums = {name: batch.column(name).to_numpy(zero_copy_only=False) for name in COUNTS}
    # Rows as many as items, but not each item once: some item is there twice, in different parts.
    again = (sums["n_rows"] == ranking.n_items) & (sums["outside"] == 0) & (sums["checksum"] != whole)
    twice = np.maximum.reduce([sums["twice"], again.astype(np.int64), _copies(top[0])])  # three ways to see the same: at least so many
    facts = ListFacts(
        unpack(batch.column("scores"), np.float64)[1], above, level, *top, sums["n_rows"], sums["candidates"], sums["outside"], sums["nan"], twice
    )
    return list_ranks(users, facts, where, source, ranking)


def _copies(top_positions: Ints) -> Ints:
    """How many positions each top list has more than once."""
    ordered = np.sort(top_positions, axis=1)
    return ((ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] >= 0)).sum(axis=1)


def _parts(plans: Iterator[pa.RecordBatch], files: Files, splits: Sequence[Split], ranking: Ranking) -> Iterator[Part]:
    """The rows of the plan's users in the splits of the plan's task; one part per score table and model."""
    batches_ = [batch for batch in plans if batch.num_rows]
    if not batches_:
        return
    plan = pa.Table.from_batches(batches_).combine_chunks().to_batches()[0]
    mine = [split for split in splits if split.task == plan.column("task")[0].as_py()]
    for number in pc.unique(plan.column("input")).to_pylist():
        of_table = plan.filter(pc.equal(plan.column("input"), number))
        for model in pc.unique(of_table.column("model")).to_pylist():
            chosen = of_table.filter(pc.equal(of_table.column("model"), model))
            where = [split for split in mine if files[split.file][1].number == number]
            yield Part(chosen, users_of_plan(chosen), _rows(chosen.column("user_id"), model, files, where, ranking))


def _rows(user_ids: pa.Array, model: str, files: Files, splits: Sequence[Split], ranking: Ranking) -> rank_lists.Lists:
    """All rows of these users in these splits, user by user."""
    ids, items, source = Ids(user_ids), item_ids(ranking.catalogue), files[splits[0].file][1]
    assert source.item is not None
    columns = [source.user, source.item, source.score, *([] if source.model else ["model"])]
    found: list[tuple[Ints, Ints, Any]] = []
    for split in splits:
        for _, batch in batches(files[split.file][0], columns, split.first_row, split.end_row):
            for name, mine in models_of(batch, source):
                if name == model:
                    rows = batch if mine is None else batch.take(pa.array(mine))
                    found.append((ids.positions(rows.column(source.user)), *rows_of(rows, source, items)))
    user, positions, scores = (np.concatenate(arrays) for arrays in zip(*found, strict=True))
    return rank_lists.grouped(user, len(user_ids), positions, scores)


def _keys(batch: pa.RecordBatch) -> dict[str, pa.Array]:
    return {name: batch.column(name) for name in ("model", "user_id", "input")}


def _offsets(lengths: pa.Array) -> Ints:
    return np.concatenate([[0], np.cumsum(lengths.to_numpy(zero_copy_only=False))]).astype(np.int64)
