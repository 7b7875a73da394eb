"""What a worker counts of the pairs of a task: pairs of each user and item that are surely drawn, the pairs in the
windows, fine histograms of the windows, and sums of weights.

Everything is a whole number, so that neither partitioning nor the order of pairs matters. Sums of weights keep 32 bits
of each weight, by its power of 2.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from eval_engine.kernels.compiled import compiled
from eval_engine.test_sets.keys import keys_of
from eval_engine.test_sets.rule import PairBatch, SetRule, factors_of
from eval_engine.test_sets.strategies import Weighing
from eval_engine.test_sets.window import FINE, Window, magnitudes

CANDIDATE = np.dtype([("user", "<i4"), ("item", "<i4"), ("set", "<i2"), ("magnitude", "<i8"), ("hash", "<u8")])
POWERS, MIDDLE = 4096, 2048  # powers of 2 of a weight and of its square


class WeightSummary(NamedTuple):
    """The weights of pairs that can be drawn."""

    n: int
    low: float
    high: float
    mean: float
    effective: float  # (sum w)^2 / sum w^2, in pairs


class WeightTally:
    """Weights of one weighing."""

    def __init__(self) -> None:
        self.sums = np.zeros((2, POWERS), np.int64)  # of w and of w^2, by power of 2
        self.counts = np.zeros(2, np.int64)  # pairs with a weight above 0; pairs without support
        self.ends = np.array([np.inf, 0.0])

    def merge(self, other: "WeightTally") -> None:
        """Add another worker's."""
        self.sums += other.sums
        self.counts += other.counts
        self.ends = np.array([min(self.ends[0], other.ends[0]), max(self.ends[1], other.ends[1])])

    def summary(self) -> WeightSummary:
        """Of all pairs; nan where there are none."""
        n = int(self.counts[0])
        if not n:
            return WeightSummary(0, math.nan, math.nan, math.nan, math.nan)
        shift = int(np.flatnonzero(self.sums[0])[-1])  # relative to the largest, so that squares do not overflow
        w = math.fsum(int(x) * 2.0 ** (p - shift - 32) for p, x in enumerate(self.sums[0].tolist()) if x)
        ww = math.fsum(int(x) * 2.0 ** (2 * (p - shift) - 32) for p, x in enumerate(self.sums[1].tolist()) if x)
        return WeightSummary(n, float(self.ends[0]), float(self.ends[1]), math.ldexp(w / n, shift - MIDDLE), w * w / ww)


class Tallies:
    """The running counts of one task."""

    def __init__(self, rules: Sequence[SetRule], windows: Sequence[Window | None], n_users: int, n_items: int) -> None:
        """windows: of the sets that are drawn by weight."""
        self.rules, self.windows = rules, windows
        self.users = np.zeros((n_users, len(rules) + 1), np.int32)  # by set; the last column: all pairs
        self.items = np.zeros((n_items, len(rules) + 1), np.int32)
        self.sure = np.zeros(len(rules), np.int64)
        self.fine = np.zeros((len(rules), 2 * FINE), np.int64)
        self.weights: dict[Weighing, WeightTally] = {}
        self.n_pairs = self.n_unknown = 0
        self.candidates: list[npt.NDArray[np.void]] = []

    def add(self, batch: PairBatch) -> None:
        """Add pairs; those whose user or item is not in the tables are only counted."""
        users, items = batch.places
        known = (users >= 0) & (items >= 0)
        self.n_unknown += int(known.size - known.sum())
        _count(users, items, known, self.users, self.items, len(self.rules))
        self.n_pairs += int(known.sum())
        for weighing in dict.fromkeys(rule.weighing for rule in self.rules):
            own = self.weights.setdefault(weighing, WeightTally())
            factors = factors_of(batch.tables, weighing)
            bare = factors.no_support_users[users] | factors.no_support_items[items]
            _add_weights(batch.weights(weighing), bare, known, own.sums, own.counts, own.ends)
        for seed in dict.fromkeys(rule.seed for rule in self.rules):
            for n, rule in enumerate(self.rules):
                if rule.seed == seed:
                    self._add_set(n, rule, batch, known)
            batch.forget(seed)

    def _add_set(self, n: int, rule: SetRule, batch: PairBatch, known: npt.NDArray[np.bool_]) -> None:
        users, items = batch.places
        window = self.windows[n]
        if window is None:
            inside = batch.inside(rule)
            _count(users, items, inside, self.users, self.items, n)
            self.sure[n] += int(inside.sum())
            return
        own = magnitudes(keys_of(batch.log_uniform(rule.seed), batch.weights(rule.weighing)))
        chosen = np.empty(own.size, np.int64)
        sure, n_chosen = _add_keys(
            own, users, items, known, window, window.shift, self.users, self.items, n, self.fine[n], chosen
        )
        self.sure[n] += sure
        some = chosen[:n_chosen]
        found = np.empty(n_chosen, CANDIDATE)
        found["user"], found["item"], found["set"] = users[some], items[some], n
        found["magnitude"], found["hash"] = own[some], batch.hashes(rule.seed)[some].view(np.uint64)
        self.candidates.append(found)


@compiled
def _count(users, items, chosen, of_users, of_items, column):  # type: ignore[no-untyped-def]
    for n in range(users.size):
        if chosen[n]:
            of_users[users[n], column] += 1
            of_items[items[n], column] += 1


@compiled
def _add_keys(own, users, items, known, window, shift, of_users, of_items, column, fine, chosen):  # type: ignore[no-untyped-def]
    low, high = window[0], window[1]
    sure, n_chosen = 0, 0
    for n in range(own.size):
        if own[n] > high or not known[n]:
            continue
        if own[n] < low:
            of_users[users[n], column] += 1
            of_items[items[n], column] += 1
            sure += 1
        else:
            fine[(own[n] - low) >> shift] += 1
            chosen[n_chosen] = n
            n_chosen += 1
    return sure, n_chosen


@compiled
def _add_weights(weights, bare, known, sums, counts, ends):  # type: ignore[no-untyped-def]
    for n in range(weights.size):
        if not known[n]:
            continue
        counts[1] += bare[n]
        w = weights[n]
        if w > 0:
            counts[0] += 1
            ends[0], ends[1] = min(ends[0], w), max(ends[1], w)
            m, p = math.frexp(w)
            sums[0, p + MIDDLE] += np.int64(m * 4294967296.0)
            sums[1, p + MIDDLE] += np.int64(m * m * 4294967296.0)
