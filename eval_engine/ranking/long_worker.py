"""What a Python worker does with long scores, (user, item, score) rows:

index_rows     reads the user column of its splits: where each user's rows lie
rank_gathered  users whose rows lie together: reads their items and scores, and ranks
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from eval_engine.errors import DataError
from eval_engine.judged_labels import SOURCES
from eval_engine.kernels import rank_lists
from eval_engine.kernels.ragged import side_by_side
from eval_engine.ranking.dense_worker import Files
from eval_engine.ranking.long_file import Rows, batches, item_ids, rows_of, spans
from eval_engine.ranking.part_files import Worker
from eval_engine.ranking.ranks_batch import Floats, Found, Ints, Placed, Users, ranks_batch, users_of_plan
from eval_engine.ranking.settings import Ranking, Source
from eval_engine.worker_process import settle

BLOCK_ROWS = 1 << 21  # 24 MB of items and scores, several times that while they are ranked


def index_rows(files: Files) -> Worker:
    """In: splits (file, first_row, end_row, task). Out: model, user_id, file, task, first_row, last_row, n_rows per split and user."""

    def run(splits: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        settle()
        for batch in splits:
            for split in batch.to_pylist():
                yield from _index_split(split["file"], files[split["file"]], split["first_row"], split["end_row"], split["task"])

    return run


def _index_split(number: int, file: tuple[str, Source], first_row: int, end_row: int, task: int) -> Iterator[pa.RecordBatch]:
    path, source = file
    for start, batch in batches(path, [source.user] if source.model else ["model", source.user], first_row, end_row):
        rows = np.arange(start, start + batch.num_rows)
        for model, mine in models_of(batch, source):
            users = batch.column(source.user)
            span = spans(users, rows) if mine is None else spans(users.take(pa.array(mine)), rows[mine])
            n = len(span.users)
            columns = {
                "model": pa.repeat(pa.scalar(model, pa.string()), n),
                "user_id": span.users,
                "file": pa.array(np.full(n, number, np.int32)),
                "task": pa.array(np.full(n, task, np.int32)),
                **{name: pa.array(values, pa.int64()) for name, values in zip(("first_row", "last_row", "n_rows"), span[1:], strict=True)},
            }
            yield pa.RecordBatch.from_pydict(columns)


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


def rank_gathered(ranking: Ranking, files: Files) -> Worker:
    """In: a row per user, sorted by file and first_row: file, first_row, last_row, labels. Out: its row of the ranks table."""

    def run(plans: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        settle()
        cursor = _Cursor(files, ranking)
        for plan in plans:
            file, first, last = (plan.column(name).to_numpy() for name in ("file", "first_row", "last_row"))
            start = 0
            while start < plan.num_rows:
                end = start + 1
                while end < plan.num_rows and file[end] == file[start] and last[end] - first[start] < BLOCK_ROWS:
                    end += 1
                rows = cursor.read(int(file[start]), int(first[start]), int(last[end - 1]) + 1)
                lists = _cut(rows, first[start:end] - first[start], last[start:end] + 1 - first[start])
                users = users_of_plan(plan.slice(start, end - start))
                yield _ranked(users, lists, files[file[start]][1], ranking)
                start = end

    return run


def _cut(rows: Rows, firsts: Ints, ends: Ints) -> rank_lists.Lists:
    """The users' rows one after the other; what lies between them is left out."""
    offsets = np.concatenate([[0], np.cumsum(ends - firsts)])
    if (firsts[1:] == ends[:-1]).all():
        return rank_lists.Lists(offsets, *rows)
    kept = np.arange(offsets[-1]) + np.repeat(firsts - offsets[:-1], ends - firsts)
    return rank_lists.Lists(offsets, rows.positions[kept], rows.scores[kept])


class _Cursor:
    """The rows of the file that the plan has come to; moves forward only."""

    def __init__(self, files: Files, ranking: Ranking) -> None:
        self.files, self.items = files, item_ids(ranking.catalogue)
        self.file, self.first = -1, 0
        self.batches: Iterator[tuple[int, pa.RecordBatch]] = iter(())
        self.held: list[Rows] = []  # rows from self.first on

    def read(self, file: int, first: int, end: int) -> Rows:
        """Rows first..end; first is at least as far as that of the call before."""
        path, source = self.files[file]
        if file != self.file:
            self.file, self.first, self.held = file, first, []
            assert source.item is not None
            self.batches = batches(path, [source.item, source.score], first)
        while self.held and self.first + self.held[0].scores.size <= first:
            self.first += self.held.pop(0).scores.size
        while not self.held or self.first + sum(rows.scores.size for rows in self.held) < end:
            start, batch = next(self.batches, (-1, None))
            if batch is None:
                raise DataError(f"scores: {path} has no row {end - 1:,} any more: it was replaced while it was read. Start the run again.")
            if start + batch.num_rows <= first:
                continue
            if not self.held:
                self.first = start
            self.held.append(rows_of(batch, source, self.items))
        positions, scores = (np.concatenate(arrays) if len(arrays) > 1 else arrays[0] for arrays in zip(*self.held, strict=True))
        return Rows(positions[first - self.first : end - self.first], scores[first - self.first : end - self.first])


def _ranked(users: Users, lists: rank_lists.Lists, source: Source, ranking: Ranking) -> pa.RecordBatch:
    offsets, positions, where = side_by_side([users.positions[name] for name in SOURCES])
    found = rank_lists.find(lists, offsets, positions, *users.excluded, ranking.n_items)
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
