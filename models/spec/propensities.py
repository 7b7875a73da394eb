"""Specs of the propensities that weigh logged pairs in training; models/propensity.py has the formulas. No torch here.

propensity: {kind: popularity, power: 0.5, floor: 0.1}          from the counts of the training pairs; the default kind
propensity: {kind: naive_bayes, random: {path: small_random_set}}
propensity: {kind: table, table: {path: propensities_of_items}}
propensity: {kind: run}                                         those of the run's stage propensity
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag

from eval_engine.config import Input, Strict


class PopularityPropensity(Strict):
    """p_i = max(floor, (n_i / max n) ** power), n_i the number of the item's logged pairs."""

    kind: Literal["popularity"] = "popularity"
    power: float = Field(
        default=0.25, ge=0, description="0: every propensity is 1; 1: exposure in proportion to the count"
    )
    floor: float = Field(
        default=0.1, gt=0, le=1, description="the least propensity; caps the weight of a pair at 1 / floor"
    )


class _Given(Strict):
    floor: float = Field(
        0.01, gt=0, le=1, description="the least propensity, as a share of the largest one of a training pair"
    )


class NaiveBayesPropensity(_Given):
    """p(r) = P(r | logged) P(logged) / P(r) of each rating value r; P(r) from a small random set."""

    kind: Literal["naive_bayes"] = "naive_bayes"
    random: Input = Field(
        description="the small random set: value, and exposure_probability if drawn unevenly. "
        "Never the exposures that evaluate the model"
    )


class TablePropensity(_Given):
    """The column `propensity` of a table: of items, or of pairs where the table has user_id."""

    kind: Literal["table"] = "table"
    table: Input = Field(description="item_id and propensity, and user_id if propensities are of pairs")


class RunPropensity(_Given):
    """The propensities that the stage `propensity` of the run has estimated."""

    kind: Literal["run"] = "run"


def _kind(section: Any) -> str:
    """The kind of propensities; a section without one is of popularity."""
    return str(section.get("kind", "popularity") if isinstance(section, Mapping) else getattr(section, "kind", None))


Propensity = Annotated[
    Annotated[PopularityPropensity, Tag("popularity")]
    | Annotated[NaiveBayesPropensity, Tag("naive_bayes")]
    | Annotated[TablePropensity, Tag("table")]
    | Annotated[RunPropensity, Tag("run")],
    Discriminator(
        _kind,
        custom_error_type="propensity_kind",
        custom_error_message="kind is popularity, naive_bayes, table or run",
    ),
]
