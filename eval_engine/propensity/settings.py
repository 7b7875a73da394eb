"""How propensities are made, as the config says it: docs/propensities.md has the formulas.

propensity:
  method: power        # or power_legacy, naive_bayes, logistic, logged
  fit: closed_form
  floor: 0.01
"""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from eval_engine.config import Input, Strict


class _Method(Strict):
    floor: float = Field(
        0.01, gt=0, le=1, description="of `clipped`: a smaller propensity, scaled to at most 1, counts as this one"
    )


class _FromCounts(_Method):
    counts: Literal["logged", "train"] = Field(
        "logged", description="pairs that are counted: feedback and heldout, or feedback only; of any label"
    )
    unseen: Literal["error", "once"] = Field(
        "error",
        description="held-out items with a count of 0, which counts: train makes possible: an error, or the propensity "
        "of items with a count of 1",
    )
    fit: Literal["closed_form", "exact"] = Field(
        "closed_form", description="of the power law: as the package powerlaw estimates it, or by exact likelihood"
    )


class Power(_FromCounts):
    """p ~ count^((gamma + 1) / 2), scaled to at most 1."""

    method: Literal["power"]
    gamma: float | None = Field(None, gt=-1, description="left out: alpha of the power law that is fitted")


class PowerLegacy(_FromCounts):
    """p ~ count^alpha above xmin, count up to it, as in published tables; scaled to at most 1."""

    method: Literal["power_legacy"]
    alpha: float | None = Field(None, gt=0, description="left out, with xmin: of the power law that is fitted")
    xmin: int | None = Field(None, ge=1, description="left out, with alpha: of the power law that is fitted")

    @model_validator(mode="after")
    def _both(self) -> Self:
        if (self.alpha is None) != (self.xmin is None):
            raise ValueError("alpha and xmin belong together: give both, or none to fit them")
        return self


class NaiveBayes(_Method):
    """p(r) = P(r | logged) P(logged) / P(r) of each rating value r; P(r) from the random exposures."""

    method: Literal["naive_bayes"]
    scale: tuple[float, ...] | None = Field(
        None, min_length=3, max_length=100, description="the values that a rating can have; left out: any, at most 100"
    )


class Features(Input):
    """A table with one row for each item or user, and the columns that are features."""

    numbers: tuple[str, ...] = Field((), description="columns of numbers")
    classes: tuple[str, ...] = Field((), description="columns of text with at most 100 values, such as a category")

    @model_validator(mode="after")
    def _some(self) -> Self:
        if not self.numbers and not self.classes:
            raise ValueError("name at least one column, in numbers or in classes")
        return self


class Logistic(_Method):
    """Logistic regression of logged pairs against unlogged ones on features of users and items."""

    method: Literal["logistic"]
    items: tuple[Features, ...] = Field((), description="tables with item_id and features of items")
    users: tuple[Features, ...] = Field((), description="tables with user_id and features of users")
    logged: int = Field(1_000_000, ge=100, description="logged pairs that are used, about; drawn by hash if more")
    unlogged: float = Field(4.0, gt=0, description="unlogged pairs that are drawn by hash, for each logged one")
    penalty: float = Field(0.0, ge=0, description="weight of half the sum of squared coefficients of scaled features")
    seed: int = Field(0, ge=0, lt=2**62, description="of both draws")

    @model_validator(mode="after")
    def _features(self) -> Self:
        if not self.items and not self.users:
            raise ValueError("logistic regression needs features: name a table in items or users")
        names = [
            f"{of}.{name}" for of in ("items", "users") for t in getattr(self, of) for name in t.numbers + t.classes
        ]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"{twice[0]} is named twice. Map one of the columns to another name")
        return self


class Logged(_Method):
    """The column `propensity` of heldout, as the platform has logged it; never scaled."""

    method: Literal["logged"]


Propensity = Annotated[Power | PowerLegacy | NaiveBayes | Logistic | Logged, Field(discriminator="method")]
