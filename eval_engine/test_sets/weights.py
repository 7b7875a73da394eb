# ruff: noqa: PT028 test_set_weights is no test
"""The sampling weights of pairs, from arrays in memory: eval_engine.test_set_weights."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from eval_engine.errors import ConfigError, DataError
from eval_engine.test_sets.draw import bad_weight, id_array
from eval_engine.test_sets.factors import LARGEST, LEAST, Counts, Doubles, Totals, item_factors, user_factors
from eval_engine.test_sets.strategies import Weighing, weighing_of


class TestSetWeights(NamedTuple):
    """Counts of pairs, from which weights follow."""

    weighing: Weighing
    train: tuple[pa.Array, pa.Array]
    random: tuple[pa.Array, pa.Array] | None
    n_users: int
    n_items: int

    def of(self, users: npt.ArrayLike, items: npt.ArrayLike) -> Doubles:
        """The weight of each pair; 0: it cannot be drawn."""
        own = id_array(users, "users"), id_array(items, "items")
        if len(own[0]) != len(own[1]):
            raise ValueError(f"users and items must have one entry for each pair, found {len(own[0])}, {len(own[1])}")
        factors = []
        for n, (ids, of, size) in enumerate(
            ((own[0], user_factors, self.n_users), (own[1], item_factors, self.n_items))
        ):
            counts = Counts(count_of(ids, self.train[n]), None if not self.random else count_of(ids, self.random[n]))
            n_random = len(self.random[n]) if self.random else 0
            factors.append(of(self.weighing, counts, Totals(len(self.train[n]), n_random, size)))
        with np.errstate(over="ignore"):
            weights: Doubles = factors[0] * factors[1]
        bad = (factors[0] > 0) & (factors[1] > 0) & ~((weights >= LEAST) & (weights <= LARGEST))
        if bad.any():
            first = int(np.argmax(bad))
            raise bad_weight(
                self.weighing.strategy, int(bad.sum()), own[0][first].as_py(), own[1][first].as_py(), weights[first]
            )
        return weights


def test_set_weights(
    train_users: npt.ArrayLike,
    train_items: npt.ArrayLike,
    strategy: str,
    random: tuple[npt.ArrayLike, npt.ArrayLike] | None = None,
    zero_support: str = "laplace",
    exponent: float = 2,
    n_users: int | None = None,
    n_items: int | None = None,
) -> TestSetWeights:
    """The weights of a strategy, from training pairs and, for WTD, a random sample: test_sets/strategies.py.

    n_users, n_items: how many there are; left out: those of the training pairs and the random sample. They matter only
    to WTD_H with zero_support: missing_is_one.

    >>> test_set_weights([1, 1, 2], [7, 8, 7], "SKEW").of([1, 2, 2], [7, 8, 9]).tolist()
    [0.3333333333333333, 0.5, 1.0]
    """
    weighing = weighing_of(strategy, zero_support, exponent)
    if weighing.strategy == "CAP":
        raise ConfigError("strategy CAP has no weights: cap_test_set(users, items, seed) gives its pairs.")
    if weighing.strategy == "WTD" and random is None:
        raise ConfigError(
            "strategy WTD takes the marginals of a random sample: give random=(users, items), or use WTD_H."
        )
    train = id_array(train_users, "train_users"), id_array(train_items, "train_items")
    if len(train[0]) != len(train[1]):
        raise ValueError(
            f"train_users and train_items must have one entry for each pair, found {len(train[0])}, {len(train[1])}"
        )
    if not len(train[0]):
        raise DataError("training pairs: there are none, so that nothing can be weighed.")
    sample = None if random is None else (id_array(random[0], "random users"), id_array(random[1], "random items"))
    if weighing.strategy == "WTD" and sample is not None and not len(sample[0]):
        raise DataError("random sample: it has no pairs, so that WTD has no target. Give one, or use WTD_H.")
    known = [len(pc.unique(pa.concat_arrays([train[n], *([sample[n]] if sample else [])]))) for n in (0, 1)]
    sizes = [own if given is None else given for own, given in zip(known, (n_users, n_items), strict=True)]
    return TestSetWeights(weighing, train, sample, *sizes)


test_set_weights.__test__ = False  # type: ignore[attr-defined]  # pytest takes a function of this name for a test


def count_of(ids: pa.Array, among: pa.Array) -> npt.NDArray[np.int64]:
    """How often each id is among others."""
    found = pc.value_counts(among)
    place = pc.index_in(ids.cast(found.field("values").type), found.field("values")).fill_null(-1)
    counts = np.append(found.field("counts").to_numpy(), 0)
    numbers: npt.NDArray[np.int64] = counts[place.to_numpy(zero_copy_only=False)]
    return numbers
