"""Labelled pairs of some users under one model, with what of them is positive: what estimators are made of.

    n_u  positives among the labelled      e_u  labelled pairs      N_u  candidates
    w_i  what a labelled pair stands for: 1 / its exposure probability where that is known, else N_u / e_u, since e_u of N_u were drawn evenly

Sums over positives are made once per gain, cutoff and tie policy, and shared by all estimators that need them.
"""

from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt

from eval_engine.errors import DataError
from eval_engine.kernels.arrays import Bools, Ints
from eval_engine.kernels.gain import gain_table, gained, gained_after
from eval_engine.kernels.order_among_labels import Ahead, ahead, pairs_won, places_among
from eval_engine.kernels.rank_facts import UNKNOWN, RankFacts

Doubles = npt.NDArray[np.float64]


class Labelled:
    """Some users' labelled pairs under one model."""

    def __init__(
        self, facts: RankFacts, positive: Bools | None = None, all_labelled: bool = False, cutoffs: Sequence[int] = ()
    ) -> None:
        """positive says which pairs are positives; left out, those with value 1, and other values than 0 and 1 are an
        error. all_labelled: what is not labelled is no positive, and w_i = 1. cutoffs: those that will be asked for,
        to be worked out together."""
        positive = _ones(facts) if positive is None else np.asarray(positive)
        if positive.dtype != np.bool_ or positive.shape != facts.value.shape:
            raise ValueError(
                f"positive must be a bool for each of the {facts.value.size} pairs, found {positive.dtype} of shape {positive.shape}"
            )
        self.facts, self.positive = facts, positive
        self.offsets: Ints = np.concatenate([[0], np.cumsum(positive)])[facts.offsets]  # of the positives
        self.above, self.tied = facts.above[positive], facts.tied[positive]
        self.n_positive = np.diff(self.offsets).astype(np.float64)
        self.n_labelled = facts.n_labels.astype(np.float64)
        self.candidates = facts.candidates.astype(np.float64)
        self.complete: Bools = (
            self.n_labelled == self.candidates
        ) | all_labelled  # of each user: every candidate is labelled
        self._all_labelled, self._cutoffs = all_labelled, cutoffs
        self._sums: dict[tuple[str, str], dict[int, Doubles]] = {}  # by what is summed and tie policy, by cutoff
        self._some: tuple[Ints, Labelled] | None = None

    def of(self, users: Ints) -> "Labelled":
        """The same of some users, in this order; kept until others are asked for."""
        if self._some is None or self._some[0] is not users:
            facts = self.facts
            lengths = facts.n_labels[users]
            offsets = np.concatenate([[0], np.cumsum(lengths)])
            pairs = np.arange(offsets[-1]) + np.repeat(facts.offsets[users] - offsets[:-1], lengths)
            score = facts.score[pairs] if facts.score.size else facts.score
            chosen = (facts.value[pairs], score, facts.above[pairs], facts.tied[pairs], facts.candidates[users])
            probability = None if facts.probability is None else facts.probability[pairs]
            self._some = (
                users,
                Labelled(
                    RankFacts(offsets, *chosen, probability), self.positive[pairs], self._all_labelled, self._cutoffs
                ),
            )
        return self._some[1]

    @cached_property
    def weight(self) -> Doubles | None:
        """w_i of each positive, where exposure probabilities are known."""
        return None if self.facts.probability is None else 1 / self.facts.probability[self.positive]

    @cached_property
    def scale(self) -> Doubles:
        """N_u / e_u of each user; 0 without a labelled pair. With known probabilities 1: weights stand in the sums already."""
        if self.weight is not None:
            return np.ones(self.facts.n_users)
        return np.where(self.complete, 1.0, _ratio(self.candidates, self.n_labelled))

    @cached_property
    def total(self) -> Doubles:
        """The weight of each user's positives: sum w_i, but for `scale`; without known probabilities n_u."""
        return self.n_positive if self.weight is None else self._add(self.weight)

    @cached_property
    def _within(self) -> tuple[Ints, Ints]:
        return places_among(self.facts.offsets, self.facts.above, self.facts.tied, self.positive)

    @cached_property
    def _ahead(self) -> Ahead:
        return ahead(self.offsets, self.above, self.weight)

    @cached_property
    def _two(self) -> Doubles:
        """What a pair of a user's positives stands for, but for weights that are known: 1 / the chance that both are labelled."""
        if self.weight is not None:
            return self.scale
        both = _ratio(self.candidates * (self.candidates - 1), self.n_labelled * (self.n_labelled - 1))
        return np.where(self.complete, 1.0, both)

    def gained(self, gain: str, k: int, ties: str, within: bool = False) -> Doubles:
        """The sum over each user's positives of w_i times their gain (kernels/gain.py), but for `scale`; within: at their ranks among the labelled pairs only, unweighted."""
        above, tied = self._within if within else (self.above, self.tied)
        weight = None if within else self.weight
        return self._at(
            f"{gain} within" if within else gain,
            k,
            ties,
            lambda ks: gained(gain, (self.offsets, above, tied), ks, ties, weight),
        )

    def precisions(self, k: int, ties: str) -> Doubles:
        """The sum over each user's positives i in the top k of (number of positives at or above i) / rank_i, as estimated for all candidates, scale and all."""
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
        """The sums of what is asked, at k; the first time with those of all cutoffs that will be asked for."""
        sums = self._sums.setdefault((what, ties), {})
        if k not in sums:
            cutoffs = self._cutoffs if k in self._cutoffs else (k,)
            sums.update(zip(cutoffs, found(cutoffs), strict=True))
        return sums[k]

    def pairs_won(self, level: float) -> tuple[Doubles, Doubles]:
        """Pairs of a positive and a negative in which the positive is above, and all such pairs, of each user; a level pair counts `level`."""
        if self.weight is None and self.complete.all():
            return self._all_pairs_won(level)
        weight = None if self.facts.probability is None else 1 / self.facts.probability
        return pairs_won(self.facts.offsets, self.facts.above, self.facts.tied, self.positive, weight, level)

    def _all_pairs_won(self, level: float) -> tuple[Doubles, Doubles]:
        """The same where every candidate that is no labelled positive is a negative: those above a positive are the candidates above it but for positives."""
        negatives = self.candidates - self.n_positive
        user = np.repeat(np.arange(self.facts.n_users), np.diff(self.offsets))
        lost = self.above - self._ahead.before + (1 - level) * (self.tied - self._ahead.level)
        unknown = (
            self.tied == UNKNOWN
        )  # below every negative that has a place; among those that have none, nobody knows where
        n_unknown = self._add(unknown)[user]
        lost[unknown] = np.where(self.candidates[user] - self.above > n_unknown, np.nan, negatives[user])[unknown]
        return self.n_positive * negatives - self._add(lost), self.n_positive * negatives

    def ideal_dcg(self, k: int, n_positive: Doubles) -> Doubles:
        """The DCG at k of a list that begins with this many positives, linear between whole numbers."""
        longest = int(min(k, max(1.0, np.ceil(n_positive.max(initial=1.0)))))
        sums = gain_table("discount", longest)[1]
        return np.interp(n_positive, np.arange(sums.size), sums)

    def _add(self, x: Doubles | Bools) -> Doubles:
        """The sum of x over each user's positives."""
        user = np.repeat(np.arange(self.facts.n_users), np.diff(self.offsets))
        return np.bincount(user, weights=x, minlength=self.facts.n_users).astype(np.float64)


def _ones(facts: RankFacts) -> Bools:
    """The pairs with value 1; an error if a value is neither 0 nor 1: nobody has said which ratings are positives."""
    ones: Bools = facts.value == 1
    for pair in np.flatnonzero(~ones & (facts.value != 0))[:1]:
        raise DataError(
            f"values: user {facts.user[pair]} has the value {facts.value[pair]:g}. Values other than 0 and 1 (or False "
            "and True) do not say what is a positive: give positive=, such as positive=facts.value >= 4."
        )
    return ones


def _ratio(a: Doubles, b: Doubles) -> Doubles:
    return np.divide(a, b, out=np.zeros(a.size), where=b > 0)
