"""A drawn test set as a rule that says of any pair whether it is in the set, where the pair is: nothing is joined.

    FULL                      every pair
    REG, SKEW, WTD, WTD_H     key > threshold, or key = threshold and hash <= threshold_hash       (keys.py)
    CAP                       hash <= the cap's hash of the item; items below the cap keep every pair

Hashes are compared as unsigned numbers. Factors of users and items come from tables of counts, which workers read from
files. What several sets share is computed once: hashes and logarithms for each seed, weights for each weighing.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eval_engine.kernels.arrays import Bools, Ints
from eval_engine.kernels.compiled import compiled
from eval_engine.kernels.xxhash64 import xxhash64
from eval_engine.storage.keyed_table import KeyedTable, loaded
from eval_engine.test_sets.factors import (
    LARGEST,
    LEAST,
    Counts,
    Doubles,
    Totals,
    item_factors,
    user_factors,
    without_support,
)
from eval_engine.test_sets.keys import Hashes, log_uniform, seed_hash
from eval_engine.test_sets.strategies import DRAWN, Weighing

TRAINED, RANDOM = "trained", "random"  # columns of the tables of counts
T = TypeVar("T", bound=np.generic)
SIGN = np.int64(-(2**63))
KEEP_ALL = np.iinfo(np.int64).max  # of a cap's hash, which has its sign bit flipped so that it is ordered as unsigned


class CountTables(NamedTuple):
    """Counts of users and items in files, and their totals."""

    users: KeyedTable
    items: KeyedTable  # also a column for each cap
    of_users: Totals
    of_items: Totals


class SetRule(NamedTuple):
    """One draw of a test set."""

    name: str
    draw: int
    weighing: Weighing
    seed: int
    threshold: float | None = None  # least key; None: FULL, CAP
    threshold_hash: int | None = None  # of the pair that has it, unsigned
    cap: str | None = None  # column of items: hash of the last pair that is kept, sign bit flipped

    @property
    def drawn(self) -> bool:
        """Whether it is drawn by weight."""
        return self.weighing.strategy in DRAWN


class Factors(NamedTuple):
    """The factors of all users and items of the tables, in their order, and whether they have support."""

    users: Doubles
    items: Doubles
    no_support_users: Bools
    no_support_items: Bools
    in_range: bool  # the weight of every pair that can be drawn is usable, whatever its user and item


@lru_cache(maxsize=16)
def factors_of(tables: CountTables, weighing: Weighing) -> Factors:
    """The factors by position, computed once per process; a last one, 0, for ids that are not in the tables."""
    found: list[Doubles] = []
    missing: list[Bools] = []
    for name, table, totals, of in (
        ("user", tables.users, tables.of_users, user_factors),
        ("item", tables.items, tables.of_items, item_factors),
    ):
        columns = loaded(table).columns
        counts = Counts(columns[TRAINED], columns[RANDOM])
        found.append(np.append(of(weighing, counts, totals), 0.0))
        missing.append(np.append(without_support(weighing, counts, name), False))
    ends = [x[x > 0] for x in found]
    in_range = all(x.size for x in ends)
    if in_range:
        with np.errstate(over="ignore", under="ignore"):
            low, high = ends[0].min() * ends[1].min(), ends[0].max() * ends[1].max()
        in_range = bool(low >= LEAST and high <= LARGEST)
    return Factors(found[0], found[1], missing[0], missing[1], in_range)


class Places(NamedTuple):
    """Pairs by the positions of their users and items in the tables; -1: not there."""

    users: Ints
    items: Ints


class PairBatch:
    """Some pairs, with what test sets need of them, each computed once."""

    def __init__(self, users: pa.Array, items: pa.Array, tables: CountTables, user_of: Ints | None = None) -> None:
        """users: of each pair; or, with user_of, users that the pairs name by number."""
        self._ids, self._items, self._user_of, self.tables = users, items, user_of, tables
        self._weights: dict[Weighing, Doubles] = {}
        self._hashes: dict[int, Hashes] = {}
        self._logs: dict[int, Doubles] = {}
        of_users = loaded(tables.users).rows(xxhash64(users))
        self.places = Places(self._each(of_users), loaded(tables.items).rows(xxhash64(items)))

    def _each(self, of_users: npt.NDArray[T]) -> npt.NDArray[T]:
        return of_users if self._user_of is None else of_users[self._user_of]

    def weights(self, weighing: Weighing) -> Doubles:
        """The weight of each pair."""
        if weighing not in self._weights:
            factors = factors_of(self.tables, weighing)
            with np.errstate(over="ignore"):
                self._weights[weighing] = factors.users[self.places.users] * factors.items[self.places.items]
        return self._weights[weighing]

    def hashes(self, seed: int) -> Hashes:
        """The hash of each pair."""
        if seed not in self._hashes:
            of_users = xxhash64(self._ids, np.full(len(self._ids), seed_hash(seed)))
            self._hashes[seed] = xxhash64(self._items, self._each(of_users))
        return self._hashes[seed]

    def log_uniform(self, seed: int) -> Doubles:
        """log(U) of each pair."""
        if seed not in self._logs:
            self._logs[seed] = log_uniform(self.hashes(seed))
        return self._logs[seed]

    def forget(self, seed: int) -> None:
        """Free what is kept for a seed."""
        self._hashes.pop(seed, None)
        self._logs.pop(seed, None)

    def inside(self, rule: SetRule) -> Bools:
        """Which pairs are in the set; a pair whose user or item is not in the tables is in none."""
        found = np.empty(self.places.items.size, np.bool_)
        if rule.drawn:
            assert rule.threshold is not None
            assert rule.threshold_hash is not None
            log_u, hashes = self.log_uniform(rule.seed), self.hashes(rule.seed)
            _reach(log_u, self.weights(rule.weighing), hashes, rule.threshold, np.uint64(rule.threshold_hash), found)
        elif rule.cap is not None:
            caps = capped(self.tables.items, rule.cap)
            np.less_equal(self.hashes(rule.seed) ^ SIGN, caps[self.places.items], out=found)
        else:
            found[:] = True
        found &= (self.places.users >= 0) & (self.places.items >= 0)
        return found


@lru_cache(maxsize=64)
def capped(items: KeyedTable, column: str) -> Ints:
    """The cap's hash of each item, and one more for items that are not in the table."""
    return np.append(loaded(items).columns[column], KEEP_ALL)


def masks(batch: PairBatch, rules: Sequence[SetRule]) -> Bools:
    """Which pairs are in each set, (n_sets, n_pairs): seed by seed."""
    found = np.empty((len(rules), batch.places.items.size), np.bool_)
    for seed in dict.fromkeys(rule.seed for rule in rules):
        for n, rule in enumerate(rules):
            if rule.seed == seed:
                found[n] = batch.inside(rule)
        batch.forget(seed)
    return found


@compiled
def _reach(log_u, weights, hashes, threshold, threshold_hash, found):  # type: ignore[no-untyped-def]
    for n in range(log_u.size):
        inside = False
        if weights[n] > 0:
            key = log_u[n] / weights[n]
            inside = key > threshold or (key == threshold and np.uint64(hashes[n]) <= threshold_hash)
        found[n] = inside
