"""Samplers: which examples an epoch learns from.

The loop takes the epoch's rows, shuffled, and then the examples of each batch of rows.

    observed              the logged pairs, label = positive or value
    uniform_negatives     the logged positives, each with n items drawn uniformly from those that are not positives of
                          the user
    popularity_negatives  the same, drawn in proportion to (positives of the item) ** power
                                                                     [Gantner et al. 2012] weighted BPR
    hard_negatives        DNS(H, U): of U drawn uniformly, the H with the highest scores of the current model
                                                                     [Shi et al. 2023]
    oversampled           positives of rare items occur more often                               [bqs] eqs 19 to 22
    rare_positives        positives drawn with a probability that decreases with their item's popularity
                                                                     [Jannach et al. 2015]
    all_pairs             the logged pairs, each with n items drawn uniformly from all           [Wang et al. 2019]

Memory is that of the logged pairs: draws are kept for one batch. Draws are made on the CPU, and are the same for every
device.
"""

from collections.abc import Callable
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from models.batch import Batch
from models.logged import Logged
from models.negatives import Draw, EvenNegatives, PopularNegatives
from models.oversampling import comparisons, even_chance, falling_chance
from models.spec import samplers as spec

Score = Callable[[Tensor, Tensor], Tensor]  # (n,), (n, k) -> (n, k): scores of the current model


class Sampler(Protocol):
    """Draws examples; `epoch` and `batch` share one generator."""

    @property
    def n_rows(self) -> int:
        """The number of pairs that an epoch's rows are taken from."""
        ...

    @property
    def n_positives(self) -> int:
        """The number of positives among these."""
        ...

    def uses(self) -> dict[str, Tensor]:
        """How often each user and each item is in an example of an epoch, if negatives are drawn uniformly."""
        ...

    def epoch(self, generator: torch.Generator) -> Tensor:
        """The rows of one epoch, in training order."""
        ...

    def batch(self, rows: Tensor, generator: torch.Generator, score: Score) -> Batch:
        """The examples of these rows."""
        ...


class LoggedPairs:
    """Every logged pair once, each with `drawn` items drawn uniformly from all."""

    def __init__(self, logged: Logged, label: str, drawn: int) -> None:
        self.users, self.items = torch.from_numpy(logged.users), torch.from_numpy(logged.items)
        labels = logged.unit_values() if label == "value" else logged.positive
        self.labels = torch.from_numpy(labels.astype(np.float32))
        self.drawn, self.n_items = drawn, logged.n_items
        self.n_users, self.n_positives = logged.n_users, int(logged.positive.sum())

    @property
    def n_rows(self) -> int:
        return len(self.users)

    def uses(self) -> dict[str, Tensor]:
        return _uses(self.users, self.items, (self.n_users, self.n_items), self.drawn)

    def epoch(self, generator: torch.Generator) -> Tensor:
        return torch.randperm(len(self.users), generator=generator)

    def batch(self, rows: Tensor, generator: torch.Generator, score: Score) -> Batch:
        n = len(rows)
        others = torch.randint(self.n_items, (n, self.drawn), generator=generator)
        labels = torch.cat([self.labels[rows, None], torch.zeros(n, self.drawn)], dim=1)
        logged = torch.zeros(n, 1 + self.drawn, dtype=torch.bool)
        logged[:, 0] = True
        return Batch(
            self.users[rows],
            torch.cat([self.items[rows, None], others], dim=1),
            labels,
            logged,
            torch.ones_like(labels),
        )


class PositivesAndNegatives:
    """Logged positives with drawn negatives; `epoch` gives the rows of an epoch, by default each positive once."""

    def __init__(
        self, logged: Logged, draw: Draw, per_positive: int, epoch: Callable[[torch.Generator], Tensor] | None = None
    ) -> None:
        positives = logged.positives()
        self.users, self.items = torch.from_numpy(positives.users), torch.from_numpy(positives.items)
        self.draw, self.per_positive = draw, per_positive
        self.n_users, self.n_items = logged.n_users, logged.n_items
        self._epoch = epoch or (lambda generator: torch.randperm(len(self.users), generator=generator))

    @property
    def n_rows(self) -> int:
        return len(self.users)

    @property
    def n_positives(self) -> int:
        return len(self.users)

    def uses(self) -> dict[str, Tensor]:
        return _uses(self.users, self.items, (self.n_users, self.n_items), self.per_positive)

    def epoch(self, generator: torch.Generator) -> Tensor:
        return self._epoch(generator)

    def batch(self, rows: Tensor, generator: torch.Generator, score: Score) -> Batch:
        users = self.users[rows]
        negatives, filled = self.draw(users, self.per_positive, generator)
        return positive_first(users, self.items[rows], negatives, filled)


class Hardest:
    """The negatives of another sampler that the current model scores highest."""

    def __init__(self, candidates: PositivesAndNegatives, hardest: int) -> None:
        self.candidates, self.hardest = candidates, hardest

    @property
    def n_rows(self) -> int:
        return self.candidates.n_rows

    @property
    def n_positives(self) -> int:
        return self.candidates.n_positives

    def uses(self) -> dict[str, Tensor]:
        pairs = self.candidates
        return _uses(pairs.users, pairs.items, (pairs.n_users, pairs.n_items), self.hardest)

    def epoch(self, generator: torch.Generator) -> Tensor:
        return self.candidates.epoch(generator)

    def batch(self, rows: Tensor, generator: torch.Generator, score: Score) -> Batch:
        batch = self.candidates.batch(rows, generator, score)
        if self.hardest == self.candidates.per_positive:
            return batch
        scores = score(batch.users, batch.items[:, 1:]).cpu()
        scores = torch.where(batch.weights[:, 1:] > 0, scores, -torch.inf)
        best = torch.topk(scores, self.hardest, dim=1, sorted=False).indices
        return positive_first(
            batch.users, batch.items[:, 0], batch.items[:, 1:].gather(1, best), batch.weights[:, 1:].gather(1, best) > 0
        )


def _uses(users: Tensor, items: Tensor, shape: tuple[int, int], drawn: int) -> dict[str, Tensor]:
    """Uses of users and items in rows of one pair and `drawn` items."""
    of_users, of_items = (torch.bincount(index, minlength=n) for index, n in zip((users, items), shape, strict=True))
    return {"user": of_users.float(), "item": of_items + drawn * len(items) / shape[1]}


def positive_first(users: Tensor, positives: Tensor, negatives: Tensor, filled: Tensor) -> Batch:
    """Rows of a positive (n,) and its negatives (n, k)."""
    n, k = negatives.shape
    labels, weights = torch.zeros(n, 1 + k), torch.ones(n, 1 + k)
    labels[:, 0] = 1
    weights[:, 1:] = filled
    return Batch(users, torch.cat([positives[:, None], negatives], dim=1), labels, labels > 0, weights)


def make_sampler(sampler: spec.Sampler, logged: Logged, known: Logged) -> Sampler:
    """The sampler that a config names, over `logged`; no positive of `known` is drawn as a negative."""
    match sampler:
        case spec.Observed():
            return LoggedPairs(logged, sampler.label, 0)
        case spec.AllPairs():
            return LoggedPairs(logged, "positive", sampler.per_logged)
        case spec.UniformNegatives():
            return PositivesAndNegatives(logged, EvenNegatives(known), sampler.per_positive)
        case spec.PopularityNegatives():
            return PositivesAndNegatives(logged, PopularNegatives(known, sampler.power), sampler.per_positive)
        case spec.HardNegatives():
            return Hardest(PositivesAndNegatives(logged, EvenNegatives(known), sampler.drawn), sampler.hardest)
        case spec.Oversampled(strategy="uniform"):
            return PositivesAndNegatives(logged, EvenNegatives(known), sampler.base, even_chance(logged.positives()))
        case spec.Oversampled():
            return PositivesAndNegatives(logged, EvenNegatives(known), 1, comparisons(logged.positives(), sampler))
        case spec.RarePositives():
            return PositivesAndNegatives(
                logged, EvenNegatives(known), sampler.per_positive, falling_chance(logged.positives(), sampler.spread)
            )


def held_out_sampler(sampler: spec.Sampler) -> spec.Sampler:
    """The sampler of held-out pairs: as in training, but each pair once and with uniform negatives.

    So the losses of different epochs can be compared.
    """
    match sampler:
        case spec.Observed() | spec.UniformNegatives() | spec.AllPairs():
            return sampler
        case spec.PopularityNegatives() | spec.RarePositives():
            return spec.UniformNegatives(per_positive=sampler.per_positive)
        case spec.HardNegatives():
            return spec.UniformNegatives(per_positive=sampler.hardest)
        case spec.Oversampled():
            return spec.UniformNegatives(per_positive=sampler.base)
