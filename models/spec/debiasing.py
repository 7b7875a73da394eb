"""Whether a model corrects for exposure, learns from hard negatives, or does neither, from its spec. No torch here."""

from models.spec.ensemble import Ensemble
from models.spec.gradient import Gradient
from models.spec.losses import AutoDebias, Debiasable, DoublyRobust, PopularityDeconfounding
from models.spec.samplers import HardNegatives, Oversampled, RarePositives
from models.spec.train import Model

DEBIASED, HARD_NEGATIVES, PLAIN = "debiased", "hard negatives", "not debiased"


def debiasing(model: Model) -> str:
    """DEBIASED, HARD_NEGATIVES or PLAIN."""
    if isinstance(model, Ensemble):
        return DEBIASED
    if not isinstance(model, Gradient):
        return PLAIN
    loss, sampler = model.loss, model.sampler
    corrected = isinstance(loss, DoublyRobust | AutoDebias | PopularityDeconfounding) or (
        isinstance(loss, Debiasable) and bool(loss.propensity or loss.residual_correlation)
    )
    if corrected or isinstance(sampler, Oversampled | RarePositives):
        return DEBIASED
    return HARD_NEGATIVES if isinstance(sampler, HardNegatives) else PLAIN
