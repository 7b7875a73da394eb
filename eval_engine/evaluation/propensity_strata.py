"""Strata of the propensity of held-out pairs: their edges, their rows of the table `strata`, and the slices of pairs
that they are.

power, power_legacy              edges from the distinct propensities of items and their held-out pairs
naive_bayes, logistic, logged    edges from histograms of the propensities of all held-out pairs (propensity/
                                 strata_search.py), read from the ranks of one model: all models rank the same pairs.
                                 A few Spark jobs, whatever the numbers of pairs and strata
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, NamedTuple, cast

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from eval_engine.estimators.ips import SNIPS
from eval_engine.evaluation.model_ranks import ModelRanks
from eval_engine.evaluation.pair_propensities import pair_propensities
from eval_engine.evaluation.spec import EvaluationSpec, LabelledPairs, PropensityRule, Slicing, Strata
from eval_engine.evaluation.statistics_plan import (
    FACTS,
    FRAME,
    rank_facts_of,
)
from eval_engine.kernels.arrays import Ints
from eval_engine.kernels.xxhash64 import xxhash64
from eval_engine.metric import Metric
from eval_engine.positive import Positive
from eval_engine.propensity.strata import Doubles, Kind, strata_edges, strata_of
from eval_engine.propensity.strata_search import Bins, added, bins_of, search_edges
from eval_engine.spark.worker_process import prepare_worker
from eval_engine.spark.worker_types import Worker
from eval_engine.statistics.bucket_sums import LIMB
from eval_engine.statistics.ratio import SCALE

HELDOUT = "heldout"
AT_ONCE = 1 << 20  # pairs whose sums of 1 / propensity are added at once: their rests stay far below the end of int64
MASK_BITS = 62  # strata in one column of the strata of an item
BINS = pa.schema([("key", pa.int64()), ("n", pa.int64()), ("low", pa.float64()), ("high", pa.float64())])
SIZES = pa.schema([("code", pa.int64()), *list(BINS)[1:], ("whole", pa.int64()), ("part", pa.int64())])


class StratumRule(NamedTuple):
    """The stratum of each held-out pair, from its propensity."""

    edges: tuple[float, ...]  # upper ones of all strata but the last
    label_set: str = HELDOUT
    needs_items: bool = False

    def codes(self, pairs: LabelledPairs) -> Ints:
        """Strata from 0, (1, n_pairs)."""
        assert pairs.propensity is not None
        return (strata_of(pairs.propensity, self.edges) - 1)[None]


class StratumSizes(NamedTuple):
    """How much is in each of some strata, (n,)."""

    n_items: Ints
    n_pairs: Ints
    low: Doubles  # least propensity of its pairs; not used without any
    high: Doubles
    inverse: Doubles  # sum of 1 / propensity of its pairs


class PropensityStrata(NamedTuple):
    """The strata of a run."""

    strata: tuple[Strata, ...]
    slicings: tuple[Slicing, ...]  # one for each of them
    rows: tuple[dict[str, Any], ...]  # of the table `strata`, without run_id


NO_STRATA = PropensityStrata((), (), ())


def strata_of_items(items: DataFrame, asked: Sequence[Strata]) -> PropensityStrata:
    """Of items with a propensity each, from the table propensities: one Spark job."""
    counts = (
        items.where("propensity IS NOT NULL")
        .groupBy("propensity")
        .agg(F.count(F.lit(1)).alias("items"), F.sum("heldout").alias("pairs"))
        .orderBy("propensity")
        .collect()
    )
    p, n_items, n_pairs = (np.array([row[name] for row in counts]) for name in ("propensity", "items", "pairs"))
    edges, sizes = [], []
    for one in asked:
        edges.append(strata_edges(p, n_pairs, one.n, cast(Kind, one.kind)))
        of_item = strata_of(p, edges[-1])
        inside = [(of_item == x, (of_item == x) & (n_pairs > 0)) for x in range(1, one.n + 1)]
        sizes.append(
            StratumSizes(
                np.array([n_items[every].sum() for every, _ in inside]),
                np.array([n_pairs[mine].sum() for _, mine in inside]),
                np.array([p[mine].min(initial=np.inf) for _, mine in inside]),
                np.array([p[mine].max(initial=-np.inf) for _, mine in inside]),
                np.array([(n_pairs[mine] / p[mine]).sum() for _, mine in inside]),
            )
        )
    return _made(asked, edges, sizes)


def _made(asked: Sequence[Strata], edges: Sequence[Doubles], sizes: Sequence[StratumSizes]) -> PropensityStrata:
    slicings, rows = [], []
    for one, own, size in zip(asked, edges, sizes, strict=True):
        names = tuple(f"Q{x}" for x in range(1, one.n + 1))
        slicings.append(Slicing(one.slicing, "pair", -1, names, StratumRule(tuple(own.tolist()))))
        for name, n_items, n_pairs, low, high, inverse in zip(names, *size, strict=True):
            rows.append(
                {
                    "strata": one.slicing,
                    "stratum": name,
                    "low": float(low) if n_pairs else None,
                    "high": float(high) if n_pairs else None,
                    "n_items": int(n_items),
                    "n_pairs": int(n_pairs),
                    "inverse_propensity": float(inverse),
                }
            )
    return PropensityStrata(tuple(asked), tuple(slicings), tuple(rows))


class HeldoutPairs:
    """The held-out pairs of one model's ranks."""

    def __init__(self, ranks: ModelRanks, rule: PropensityRule) -> None:
        self._ranks = ranks
        metrics = (Metric.parse("recall@1"),)
        self._spec = EvaluationSpec(metrics, (), Positive(">", 0.0), "expected", (HELDOUT,), (SNIPS,), propensity=rule)

    def bins(self, level: int, divided: Ints) -> Bins:
        """One histogram of the propensities of all pairs; one Spark job."""
        spec = self._spec

        def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            prepare_worker()
            bins = added(bins_of(p, level, divided) for p, _ in _propensities(batches, spec))
            yield pa.RecordBatch.from_arrays([pa.array(column) for column in bins], schema=BINS)

        return Bins(*self._merged(run, BINS, "key"))

    def sizes(self, edges: Sequence[Doubles]) -> list[StratumSizes]:
        """What is in the strata with these edges; two Spark jobs."""
        firsts, spec = np.cumsum([0, *(own.size + 1 for own in edges)]), self._spec

        def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            prepare_worker()
            parts = (
                _sizes_of(p[start : start + AT_ONCE], edges, firsts)
                for p, _ in _propensities(batches, spec)
                for start in range(0, p.size, AT_ONCE)
            )
            columns = _summed(parts, int(firsts[-1]))
            yield pa.RecordBatch.from_arrays([pa.array(column) for column in columns], schema=SIZES)

        code, n, low, high, whole, part = self._merged(run, SIZES, "code")
        n_items = self._items(edges, firsts)
        n_pairs, least, largest = np.zeros(firsts[-1], np.int64), np.zeros(firsts[-1]), np.zeros(firsts[-1])
        inverse = np.zeros(firsts[-1])
        n_pairs[code], least[code], largest[code] = n, low, high
        inverse[code] = [(w * SCALE + r) / SCALE for w, r in zip(whole.tolist(), part.tolist(), strict=True)]
        columns: tuple[Any, ...] = (n_items, n_pairs, least, largest, inverse)
        return [StratumSizes(*(column[start:end] for column in columns)) for start, end in pairwise(firsts.tolist())]

    def _items(self, edges: Sequence[Doubles], firsts: Ints) -> Ints:
        """The number of items with a pair in each stratum: the strata of an item are bits of a few integers."""
        n_masks = -(-int(firsts[-1]) // MASK_BITS)
        names = [f"mask_{n}" for n in range(n_masks)]
        schema = pa.schema([("item", pa.int64()), *((name, pa.int64()) for name in names)])
        spec = replace(self._spec, slicings=(Slicing("items", "pair", -1, (), StratumRule((), needs_items=True)),))

        def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            prepare_worker()
            items, masks = np.empty(0, np.int64), np.empty((n_masks, 0), np.int64)
            for p, keys in _propensities(batches, spec):
                assert keys is not None
                own = np.zeros((n_masks, p.size), np.int64)
                for strata, first in zip(edges, firsts, strict=False):
                    code = first + strata_of(p, strata) - 1
                    own[code // MASK_BITS, np.arange(p.size)] |= np.int64(1) << (code % MASK_BITS)
                items, place = np.unique(np.concatenate([items, keys]), return_inverse=True)
                every = np.concatenate([masks, own], axis=1)
                masks = np.zeros((n_masks, items.size), np.int64)
                for mask, bits in zip(masks, every, strict=True):
                    np.bitwise_or.at(mask, place, bits)
            yield pa.RecordBatch.from_arrays([pa.array(column) for column in (items, *masks)], schema=schema)

        places = [divmod(code, MASK_BITS) for code in range(int(firsts[-1]))]
        if self._ranks.in_process:
            table = self._ranks.here(run, spec, schema)
            columns = [table.column(name).to_numpy() for name in names]
            return np.array([((columns[mask] >> bit) & 1).sum() for mask, bit in places], np.int64)
        rows = self._ranks.by_tasks(run, spec, schema)
        of_item = rows.groupBy("item").agg(*(F.bit_or(name).alias(name) for name in names))
        bits = [
            F.sum(F.shiftright(names[mask], bit).bitwiseAND(F.lit(1))).alias(f"n_{number}")
            for number, (mask, bit) in enumerate(places)
        ]
        (counts,) = of_item.agg(*bits).collect()
        return np.array([counts[f"n_{number}"] or 0 for number in range(len(places))], np.int64)

    def _merged(self, run: Worker, schema: pa.Schema, key: str) -> list[Any]:
        """Rows of all tasks with the same key as one: the least `low`, the largest `high`, else sums; by key."""
        how = {"low": "min", "high": "max"}
        names = [name for name in schema.names if name != key]
        if self._ranks.in_process:
            table = self._ranks.here(run, self._spec, schema)
        else:
            rows = self._ranks.by_tasks(run, self._spec, schema).groupBy(key)
            merged = rows.agg(*(getattr(F, how.get(name, "sum"))(name).alias(name) for name in names))
            table = pa.Table.from_pylist([row.asDict() for row in merged.collect()], schema)
        return [column.to_numpy() for column in table.sort_by(key).columns]


def _propensities(batches: Iterator[pa.RecordBatch], spec: EvaluationSpec) -> Iterator[tuple[Doubles, Ints | None]]:
    """The propensities of the held-out pairs of some rows, and the keys of their items where these are read."""
    assert spec.propensity is not None
    for rows in batches:
        facts = rank_facts_of(
            {field: rows.column(f"{HELDOUT}_{field}") for field in FACTS},
            *(rows.column(f"{HELDOUT}_{count}") for count in FRAME),
        )
        ids = rows.column(f"{HELDOUT}_items").flatten() if HELDOUT in spec.item_sets() else None
        p = pair_propensities(rows, spec.propensity, facts, ids).of[HELDOUT]
        yield p, None if ids is None else xxhash64(ids)


def _sizes_of(p: Doubles, edges: Sequence[Doubles], firsts: Ints) -> tuple[Any, ...]:
    """Code, 1, propensity twice, and 1 / propensity as whole part and rest, of each pair in each of its strata."""
    inverse = 1 / p
    whole = np.floor(inverse)
    part = np.rint((inverse - whole) * SCALE).astype(np.int64)
    codes = np.concatenate([first + strata_of(p, own) - 1 for own, first in zip(edges, firsts, strict=False)])
    own = (np.ones(p.size, np.int64), p, p, whole.astype(np.int64), part)
    return codes, *(np.tile(column, len(edges)) for column in own)


def _summed(parts: Iterator[tuple[Any, ...]], n: int) -> tuple[Any, ...]:
    """Columns of SIZES of some pairs."""
    counts, whole, part = (np.zeros(n, np.int64) for _ in range(3))
    low, high = np.full(n, np.inf), np.full(n, -np.inf)
    for code, ones, p, _, wholes, rests in parts:
        np.add.at(counts, code, ones)
        np.minimum.at(low, code, p)
        np.maximum.at(high, code, p)
        np.add.at(whole, code, wholes)
        np.add.at(part, code, rests)
        whole, part = whole + part // LIMB, part % LIMB
    some = np.flatnonzero(counts)
    return some, counts[some], low[some], high[some], whole[some], part[some]


def strata_of_pairs(pairs: HeldoutPairs, asked: Sequence[Strata]) -> PropensityStrata:
    """Of propensities of pairs: at most seven Spark jobs."""
    edges = search_edges(pairs.bins, [(cast(Kind, one.kind), one.n) for one in asked])
    return _made(asked, edges, pairs.sizes(edges))
