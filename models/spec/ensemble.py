"""The spec of an ensemble: debiasing by two models, not by a backbone, loss or sampler. No torch here."""

from typing import Annotated, Literal

from pydantic import Field, field_validator

from eval_engine.config import Strict
from models.spec.gradient import Backbone, Name, OwnOutput


class Ensemble(Strict):
    """softmax(base) + delta softmax(low); low is the same model trained on the positives of unpopular items only."""

    kind: Literal["ensemble"] = "ensemble"
    name: Name
    output: OwnOutput = None
    base: Annotated[Backbone, Field(discriminator="kind")]
    delta: float = Field(
        0.5, gt=0, description="weight of the low-only model; table 2 of the paper has 0.2 to 0.75 in most rows"
    )
    low_share: float = Field(
        0.8,
        gt=0,
        lt=1,
        description="share of items, the least popular ones, that the low-only model learns from: the long tail; "
        "with a section popularity, the run's class low",
    )

    @field_validator("base", mode="before")
    @classmethod
    def _base_has_a_name(cls, base: object) -> object:
        return {"name": "base", **base} if isinstance(base, dict) else base
