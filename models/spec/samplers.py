"""Which examples an epoch learns from, as a config names it; each is written out in models/samplers.py. No torch here."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from eval_engine.config import Strict

PerPositive = Annotated[int, Field(ge=1, description="negatives drawn for each positive, anew in each epoch")]


class Observed(Strict):
    """The logged pairs as they are."""

    kind: Literal["observed"] = "observed"
    label: Literal["positive", "value"] = Field(
        "positive", description="positive: 1 or 0; value: the logged value, scaled to 0..1"
    )


class UniformNegatives(Strict):
    """The logged positives, and for each some items drawn evenly from those that are no positive of the user."""

    kind: Literal["uniform_negatives"] = "uniform_negatives"
    per_positive: PerPositive = 4


class PopularityNegatives(Strict):
    """As uniform_negatives, but drawn in proportion to (positives of the item) ** power: weighted BPR."""

    kind: Literal["popularity_negatives"] = "popularity_negatives"
    per_positive: PerPositive = 4
    power: float = Field(1.0, ge=0, description="0: evenly")


class HardNegatives(Strict):
    """DNS(H, U): of U negatives drawn evenly, the H that the model scores highest."""

    kind: Literal["hard_negatives"] = "hard_negatives"
    hardest: int = Field(25, ge=1, description="H: negatives learned from")
    drawn: int = Field(50, ge=1, description="U: candidates; the paper's grid is 50, 100, 200 with H/U from 0.1 to 1")

    @model_validator(mode="after")
    def _can_choose(self) -> Self:
        if self.hardest > self.drawn:
            raise ValueError(f"hard_negatives: hardest ({self.hardest}) must not exceed drawn ({self.drawn})")
        return self


class Oversampled(Strict):
    """A positive of item i comes n_i times, each with a negative of its own: uniform (eq. 20) or dynamic (eqs 19 to 22) oversampling."""

    kind: Literal["oversampled"] = "oversampled"
    strategy: Literal["uniform", "dynamic"] = "dynamic"
    base: int = Field(4, ge=1, description="n_0: comparisons of the most popular item's positives")
    high_share: float = Field(
        0.1, gt=0, lt=1, description="share of items that count as highly popular: theirs are kept nearly as they are"
    )


class RarePositives(Strict):
    """Jannach: positives drawn with a chance that falls with their item's popularity, as many as there are; a negative each."""

    kind: Literal["rare_positives"] = "rare_positives"
    spread: float = Field(
        0.25,
        gt=0,
        description="standard deviation of the half-normal density over popularity, the top item at 1: smaller is steeper",
    )
    per_positive: PerPositive = 4


class AllPairs(Strict):
    """The logged pairs, and beside each some items drawn evenly from all, logged or not: what DR needs."""

    kind: Literal["all_pairs"] = "all_pairs"
    per_logged: int = Field(4, ge=1, description="pairs drawn for each logged one")


Sampler = Annotated[
    Observed | UniformNegatives | PopularityNegatives | HardNegatives | Oversampled | RarePositives | AllPairs,
    Field(discriminator="kind"),
]
