"""Draws test sets from a table of pairs with Spark: no sort, no join, and four jobs for any number of sets. Workers
read the pairs from the files themselves where they can (inputs/pair_rows.py).

    1. Of about two million pairs, chosen by hash, a histogram of keys gives a window around each threshold (window.py).
    2. Every task counts its pairs by user and item (tallies.py), surely drawn ones at once, and writes the counts and
       the pairs in the windows to a file. The driver gets fine histograms of the windows.
    3. The pairs of one fine bin of each window come to the driver, which settles the threshold exactly.
    4. Counts of all tasks are added up, one range of users and of items per task, for the marginals (marginals.py); a
       pair that is there twice is found here, by the positions of its user and item.

The result does not depend on the partitions, nor on the windows. Nothing that grows with users or items comes to the
driver.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple
from uuid import uuid4

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from eval_engine.errors import DataError, as_operator_error
from eval_engine.inputs.pair_rows import PAIR, ROWS_AT_ONCE, PairRows
from eval_engine.kernels.arrays import Ints
from eval_engine.spark.worker_process import prepare_worker
from eval_engine.spark.worker_types import Worker
from eval_engine.storage.keyed_table import loaded
from eval_engine.storage.stored_file import located, open_file
from eval_engine.test_sets.draw import bad_weight, too_few
from eval_engine.test_sets.duplicates import by_range, n_twice
from eval_engine.test_sets.factors import LARGEST, LEAST
from eval_engine.test_sets.keys import keys_of
from eval_engine.test_sets.marginals import Variation, VariationSums, variation, variation_sums
from eval_engine.test_sets.rule import RANDOM, CountTables, PairBatch, SetRule, factors_of
from eval_engine.test_sets.tallies import CANDIDATE, Tallies, WeightSummary, WeightTally
from eval_engine.test_sets.window import DEVIATIONS, Window, bins_of, key_of, window_of

SAMPLED = 2_000_000  # pairs of the first histogram, about
SHARD_NUMBERS = 1 << 24  # counts that a task of the last job adds up at once


class Wanted(NamedTuple):
    """A test set that is to be drawn."""

    rule: SetRule  # without a threshold
    share: float | None  # None: not drawn by weight
    size: int | None  # pairs to be drawn


class Drawn(NamedTuple):
    """A test set that was drawn."""

    rule: SetRule
    size: int
    weights: WeightSummary
    n_without_support: int  # pairs
    users: Variation
    items: Variation


class Draws(NamedTuple):
    """All test sets, and the pairs that they were drawn from."""

    sets: tuple[Drawn, ...]
    n_pairs: int
    n_unknown: int  # pairs whose user or item is not in the tables: in no set
    users: Variation  # of all pairs
    items: Variation


class _Task(NamedTuple):
    """What the driver gets of a task of the second job."""

    path: str
    sure: Ints  # (n_sets,)
    fine: npt.NDArray[np.int64]  # (n_sets, 2 FINE)
    weights: list[WeightTally]
    n_pairs: int
    n_unknown: int


def draw_test_sets(
    pairs: PairRows, tables: CountTables, wanted: Sequence[Wanted], folder: str, n_pairs: int, table: str = "heldout"
) -> Draws:
    """Draws the sets. n_pairs: how many, about; folder: for the files of tasks; table: the pairs' name in errors."""
    rules, sizes = tuple(one.rule for one in wanted), [one.size for one in wanted]
    one_of = max(1, n_pairs // SAMPLED)
    with as_operator_error():
        bins = _bins(pairs, tables, rules, one_of)
        for deviations in (DEVIATIONS, 100 * DEVIATIONS):
            windows = [
                None
                if size is None
                else window_of(*bins[n], size, one_of, deviations)
                if len(bins[n][0])
                else Window(0, 0)
                for n, size in enumerate(sizes)
            ]
            n_shards = _n_shards(tables, len(rules))
            tasks = _counted(pairs, tables, rules, windows, n_shards, folder)
            weights = _weights(rules, tasks)
            for one in wanted:
                drawable = weights[one.rule.weighing].summary().n
                if one.size is not None and drawable < one.size:
                    assert one.share is not None
                    n = sum(task.n_pairs for task in tasks)
                    raise too_few(drawable, one.size, one.share, n, f"test_sets: {one.rule.name}")
            edges = _edges(tasks, windows, sizes)
            if edges is not None:
                break
        assert edges is not None, "a window of 700 standard deviations does not hold the threshold"
        settled = _settled(pairs.df.sparkSession, tasks, rules, windows, edges)
        return _added(pairs, tables, settled, sizes, tasks, weights, n_shards, table)


def _bins(pairs: PairRows, tables: CountTables, rules: Sequence[SetRule], one_of: int) -> list[tuple[Ints, Ints]]:
    """The histogram of keys of one of `one_of` pairs, by set."""
    drawn = [n for n, rule in enumerate(rules) if rule.drawn]
    found: list[tuple[list[Ints], list[Ints]]] = [([], []) for _ in rules]
    if drawn:
        schema = "number INT, bins BINARY, counts BINARY"
        for row in pairs.mapped(_binned(tables, rules, drawn), schema, one_of).collect():
            found[row["number"]][0].append(np.frombuffer(row["bins"], np.int64))
            found[row["number"]][1].append(np.frombuffer(row["counts"], np.int64))
    return [_merged(*parts) for parts in found]


def _merged(bins: list[Ints], counts: list[Ints]) -> tuple[Ints, Ints]:
    if not bins:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    values, place = np.unique(np.concatenate(bins), return_inverse=True)
    return values, np.bincount(place, weights=np.concatenate(counts)).astype(np.int64)


def _binned(tables: CountTables, rules: Sequence[SetRule], drawn: Sequence[int]) -> Worker:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        prepare_worker()
        found: dict[int, tuple[list[Ints], list[Ints]]] = {n: ([], []) for n in drawn}
        for rows in _larger(batches):
            batch = _pairs(rows, tables)
            _refuse_weights(rows, batch, [rules[n] for n in drawn])
            for seed in dict.fromkeys(rules[n].seed for n in drawn):
                for n in drawn:
                    if rules[n].seed == seed:
                        keys = keys_of(batch.log_uniform(seed), batch.weights(rules[n].weighing))
                        for part, own in zip(found[n], bins_of(keys), strict=True):
                            part.append(own)
                batch.forget(seed)
        merged = {n: _merged(*parts) for n, parts in found.items()}
        yield pa.RecordBatch.from_pydict(
            {
                "number": pa.array(list(merged), pa.int32()),
                "bins": pa.array([own[0].tobytes() for own in merged.values()], pa.binary()),
                "counts": pa.array([own[1].tobytes() for own in merged.values()], pa.binary()),
            }
        )

    return run


def _larger(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows in fewer batches: each costs some hundred microseconds, whatever its size."""
    waiting: list[pa.RecordBatch] = []
    for batch in batches:
        waiting.append(batch)
        if sum(part.num_rows for part in waiting) >= ROWS_AT_ONCE:
            yield waiting[0] if len(waiting) == 1 else pa.concat_batches(waiting)
            waiting = []
    if waiting:
        yield pa.concat_batches(waiting)


def _pairs(rows: pa.RecordBatch, tables: CountTables) -> PairBatch:
    return PairBatch(rows.column("user_id"), rows.column("item_id"), tables)


def _refuse_weights(rows: pa.RecordBatch, batch: PairBatch, rules: Sequence[SetRule]) -> None:
    """An error if a weight is neither 0 nor usable."""
    for rule in {rule.weighing: rule for rule in rules}.values():
        factors = factors_of(batch.tables, rule.weighing)
        if factors.in_range:
            continue
        w = batch.weights(rule.weighing)
        drawable = (factors.users[batch.places.users] > 0) & (factors.items[batch.places.items] > 0)
        bad = drawable & ~((w >= LEAST) & (w <= LARGEST))
        if bad.any():
            first = int(np.argmax(bad))
            user, item = (rows.column(name)[first].as_py() for name in PAIR)
            raise bad_weight(f"test_sets: {rule.name}", int(bad.sum()), user, item, float(w[first]))


def _n_shards(tables: CountTables, n_sets: int) -> int:
    """Ranges of positions, so small that a task can hold the counts of one."""
    largest = max(tables.of_users.n, tables.of_items.n)
    return int(np.clip(-(-largest * (n_sets + 1) // SHARD_NUMBERS), 4, 1000))


def _counted(
    pairs: PairRows,
    tables: CountTables,
    rules: Sequence[SetRule],
    windows: Sequence[Window | None],
    n_shards: int,
    folder: str,
) -> list[_Task]:
    """Counts all pairs, each task into a file."""
    schema = (
        "path STRING, sure BINARY, fine BINARY, sums BINARY, counts BINARY, ends BINARY, n_pairs BIGINT, "
        "n_unknown BIGINT"
    )

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        prepare_worker()
        n_users, n_items = (loaded(table).keys.ids.size for table in tables[:2])
        tallies = Tallies(rules, windows, n_users, n_items)
        codes = _Codes(n_users, n_shards)
        for rows in _larger(batches):
            batch = _pairs(rows, tables)
            _refuse_weights(rows, batch, [rule for rule in rules if rule.drawn])
            tallies.add(batch)
            codes.add(batch)
        if not tallies.n_pairs + tallies.n_unknown:
            return
        path = f"{folder}/{uuid4().hex}.arrow"
        _write(path, tallies, codes, n_shards)
        own = list(tallies.weights.values())
        yield pa.RecordBatch.from_pydict(
            {
                "path": pa.array([path], pa.string()),
                "sure": pa.array([tallies.sure.tobytes()], pa.binary()),
                "fine": pa.array([tallies.fine.tobytes()], pa.binary()),
                "sums": pa.array([np.array([one.sums for one in own]).tobytes()], pa.binary()),
                "counts": pa.array([np.array([one.counts for one in own]).tobytes()], pa.binary()),
                "ends": pa.array([np.array([one.ends for one in own]).tobytes()], pa.binary()),
                "n_pairs": pa.array([tallies.n_pairs], pa.int64()),
                "n_unknown": pa.array([tallies.n_unknown], pa.int64()),
            }
        )

    return [_task(row, len(rules)) for row in pairs.mapped(run, schema).collect()]


def _task(row: Any, n_sets: int) -> _Task:
    sums = np.frombuffer(row["sums"], np.int64).reshape(-1, *WeightTally().sums.shape)
    counts = np.frombuffer(row["counts"], np.int64).reshape(-1, 2)
    ends = np.frombuffer(row["ends"], np.float64).reshape(-1, 2)
    weights = []
    for n in range(len(sums)):
        own = WeightTally()
        own.sums, own.counts, own.ends = sums[n].copy(), counts[n].copy(), ends[n].copy()
        weights.append(own)
    sure, fine = np.frombuffer(row["sure"], np.int64), np.frombuffer(row["fine"], np.int64).reshape(n_sets, -1)
    return _Task(row["path"], sure, fine, weights, row["n_pairs"], row["n_unknown"])


class _Codes:
    """The positions of user and item of each pair, by range of users."""

    def __init__(self, n_users: int, n_shards: int) -> None:
        self._n_users = n_users
        self.shards: list[list[Ints]] = [[] for _ in range(n_shards)]

    def add(self, batch: PairBatch) -> None:
        """Add pairs."""
        codes, ends = by_range(*batch.places, self._n_users, len(self.shards))
        for shard, part in zip(self.shards, np.split(codes, ends[:-1]), strict=True):
            shard.append(part)


def _ends(n: int, n_shards: int) -> list[int]:
    """The ends of ranges of positions, 0 first."""
    return [n * shard // n_shards for shard in range(n_shards + 1)]


SHARD = pa.schema(
    [(name, pa.large_binary()) for name in ("users", "of_users", "items", "of_items", "by_user", "by_item", "codes")]
)


def _write(path: str, tallies: Tallies, codes: _Codes, n_shards: int) -> None:
    """One record batch for each range of positions, and a last one with the candidates of all."""
    candidates = np.concatenate([np.empty(0, CANDIDATE), *tallies.candidates])
    places = [_ends(table.shape[0], n_shards) for table in (tallies.users, tallies.items)]
    by = [candidates[np.argsort(candidates[name], kind="stable")] for name in ("user", "item")]
    system, place = located(path)
    system.create_dir(place.rsplit("/", 1)[0], recursive=True)
    with system.open_output_stream(place) as stream, pa.ipc.new_file(stream, SHARD) as writer:
        for shard in range(n_shards):
            parts: list[npt.NDArray[Any]] = []
            for table, ends in zip((tallies.users, tallies.items), places, strict=True):
                low, high = ends[shard : shard + 2]
                some = np.flatnonzero(table[low:high, -1]) + low  # every pair counts in the last column
                parts += [some.astype(np.int32), table[some]]
            for own, name, ends in zip(by, ("user", "item"), places, strict=True):
                first, last = np.searchsorted(own[name], ends[shard : shard + 2])
                parts.append(own[first:last])
            parts.append(np.concatenate([np.empty(0, np.int64), *codes.shards[shard]]))
            codes.shards[shard].clear()
            writer.write_batch(_one_row(parts))
        nothing = np.empty(0, np.int8)
        writer.write_batch(_one_row([nothing, nothing, nothing, nothing, candidates, nothing, nothing]))


def _one_row(parts: Sequence[npt.NDArray[Any]]) -> pa.RecordBatch:
    """A row of SHARD, its bytes not copied."""
    columns = [
        pa.Array.from_buffers(
            pa.large_binary(),
            1,
            [None, pa.py_buffer(np.array([0, part.nbytes])), pa.py_buffer(np.ascontiguousarray(part).view(np.uint8))],
        )
        for part in parts
    ]
    return pa.RecordBatch.from_arrays(columns, schema=SHARD)


def _read(path: str, shard: int) -> dict[str, pa.Buffer]:
    """The parts of one range, -1 for the candidates of all."""
    with open_file(path) as handle:
        file = pa.ipc.open_file(handle)
        batch = file.get_batch(shard % file.num_record_batches)
        return {name: batch.column(n)[0].as_buffer() for n, name in enumerate(SHARD.names)}


def _weights(rules: Sequence[SetRule], tasks: Sequence[_Task]) -> dict[Any, WeightTally]:
    """The sums of weights over all tasks."""
    found = {weighing: WeightTally() for weighing in dict.fromkeys(rule.weighing for rule in rules)}
    for task in tasks:
        for own, part in zip(found.values(), task.weights, strict=True):
            own.merge(part)
    return found


def _edges(
    tasks: Sequence[_Task], windows: Sequence[Window | None], sizes: Sequence[int | None]
) -> list[tuple[int, int] | None] | None:
    """Of each set: its fine bin with the threshold, and how many pairs of this bin are drawn; None if the threshold is
    outside a window."""
    edges: list[tuple[int, int] | None] = []
    for n, (window, size) in enumerate(zip(windows, sizes, strict=True)):
        if window is None or size is None:
            edges.append(None)
            continue
        wanted = size - sum(int(task.sure[n]) for task in tasks)
        ends = np.cumsum(np.sum([task.fine[n] for task in tasks], axis=0))
        if not 0 < wanted <= ends[-1]:
            return None
        at = int(np.searchsorted(ends, wanted))
        edges.append((at, wanted - (int(ends[at - 1]) if at else 0)))
    return edges


def _settled(
    spark: SparkSession,
    tasks: Sequence[_Task],
    rules: Sequence[SetRule],
    windows: Sequence[Window | None],
    edges: Sequence[tuple[int, int] | None],
) -> list[SetRule]:
    """The rules with their exact thresholds: the last drawn pair of each set, by key and hash."""
    ranges = [
        (0, -1) if window is None or edge is None
        else (window.low + (edge[0] << window.shift), window.low + ((edge[0] + 1) << window.shift) - 1)
        for window, edge in zip(windows, edges, strict=True)
    ]  # fmt: skip
    if not any(edge is not None for edge in edges):
        return list(rules)
    paths = [task.path for task in tasks]

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        low, high = (np.array([one[n] for one in ranges]) for n in (0, 1))
        for batch in batches:
            for number in batch.column(0).to_pylist():
                own = np.frombuffer(_read(paths[number], -1)["by_user"], CANDIDATE)
                mine = (own["magnitude"] >= low[own["set"]]) & (own["magnitude"] <= high[own["set"]])
                yield pa.RecordBatch.from_pydict({"found": pa.array([own[mine].tobytes()], pa.binary())})

    rows = spark.range(0, len(paths), 1, len(paths)).mapInArrow(run, "found BINARY").collect()
    near = np.concatenate([np.frombuffer(row["found"], CANDIDATE) for row in rows])
    settled = []
    for n, (rule, edge) in enumerate(zip(rules, edges, strict=True)):
        if edge is None:
            settled.append(rule)
            continue
        own = near[near["set"] == n]
        last = own[np.lexsort((own["hash"], own["magnitude"]))[edge[1] - 1]]
        settled.append(rule._replace(threshold=key_of(int(last["magnitude"])), threshold_hash=int(last["hash"])))
    return settled


def _added(
    pairs: PairRows,
    tables: CountTables,
    rules: Sequence[SetRule],
    sizes: Sequence[int | None],
    tasks: Sequence[_Task],
    weights: dict[Any, WeightTally],
    n_shards: int,
    table: str,
) -> Draws:
    """The marginals of all sets, from the files of all tasks; an error if a pair is there twice."""
    n_pairs = sum(task.n_pairs for task in tasks)
    known = [size if size is not None else sum(int(task.sure[n]) for task in tasks) for n, size in enumerate(sizes)]
    every = [*known, n_pairs]  # the last: all pairs
    paths = [task.path for task in tasks]
    ends = np.array([-1 if rule.threshold is None else _magnitude(rule.threshold) for rule in rules])
    hashes = np.array([rule.threshold_hash or 0 for rule in rules], np.uint64)

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        prepare_worker()
        for shard in (number for batch in batches for number in batch.column(0).to_pylist()):
            parts = [_read(path, shard) for path in paths]
            codes = np.concatenate([np.frombuffer(part["codes"], np.int64) for part in parts])
            rows = {"of": [], "number": [], "sums": [], "size": [], "twice": []}  # type: dict[str, list[Any]]
            twice = n_twice(codes, *_ends(loaded(tables.users).keys.ids.size, n_shards)[shard : shard + 2])
            for of, own, totals in (("user", tables.users, tables.of_users), ("item", tables.items, tables.of_items)):
                counts = _counts(parts, of, loaded(own).keys.ids.size, shard, n_shards, len(rules), ends, hashes)
                low, high = _ends(loaded(own).keys.ids.size, n_shards)[shard : shard + 2]
                random = loaded(own).columns[RANDOM][low:high]
                for n, size in enumerate(every):
                    sums = variation_sums(counts[:, n], random, size, totals.n, totals.n_random)
                    rows["of"].append(of)
                    rows["number"].append(n)
                    rows["sums"].append(list(map(str, sums)))
                    rows["size"].append(int(counts[:, n].sum()))
                    rows["twice"].append(twice)
            kinds = (pa.string(), pa.int32(), pa.list_(pa.string()), pa.int64(), pa.int64())
            yield pa.RecordBatch.from_pydict(
                {name: pa.array(own, kind) for (name, own), kind in zip(rows.items(), kinds, strict=True)}
            )

    schema = "of STRING, number INT, sums ARRAY<STRING>, size BIGINT, twice BIGINT"
    rows = pairs.df.sparkSession.range(0, n_shards, 1, n_shards).mapInArrow(run, schema).collect()
    if any(row["twice"] for row in rows):
        raise _twice(pairs.df, table)
    found: dict[str, list[Variation]] = {}
    for of, totals in (("user", tables.of_users), ("item", tables.of_items)):
        found[of] = []
        for n, size in enumerate(every):
            own = [row for row in rows if row["of"] == of and row["number"] == n]
            if sum(row["size"] for row in own) != size:
                raise DataError(
                    f"{table}: the rows of the table changed while test sets were drawn from it, or Spark reads it "
                    "differently each time. Run it again on a table that is not written meanwhile."
                )
            sums = [VariationSums(*map(int, row["sums"])) for row in own]
            found[of].append(variation(sums, size, totals.n, totals.n_random) if size else Variation(np.nan, None))
    sets = tuple(
        Drawn(
            rule,
            every[n],
            weights[rule.weighing].summary(),
            int(weights[rule.weighing].counts[1]),
            found["user"][n],
            found["item"][n],
        )
        for n, rule in enumerate(rules)
    )
    return Draws(sets, n_pairs, sum(task.n_unknown for task in tasks), found["user"][-1], found["item"][-1])


def _counts(
    parts: Sequence[dict[str, pa.Buffer]],
    of: str,
    n: int,
    shard: int,
    n_shards: int,
    n_sets: int,
    ends: Ints,
    hashes: npt.NDArray[np.uint64],
) -> npt.NDArray[np.int64]:
    """Pairs of each user (or item) of a range in each set, and in all."""
    low, high = _ends(n, n_shards)[shard : shard + 2]
    counts = np.zeros((high - low, n_sets + 1), np.int64)
    for part in parts:
        place = np.frombuffer(part[f"{of}s"], np.int32) - low
        counts[place] += np.frombuffer(part[f"of_{of}s"], np.int32).reshape(place.size, n_sets + 1)
        own = np.frombuffer(part[f"by_{of}"], CANDIDATE)
        end = ends[own["set"]]
        inside = (own["magnitude"] < end) | ((own["magnitude"] == end) & (own["hash"] <= hashes[own["set"]]))
        np.add.at(counts, (own[of][inside] - low, own["set"][inside]), 1)
    return counts


def _magnitude(key: float) -> int:
    return int(np.array([-key]).view(np.int64)[0])


def _twice(pairs: DataFrame, table: str) -> DataError:
    """The error of pairs that are there twice."""
    twice = pairs.groupBy(*PAIR).count().where("count > 1")
    found = twice.agg(F.count(F.lit(1)).alias("n"), F.min(F.struct(*PAIR)).alias("first")).first()
    assert found is not None
    return DataError(
        f"{table}: {found['n']:,} pairs stand in it more than once (first: user_id={found['first']['user_id']}, "
        f"item_id={found['first']['item_id']}), so that they would be drawn together. Keep one row of each pair."
    )
