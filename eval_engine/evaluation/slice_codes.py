"""The slices of the users of a batch and of their labelled pairs, as numbers in EvaluationSpec.slice_names.

A slicing of users or items is a column of a table (keyed_table.py); one of pairs is a rule (spec.PairRule).
"""

from collections.abc import Mapping
from itertools import accumulate
from typing import Any

import numpy as np
import pyarrow as pa

from eval_engine.estimators.labelled import Labelled
from eval_engine.estimators.user_batch import LabelSet, Propensities
from eval_engine.evaluation.spec import EvaluationSpec, LabelledPairs, Slicing
from eval_engine.kernels.arrays import Bools, Ints
from eval_engine.kernels.slice_order import SliceOrder, slice_order
from eval_engine.kernels.xxhash64 import xxhash64
from eval_engine.storage.keyed_table import loaded


class SliceCodes:
    """The slices of some users and of their positives."""

    def __init__(
        self, users: Ints, positives: Mapping[str, Mapping[int, Ints]] | None = None, pairs: Ints | None = None
    ) -> None:
        """users: (n_slicings of users, n_users). positives: by label set and number of the slicing, (n, n_positives),
        -1 for none. pairs: strata of propensity of all held-out pairs, (n_strata, n_pairs).
        """
        self.users, self.pairs = users, pairs
        self._positives = positives or {}
        self._orders: dict[tuple[str, tuple[int, ...]], SliceOrder] = {}
        self._classes: dict[tuple[str, int], Ints] = {}

    def classes(self, label_set: str, slicing: int, numbers: Mapping[int, int]) -> Ints:
        """The number of each positive's class, by the code of its slice in a slicing of items; -1 for other codes.
        numbers: the same at every call.
        """
        key = label_set, slicing
        if key not in self._classes:
            codes = self._positives[label_set][slicing][0]
            table = np.full(max([*numbers, int(codes.max(initial=0))], default=0) + 1, -1)
            table[list(numbers)] = list(numbers.values())
            self._classes[key] = table[codes]
        return self._classes[key]

    def order(self, view: Labelled, slicings: tuple[int, ...]) -> SliceOrder:
        """The positives of a view by user and slice of some slicings: the same for every view of a label set."""
        key = view.label_set, slicings
        if key not in self._orders:
            own = self._positives.get(view.label_set, {})
            parts = [own[number] for number in slicings if number in own]
            codes = np.concatenate(parts) if parts else np.empty((0, view.above.size), np.int64)
            self._orders[key] = slice_order(view.offsets, codes)
        return self._orders[key]


def slice_codes(
    rows: pa.RecordBatch,
    spec: EvaluationSpec,
    labels: Mapping[str, LabelSet],
    items: Mapping[str, pa.Array],
    propensities: Propensities | None,
) -> SliceCodes:
    """The slices of the users of some rows and of their positives. items: of the pairs of each label set."""
    of_users: list[Ints] = []
    of_items: dict[str, dict[int, Ints]] = {name: {} for name in labels}
    of_pairs: list[Ints] = []
    strata = {one.slicing for one in spec.strata}
    look_up = _Lookups(spec, xxhash64(rows.column("user_id")), labels, items)
    starts = accumulate((slicing.n_codes for slicing in spec.slicings), initial=0)
    for number, (slicing, first) in enumerate(zip(spec.slicings, starts, strict=False)):
        if slicing.of == "user":
            of_users.append(first + look_up.users(slicing))
        elif slicing.rule is not None:
            name = slicing.rule.label_set
            if name not in labels:
                continue
            own, positive = labels[name], _positives(labels[name])
            everything = slicing.name in strata
            chosen = np.ones(positive.size, np.bool_) if everything else positive
            codes = slicing.rule.codes(_pairs(rows, name, own, chosen, items, propensities))
            codes = np.where(codes < 0, -1, codes + first)
            of_items[name][number] = codes[:, positive] if everything else codes
            of_pairs += [codes] if everything else []
        else:
            for name in items:
                of_items[name][number] = (first + look_up.positives(slicing, name))[None]
    return SliceCodes(
        np.array(of_users, np.int64).reshape(-1, rows.num_rows),
        of_items,
        np.concatenate(of_pairs) if of_pairs else None,
    )


def _positives(own: LabelSet) -> Bools:
    return own.facts.value == 1 if own.positive is None else own.positive


def _pairs(
    rows: pa.RecordBatch,
    name: str,
    own: LabelSet,
    chosen: Bools,
    items: Mapping[str, pa.Array],
    propensities: Propensities | None,
) -> LabelledPairs:
    """The chosen pairs of a label set."""
    offsets = np.concatenate([[0], np.cumsum(chosen)])[own.facts.offsets]
    ids = items[name].filter(pa.array(chosen)) if name in items else pa.nulls(int(offsets[-1]))
    known = propensities.of.get(name) if propensities else None
    return LabelledPairs(rows.column("user_id"), offsets, ids, None if known is None else known[chosen])


class _Lookups:
    """Codes by column; the rows of users and items in a table are looked up once for all of its columns."""

    def __init__(
        self, spec: EvaluationSpec, users: Ints, labels: Mapping[str, LabelSet], items: Mapping[str, pa.Array]
    ) -> None:
        self._spec, self._users, self._labels, self._items = spec, users, labels, items
        self._rows: dict[tuple[Any, ...], Ints] = {}

    def users(self, slicing: Slicing) -> Ints:
        """The value of each user."""
        table = loaded(self._spec.user_tables[slicing.table])
        key = ("user", slicing.table)
        if key not in self._rows:
            self._rows[key] = table.rows(self._users)
        return table.codes(slicing.name, self._rows[key], slicing.n_codes - 1)

    def positives(self, slicing: Slicing, name: str) -> Ints:
        """The value of the item of each positive of a label set."""
        table = loaded(self._spec.item_tables[slicing.table])
        key = ("item", slicing.table, name)
        if key not in self._rows:
            positive = _positives(self._labels[name])
            ids = self._items[name] if positive.all() else self._items[name].filter(pa.array(positive))
            self._rows[key] = table.rows(xxhash64(ids))
        return table.codes(slicing.name, self._rows[key], slicing.n_codes - 1)
