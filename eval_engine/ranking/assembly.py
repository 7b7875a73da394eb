"""Where labels and scores meet, user by user, before any score is read: what to rank, in which task, and what does not
fit together.

A shard holds the labelled pairs of its users and the entries that tell where their scores are stored (user_shards.py).
Of each shard come

    plan      rows for the tasks that rank: a user of a model, its file and rows, its labels. One task reads all of them
    parts     users whose rows are scattered over files, and in which tasks (scattered.py)
    labels    the labels by user, where they are needed once more: of users whose rows are scattered, or of all
    broken    label pairs that break a rule, for quarantine
    items     how often each item was exposed, and expected to be (exposure_counts.py)

all in blobs, and the facts that the driver needs (facts.py). A shard is worked off at once: there are as many shards as
it takes for each to fit into a worker.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from eval_engine.inputs.label_sets import NUMBER
from eval_engine.inputs.labels import OUTSIDE_FRAME, PROBABILITY, Judged, UserPairs, Violation, judge, violations
from eval_engine.inputs.score_files import Files
from eval_engine.kernels.ragged import users_of
from eval_engine.positive import Positive
from eval_engine.ranking.coverage import left_out, uncovered
from eval_engine.ranking.exposure_counts import TrainedPairs, block_size, counted
from eval_engine.ranking.facts import Facts, to_json, together
from eval_engine.ranking.long_file import Ids, item_ids
from eval_engine.ranking.settings import Ranking
from eval_engine.ranking.user_shards import ENTRIES, LABELS, NO_FILE, PAIRS, SCORED
from eval_engine.spark.arrow_blobs import Ints, decode, encode_by_key
from eval_engine.spark.binary_lists import unpack
from eval_engine.spark.worker_process import prepare_worker
from eval_engine.spark.worker_types import Worker

ASSEMBLED = "kind STRING, task INT, file INT, block BIGINT, rows BINARY"
Bools = npt.NDArray[np.bool_]


class Assembly(NamedTuple):
    """How shards are worked off; travels to every task."""

    ranking: Ranking
    files: Files
    block_rows: tuple[int, ...]  # of each file: users whose rows begin in one block of so many rows come in one batch
    models: tuple[str, ...]  # each must have scored every labelled user
    all_labels: bool  # give the labels of every user
    id_type: str  # BIGINT, STRING
    positive: Positive | None = None  # of exposures; None: they are not counted


class Lists(NamedTuple):
    """A user's list of scores by a model in a table, one row each, sorted by user and model; users and models are
    numbers."""

    user: Ints
    model: Ints
    table: Ints
    file: Ints
    task: Ints  # that reads its first row
    first_row: Ints
    last_row: Ints
    contiguous: Bools  # it is in one file, with nothing between its rows
    list_of_entry: Ints  # the list that each entry, in the order below, is part of
    order: Ints  # of the entries


def assemble(assembly: Assembly) -> Worker:
    """In: BLOBS (shards.py) of whole shards, sorted by shard. Out: ASSEMBLED."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        prepare_worker()
        items = item_ids(assembly.ranking.catalogue)
        facts = []
        for pairs, entries in _shards(batches, assembly):
            found, blobs = _assembled(pairs, entries, items, assembly)
            facts.append(found)
            yield from blobs
        nowhere = np.zeros(1, np.int64)
        yield _row("facts", nowhere, nowhere, nowhere, pa.array([to_json(together(facts))], pa.binary()))

    return run


def _shards(batches: Iterator[pa.RecordBatch], assembly: Assembly) -> Iterator[tuple[pa.RecordBatch, pa.RecordBatch]]:
    """The labelled pairs and the entries of each shard."""
    ids = pa.int64() if assembly.id_type == "BIGINT" else pa.string()
    probabilities = bool(assembly.ranking.probabilities)
    pairs = PAIRS | {PROBABILITY: pa.float64()} if probabilities else PAIRS
    openers = {LABELS: _decoded_pairs if probabilities else decode, SCORED: decode}
    empty = {
        kind: pa.RecordBatch.from_pylist([], pa.schema([(name, of or ids) for name, of in columns.items()]))
        for kind, columns in ((LABELS, pairs), (SCORED, ENTRIES))
    }
    waiting: dict[str, list[Any]] = {LABELS: [], SCORED: []}

    def whole() -> tuple[pa.RecordBatch, pa.RecordBatch]:
        return tuple(openers[kind](waiting[kind]) if waiting[kind] else empty[kind] for kind in (LABELS, SCORED))

    now = None
    for batch in batches:
        for shard, kind, rows in zip(
            batch.column("shard").to_pylist(), batch.column("kind").to_pylist(), batch.column("rows"), strict=True
        ):
            if now is not None and shard != now:
                yield whole()
                waiting = {LABELS: [], SCORED: []}
            now = shard
            waiting[kind].append(rows)
    if now is not None:
        yield whole()


def _decoded_pairs(blobs: list[Any]) -> pa.RecordBatch:
    """The pairs of some blobs; those of tables without probabilities came without the column, and have NULL."""
    found = [decode([blob]) for blob in blobs]
    return pa.concat_batches(
        [
            rows
            if PROBABILITY in rows.schema.names
            else rows.append_column(PROBABILITY, pa.nulls(rows.num_rows, pa.float64()))
            for rows in found
        ]
    )


def _assembled(
    pairs: pa.RecordBatch, entries: pa.RecordBatch, items: Ids, assembly: Assembly
) -> tuple[Facts, list[pa.RecordBatch]]:
    """The facts of a shard, and its rows."""
    coded = pa.concat_arrays([pairs.column("user_id"), entries.column("user_id")]).dictionary_encode()
    users, codes = coded.dictionary, coded.indices.fill_null(-1).to_numpy()
    of_pair, of_entry = codes[: pairs.num_rows], codes[pairs.num_rows :]
    ranking = assembly.ranking
    with_nobody, user_pairs = _user_pairs(pairs, of_pair, users, items, ranking.probabilities)
    judged = judge(with_nobody, user_pairs, ranking.label_sets, ranking.frame == "unseen")
    labels = judged.labels.slice(0, len(users))  # without those that have no user
    lists = _lists(of_entry, _numbers(entries.column("model"), assembly.models), entries, assembly.files)
    n_bytes = [
        pc.binary_length(labels.column(name).field("positions")).to_numpy(zero_copy_only=False)
        for name in ranking.label_sets
    ]
    labelled = np.add.reduce(n_bytes) > 0
    rules = uncovered(lists.user, lists.model, labelled, assembly.models)
    facts = _facts(pairs, judged, lists, rules.violations(users, bool((of_entry < 0).any())), assembly)
    blobs = []
    if assembly.positive is not None:
        offsets, position = unpack(labels.column("excluded"), np.int32)
        trained = TrainedPairs(users_of(offsets), position)
        exposed, rows = counted(
            labels, trained, rules.missing >= 0, assembly.positive, ranking.n_items, ranking.frame == "unseen"
        )
        facts = facts._replace(exposed=exposed)
        if "random" not in ranking.probabilities:  # else items are not claimed to be drawn uniformly
            block = rows.column("position").to_numpy() // block_size(ranking.n_items)
            blobs.append(_encode_by_key("items", rows, *_nowhere(rows.num_rows)[1:], block))
    kept = (lists.file != NO_FILE) & (lists.user >= 0)
    if ranking.on_bad_rows == "quarantine":
        kept &= ~left_out(rules)[lists.user]
        broken = judged.broken.filter(pc.not_equal(judged.broken.column("rule"), OUTSIDE_FRAME))
        blobs.append(_encode_by_key("broken", broken, *_nowhere(broken.num_rows)))
    blobs.append(_plan(np.flatnonzero(kept & lists.contiguous), lists, users, labels, assembly))
    apart = kept & ~lists.contiguous
    again = (
        np.ones(len(users), np.bool_)
        if assembly.all_labels
        else np.bincount(lists.user[apart], minlength=len(users)) > 0
    )
    if again.any():
        rows = labels.filter(pa.array(again))
        blobs.append(_encode_by_key("labels", rows, *_nowhere(rows.num_rows)))
    if apart.any():  # after the labels: parts_of reads them in this order
        blobs.append(_parts(apart, lists, users, entries, assembly))
    return facts, [batch for batch in blobs if batch.num_rows]


def _user_pairs(
    pairs: pa.RecordBatch, user: Ints, users: pa.Array, items: Ids, probable: tuple[str, ...]
) -> tuple[pa.Array, UserPairs]:
    """The pairs user by user; those without a user come last, as one more user whose id is NULL. probable: label sets
    whose table has probabilities."""
    user = user.copy()
    if (nobody := user < 0).any():
        user[nobody] = len(users)
        users = pa.concat_arrays([users, pa.nulls(1, users.type)])
    if not (
        user[1:] >= user[:-1]
    ).all():  # users are numbered as they come: in order, if each user's pairs came together
        pairs = pairs.take(pa.array(np.argsort(user, kind="stable")))
    offsets = np.concatenate([[0], np.cumsum(np.bincount(user, minlength=len(users)))]).astype(np.int64)
    item = pairs.column("item_id")
    positions = items.positions(item if pa.types.is_integer(item.type) else item.dictionary_encode())
    probability = pairs.column(PROBABILITY) if PROBABILITY in pairs.schema.names else None
    source = pairs.column("source").to_numpy()
    return users, UserPairs(
        offsets, source, positions.astype(np.int32, copy=False), item, pairs.column("value"), probability, probable
    )


def _lists(user: Ints, model: Ints, entries: pa.RecordBatch, files: Files) -> Lists:
    """The entries of each list put together: several of a long table, one of a dense one."""
    columns = {
        name: entries.column(name).to_numpy() for name in ("input", "file", "task", "first_row", "last_row", "n_rows")
    }
    order = np.lexsort((columns["first_row"], columns["file"], columns["input"], model, user))
    user, model = user[order], model[order]
    columns = {name: values[order] for name, values in columns.items()}
    long = np.array([source.item is not None for _, source, _ in files] + [False])[
        columns["file"]
    ]  # NO_FILE, -1, is the last of these
    new = np.ones(order.size, np.bool_)
    if order.size:
        same = [user, model, columns["input"]]
        new[1:] = np.logical_or.reduce([key[1:] != key[:-1] for key in same]) | ~long[1:]
    heads = np.flatnonzero(new)
    if not heads.size:
        nobody = np.zeros(0, np.int64)
        return Lists(nobody, nobody, nobody, nobody, nobody, nobody, nobody, nobody > 0, nobody, nobody)
    last_file, last_row = np.maximum.reduceat(columns["file"], heads), np.maximum.reduceat(columns["last_row"], heads)
    first_row, n_rows = np.minimum.reduceat(columns["first_row"], heads), np.add.reduceat(columns["n_rows"], heads)
    contiguous = (columns["file"][heads] == last_file) & (last_row - first_row + 1 == n_rows)
    at = {name: columns[name][heads] for name in ("input", "file", "task")}
    return Lists(
        user[heads],
        model[heads],
        at["input"],
        at["file"],
        at["task"],
        first_row,
        last_row,
        contiguous,
        np.cumsum(new) - 1,
        order,
    )


def _facts(
    pairs: pa.RecordBatch, judged: Judged, lists: Lists, rules: dict[str, Violation], assembly: Assembly
) -> Facts:
    n_pairs = np.bincount(pairs.column("source").to_numpy(), minlength=len(NUMBER))
    n_lists = np.bincount(lists.model, minlength=len(assembly.models))
    return Facts(
        {source: int(n_pairs[number]) for source, number in NUMBER.items()},
        {model: int(n) for model, n in zip(assembly.models, n_lists, strict=True)},
        int((~lists.contiguous).sum()),
        violations(judged.broken),
        rules,
        {},
    )


def _plan(chosen: Ints, lists: Lists, users: pa.Array, labels: pa.RecordBatch, assembly: Assembly) -> pa.RecordBatch:
    """The chosen lists for the tasks that rank them."""
    file, first_row = lists.file[chosen], lists.first_row[chosen]
    block = first_row // np.array([*assembly.block_rows, 1])[file]
    order = np.lexsort((first_row, block, file, lists.task[chosen]))
    chosen, file, block = chosen[order], file[order], block[order]
    user = pa.array(lists.user[chosen])
    rows = {
        "model": _models(lists.model[chosen], assembly),
        "user_id": users.take(user),
        "file": pa.array(file.astype(np.int32)),
        "first_row": pa.array(lists.first_row[chosen]),
        "last_row": pa.array(lists.last_row[chosen]),
        **{name: labels.column(name).take(user) for name in (*assembly.ranking.label_sets, "excluded")},
    }
    return _encode_by_key("plan", pa.RecordBatch.from_pydict(rows), lists.task[chosen], file, block)


def _parts(apart: Bools, lists: Lists, users: pa.Array, entries: pa.RecordBatch, assembly: Assembly) -> pa.RecordBatch:
    """The lists whose rows are scattered, once for each task that has some of their rows."""
    mine = apart[lists.list_of_entry]
    task = entries.column("task").to_numpy()[lists.order][mine].astype(np.int64)
    found = np.unique(np.stack([task, lists.list_of_entry[mine]]), axis=1)
    task, chosen = found
    rows = {
        "model": _models(lists.model[chosen], assembly),
        "user_id": users.take(pa.array(lists.user[chosen])),
        "input": pa.array(lists.table[chosen].astype(np.int32)),
        "task": pa.array(task.astype(np.int32)),
    }
    return _encode_by_key("parts", pa.RecordBatch.from_pydict(rows), task, *_nowhere(task.size)[1:])


def _numbers(model: pa.Array, models: tuple[str, ...]) -> Ints:
    """The number of each model."""
    coded = model.dictionary_encode()
    return np.array([models.index(name) for name in coded.dictionary.to_pylist()], np.int64)[coded.indices.to_numpy()]


def _models(model: Ints, assembly: Assembly) -> pa.Array:
    return pa.array(assembly.models, pa.string()).take(pa.array(model))


def _nowhere(n: int) -> tuple[Ints, Ints, Ints]:
    return np.zeros(n, np.int64), np.zeros(n, np.int64), np.zeros(n, np.int64)


def _encode_by_key(kind: str, rows: pa.RecordBatch, task: Ints, file: Ints, block: Ints) -> pa.RecordBatch:
    (tasks, files, blocks), blobs = encode_by_key(rows, task, file, block)
    return _row(kind, tasks, files, blocks, blobs)


def _row(kind: str, task: Ints, file: Ints, block: Ints, rows: pa.Array) -> pa.RecordBatch:
    keys = {
        "task": pa.array(task, pa.int32()),
        "file": pa.array(file, pa.int32()),
        "block": pa.array(block, pa.int64()),
    }
    return pa.RecordBatch.from_pydict({"kind": pa.repeat(kind, len(rows))} | keys | {"rows": rows})
