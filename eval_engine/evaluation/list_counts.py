"""Counts of items in users' top lists: the counts of a task, and their aggregation over tasks.

Items are sent by bucket of their hash, so that the counts of a bucket are added up in one task. The result is a
histogram: the number of the bucket's items by how often they were recommended. Its size is at most of the order of the
square root of the number of recommendations, and it suffices for coverage and the Gini index.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eval_engine.estimators.user_batch import TopLists
from eval_engine.evaluation.packed_rows import EVERYTHING, ITEMS, ROW
from eval_engine.evaluation.spec import EvaluationSpec
from eval_engine.kernels.arrays import Ints
from eval_engine.kernels.user_totals import counts_within
from eval_engine.statistics.bucket_sums import N_BUCKETS, add_denominators, bucket_of, no_sums

MOST_PENDING = 1 << 22  # items and counts that are held before they are added up


def list_cutoffs(spec: EvaluationSpec) -> list[int]:
    """The cutoffs of the metrics of lists, each once."""
    return sorted({metric.k for _, _, metric in spec.lists()})


class ListCounts:
    """The running counts of one model in a task."""

    def __init__(self, model: str, spec: EvaluationSpec) -> None:
        self._model, self._cutoffs = model, list_cutoffs(spec)
        self._users = no_sums(N_BUCKETS)
        self._items: Ints = np.empty(0, np.int64)
        self._counts: Ints = np.empty((len(self._cutoffs), 0), np.int64)
        self._pending: list[tuple[Ints, Ints]] = []

    def add(self, bucket: Ints, top: TopLists) -> None:
        """Add users with their top lists."""
        add_denominators(self._users, (np.diff(top.offsets) > 0).astype(np.float64), bucket)
        number, keys = top.number, top.keys
        if number is None or keys is None:
            encoded = pa.array(top.items).dictionary_encode()
            number, keys = encoded.indices.to_numpy(), encoded.dictionary.to_numpy()
        counts = counts_within(top.offsets, number, keys.size, np.array(self._cutoffs))
        some = counts.any(axis=0)
        self._pending.append((keys[some], counts[:, some]))
        if sum(counts.size for _, counts in self._pending) > MOST_PENDING:
            self._merge()

    def _merge(self) -> None:
        self._items, self._counts = added_counts([(self._items, self._counts), *self._pending], len(self._cutoffs))
        self._pending = []

    def rows(self, group: int) -> npt.NDArray[Any]:
        """The number of users with a list, by bucket, as rows of ROW."""
        some = np.flatnonzero(self._users.counts.any(axis=1))
        found = np.empty(some.size, ROW)
        found["bucket"], found["cell"], found["slice"], found["stratum"] = some, -1 - group, EVERYTHING, -1
        for name, values in zip(("counts", "whole", "part"), self._users, strict=True):
            found[name] = values[some]
        return found

    def packed(self) -> tuple[Ints, str, list[None], list[bytes], list[bytes]]:
        """The counts by bucket of items: bucket, model, an empty field, items, counts."""
        self._merge()
        bucket = bucket_of(self._items)
        order = np.argsort(bucket, kind="stable")
        buckets, starts = np.unique(bucket[order], return_index=True)
        parts = np.split(order, starts[1:])[: buckets.size]
        items, counts = [self._items[p].tobytes() for p in parts], [self._counts[:, p].tobytes() for p in parts]
        return buckets + ITEMS, self._model, [None] * len(parts), items, counts


def added_counts(parts: Iterable[tuple[Ints, Ints]], n_cutoffs: int) -> tuple[Ints, Ints]:
    """Items, and their counts at each cutoff, (n_cutoffs, n_items), over all parts."""
    parts = list(parts)
    items, which = np.unique(np.concatenate([items for items, _ in parts]), return_inverse=True)
    counts = np.zeros((n_cutoffs, items.size), np.int64)
    for n in range(n_cutoffs):
        np.add.at(counts[n], which.reshape(-1), np.concatenate([counts[n] for _, counts in parts]))
    return items, counts


def histograms(parts: list[tuple[bytes, bytes]], n_cutoffs: int) -> list[dict[int, int]]:
    """For each cutoff: the number of items of a bucket by how often they were recommended."""
    read = [
        (np.frombuffer(items, np.int64), np.frombuffer(counts, np.int64).reshape(n_cutoffs, -1))
        for items, counts in parts
    ]
    _, counts = added_counts(read, n_cutoffs)
    found = []
    for row in counts:
        times, items = np.unique(row[row > 0], return_counts=True)
        found.append(dict(zip(times.tolist(), items.tolist(), strict=True)))
    return found
