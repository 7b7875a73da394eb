"""Specs of the losses of gradient models; models/losses.py has the formulas. No torch here.

loss: {kind: bpr, propensity: {kind: popularity, power: 0.5, floor: 0.1}}     IPS weights, for any loss
loss: {kind: bce, residual_correlation: 0.1}                                  Boratto's penalty, for any loss
"""

from typing import Annotated, Literal

from pydantic import Field

from eval_engine.config import Input, Strict
from models.spec.propensities import PopularityPropensity, Propensity


class Debiasable(Strict):
    """Debiasing terms that every loss can have."""

    propensity: Propensity | None = Field(
        None, description="IPS: logged pairs have weight 1 / propensity, scaled to mean 1"
    )
    residual_correlation: float = Field(
        0.0,
        ge=0,
        description="weight of Boratto's penalty: "
        "|correlation| of the examples' losses with the popularity of their logged items",
    )


class Bce(Debiasable):
    """Binary cross-entropy of each pair."""

    kind: Literal["bce"] = "bce"


class Mse(Debiasable):
    """Squared error of each pair; link: sigmoid applies a sigmoid to the model's number first (non-linear PMF)."""

    kind: Literal["mse"] = "mse"
    link: Literal["identity", "sigmoid"] = "identity"


class Bpr(Debiasable):
    """-log sigmoid(x_i - x_j) of a positive i and a negative j."""

    kind: Literal["bpr"] = "bpr"


class Hinge(Debiasable):
    """max(0, 1 - (x_i - x_j)): the soft margin of maximum-margin factorisation."""

    kind: Literal["hinge"] = "hinge"


class PopularityDeconfounding(Debiasable):
    """PD: BPR of elu'(x) * m ** gamma, m the item's share of positives; ranked by x alone, without popularity."""

    kind: Literal["pd"] = "pd"
    gamma: float = Field(
        0.2, ge=0, description="strength of the effect of popularity on exposure; the paper's grid is 0.02 to 0.25"
    )


class DoublyRobust(Strict):
    """DR joint learning: errors of all pairs are imputed, and corrected by logged pairs weighted 1 / propensity.

    Needs sampler all_pairs.
    """

    kind: Literal["dr"] = "dr"
    propensity: Propensity = PopularityPropensity()
    dims: int = Field(32, ge=1, description="of the imputation model, a second matrix factorisation")


class AutoDebias(Strict):
    """Weights of logged and of all pairs, and labels of all pairs, learned from the loss of a small random set.

    Needs sampler all_pairs.
    """

    kind: Literal["autodebias"] = "autodebias"
    random: Input = Field(
        description="the small random set: user_id, item_id, value. Never the exposures that evaluate the model"
    )
    held_out: float = Field(
        0.3,
        ge=0,
        lt=1,
        description="share of the random set that nothing is learned from: stop_on random_auc judges by it",
    )
    logged_learning_rate: float = Field(
        0.01, gt=0, description="of the weights of logged pairs; the authors take 1e-3 to 1e-2"
    )
    logged_decay: float = Field(
        0.0, ge=0, description="L2 penalty of how far these weights are from their start, against the mean loss"
    )
    all_learning_rate: float = Field(0.01, gt=0, description="of the weights of all pairs; the authors take 1e-3")
    all_decay: float = Field(0.0, ge=0, description="the same of the weights of all pairs")
    label_learning_rate: float = Field(0.1, gt=0, description="of the imputed labels; the authors take 1e-1")
    label_decay: float = Field(0.0, ge=0, description="the same of the imputed labels")
    assumed_learning_rate: float = Field(
        1.0, gt=0, description="of the assumed step; the weights are learned from the random set's loss after it"
    )


Loss = Annotated[
    Bce | Mse | Bpr | Hinge | PopularityDeconfounding | DoublyRobust | AutoDebias, Field(discriminator="kind")
]
