"""Specs of models without gradients: counts, averages, neighbours, and alternating least squares. No torch here."""

from typing import Literal

from pydantic import Field

from eval_engine.config import Strict
from models.spec.gradient import Dims, Name, OwnOutput


class Named(Strict):
    """The fields of every model."""

    name: Name
    output: OwnOutput = None


class Random(Named):
    """Scores drawn by hash(seed, user, item): the lower bound of every comparison."""

    kind: Literal["random"] = "random"


class GlobalAverage(Named):
    """The mean of all logged values, for every pair: all items tie."""

    kind: Literal["global_average"] = "global_average"


class Popularity(Named):
    """The item's number of logged pairs, the same for every user."""

    kind: Literal["popularity"] = "popularity"


class PositivePopularity(Named):
    """The item's number of logged positives, the same for every user."""

    kind: Literal["positive_popularity"] = "positive_popularity"


class AverageRating(Named):
    """The item's mean logged value; an item without logged pairs has the mean of all."""

    kind: Literal["average_rating"] = "average_rating"
    damping: float = Field(
        0.0,
        ge=0,
        description="ratings equal to the global mean that are added to each item: 0 is the plain mean",
    )


class Neighbours(Named):
    """Unnormalised sums over the nearest neighbours: sum sim^power * r."""

    neighbours: int = Field(100, ge=1, description="at most this many, those with the highest similarity")
    power: float = Field(1.0, gt=0, description="q of sim ** q")
    label: Literal["positive", "value"] = Field(
        "positive", description="r: 1 for a positive, else 0; or the logged value"
    )


class UserKNN(Neighbours):
    """s_ui = sum over users v near u of sim(u, v)^power * r_vi."""

    kind: Literal["user_knn"] = "user_knn"


class ItemKNN(Neighbours):
    """s_ui = sum over items j near i of sim(i, j)^power * r_uj."""

    kind: Literal["item_knn"] = "item_knn"


class WMF(Named):
    """Weighted matrix factorisation of implicit feedback by alternating least squares."""

    kind: Literal["wmf"] = "wmf"
    dims: Dims = 32
    regularization: float = Field(
        30.0,
        ge=0,
        description="L2 penalty of every vector, against the sum over all pairs; the smaller the log, the more",
    )
    confidence: float = Field(40.0, gt=0, description="alpha: a positive has weight 1 + alpha, any other pair 1")
    sweeps: int = Field(15, ge=1, description="passes over users and items")


Baseline = Random | GlobalAverage | Popularity | PositivePopularity | AverageRating | UserKNN | ItemKNN | WMF
