"""From the ranks table to statistics: one pass over the labelled pairs sums what every estimator, metric and cutoff needs, for all models.

Each task adds up its users by bucket (statistics/bucket_sums.py: exact, so that partitioning does not matter) and sends, per model and bucket, the
packed sums and the few numbers per user that models are compared on; a second step adds those up and counts, bucket by bucket, on how many users each
model beats each other one. Nothing else moves, and what comes out grows with neither users nor items.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import reduce
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from eval_engine.estimators.estimator import Estimator, Terms
from eval_engine.estimators.labelled import Labelled
from eval_engine.estimators.registry import ESTIMATORS
from eval_engine.kernels.rank_facts import UNKNOWN, RankFacts
from eval_engine.kernels.xxhash64 import xxhash64
from eval_engine.metric import Metric
from eval_engine.positive import Positive
from eval_engine.ranking.part_files import Worker
from eval_engine.ranking.planned import Plan
from eval_engine.statistics.balanced import lump_of, two_digits
from eval_engine.statistics.bucket_sums import COUNTS, LIMB, N_BUCKETS, SUMS, Sums, bucket_of, carried, summed
from eval_engine.statistics.duels import wins
from eval_engine.statistics.ratio import LARGEST_SUM, SCALE
from eval_engine.stored_file import open_file
from eval_engine.tables import STATISTICS, split
from eval_engine.worker_process import settle

PACKED = "bucket INT, model STRING, sums BINARY, users BINARY, values BINARY"
PACKED_ARROW = pa.schema([("bucket", pa.int32()), ("model", pa.string()), ("sums", pa.binary()), ("users", pa.binary()), ("values", pa.binary())])
AT_ONCE = 64 * 2**20  # bytes of ranks, or of packed rows, that are worked on together
USERS_AT_ONCE = 1 << 16  # adding up costs as much for a few users as for these
ROW = np.dtype([("bucket", "<i4"), ("cell", "<i4"), ("stratum", "<i4", 3), ("counts", "<i8", 3), ("whole", "<i8", 7), ("part", "<i8", 7)])
STATISTICS_COLUMNS = ", ".join(column.removesuffix(" NOT NULL") for column in split(STATISTICS.ddl) if not column.startswith("run_id"))
FACTS = ("values", "above", "tied", "probabilities")  # of labelled pairs; items and scores, two fifths of the bytes, are not needed
LEFT_OUT = {"bad_vector", "not_scored"}  # rules of the quality table: users that not every model ranked
NO_STRATUM = np.full((1, 3), -1, np.int64)
STRATIFIED = ("ure_macro", "recall")  # its sums are kept by exposures, candidates and exposed positives, for balanced URE


class Question(NamedTuple):
    """What is asked of every model."""

    metrics: tuple[Metric, ...]  # over all candidates
    traditional: tuple[Metric, ...]  # among the exposed items
    positive: Positive
    ties: str
    sources: tuple[str, ...]  # label sources that the run has: random, truth

    def asked(self) -> list[tuple[Estimator, Metric]]:
        """Every estimator whose labels there are, with each of its metrics."""
        return [
            (estimator, metric)
            for estimator in ESTIMATORS
            if self.sources_of(estimator) <= set(self.sources)
            for metric in (self.traditional if estimator.name == "traditional" else self.metrics)
            if metric.name == estimator.metric
        ]

    @staticmethod
    def sources_of(estimator: Estimator) -> set[str]:
        """The label sources it needs."""
        return {"random", "truth"} if estimator.source == "both" else {estimator.source}

    def compared(self) -> list[Metric]:
        """The quantities by which models are compared user by user: recall and precision order models alike on a user, as do DCG and nDCG."""
        return sorted({_duel(metric) for metric in self.metrics if metric.name != "hit_rate"}) if "random" in self.sources else []


def _duel(metric: Metric) -> Metric:
    return Metric({"precision": "recall", "dcg": "ndcg"}.get(metric.name, metric.name), metric.k)


def statistics(ranks: DataFrame, question: Question) -> Plan:
    """Makes the statistics table's rows, but for run_id, of rows of the ranks table."""
    # Lists, not a struct of them, which Spark would build item by item; and empty ones for NULL: Arrow's Java writes a NULL list in time that grows with those before it.
    needed = [F.coalesce(F.col(f"{source}.{name}"), F.array()).alias(f"{source}_{name}") for source in question.sources for name in FACTS]
    return _added(ranks.select("model", "user_id", "candidates", "scored", *needed).mapInArrow(_summed(question), PACKED), question)


def statistics_of_files(spark: SparkSession, files: Sequence[tuple[str, str]], question: Question) -> Plan:
    """The same, of files of the ranks table and the model of each, which workers read themselves: through Java, lists cost more than all estimators together."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        chosen = (files[n] for batch in batches for n in batch.column(0).to_pylist())
        return _summed(question)(rows for path, model in chosen for rows in _read(path, model, question.sources))

    return _added(spark.range(0, len(files), 1, len(files)).mapInArrow(run, PACKED), question)


def _read(path: str, model: str, sources: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """What is needed of a file of ranks, in batches of bounded bytes."""
    wanted = ["user_id", "candidates", "scored", *(f"{source}.{name}" for source in sources for name in FACTS)]
    with open_file(path) as handle, pq.ParquetFile(handle) as file:
        groups = [file.metadata.row_group(n) for n in range(file.num_row_groups)]
        per_row = max(1, sum(group.total_byte_size for group in groups) // max(1, file.metadata.num_rows))
        for batch in file.iter_batches(int(np.clip(AT_ONCE // per_row, 1, USERS_AT_ONCE)), columns=wanted):
            yield _flat(batch.append_column("model", pa.array([model] * batch.num_rows, pa.string())), sources)


def statistics_of(plans: Iterable[Plan], question: Question) -> Plan:
    """The same while ranking: ranks go from the kernel to the sums, and are kept nowhere."""
    return _added(
        reduce(DataFrame.unionByName, [plan.rows.mapInArrow(_then(plan.worker, _summed(question), question.sources), PACKED) for plan in plans]),
        question,
    )


def _then(first: Worker, second: Worker, sources: Sequence[str]) -> Worker:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return second(_flat(batch, sources) for batch in first(batches))

    return run


def _flat(batch: pa.RecordBatch, sources: Sequence[str]) -> pa.RecordBatch:
    """Rows of ranks, with the lists that are needed as columns."""
    lists = {f"{source}_{name}": batch.column(source).field(name) for source in sources for name in FACTS}
    return pa.RecordBatch.from_pydict({name: batch.column(name) for name in ("model", "user_id", "candidates", "scored")} | lists)


def ranked_by_all(ranks: DataFrame, rules: Collection[str]) -> DataFrame:
    """Without the users that some model could not rank or did not score: models are compared on the same users. rules: those that the quality table counts; without
    gaps nothing is joined, since that would send every row through a shuffle."""
    unranked = []
    if "bad_vector" in rules:
        unranked.append(ranks.where("problem IS NOT NULL").select("user_id"))
    if "not_scored" in rules:
        n_models = ranks.select("model").distinct().count()
        unranked.append(ranks.groupBy("user_id").count().where(F.col("count") < n_models).select("user_id"))
    return ranks.join(reduce(DataFrame.union, unranked).distinct(), "user_id", "left_anti") if unranked else ranks


def _summed(question: Question) -> Worker:
    """The function that adds up the users of a task: rows of ranks in, PACKED out."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        settle()
        totals: dict[str, dict[int, list[npt.NDArray[Any]]]] = {}
        for batch in batches:
            models = pc.unique(batch.column("model")).to_pylist()
            for model in models:
                rows = batch.filter(pc.equal(batch.column("model"), model)) if len(models) > 1 else batch
                hashes = xxhash64(rows.column("user_id"))
                bucket = bucket_of(hashes)
                labelled = _labelled(rows, question)
                _merge(totals.setdefault(model, {}), _bucket_rows(labelled, bucket, question))
                yield _values(model, hashes, bucket, labelled, question)
        for model, merged in totals.items():
            yield _packed(model, merged)

    return run


def _labelled(rows: pa.RecordBatch, question: Question) -> dict[str, Labelled]:
    """The labelled pairs of each source."""
    found = {}
    for source in question.sources:
        facts = rank_facts_of({name: rows.column(f"{source}_{name}") for name in FACTS}, rows.column("candidates"), rows.column("scored"))
        found[source] = Labelled(facts, question.positive.of(facts.value), all_labelled=source == "truth")
    return found


def _terms(estimator: Estimator, metric: Metric, labelled: dict[str, Labelled], ties: str) -> Terms:
    if estimator.source == "both":
        return estimator.terms(labelled["truth"], metric.k, ties, labelled["random"].facts.n_labels)
    return estimator.terms(labelled[estimator.source], metric.k, ties)


def _bucket_rows(labelled: dict[str, Labelled], bucket: npt.NDArray[Any], question: Question) -> Iterator[npt.NDArray[Any]]:
    """For each cell of the question: the sums of these users by bucket, and stratum where it has those, as rows of ROW."""
    strata, which = _strata(labelled["random"]) if "random" in labelled else (NO_STRATUM, np.zeros(bucket.size, np.int64))
    tied = {source: _tied_users(one) for source, one in labelled.items()}
    for cell, (estimator, metric) in enumerate(question.asked()):
        terms = _terms(estimator, metric, labelled, question.ties)
        users = tied["truth" if estimator.source == "both" else estimator.source]
        low, high = (_bound(estimator, metric, labelled, users, terms, ties) for ties in ("strict", "optimistic"))
        by_stratum = (estimator.name, estimator.metric) == STRATIFIED
        kinds, row = (strata, which * N_BUCKETS + bucket) if by_stratum else (NO_STRATUM, bucket)
        sums = summed(terms, low, high, row, len(kinds) * N_BUCKETS)
        used = np.flatnonzero(sums.counts.any(axis=1))
        found = np.empty(used.size, ROW)
        found["bucket"], found["cell"], found["stratum"] = used % N_BUCKETS, cell, kinds[used // N_BUCKETS]
        for name, values in zip(("counts", "whole", "part"), sums, strict=True):
            found[name] = values[used]
        yield found


def _tied_users(labelled: Labelled) -> npt.NDArray[Any]:
    """The users with a positive that is level with another candidate: only they have bounds beside their value."""
    ends = np.concatenate([[0], np.cumsum(labelled.tied > 0)])[labelled.offsets]
    return np.flatnonzero(np.diff(ends))


def _bound(
    estimator: Estimator, metric: Metric, labelled: dict[str, Labelled], users: npt.NDArray[Any], terms: Terms, ties: str
) -> npt.NDArray[np.float64]:
    """Numerators with every tie broken against (strict) or for (optimistic) the model."""
    if not users.size:
        return terms.numerator
    numerators = terms.numerator.copy()
    numerators[users] = _terms(estimator, metric, {source: one.of(users) for source, one in labelled.items()}, ties).numerator
    return numerators


def _strata(random: Labelled) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """The kinds of users, as (exposures, candidates, exposed positives), each coarse, and the number of each user's; none with uneven exposure."""
    if random.weight is not None:
        return NO_STRATUM, np.zeros(random.facts.n_users, np.int64)
    kind = np.stack([two_digits(random.n_labelled), two_digits(random.candidates), lump_of(random.n_positive)])
    code = (
        (kind[0] << 42) + (kind[1] << 21) + kind[2] if kind.max(initial=0) < 1 << 21 else np.unique(kind, axis=1, return_inverse=True)[1].reshape(-1)
    )
    _, first, which = np.unique(code, return_index=True, return_inverse=True)
    return kind[:, first].T, which.reshape(-1)


def _merge(totals: dict[int, list[npt.NDArray[Any]]], found: Iterable[npt.NDArray[Any]]) -> None:
    """Add rows to what a task has of a model, by cell; now and then those with the same key in one."""
    for rows in found:
        if rows.size:
            own = totals.setdefault(int(rows["cell"][0]), [])
            own.append(rows)
            if len(own) == 8:
                own[:] = [_added_rows(np.concatenate(own))]


def _added_rows(rows: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Rows with the same key in one."""
    keys = np.column_stack([rows[name] for name in ("bucket", "cell", "stratum")])
    kinds, first, which = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    if len(kinds) == rows.size:
        return rows
    found = rows[first].copy()
    for name in ("counts", "whole", "part"):
        found[name] = 0
        np.add.at(found[name], which.reshape(-1), rows[name])
    sums = carried(Sums(found["counts"], found["whole"], found["part"]))
    found["whole"], found["part"] = sums.whole, sums.part
    return found


def _packed(model: str, totals: dict[int, list[npt.NDArray[Any]]]) -> pa.RecordBatch:
    """A row per bucket, with the bytes of its sums."""
    rows = np.concatenate([np.empty(0, ROW), *(_added_rows(np.concatenate(own)) for own in totals.values())])
    rows = rows[np.argsort(rows["bucket"], kind="stable")]
    buckets, starts = np.unique(rows["bucket"], return_index=True)
    parts = [part.tobytes() for part in np.split(rows, starts[1:])][: buckets.size]
    return _batch(buckets, model, parts, [None] * len(parts), [None] * len(parts))


def _values(model: str, hashes: npt.NDArray[Any], bucket: npt.NDArray[Any], labelled: dict[str, Labelled], question: Question) -> pa.RecordBatch:
    """A row per bucket, with the users who have a value and the numbers that models are compared on."""
    asked = question.compared()
    if not asked:
        return _batch(np.empty(0, np.int32), model, [], [], [])
    random = labelled["random"]
    some = np.flatnonzero(random.n_positive > 0)
    some = some[np.argsort(bucket[some], kind="stable")]
    values = np.empty((some.size, len(asked)), np.float32)
    named = {(estimator.metric, estimator.name): estimator for estimator in ESTIMATORS}
    for n, metric in enumerate(asked):
        terms = named[metric.name, "ure_mean" if metric.name == "ndcg" else "ure_macro"].terms(random, metric.k, question.ties)
        values[:, n] = np.where(terms.denominator > 0, terms.numerator, np.nan)[some]
    buckets, starts = np.unique(bucket[some], return_index=True)
    users, parts = np.split(hashes[some], starts[1:]), np.split(values, starts[1:])
    n = buckets.size
    return _batch(buckets, model, [None] * n, [x.tobytes() for x in users[:n]], [x.tobytes() for x in parts[:n]])


def _batch(buckets: npt.NDArray[Any], model: str, *columns: Sequence[bytes | None]) -> pa.RecordBatch:
    binary = [pa.array(column, pa.binary()) for column in columns]
    return pa.RecordBatch.from_arrays([pa.array(buckets, pa.int32()), pa.array([model] * len(buckets), pa.string()), *binary], schema=PACKED_ARROW)


def _added(packed: DataFrame, question: Question) -> Plan:
    """Makes the statistics of each bucket from what tasks found of it."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        waiting: list[tuple[Any, ...]] = []
        size = 0
        for batch in batches:
            for row in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                if size > AT_ONCE and row[0] != waiting[-1][0]:
                    yield _statistics_rows(waiting, question)
                    waiting, size = [], 0
                waiting.append(row)
                size += sum(len(part) for part in row[2:] if part is not None)
        if waiting:
            yield _statistics_rows(waiting, question)

    return Plan(packed.repartition("bucket").sortWithinPartitions("bucket"), run)


def _statistics_rows(packed: list[tuple[Any, ...]], question: Question) -> pa.RecordBatch:
    """Rows of STATISTICS_COLUMNS, of packed rows: all that there is of some buckets."""
    asked, compared = question.asked(), question.compared()
    models = sorted({row[1] for row in packed})
    rows, of = [], []
    for number, model in enumerate(models):
        own = [np.frombuffer(row[2], ROW) for row in packed if row[1] == model and row[2] is not None]
        rows.append(_added_rows(np.concatenate([np.empty(0, ROW), *own])))
        of.append(np.full(rows[-1].size, number))
    every, model_of = np.concatenate(rows), np.concatenate(of)
    order = np.lexsort((*every["stratum"].T[::-1], every["bucket"], every["cell"], model_of))
    every, model_of = every[order], model_of[order]
    cells = every["cell"]

    def told(values: list[Any], kind: pa.DataType) -> pa.Array:
        return pa.array(values, kind).take(pa.array(cells))

    columns: dict[str, pa.Array] = {
        "model": pa.array(models, pa.string()).take(pa.array(model_of)),
        "estimator": told([e.name for e, _ in asked], pa.string()),
        "metric": told([e.metric for e, _ in asked], pa.string()),
        "k": told([m.k for _, m in asked], pa.int32()),
        "stratum": pa.StructArray.from_arrays(
            [pa.array(every["stratum"][:, n], pa.int32()) for n in range(3)],
            ["exposures", "candidates", "positives"],
            mask=pa.array((every["stratum"] < 0).any(axis=1)),
        ),
        "bucket": pa.array(every["bucket"], pa.int32()),
        **{name: pa.array(every["counts"][:, n]) for n, name in enumerate(COUNTS)},
        **{name: _decimals(every["whole"][:, n], every["part"][:, n]) for n, name in enumerate(SUMS)},
    }
    duels = [compared.index(_duel(m)) if e.name.startswith("ure") and _duel(m) in compared else -1 for e, m in asked]
    columns["wins"] = _wins_column(models, every, model_of, np.array(duels), _won(packed, models, len(compared)))
    return pa.RecordBatch.from_pydict(columns)


def _won(packed: list[tuple[Any, ...]], models: list[str], n_values: int) -> dict[int, npt.NDArray[np.int64]]:
    """By bucket: how many users each model wins against each other one, by each number that is compared."""
    found = {}
    for bucket, rows in groupby(packed, key=itemgetter(0)) if n_values else ():  # rows lie bucket by bucket
        users = {model: [np.empty(0, np.int64)] for model in models}
        values = {model: [np.empty((0, n_values), np.float32)] for model in models}
        for _, model, _, keys, numbers in rows:
            if keys is not None:
                users[model].append(np.frombuffer(keys, np.int64))
                values[model].append(np.frombuffer(numbers, np.float32).reshape(-1, n_values))
        found[bucket] = wins([np.concatenate(users[m]) for m in models], [np.concatenate(values[m]) for m in models], n_values)
    return found


def _wins_column(
    models: list[str], rows: npt.NDArray[Any], model_of: npt.NDArray[Any], duels: npt.NDArray[Any], won: dict[int, npt.NDArray[np.int64]]
) -> pa.Array:
    """Of each row: the users that its model wins against each other model; NULL but for the first stratum of a model's cell and bucket."""
    first = np.ones(rows.size, np.bool_)
    first[1:] = (rows["cell"][1:] != rows["cell"][:-1]) | (rows["bucket"][1:] != rows["bucket"][:-1]) | (model_of[1:] != model_of[:-1])
    has = first & (duels[rows["cell"]] >= 0)
    n = len(models)
    offsets = np.concatenate([[0], np.cumsum(np.where(has, n - 1, 0))]).astype(np.int32)
    rivals = np.array([[j for j in range(n) if j != i] for i in range(n)], np.int64).reshape(n, n - 1)
    names = rivals[model_of[has]].reshape(-1)
    counts = np.array(
        [won[b][i, rivals[i], d] for b, i, d in zip(rows["bucket"][has], model_of[has], duels[rows["cell"][has]], strict=True)], np.int64
    )
    keys = pa.array(models, pa.string()).take(pa.array(names, pa.int64()))
    return pa.MapArray.from_arrays(pa.array(offsets), keys, pa.array(counts.reshape(-1)), mask=pa.array(~has))


def _decimals(whole: npt.NDArray[np.int64], part: npt.NDArray[np.int64]) -> pa.Array:
    """whole + part / 1e12 as DECIMAL(38, 12), exactly."""
    bits = np.empty((whole.size, 2), np.int64)
    bits[:, 0] = whole * LIMB + part  # the lower 64 of 128 bits, where they are enough
    bits[:, 1] = bits[:, 0] >> np.int64(63)
    for n in np.flatnonzero(np.abs(whole) >= LARGEST_SUM // SCALE):
        bits[n] = np.frombuffer((int(whole[n]) * SCALE + int(part[n])).to_bytes(16, "little", signed=True), np.int64)
    return pa.Array.from_buffers(pa.decimal128(38, 12), whole.size, [None, pa.py_buffer(bits)])


def rank_facts_of(labels: Mapping[str, pa.Array], candidates: pa.Array, scored: pa.Array) -> RankFacts:
    """The labels of one source, its lists by name, as flat arrays; without scores."""
    lengths = pc.list_value_length(labels["above"]).fill_null(0).to_numpy(zero_copy_only=False)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    columns = {name: labels[name].flatten() for name in FACTS}
    if columns["above"].null_count:  # labels without a score, of a partial list: below all that have one, nobody knows where
        least = pa.array(np.repeat(scored.to_numpy(zero_copy_only=False), lengths), pa.int32())
        columns |= {"above": columns["above"].fill_null(least), "tied": columns["tied"].fill_null(UNKNOWN)}
    value, above, tied, probability = (column.to_numpy(zero_copy_only=False) for column in columns.values())
    known = probability if probability.size else None
    return RankFacts(offsets, value, np.empty(0, np.float32), above, tied, candidates.to_numpy(zero_copy_only=False), known)
