"""The spec of an ensemble: debiasing by two models, not by a backbone, loss or sampler. No torch here.

{model: bpr_ensemble, fixed: {maximise: bqs}, grid: {delta: [0.05, 0.2, 0.5, 0.75]}}       a search for delta, as [bqs]
has it
"""

from typing import Annotated, Literal, Self

from pydantic import Field, field_validator, model_validator

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
    maximise: Literal["quality", "bqs"] = Field(
        "quality",
        description="held-out result by which trials are compared: the metric that base stops on, or the balanced "
        "quality score of the ensemble against base by this metric, the group being the items that the low-only model "
        "learns from",
    )

    @field_validator("base", mode="before")
    @classmethod
    def _base_has_a_name(cls, base: object) -> object:
        return {"name": "base", **base} if isinstance(base, dict) else base

    @property
    def result(self) -> str:
        """The name of the held-out result, as in the table trials."""
        return f"bqs({self.base.stop_on})" if self.maximise == "bqs" else self.base.stop_on

    @model_validator(mode="after")
    def _score_has_a_metric(self) -> Self:
        if self.maximise == "bqs" and (self.base.stop_on == "loss" or not self.base.validation_share):
            raise ValueError(
                "maximise: bqs scores a metric of held-out pairs: give base a stop_on of recall@K or ndcg@K and a "
                "validation_share above 0"
            )
        return self
