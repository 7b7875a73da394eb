"""A batch of users under one model, as estimators see it: their labelled pairs by label set, their top lists, and
columns of items.

    random    randomly exposed pairs       designed  both arms of a design, with their probabilities
    heldout   logged pairs kept from training       truth   all candidates
    top       the items of the top lists, each a positive at its place (list_set)

Views are created once and shared by estimators: the sums of ure_macro, ure_micro and ure_mean are the same.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from eval_engine.estimators.labelled import NO_TABLE, ItemTable, Labelled
from eval_engine.kernels.arrays import Bools, Ints
from eval_engine.kernels.rank_facts import RankFacts
from eval_engine.kernels.user_totals import COLUMNS

Doubles = npt.NDArray[np.float64]


class LabelSet(NamedTuple):
    """The labelled pairs of one set: their places, which are positives, and their items."""

    facts: RankFacts
    positive: Bools | None = None  # default: those with value 1
    item: Ints | None = None  # of each pair: the row of its item in the item columns, -1 if missing
    key: Ints | None = None  # of each pair: a hash of user and item


class TopLists(NamedTuple):
    """The first items of each user's list, best first, by key."""

    offsets: Ints
    items: Ints  # xxhash64 of item_id
    number: Ints | None = None  # of each item in keys, where all of them are known
    keys: Ints | None = None  # xxhash64 of item_id


class ListItems(NamedTuple):
    """What popularity says of the users' lists."""

    table: ItemTable  # count, low, novelty of the items of the lists
    available: Doubles  # (n_classes, n_users): items of CLASSES that the user was not trained on


def popularity_columns(count: Doubles, low: Doubles, n_users: int) -> Doubles:
    """The columns of ListItems, (n_items + 1, COLUMNS); the last row is of items that are missing.

    count      training positives; NaN where missing
    low        1 of class low, else 0
    novelty    -log2((count + 1) / (users with a training positive + 1))
    """
    found = np.zeros((count.size + 1, COLUMNS))
    found[:, 0], found[:-1, 1] = np.append(count, np.nan), low
    found[:, 2] = -np.log2((found[:, 0] + 1) / (n_users + 1))
    return found


def list_items(row: Ints, popularity: Doubles, available: Doubles) -> ListItems:
    """row: of each item of the lists in `popularity_columns`, -1 where missing."""
    return ListItems(ItemTable(("count", "low", "novelty"), popularity, row), available)


class Propensities(NamedTuple):
    """The propensities of labelled pairs, by label set."""

    of: Mapping[str, Doubles]  # of each pair
    largest: float  # of all test pairs; 1 where propensities are never scaled
    floor: float  # of the estimator `clipped`, of scaled propensities


class UserBatch:
    """Some users under one model."""

    def __init__(
        self,
        labels: Mapping[str, LabelSet],
        cutoffs: Sequence[int] = (),
        top: TopLists | None = None,
        item: Mapping[str, Doubles] | None = None,
        propensities: Propensities | None = None,
        list_items: ListItems | None = None,
    ) -> None:
        self.labels, self.cutoffs, self.top, self.item = labels, cutoffs, top, item or {}
        self.propensities, self.list_items = propensities, list_items
        self._views: dict[tuple[str, str], Labelled] = {}

    def sample(self, name: str) -> Labelled:
        """The pairs of a set as a random sample of the candidates."""
        return self._view("sample", name, lambda own: Labelled(own.facts, own.positive, False, self.cutoffs))

    def complete(self, name: str) -> Labelled:
        """The pairs of a set as complete labels: an unlabelled candidate is a negative. They have no weights."""

        def make(own: LabelSet) -> Labelled:
            view = Labelled(own.facts._replace(probability=None), own.positive, True, self.cutoffs)
            view.columns = {} if own.key is None else {"key": own.key}
            return view

        return self._view("complete", name, make)

    def lists(self) -> Labelled:
        """The users' top lists: each item a positive at its place."""

        def make(own: LabelSet) -> Labelled:
            view = Labelled(own.facts, own.positive, True, self.cutoffs)
            view.columns = {} if own.key is None else {"key": own.key}
            view.items = NO_TABLE if self.list_items is None else self.list_items.table
            return view

        return self._view("lists", "top", make)

    def among(self, name: str) -> Labelled:
        """The pairs of a set ranked among themselves only."""
        return self.sample(name).among

    def propensity(self, name: str, scaled: bool = False) -> Doubles:
        """The propensity of each pair of a label set; scaled: the largest of all test pairs is 1."""
        assert self.propensities is not None, "this run has no propensities"
        p = self.propensities.of[name]
        return p / self.propensities.largest if scaled else p

    def weighted(self, name: str, pairs: Labelled, weight: Callable[["UserBatch"], Doubles]) -> Labelled:
        """The pairs of a view with weights, created once for each estimator."""
        return self._view("weighted", name, lambda _: pairs.weighted(weight(self)), pairs.label_set)

    def item_values(self, column: str, name: str) -> Doubles:
        """A column of items for each pair of a label set; NaN for items missing in the column."""
        own = self.labels[name]
        assert own.item is not None, f"the items of {name} were not read"
        values = np.append(self.item[column], np.nan)
        found: Doubles = values[own.item]  # -1: the NaN at the end
        return found

    def _view(self, kind: str, name: str, make: Callable[[LabelSet], Labelled], label_set: str = "") -> Labelled:
        if (kind, name) not in self._views:
            self._views[kind, name] = make(self.labels[label_set or name])
            self._views[kind, name].label_set = label_set or name
        return self._views[kind, name]


def list_set(offsets: Ints, candidates: Ints) -> LabelSet:
    """Top lists as a label set: the item at place p of a list has p candidates above it."""
    place = (np.arange(offsets[-1]) - np.repeat(offsets[:-1], np.diff(offsets))).astype(np.int32)
    ones = np.ones(place.size)
    facts = RankFacts(offsets, ones, np.empty(0, np.float32), place, np.zeros(place.size, np.int32), candidates)
    return LabelSet(facts, np.ones(place.size, np.bool_))


def batch_of(facts: RankFacts, positive: Bools | None = None, sets: Sequence[str] = ("random", "truth")) -> UserBatch:
    """The same pairs as every one of these label sets: for arrays in memory."""
    batch = UserBatch({name: LabelSet(facts, positive) for name in sets})
    if facts.in_uniform is not None:  # what takes `random` for a uniform sample takes arm U
        batch.labels = dict(batch.labels) | {"random": _uniform_arm(facts, positive)}
    return batch


def _uniform_arm(facts: RankFacts, positive: Bools | None) -> LabelSet:
    """The pairs that a design drew uniformly from the candidates."""
    kept = np.asarray(facts.in_uniform, np.bool_)
    offsets = np.concatenate([[0], np.cumsum(kept)])[facts.offsets]
    own = RankFacts(offsets, facts.value[kept], facts.score[kept] if facts.score.size else facts.score,
                    facts.above[kept], facts.tied[kept], facts.candidates)  # fmt: skip
    return LabelSet(own, None if positive is None else np.asarray(positive)[kept])
