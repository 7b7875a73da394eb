"""Test sets in an evaluation: each draw is a slice of held-out pairs, `test_set=NAME.DRAW`, of the estimator
`test_set`.

The pairs of a slice follow from the rule of the set, where the pair is (test_sets/rule.py). The statistics have a row
for each draw; estimates, comparisons and agreement have one for each set, test_set(NAME), over its draws
(estimators/test_set.py).
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from eval_engine.estimators.test_set import TEST_SET, combine_draws
from eval_engine.evaluation.spec import LabelledPairs, Slicing
from eval_engine.evaluation.strata import Linear, Sums
from eval_engine.kernels.arrays import Ints
from eval_engine.statistics.bucket_sums import N_COARSE
from eval_engine.statistics.paired import Paired
from eval_engine.test_sets.rule import CountTables, PairBatch, SetRule, masks

Doubles = npt.NDArray[np.floating[Any]]
SLICING = "test_set"


class DrawSlices(NamedTuple):
    """The rule of the slicing: which draws a pair is in."""

    rules: tuple[SetRule, ...]
    tables: CountTables

    @property
    def label_set(self) -> str:
        """The pairs are held-out ones."""
        return "heldout"

    @property
    def needs_items(self) -> bool:
        """Keys are of user and item."""
        return True

    def codes(self, pairs: LabelledPairs) -> Ints:
        """The number of each draw that a pair is in, (n_draws, n_pairs); -1 where it is not."""
        user_of = np.repeat(np.arange(len(pairs.users)), np.diff(pairs.offsets))
        inside = masks(PairBatch(pairs.users, pairs.items, self.tables, user_of), self.rules)
        return np.where(inside, np.arange(len(self.rules))[:, None], -1)


def slicing_of(rules: Sequence[SetRule], tables: CountTables) -> Slicing:
    """The slicing of all draws of all sets."""
    names = tuple(f"{rule.name}.{rule.draw}" for rule in rules)
    return Slicing(SLICING, "pair", 0, names, DrawSlices(tuple(rules), tables), frozenset({TEST_SET.name}))


class OfSet(NamedTuple):
    """The values of a test set."""

    name: str  # test_set(wtd_h)
    linear: Linear
    sd: Doubles  # of each model over draws
    slices: tuple[str, ...]  # of its draws


def sets_in(slices: Sequence[str]) -> dict[str, list[str]]:
    """The test sets among slices: by name, the slices of their draws in order.

    >>> sets_in(["all", "test_set=reg.1", "test_set=reg.0", "category=toys"])
    {'reg': ['test_set=reg.0', 'test_set=reg.1']}
    """
    found: dict[str, list[tuple[int, str]]] = {}
    for one in slices:
        if one.startswith(f"{SLICING}="):
            name, _, draw = one.removeprefix(f"{SLICING}=").rpartition(".")
            found.setdefault(name, []).append((int(draw), one))
    return {name: [one for _, one in sorted(draws)] for name, draws in sorted(found.items())}


def combined_set(name: str, draws: Sequence[str], models: Sequence[str], sums: Mapping[str, Sums]) -> OfSet:
    """One metric over the draws of a set. sums: of the estimator test_set, by slice and model."""
    shape = len(models), len(draws), N_COARSE
    a, b = np.zeros(shape), np.zeros(shape)
    for d, one in enumerate(draws):
        for m, model in enumerate(models):
            numerators, denominators, unknown = sums[one][model]
            a[m, d], b[m, d] = np.where(unknown, np.nan, numerators), denominators
    found = combine_draws(a, b)
    units = int((b > 0).any(axis=(0, 1)).sum())
    linear = Linear(Paired(found.values, found.errors, units))
    return OfSet(f"{TEST_SET.name}({name})", linear, found.sd, tuple(draws))
