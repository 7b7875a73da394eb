"""Labelled pairs of some users under one model, and which of them are positives: the input of metrics.

    n_u  positives among the labelled      e_u  labelled pairs      N_u  candidates
    w_i  weight of a labelled pair: given, or 1 / its exposure probability where that is known, else N_u / e_u,
         since e_u of N_u were drawn uniformly

Sums over positives are computed once per gain, cutoff and tie policy, and shared by all metrics that need them. Three
views of the same pairs need no new sums over all of them: some of the users (of), users split by the slice of their
positives (sliced), and users without their positives (no_positives).
"""

from collections.abc import Callable, Sequence
from copy import copy
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from eval_engine.errors import DataError
from eval_engine.kernels.arrays import Bools, Ints
from eval_engine.kernels.gain import broken, gain_table, gained, gained_after, interpolated
from eval_engine.kernels.order_among_labels import Ahead, ahead, negatives_below, places_among
from eval_engine.kernels.rank_facts import UNKNOWN, RankFacts
from eval_engine.kernels.slice_order import SliceOrder
from eval_engine.kernels.user_totals import ideal_totals, totals_of_classes, totals_within, user_totals

Doubles = npt.NDArray[np.float64]


class ItemTable(NamedTuple):
    """Columns of the items of labelled pairs."""

    names: tuple[str, ...]
    values: Doubles  # (n_rows, n_columns): the named columns and perhaps more (kernels/user_totals.py)
    row: Ints  # of each labelled pair


NO_TABLE = ItemTable((), np.empty((0, 0)), np.empty(0, np.int32))


class Labelled:
    """Some users' labelled pairs under one model."""

    def __init__(
        self,
        facts: RankFacts,
        positive: Bools | None = None,
        all_labelled: bool = False,
        cutoffs: Sequence[int] = (),
        weight: Doubles | None = None,
    ) -> None:
        """positive: marks the pairs that are positives; by default those with value 1, and values other than 0 and 1
        are an error. all_labelled: unlabelled candidates are negatives, and w_i = 1. cutoffs: those that will be
        requested, computed together. weight: w_i of each pair.
        """
        positive = _ones(facts) if positive is None else np.asarray(positive)
        if positive.dtype != np.bool_ or positive.shape != facts.value.shape:
            raise ValueError(
                f"positive must be a bool for each of the {facts.value.size} pairs, found {positive.dtype} of shape "
                f"{positive.shape}"
            )
        self.facts, self.positive = facts, positive
        self.offsets: Ints = facts.offsets  # of the positives
        self.above, self.tied = facts.above, facts.tied
        if not positive.all():
            self.offsets = np.concatenate([[0], np.cumsum(positive)])[facts.offsets]
            self.above, self.tied = facts.above[positive], facts.tied[positive]
        self.n_labelled = facts.n_labels.astype(np.float64)
        self.candidates = facts.candidates.astype(np.float64)
        # of each user: every candidate is labelled
        self.complete: Bools = (self.n_labelled == self.candidates) | all_labelled
        if weight is None and facts.probability is not None:
            weight = 1 / _chances(facts)
        self._weights = weight  # of all pairs
        self.weight = None if weight is None else weight[positive]
        self._all_labelled, self._cutoffs = all_labelled, cutoffs
        self._root: Labelled = self
        self._index: Ints | None = None  # indices of the positives in the root
        self._users: Ints | None = None  # indices of the users in the root
        self.label_set = ""  # its name, in a batch
        self.columns: dict[str, Any] = {}  # numbers of each pair, by name
        self.items: ItemTable = NO_TABLE
        self._begin(None)

    def _begin(self, parent: "Labelled | None") -> None:
        self.n_positive = np.diff(self.offsets).astype(np.float64)
        self._parent = parent  # its sums hold for these users too
        self._sums: dict[tuple[str, str], dict[int, Doubles]] = {}  # by what is summed and tie policy, by cutoff
        self._some: tuple[Ints, Labelled] | None = None
        self._active_some: dict[int, tuple[Ints, Labelled]] = {}  # by id of the users, which are kept
        self._columns: dict[str, Any] = {}
        self._broken: dict[bool, Labelled] = {}
        self._active: dict[int, Ints] = {}
        self._active_views: dict[int, Labelled] = {}
        self._tables: dict[tuple[str, tuple[int, ...], str], Doubles] = {}
        self._apart: dict[int, tuple[SliceOrder, Labelled]] = {}  # by id of the order, which is kept

    @property
    def n_users(self) -> int:
        """The number of users."""
        return self.candidates.size

    def _view(self, users: Ints, offsets: Ints, index: Ints, same_positives: bool) -> "Labelled":
        """Users by number, repeated as given, each with the positives of these numbers."""
        view = object.__new__(Labelled)
        view._root, root = self._root, self._root
        view._index = index if self._index is None else self._index[index]
        view._users = users if self._users is None else self._users[users]
        view.offsets = offsets
        view.above, view.tied = self.above[index], self.tied[index]
        view.n_labelled, view.candidates = self.n_labelled[users], self.candidates[users]
        view.complete = self.complete[users]
        view.weight = None if self.weight is None else self.weight[index]
        view.facts, view.positive, view._weights = root.facts, root.positive, root._weights
        view.label_set = self.label_set
        view._all_labelled, view._cutoffs = self._all_labelled, () if same_positives else self._cutoffs
        view._begin(self if same_positives else None)
        view._chosen = users
        return view

    _chosen: Any = None  # numbers of the users in the parent

    @property
    def _computed(self) -> list[str]:
        """The names of cached values."""
        return [name for name, value in vars(Labelled).items() if isinstance(value, cached_property)]

    @property
    def index(self) -> Ints:
        """The number of each positive among those of the whole batch."""
        return np.arange(self.above.size) if self._index is None else self._index

    def column(self, name: str) -> Any:
        """A number of each positive."""
        if name not in self._columns:
            root = self._root
            if self is not root:
                values = root.column(name)
            else:
                values = root.columns[name] if root.positive.all() else root.columns[name][root.positive]
            self._columns[name] = values if self._index is None else values[self._index]
        return self._columns[name]

    def within(self, k: int, column: str = "") -> Doubles:
        """The sum of a column of items over each user's positives with fewer than k candidates above them; without a
        column their number.
        """
        if self._parent is not None:
            return self._parent.within(k, column)[self._chosen]
        names, values, _ = self._root.items

        def totals(cutoffs: Sequence[int]) -> Doubles:
            return totals_within(self.offsets, self.above, self._rows, values, np.array(cutoffs))

        sums: Doubles = self._at("within", k, "", totals)[1 + names.index(column) if column else 0]
        return sums

    @property
    def _rows(self) -> Ints:
        """The row of each positive in the table of its item."""
        root = self._root
        row = root.items.row
        if row.size and not root.positive.all():
            row = row[root.positive]
        return row if self._index is None or not row.size else row[self._index]

    def within_classes(self, k: int, own: Ints, n_classes: int) -> Doubles:
        """The number of each user's positives of each class with fewer than k candidates above them, (n_classes,
        n_users). own: the class of each positive, -1 for none; always the same.
        """
        return self._at(
            "classes", k, "", lambda ks: totals_of_classes(self.offsets, self.above, own, n_classes, np.array(ks))
        )

    def active(self, k: int) -> Ints:
        """The numbers of the users with a positive that may be in the top k."""
        if k not in self._active:
            self._active[k] = np.flatnonzero(self.first < k)
        return self._active[k]

    def active_view(self, k: int) -> "Labelled":
        """The active users at k."""
        if k not in self._active_views:
            view = self.of(self.active(k))
            view._cutoffs = self._cutoffs  # the parent may have no sums
            self._active_views[k] = view
        return self._active_views[k]

    @cached_property
    def tied_view(self) -> tuple[Ints, "Labelled"]:
        """The users with a positive that is tied with another candidate, and their view: only their bounds differ from
        their value.
        """
        users = np.empty(0, np.int64)
        if (self.tied > 0).any():
            users = np.flatnonzero(np.diff(np.concatenate([[0], np.cumsum(self.tied > 0)])[self.offsets]))
        view = self.of(users)
        view._cutoffs = self._cutoffs  # other tie policies than the parent's sums
        return users, view

    @cached_property
    def tied_number(self) -> Ints:
        """The number of each user in tied_view, or -1."""
        users, _ = self.tied_view
        number = np.full(self.n_users, -1)
        number[users] = np.arange(users.size)
        return number

    def broken(self, after: bool) -> "Labelled":
        """The same users with all ties broken one way: each tied positive after, or before, the items that it is tied
        with, one place each (kernels/gain.py).
        """
        if after not in self._broken:
            n, same = np.arange(self.n_users), np.arange(self.above.size)
            view = self._view(n, self.offsets, same, False)
            view._cutoffs = self._cutoffs
            view.above = broken((self.offsets, self.above, self.tied), self.weight, after)
            view.tied = np.minimum(self.tied, 0)
            self._broken[after] = view
        return self._broken[after]

    def of(self, users: Ints) -> "Labelled":
        """The same for some users, in this order; kept until other users are requested, and for the active users of a
        cutoff as long as this.
        """
        if id(users) in self._active_some:
            return self._active_some[id(users)][1]
        if self._some is None or self._some[0] is not users:
            lengths = np.diff(self.offsets)[users]
            offsets = np.concatenate([[0], np.cumsum(lengths)])
            index = np.arange(offsets[-1]) + np.repeat(self.offsets[users] - offsets[:-1], lengths)
            self._some = users, self._view(users, offsets, index, True)
            if any(users is one for one in self._active.values()):
                self._active_some[id(users)] = self._some
        return self._some[1]

    def sliced(self, order: SliceOrder) -> "Labelled":
        """Each entry of a user and a slice with the positives of that slice; made once for each order."""
        if id(order) not in self._apart:
            self._apart[id(order)] = order, self._view(order.users, order.offsets, order.positives, False)
        return self._apart[id(order)][1]

    @cached_property
    def no_positives(self) -> "Labelled":
        """The same users without positives."""
        n = self.n_users
        return self._view(np.arange(n), np.zeros(n + 1, np.int64), np.empty(0, np.int64), False)

    @cached_property
    def _everything(self) -> "Labelled":
        return Labelled(
            self.facts, np.ones(self.facts.value.size, np.bool_), self._all_labelled, self._cutoffs, self._weights
        )

    def gained_by_all(self, gain: str, k: int, ties: str) -> Doubles:
        """The sum over all of a user's labelled pairs, whatever their labels, of w_i times their gain."""
        every = self._root._everything
        total = every.gained(gain, k, ties) * every.scale
        return total if self._users is None else total[self._users]

    @cached_property
    def among(self) -> "Labelled":
        """The same pairs ranked among the labelled items only, without weights."""
        above, tied = places_among(self.facts.offsets, self.facts.above, self.facts.tied, self.positive)
        n_labels = self.facts.n_labels.astype(np.int32)
        world = Labelled(self.facts._replace(candidates=n_labels, probability=None), self.positive, True, self._cutoffs)
        world.above, world.tied, world.label_set = above, tied, self.label_set
        return world

    def weighted(self, weight: Doubles) -> "Labelled":
        """The same pairs, each with this weight."""
        view = copy(self)
        view._weights, view.weight = weight, weight[self.positive]
        view._root = view
        for name in self._computed:
            vars(view).pop(name, None)
        view._begin(None)
        return view

    @cached_property
    def first(self) -> Ints:
        """The least `above` of each user's positives, int64; beyond every cutoff for a user without any."""
        found = np.full(self.n_users, np.iinfo(np.int64).max)
        some = np.flatnonzero(self.n_positive > 0)
        if some.size:
            found[some] = np.minimum.reduceat(self.above, self.offsets[some])
        return found

    @property
    def all_positives(self) -> Doubles:
        """The number of each user's positives, including those of other slices."""
        root = self._root
        return root.n_positive if self._users is None else root.n_positive[self._users]

    @cached_property
    def scale(self) -> Doubles:
        """N_u / e_u of each user; 0 without a labelled pair. With known weights 1: the sums already contain them."""
        if self.weight is not None:
            return np.ones(self.n_users)
        return np.where(self.complete, 1.0, _ratio(self.candidates, self.n_labelled))

    @cached_property
    def total(self) -> Doubles:
        """The weight of each user's positives: sum w_i without the factor `scale`; without known weights n_u."""
        return self.n_positive if self.weight is None else self._add(self.weight)

    @cached_property
    def _ahead(self) -> Ahead:
        if self._parent is not None and "_ahead" in vars(self._parent):
            index = self._of_parent()
            return Ahead(*(x[index] for x in self._parent._ahead))
        return ahead(self.offsets, self.above, self.weight)

    @cached_property
    def negatives_ahead(self) -> tuple[Doubles, Doubles, Doubles]:
        """For each positive: the number of candidates above it and of those tied with it that are none of the user's
        positives, in any slice, and of all of these; -1 tied where its place is not known.
        """
        root = self._root
        before, level = ahead(root.offsets, root.above, None)
        population = np.repeat(root.candidates - root.n_positive, np.diff(root.offsets))
        tied = np.where(root.tied == UNKNOWN, UNKNOWN, root.tied - level)
        found = (root.above - before, tied, population)
        return found if self._index is None else tuple(x[self._index] for x in found)  # type: ignore[return-value]

    def _of_parent(self) -> Ints:
        """The numbers of these positives in the parent."""
        assert self._parent is not None
        lengths = np.diff(self.offsets)
        numbers: Ints = np.arange(self.offsets[-1]) + np.repeat(
            self._parent.offsets[self._chosen] - self.offsets[:-1], lengths
        )
        return numbers

    @cached_property
    def _two(self) -> Doubles:
        """The weight of a pair of a user's positives, without known weights: 1 / the chance that both are labelled."""
        if self.weight is not None:
            return self.scale
        both = _ratio(self.candidates * (self.candidates - 1), self.n_labelled * (self.n_labelled - 1))
        return np.where(self.complete, 1.0, both)

    def gained(self, gain: str, k: int, ties: str) -> Doubles:
        """The sum over each user's positives of w_i times their gain (kernels/gain.py), without the factor `scale`."""
        places = self.offsets, self.above, self.tied
        return self._at(gain, k, ties, lambda ks: gained(gain, places, ks, ties, self.weight))

    def table(self, what: str, cutoffs: tuple[int, ...], ties: str) -> Doubles:
        """The sums at several cutoffs, (n_cutoffs, n_users)."""
        key = what, cutoffs, ties
        if key not in self._tables:
            self._tables[key] = np.stack([self.summed(what, k, ties) for k in cutoffs])
        return self._tables[key]

    def summed(self, what: str, k: int, ties: str) -> Doubles:
        """`precisions`, or what is gained."""
        return self.precisions(k, ties) if what == "precisions" else self.gained(what, k, ties)

    def precisions(self, k: int, ties: str) -> Doubles:
        """The sum over each user's positives i in the top k of (number of positives at or above i) / rank_i, estimated
        for all candidates, including the factor `scale`.
        """
        return self._at("precisions", k, ties, lambda ks: self._precisions(ks, ties))

    def _precisions(self, cutoffs: Sequence[int], ties: str) -> Doubles:
        places = self.offsets, self.above, self.tied
        before, level = (
            self._ahead if self.weight is None else (self.weight * self._ahead.before, self.weight * self._ahead.level)
        )
        alone = np.stack([self.gained("inverse", k, ties) for k in cutoffs])
        total = self.scale * alone + self._two * gained("inverse", places, cutoffs, ties, before)
        return total + self._two * gained_after(places, cutoffs, ties, level) if level.any() else total

    def _at(self, what: str, k: int, ties: str, found: Callable[[Sequence[int]], Doubles]) -> Doubles:
        """The requested sums at k; the first call computes those of all cutoffs that will be requested."""
        sums = self._sums.setdefault((what, ties), {})
        if k not in sums:
            if self._parent is not None and k in (known := self._parent._sums.get((what, ties), {})):
                sums[k] = known[k][self._chosen]
            else:
                cutoffs = self._cutoffs if k in self._cutoffs else (k,)
                sums.update(zip(cutoffs, found(cutoffs), strict=True))
        return sums[k]

    @cached_property
    def _below(self) -> tuple[Doubles, Doubles, Doubles]:
        """For each positive: the number of negatives below it and of those tied with it; for each user: the number of
        negatives. NaN where the result depends on unknown places.
        """
        facts = self.facts
        return negatives_below(facts.offsets, facts.above, facts.tied, self.positive, self._weights)

    def pairs_won(self, level: float) -> tuple[Doubles, Doubles]:
        """For each user: the number of (positive, negative) pairs with the positive above, and the number of all such
        pairs; a tied pair counts `level`.
        """
        root, chosen = self._root, slice(None) if self._users is None else self._users
        if root._all_labelled or (root.weight is None and root.complete.all()):
            lost, negatives = root._lost(level), (root.candidates - root.n_positive)[chosen]
            lost = lost if self._index is None else lost[self._index]
            mine = self._add(lost if self.weight is None else self.weight * lost)
            return self.total * negatives - mine, self.total * negatives
        below, same, negatives = root._below
        won = below + level * same
        won = won if self._index is None else won[self._index]
        weight = np.ones(won.size) if self.weight is None else self.weight
        return self._add(weight * won), self._add(weight) * negatives[chosen]

    def _lost(self, level: float) -> Doubles:
        """The number of negatives above each positive where every candidate that is not a labelled positive is a
        negative: the candidates above it less the positives above it.
        """
        negatives = self.candidates - self.n_positive
        user = np.repeat(np.arange(self.n_users), np.diff(self.offsets))
        before, tied = self._ahead if self.weight is None else ahead(self.offsets, self.above, None)
        lost: Doubles = self.above - before + (1 - level) * (self.tied - tied)
        unknown = (
            self.tied == UNKNOWN
        )  # below every negative with a known place; the order among unknown places is unknown
        if unknown.any():
            n_unknown = self._add(unknown)[user]
            beside = self.candidates[user] - self.above > n_unknown
            lost[unknown] = np.where(beside, np.nan, negatives[user])[unknown]
        return lost

    def ideal_dcg(self, k: int, n_positive: Doubles) -> Doubles:
        """The DCG at k of a list that begins with this many positives, linear between whole numbers."""
        longest = int(min(k, max(1.0, np.ceil(n_positive.max(initial=1.0)))))
        return interpolated(gain_table("discount", longest)[1], n_positive)

    def ideal_weighted(self, k: int) -> Doubles:
        """The DCG at k of a list that begins with the user's positives in falling order of their weights."""
        return self._at("ideal", k, "", self._ideal_weighted)

    def _ideal_weighted(self, cutoffs: Sequence[int]) -> Doubles:
        weight = np.ones(self.above.size) if self.weight is None else self.weight
        longest = int(max(1, np.diff(self.offsets).max(initial=1)))
        return ideal_totals(self.offsets, weight, gain_table("discount", longest)[0], np.array(cutoffs))

    def _add(self, x: Doubles | Bools) -> Doubles:
        """The sum of x over each user's positives."""
        return user_totals(self.offsets, x)


def _ones(facts: RankFacts) -> Bools:
    """The pairs with value 1; other values than 0 and 1 are an error: no rule then defines the positives."""
    ones: Bools = facts.value == 1
    for pair in np.flatnonzero(~ones & (facts.value != 0))[:1]:
        raise DataError(
            f"values: user {facts.user[pair]} has the value {facts.value[pair]:g}. Values other than 0 and 1 (or False "
            "and True) do not say what is a positive: give positive=, such as positive=facts.value >= 4."
        )
    return ones


def _ratio(a: Doubles, b: Doubles) -> Doubles:
    return np.divide(a, b, out=np.zeros(a.size), where=b > 0)


def _chances(facts: RankFacts) -> Doubles:
    """The probabilities of the pairs; an error if one is not above 0 and at most 1."""
    p = np.asarray(facts.probability, np.float64)
    if p.shape != facts.value.shape:
        raise DataError(
            f"probability must have a value for each of the {facts.value.size} pairs, found shape {p.shape}"
        )
    for pair in np.flatnonzero(~((p > 0) & (p <= 1)))[:1]:
        raise DataError(
            f"probability: pair {pair} of user {facts.user[pair]} has {p[pair]}, not in (0, 1]. Give the probabilities "
            "of the plan."
        )
    return p
