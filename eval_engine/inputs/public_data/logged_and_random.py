"""Logged and random pairs of some users as tables: feedback, heldout, exposures, and parts of the random pairs.

    heldout              logged pairs that are kept from training, by the rule of the stage `split`, strategy random
    random_train         random pairs that models are trained on: they are in feedback too, so that they leave the frame
    random_weights       instead of random_train: random pairs that are kept apart, as for the weights of test sets
    [wtd];
                         they stay candidates
    random_validation    random pairs to choose settings by; they stay candidates
    exposures            the other random pairs, which models are judged by

A random pair goes to a part by U(seed, "random_split", user, item) alone, whatever its label: given their number, the
exposures of a user are a uniform draw from the frame. With `frame: unseen`, random pairs that are training pairs too
are not among the exposures: the others are a uniform draw from the user's other items. A random pair that is logged too
is not in random_train, since it is in feedback or heldout with its logged value. Pairs left out are counted.
"""

from collections import Counter
from typing import Literal, NamedTuple

import numpy as np

from eval_engine.errors import ConfigError
from eval_engine.inputs.public_data.destination import Destination
from eval_engine.inputs.public_data.pair_hash import held_out, uniform
from eval_engine.inputs.public_data.user_buckets import Pairs

Frame = Literal["all_items", "unseen"]


class Parts(NamedTuple):
    """Shares of the random pairs, and what the first part is for."""

    first: float
    validation: float
    use: Literal["training", "weights"] = "training"

    @classmethod
    def parse(cls, text: str, use: Literal["training", "weights"] = "training") -> "Parts":
        """The parts from percentages.

        >>> Parts.parse("5/5/90")
        Parts(first=0.05, validation=0.05, use='training')
        """
        try:
            first, validation, test = (float(part) for part in text.split("/"))
        except ValueError:
            first = validation = test = -1.0
        if min(first, validation) < 0 or test <= 0 or abs(first + validation + test - 100) > 1e-9:
            raise ConfigError(
                f"--random-split {text}: three percentages that add up to 100 are needed, for training, validation and "
                "evaluation, the last above 0, as in 5/5/90 or 15/15/70."
            )
        return cls(first / 100, validation / 100, use)

    @property
    def train(self) -> float:
        """Share of the random pairs that models are trained on."""
        return self.first if self.use == "training" else 0.0


class Division(NamedTuple):
    """How logged and random pairs are divided."""

    heldout: float  # share of the logged pairs; 0: none
    parts: Parts | None  # of the random pairs; None: all of them are exposures
    seed: int
    drawn_from: Frame  # what random pairs count as drawn from

    @property
    def frame(self) -> Frame:
        """The frame that exposures are ranked in."""
        return "unseen" if self.parts and self.parts.train else self.drawn_from

    def write(self, logged: Pairs, random: Pairs, destination: Destination, counts: Counter[str]) -> None:
        """Adds the pairs of some users, with all their pairs, to the tables; counts those that are left out."""
        held = held_out(self.seed, self.heldout, logged.user_id, logged.item_id)
        feedback, exposures = logged.where(~held), random
        if self.parts:
            u = uniform(self.seed, "random_split", random.user_id, random.item_id)
            end = self.parts.first + self.parts.validation
            first, exposures = random.where(u < self.parts.first), random.where(u >= end)
            if self.parts.train:
                also_logged = first.in_any(logged)
                counts["random pairs for training are logged too: only the logged value is kept"] += int(
                    also_logged.sum()
                )
                first = first.where(~also_logged)
                destination.add_pairs("random_train", first)
                feedback = joined(feedback, first)
            elif self.parts.first:
                destination.add_pairs("random_weights", first)
            if self.parts.validation:
                destination.add_pairs("random_validation", random.where((u >= self.parts.first) & (u < end)))
        if self.frame == "unseen":
            seen = exposures.in_any(feedback)
            counts["random pairs are training pairs too: no exposures, since the frame leaves them out"] += int(
                seen.sum()
            )
            exposures = exposures.where(~seen)
        destination.add_pairs("feedback", feedback)
        destination.add_pairs("exposures", exposures)
        if self.heldout:
            destination.add_pairs("heldout", logged.where(held))


def joined(first: Pairs, second: Pairs) -> Pairs:
    """The pairs of both, sorted by user and item."""
    both = Pairs(*(np.concatenate(columns) for columns in zip(first, second, strict=True)))
    return both.where(np.lexsort((both.item_id, both.user_id)))
