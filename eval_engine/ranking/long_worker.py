"""What a Python worker does with long scores of users whose rows lie together: reads their items and scores, and ranks."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from eval_engine.errors import DataError
from eval_engine.judged_labels import SOURCES
from eval_engine.kernels import rank_lists
from eval_engine.kernels.ragged import side_by_side
from eval_engine.ranking.dense_worker import found_in
from eval_engine.ranking.long_file import Rows, batches, item_ids, rows_of
from eval_engine.ranking.ranks_batch import Floats, Found, Ints, Placed, Users, ranks_batch, users_of_plan
from eval_engine.ranking.settings import Files, Ranking, Source

BLOCK_ROWS = 1 << 21  # 24 MB of items and scores, several times that while they are ranked


def rank_gathered(plan: pa.RecordBatch, cursor: "RowCursor", ranking: Ranking) -> Iterator[pa.RecordBatch]:
    """Rows of the ranks table of a plan's users, in the order in which their rows lie in the file; nobody else's lie between a user's rows."""
    file, first, last = (plan.column(name).to_numpy() for name in ("file", "first_row", "last_row"))
    start = 0
    while start < plan.num_rows:
        end = start + max(1, int(np.searchsorted(last[start:], first[start] + BLOCK_ROWS)))
        rows = cursor.read(int(file[start]), int(first[start]), int(last[end - 1]) + 1)
        lists = _cut(rows, first[start:end] - first[start], last[start:end] + 1 - first[start])
        users = users_of_plan(plan.slice(start, end - start))
        vectors, items = rank_lists.as_vectors(lists, ranking.n_items), cursor.items.ids
        if vectors is not None:
            found = found_in(users, vectors, {}, items, ranking.top)
            yield ranks_batch(users, found, items, ranking.n_items, ranking.on_bad_rows)
        else:
            yield _ranked(users, lists, cursor.files[file[start]][1], ranking)
        start = end


def _cut(rows: Rows, firsts: Ints, ends: Ints) -> rank_lists.Lists:
    """The users' rows one after the other; what lies between them is left out."""
    offsets = np.concatenate([[0], np.cumsum(ends - firsts)])
    if (firsts[1:] == ends[:-1]).all():
        return rank_lists.Lists(offsets, *rows)
    kept = np.arange(offsets[-1]) + np.repeat(firsts - offsets[:-1], ends - firsts)
    return rank_lists.Lists(offsets, rows.positions[kept], rows.scores[kept])


class RowCursor:
    """The rows of the file that the plan has come to; moves forward only. They lie in memory that is kept: to get fresh memory costs more than to fill it."""

    def __init__(self, files: Files, ranking: Ranking) -> None:
        self.files, self.items = files, item_ids(ranking.catalogue)
        self.file = -1
        self.batches: Iterator[tuple[int, pa.RecordBatch]] = iter(())
        self.first, self.n_held = 0, 0  # number in the file of the first held row, and how many are held
        self.held = Rows(np.empty(0, np.int32), np.empty(0, np.float32))

    def read(self, file: int, first: int, end: int) -> Rows:
        """Rows first..end, which the caller may change; first is at least as far as the end of the call before."""
        path, source = self.files[file]
        if file != self.file:
            self.file, self.first, self.n_held = file, first, 0
            assert source.item is not None
            self.batches = batches(path, [source.item, source.score], first)
        done, self.n_held = min(first - self.first, self.n_held), max(0, self.n_held - (first - self.first))
        for held in self.held:
            held[: self.n_held] = held[done : done + self.n_held]
        self.first = first
        while self.n_held < end - first:
            start, batch = next(self.batches, (-1, None))
            if batch is None:
                raise DataError(f"scores: {path} has no row {end - 1:,} any more: it was replaced while it was read. Start the run again.")
            skipped = first + self.n_held - start
            if skipped < batch.num_rows:
                self._hold(rows_of(batch.slice(skipped), source, self.items))
        return Rows(self.held.positions[: end - first], self.held.scores[: end - first])

    def _hold(self, rows: Rows) -> None:
        n = self.n_held + rows.scores.size
        if n > self.held.scores.size or rows.scores.dtype != self.held.scores.dtype:
            grown = Rows(np.empty(n + n // 4, np.int32), np.empty(n + n // 4, rows.scores.dtype))
            for old, new in zip(self.held, grown, strict=True):
                new[: self.n_held] = old[: self.n_held]
            self.held = grown
        for held, added in zip(self.held, rows, strict=True):
            held[self.n_held : n] = added
        self.n_held = n


def _ranked(users: Users, lists: rank_lists.Lists, source: Source, ranking: Ranking) -> pa.RecordBatch:
    offsets, positions, where = side_by_side([users.positions[name] for name in SOURCES])
    found = rank_lists.find(lists, offsets, positions, *users.excluded, ranking.n_items, in_place=True)
    above, level = rank_lists.count(found.lists, offsets, found.label_scores)
    top = rank_lists.first(found.lists, min(ranking.top, ranking.n_items))
    facts = ListFacts(found.label_scores, above, level, *top, np.diff(lists.offsets), found.candidates, found.outside, found.nan, found.twice)
    return list_ranks(users, facts, where, source, ranking)


class ListFacts(NamedTuple):
    """What is known of whole lists: of each label, of the top, and numbers of rows of each user."""

    label_scores: Floats
    above: Ints
    level: Ints  # the label itself among them
    top_positions: Ints
    top_scores: Floats
    n_rows: Ints
    candidates: Ints
    outside: Ints
    nan: Ints
    twice: Ints


def list_ranks(users: Users, facts: ListFacts, where: Sequence[Ints], source: Source, ranking: Ranking) -> pa.RecordBatch:
    """The users' rows of the ranks table; labels lie in the facts source by source as `where` says."""
    known = ~np.isnan(facts.label_scores)
    above, tied = np.where(known, facts.above, -1), np.where(known, facts.level - 1, -1)
    places = {name: Placed(facts.label_scores[at], above[at], tied[at]) for name, at in zip(SOURCES, where, strict=True)}
    found = Found(places, facts.top_positions, facts.top_scores, facts.candidates, _problems(facts, source, ranking))
    return ranks_batch(users, found, item_ids(ranking.catalogue).ids, ranking.n_items, ranking.on_bad_rows)


def _problems(facts: ListFacts, source: Source, ranking: Ranking) -> dict[int, str]:
    """Why some users cannot be ranked."""
    whole = facts.n_rows == ranking.n_items
    wrong = (facts.outside > 0) | (facts.nan > 0) | (facts.twice > 0) | (False if source.partial else ~whole)
    problems = {}
    for n in np.flatnonzero(wrong):
        if facts.nan[n]:
            told = f"{facts.nan[n]:,} of its {facts.n_rows[n]:,} scores are NaN or NULL"
        elif facts.outside[n]:
            told = f"{facts.outside[n]:,} of its {facts.n_rows[n]:,} scores are of items that are not in the catalogue"
        elif facts.twice[n]:
            told = f"{facts.twice[n]:,} of its {facts.n_rows[n]:,} scores are of items that it scored before"
        else:
            told = f"it has {facts.n_rows[n]:,} scores for a catalogue of {ranking.n_items:,} items (if only the best items are scored, say so with partial: true)"
        problems[int(n)] = told
    return problems
