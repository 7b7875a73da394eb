"""What a gradient model minimises, as a config names it; each is written out in models/losses.py. No torch here.

loss: {kind: bpr, propensity: {kind: popularity, power: 0.5, floor: 0.1}}     IPS: any loss, weighted
loss: {kind: bce, residual_correlation: 0.1}                                  Boratto's penalty: any loss
"""

from typing import Annotated, Literal

from pydantic import Field

from eval_engine.config import Input, Strict


class PopularityPropensity(Strict):
    """p_i = max(floor, (n_i / max n) ** power), n_i the item's logged pairs."""

    kind: Literal["popularity"] = "popularity"
    power: float = Field(
        default=0.25, ge=0, description="0: every propensity is 1; 1: exposure in proportion to the count"
    )
    floor: float = Field(
        default=0.1, gt=0, le=1, description="the least propensity; caps the weight of a pair at 1 / floor"
    )


class Debiasable(Strict):
    """What can be added to every loss."""

    propensity: PopularityPropensity | None = Field(
        None, description="IPS: logged pairs count 1 / propensity, scaled to mean 1"
    )
    residual_correlation: float = Field(
        0.0,
        ge=0,
        description="weight of Boratto's penalty: |correlation| of the examples' losses with the popularity of their logged item",
    )


class Bce(Debiasable):
    """Binary cross-entropy of each pair."""

    kind: Literal["bce"] = "bce"


class Mse(Debiasable):
    """Squared error of each pair; with link: sigmoid the model's number is squashed first (non-linear PMF)."""

    kind: Literal["mse"] = "mse"
    link: Literal["identity", "sigmoid"] = "identity"


class Bpr(Debiasable):
    """-log sigmoid(x_i - x_j) of a positive i and a negative j."""

    kind: Literal["bpr"] = "bpr"


class Hinge(Debiasable):
    """max(0, 1 - (x_i - x_j)): the soft margin of maximum-margin factorisation."""

    kind: Literal["hinge"] = "hinge"


class PopularityDeconfounding(Debiasable):
    """PD: BPR of elu'(x) * m ** gamma, m the item's share of positives; recommended by x alone, popularity taken out."""

    kind: Literal["pd"] = "pd"
    gamma: float = Field(
        0.2, ge=0, description="how strongly popularity moved what was seen; the paper's grid is 0.02 to 0.25"
    )


class DoublyRobust(Strict):
    """DR joint learning: errors of all pairs are imputed, those of logged pairs corrected by 1 / propensity. Sampler: all_pairs."""

    kind: Literal["dr"] = "dr"
    propensity: PopularityPropensity = PopularityPropensity()
    dims: int = Field(32, ge=1, description="of the imputation model, a matrix factorisation of its own")


class AutoDebias(Strict):
    """Weights of logged and of all pairs, and labels of all, learned from what they do to the loss of a small random set. Sampler: all_pairs."""

    kind: Literal["autodebias"] = "autodebias"
    random: Input = Field(
        description="the small random set: user_id, item_id, value. Never the exposures that judge the model"
    )
    meta_learning_rate: float = Field(0.001, gt=0, description="of the weights; the paper's grid is 1e-4 to 1e-1")
    assumed_learning_rate: float = Field(
        1.0, gt=0, description="of the assumed step whose effect on the random set teaches the weights"
    )


Loss = Annotated[
    Bce | Mse | Bpr | Hinge | PopularityDeconfounding | DoublyRobust | AutoDebias, Field(discriminator="kind")
]
