"""What a Python worker does with long scores of users whose rows are contiguous: reads their items and scores, and
ranks."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from eval_engine.errors import DataError
from eval_engine.inputs.score_files import Files, Source
from eval_engine.kernels import rank_lists
from eval_engine.ranking.dense_worker import found_in
from eval_engine.ranking.long_file import BATCH_ROWS, Ids, Rows, batches, item_ids, scores_of
from eval_engine.ranking.ranks_batch import (
    Floats,
    Found,
    Ints,
    Placed,
    SideBySide,
    Users,
    labels_side_by_side,
    ranks_batch,
    users_of_plan,
)
from eval_engine.ranking.settings import Ranking

BLOCK_ROWS = 1 << 23  # the labels of users in so many rows are in memory


def rank_contiguous(plan: pa.RecordBatch, cursor: "RowCursor", ranking: Ranking) -> Iterator[pa.RecordBatch]:
    """Rows of the ranks table of a plan's users, in the order of their rows in the file; a user's rows have no
    other user's between them."""
    file, first, last = (plan.column(name).to_numpy() for name in ("file", "first_row", "last_row"))
    start = 0
    while start < plan.num_rows:
        edge = cursor.seek(int(file[start]), int(first[start]))
        end = start + max(
            1, int(np.searchsorted(last[start:], edge))
        )  # users whose last row is before the edge; or one user that goes on behind it
        items, scores = cursor.read(int(last[end - 1]) + 1)
        users = users_of_plan(plan.slice(start, end - start))
        ranked = _ranked(
            users, items, scores, first[start:end] - first[start], last[start:end] + 1 - first[start], cursor, ranking
        )
        del items, scores  # freed before the next are read, see parquet_batches
        yield ranked
        start = end


class RowCursor:
    """The batch of a file's rows that the plan has come to; moves forward only. Rows are ranked where they were read:
    to copy them costs as much as to rank them."""

    def __init__(self, files: Files, ranking: Ranking) -> None:
        self.files, self.items = files, item_ids(ranking.catalogue)
        self.file, self.first = -1, 0  # number of the file, and of the row in it that the plan has come to
        self.batches: Iterator[tuple[int, pa.RecordBatch]] = iter(())
        self.start, self.batch = 0, pa.RecordBatch.from_pydict({})  # number of the batch's first row

    @property
    def source(self) -> Source:
        return self.files[self.file].source

    def seek(self, file: int, row: int) -> int:
        """Goes on to a row; the number of the row behind the batch that holds it."""
        if (
            file != self.file or row >= self.start + self.batch.num_rows + BATCH_ROWS
        ):  # to a row far ahead it does not read on
            self.file, self.start, self.batch = file, row, pa.RecordBatch.from_pydict({})
            assert self.source.item is not None
            self.batches = batches(self.files[file].path, [self.source.item, self.source.score], row)
        self.first = row
        while row >= self.start + self.batch.num_rows:
            self._next(row)
        return self.start + self.batch.num_rows

    def read(self, end: int) -> tuple[pa.Array, Floats]:
        """Items and scores of the rows from where it is up to end."""
        names = [self.source.item, self.source.score]
        parts = [self.batch.slice(self.first - self.start)]
        while end > self.start + self.batch.num_rows:
            self._next(end - 1)
            parts.append(self.batch)
        items, scores = (_together([part.column(name) for part in parts]).slice(0, end - self.first) for name in names)
        return items, scores_of(scores, self.source)

    def _next(self, row: int) -> None:
        self.batch = pa.RecordBatch.from_pydict({})  # freed before the next is read
        start, batch = next(self.batches, (-1, None))
        if batch is None:
            path = self.files[self.file].path
            raise DataError(
                f"scores: {path} has no row {row:,} any more: it was replaced while it was read. Start the run again."
            )
        self.start, self.batch = start, batch


def _together(parts: list[pa.Array]) -> pa.Array:
    if len(parts) == 1:
        return parts[0]
    chunked = pa.chunked_array(parts)
    return (chunked.unify_dictionaries() if pa.types.is_dictionary(chunked.type) else chunked).combine_chunks()


def _ranked(
    users: Users, items: pa.Array, scores: Floats, firsts: Ints, ends: Ints, cursor: RowCursor, ranking: Ranking
) -> pa.RecordBatch:
    """The users' rows of the ranks table; user n's scores are firsts[n] : ends[n]."""
    vectors = _vectors(items, scores, firsts, ends, cursor.items)
    if vectors is None:
        lists = _cut(Rows(cursor.items.positions(items), scores), firsts, ends)
        vectors = rank_lists.as_vectors(lists, ranking.n_items)
        if vectors is None:
            return _ranked_lists(users, lists, cursor.source, ranking)
    found = found_in(users, vectors, {}, cursor.items.ids, ranking)
    return ranks_batch(users, found, cursor.items.ids, ranking)


def _vectors(items: pa.Array, scores: Floats, firsts: Ints, ends: Ints, ids: Ids) -> Floats | None:
    """The scores as vectors over the catalogue, if every user has them all and in its order, and nothing is between
    users; None if not, or if it takes more than a look."""
    n_items = len(ids.ids)
    if (
        scores.dtype != np.float32
        or (ends - firsts != n_items).any()
        or (firsts[1:] != ends[:-1]).any()
        or not ids.in_order(items)
    ):
        return None
    vectors = scores.reshape(-1, n_items)
    return None if np.isnan(vectors.min()) else vectors


def _cut(rows: Rows, firsts: Ints, ends: Ints) -> rank_lists.Lists:
    """The users' rows one after the other; what is between them is left out."""
    offsets = np.concatenate([[0], np.cumsum(ends - firsts)])
    if (firsts[1:] == ends[:-1]).all():
        return rank_lists.Lists(offsets, *rows)
    kept = np.arange(offsets[-1]) + np.repeat(firsts - offsets[:-1], ends - firsts)
    return rank_lists.Lists(offsets, rows.positions[kept], rows.scores[kept])


def _ranked_lists(users: Users, lists: rank_lists.Lists, source: Source, ranking: Ranking) -> pa.RecordBatch:
    labels, out = labels_side_by_side(users, ranking.frame), users.excluded
    found = rank_lists.find(lists, labels.offsets, labels.positions, *out, ranking.n_items)
    counts = rank_lists.count(found.lists, labels.offsets, found.label_scores)
    rank_lists.add_excluded(
        counts, labels.offsets, found.label_scores, labels.whole, out.offsets, found.excluded_scores
    )
    top = rank_lists.first(found.lists, min(ranking.top, ranking.n_items))
    facts = ListFacts(
        found.label_scores,
        *counts,
        *top,
        (out.offsets, found.excluded_scores),
        np.diff(lists.offsets),
        found.candidates,
        found.outside,
        found.nan,
        found.twice,
    )
    return list_ranks(users, facts, labels, source, ranking)


class ListFacts(NamedTuple):
    """What is known of whole lists: of each label, of the top, of the training pairs, and numbers of rows of each
    user."""

    label_scores: Floats
    above: Ints
    level: Ints  # the label itself among them
    top_positions: Ints
    top_scores: Floats
    excluded: tuple[Ints, Floats]  # offsets and scores of training pairs, NaN: no score
    n_rows: Ints
    candidates: Ints  # rows with a score that are no training pairs
    outside: Ints
    nan: Ints
    twice: Ints


def list_ranks(users: Users, facts: ListFacts, labels: SideBySide, source: Source, ranking: Ranking) -> pa.RecordBatch:
    """The users' rows of the ranks table; the facts are of the users' labels, side by side."""
    known = ~np.isnan(facts.label_scores)
    placed = Placed(facts.label_scores, np.where(known, facts.above, -1), np.where(known, facts.level - 1, -1))
    found = Found(
        {name: placed.taken(at) for name, at in labels.where.items()},
        facts.top_positions,
        facts.top_scores,
        facts.candidates,
        facts.excluded,
        _problems(facts, source, ranking),
    )
    return ranks_batch(users, found, item_ids(ranking.catalogue).ids, ranking)


def _problems(facts: ListFacts, source: Source, ranking: Ranking) -> dict[int, str]:
    """Why some users cannot be ranked."""
    whole = facts.n_rows == ranking.n_items
    wrong = (facts.outside > 0) | (facts.nan > 0) | (facts.twice > 0) | (False if source.partial else ~whole)
    problems = {}
    for n in np.flatnonzero(wrong):
        n_rows = f"{facts.n_rows[n]:,}"
        if facts.nan[n]:
            problem = f"{facts.nan[n]:,} of its {n_rows} scores are NaN or NULL"
        elif facts.outside[n]:
            problem = f"{facts.outside[n]:,} of its {n_rows} scores are of items that are not in the catalogue"
        elif facts.twice[n]:
            problem = f"{facts.twice[n]:,} of its {n_rows} scores are of items that it scored before"
        else:
            problem = (
                f"it has {n_rows} scores for a catalogue of {ranking.n_items:,} items "
                "(if only the best items are scored, say so with partial: true)"
            )
        problems[int(n)] = problem
    return problems
