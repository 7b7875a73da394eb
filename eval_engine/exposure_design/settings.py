"""The sections `design` and `collect` of a run's config: what to show at random, and what came back. docs/design.md"""

from typing import Literal, Self

from pydantic import Field, model_validator

from eval_engine.config import Input, RunId, Strict


class Design(Strict):
    """What the plan is made for."""

    models: tuple[str, ...] = Field((), description="whose lists it is made of; left out: all models of the run")
    exposures: int = Field(10, ge=1, description="items shown to each user")
    uniform: int | None = Field(
        None, ge=1, description="of these, drawn uniformly from the whole frame; left out: half of them"
    )
    cutoffs: tuple[int, ...] = Field(
        (), description="cutoffs of the metrics that are to be compared; left out: those of evaluate.metrics"
    )
    aim: Literal["models", "differences"] = Field(
        "models", description="differences: only which of the models is better, not how good each is"
    )
    users: int | None = Field(None, ge=1, description="the most users to be shown something; left out: see budget")
    budget: int | None = Field(
        None, description="the most exposures in all; left out, and no users: every user of the run"
    )
    seed: int = Field(0, ge=0, lt=2**63, description="of users and items; another experiment, another seed")
    to: Input | None = Field(
        None, description="also write the plan here, a row per exposure, for who serves it: parquet, delta or csv"
    )

    @model_validator(mode="after")
    def _possible(self) -> Self:
        if self.users is not None and self.budget is not None:
            raise ValueError("users and budget both say how many users are shown something: give one of them")
        if self.budget is not None and self.budget < self.exposures:
            raise ValueError(
                f"budget: {self.budget} exposures are fewer than the {self.exposures} of one user: give at least as "
                "many"
            )
        if self.uniform is not None and self.uniform > self.exposures:
            raise ValueError(
                f"uniform: {self.uniform} of {self.exposures} exposures cannot be uniform: give at most that"
            )
        if len(set(self.models)) < len(self.models):
            raise ValueError(f"models: {', '.join(self.models)} has a model twice")
        if self.models and len(self.models) < 2 and self.aim == "differences":
            raise ValueError("models: differences are between two models or more")
        if any(k < 1 for k in self.cutoffs):
            raise ValueError("cutoffs: each is 1 or more")
        return self

    @property
    def arm_u(self) -> int:
        """The exposures of arm U."""
        return (self.exposures + 1) // 2 if self.uniform is None else self.uniform


class Collect(Strict):
    """What was shown by a plan, and what users answered."""

    plan: RunId = Field(description="run whose exposure_plan was served")
    lake: str | None = Field(None, description="that holds the plan; left out: the lake of this run")
    shown: Input = Field(description="what was shown: user_id, item_id, value; rows beyond the plan are left out")
