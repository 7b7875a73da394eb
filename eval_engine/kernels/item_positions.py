"""The catalogue position of each row of a long score table, from its item id.

A hash table with open addressing and at least four slots per item: a lookup nearly always takes one probe, and lookups
of different rows do not depend on each other. Items that are not in the catalogue get -1.
"""

from typing import NamedTuple

import numpy as np

from eval_engine.kernels.arrays import Ints
from eval_engine.kernels.compiled import compiled

MIX = np.uint64(0x9E37_79B9_7F4A_7C15)  # 2^64 / golden ratio: consecutive ids get slots far from each other


class Catalogue(NamedTuple):
    """Item ids by position, and the hash table from id to position."""

    ids: Ints  # int64 (n_items,)
    slots: Ints  # int32: position, -1 where free
    shift: np.uint64


def catalogue_of(ids: Ints) -> Catalogue:
    """The lookup table of distinct ids."""
    ids = np.ascontiguousarray(ids, np.int64)
    bits = int(max(4, np.ceil(np.log2(max(1, ids.size) * 4))))
    slots = np.full(1 << bits, -1, np.int32)
    shift = np.uint64(64 - bits)
    _fill(ids, slots, shift)
    return Catalogue(ids, slots, shift)


def positions_of(catalogue: Catalogue, items: Ints) -> Ints:
    """Position (int32) of each item, -1 if it is not in the catalogue."""
    positions = np.empty(items.size, np.int32)
    _look_up(catalogue.ids, catalogue.slots, catalogue.shift, np.ascontiguousarray(items, np.int64), positions)
    return positions


def in_order(catalogue: Catalogue, items: Ints) -> bool:
    """Whether the items are the whole catalogue in its order, once or several times in a row."""
    n = catalogue.ids.size
    return (
        n > 0
        and items.size % n == 0
        and bool(_in_order(catalogue.ids, np.ascontiguousarray(items, np.int64).reshape(-1, n)))
    )


@compiled
def _in_order(ids, items):  # type: ignore[no-untyped-def]
    for u in range(items.shape[0]):
        row, wrong = items[u], 0
        for j in range(ids.size):  # no branch, so that LLVM vectorises the comparisons
            wrong += row[j] != ids[j]
        if wrong:
            return False
    return True


@compiled
def _fill(ids, slots, shift):  # type: ignore[no-untyped-def]
    last = np.uint64(slots.size - 1)
    for position in range(ids.size):
        slot = (np.uint64(ids[position]) * MIX) >> shift
        while slots[slot] >= 0:
            slot = (slot + np.uint64(1)) & last
        slots[slot] = position


@compiled
def _look_up(ids, slots, shift, items, positions):  # type: ignore[no-untyped-def]
    last = np.uint64(slots.size - 1)
    for row in range(items.size):
        item = items[row]
        slot = (np.uint64(item) * MIX) >> shift
        position = slots[slot]
        while position >= 0 and ids[position] != item:
            slot = (slot + np.uint64(1)) & last
            position = slots[slot]
        positions[row] = position
