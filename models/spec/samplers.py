"""Specs of the samplers, which choose the examples of an epoch; models/samplers.py implements them. No torch here."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from eval_engine.config import Strict

PerPositive = Annotated[int, Field(ge=1, description="negatives drawn for each positive in each epoch")]


class Observed(Strict):
    """The logged pairs."""

    kind: Literal["observed"] = "observed"
    label: Literal["positive", "value"] = Field(
        "positive", description="positive: 1 or 0; value: the logged value, scaled to 0..1"
    )


class UniformNegatives(Strict):
    """The logged positives, each with items drawn uniformly from those that are not positives of the user."""

    kind: Literal["uniform_negatives"] = "uniform_negatives"
    per_positive: PerPositive = 4


class PopularityNegatives(Strict):
    """As uniform_negatives, but drawn in proportion to (positives of the item) ** power: weighted BPR."""

    kind: Literal["popularity_negatives"] = "popularity_negatives"
    per_positive: PerPositive = 4
    power: float = Field(1.0, ge=0, description="0: uniform")


class HardNegatives(Strict):
    """DNS(H, U): of U negatives drawn uniformly, the H that the current model scores highest."""

    kind: Literal["hard_negatives"] = "hard_negatives"
    hardest: int = Field(4, ge=1, description="H: negatives learned from")
    drawn: int = Field(
        8,
        ge=1,
        description="U: candidates; the paper's grid is 50, 100, 200 with H/U from 0.1 to 1, which costs more and "
        "gains nothing on the logs tried",
    )

    @model_validator(mode="after")
    def _can_choose(self) -> Self:
        if self.hardest > self.drawn:
            raise ValueError(f"hard_negatives: hardest ({self.hardest}) must not exceed drawn ({self.drawn})")
        return self


class Oversampled(Strict):
    """Positives of rare items occur more often: all items alike (uniform, eq. 20), or moderately (dynamic, eq. 19)."""

    kind: Literal["oversampled"] = "oversampled"
    strategy: Literal["uniform", "dynamic"] = "dynamic"
    base: int = Field(
        4,
        ge=1,
        description="n_0: comparisons of the most popular item's positives; uniform: negatives of a drawn positive",
    )
    high_share: float = Field(
        0.1,
        gt=0,
        lt=1,
        description="share of items that count as highly popular: they are oversampled least; "
        "with a section popularity, the run's class high",
    )


class RarePositives(Strict):
    """Jannach: as many positives as there are, drawn with a probability that decreases with their item's popularity."""

    kind: Literal["rare_positives"] = "rare_positives"
    spread: float = Field(
        0.25,
        gt=0,
        description="standard deviation of the half-normal density over popularity, with the top item at 1: "
        "smaller is steeper",
    )
    per_positive: PerPositive = 4


class AllPairs(Strict):
    """The logged pairs, each with items drawn uniformly from all, logged or not; DR needs it."""

    kind: Literal["all_pairs"] = "all_pairs"
    per_logged: int = Field(4, ge=1, description="pairs drawn for each logged one")


Sampler = Annotated[
    Observed | UniformNegatives | PopularityNegatives | HardNegatives | Oversampled | RarePositives | AllPairs,
    Field(discriminator="kind"),
]
