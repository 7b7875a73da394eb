"""The held-out loss by which trials of a search are compared: that of the model's kind of loss, without its own terms.

    mean over held-out pairs of d(x, y)            bce, mse; dr and autodebias as bce, over logged pairs alone
    mean over comparisons of d(x_i - x_j)          bpr, hinge; pd as bpr

No propensity weights, no penalty, no imputed label, no gamma: these differ from trial to trial, and a trial with
smaller weights would look better. Pairs that were drawn are uniform negatives, NEGATIVES for each positive, the same in
every trial. Training stops on its own loss, which has all of these terms.
"""

import math

import torch
from torch import Tensor

from models.backbones.backbone import Backbone
from models.logged import Logged
from models.losses import WeightedLoss
from models.samplers import make_sampler
from models.spec import gradient
from models.spec.losses import Bce, Bpr, Debiasable, Hinge, Mse, PopularityDeconfounding
from models.spec.samplers import AllPairs, Observed, Sampler, UniformNegatives

NEGATIVES = 4
ROWS = 4096  # of a batch: draws do not depend on the batch size of the trial


def plain_loss(
    model: gradient.Backbone, backbone: Backbone, held_out: Logged, known: Logged, generator: torch.Generator
) -> float:
    """The mean over held-out pairs or comparisons; NaN without any."""
    loss = WeightedLoss(_plain(model.loss), known).to(next(backbone.parameters()).device)
    sampler = make_sampler(_same_for_all(model.sampler), held_out, known)
    rows, sums, n = sampler.epoch(generator), [], 0
    with torch.no_grad():
        for at in range(0, len(rows), ROWS):
            batch = sampler.batch(rows[at : at + ROWS], generator, _no_score).to(loss.popularity.device)
            losses = loss(backbone(batch.users, batch.items).float(), batch)
            sums.append(losses.sum().item())
            n += losses.numel()
    return math.fsum(sums) / n if n else math.nan


def _plain(loss: gradient.Loss) -> Bce | Mse | Bpr | Hinge:
    """The loss without weights and penalties."""
    if isinstance(loss, PopularityDeconfounding):
        return Bpr()
    if isinstance(loss, Debiasable):
        return loss.model_copy(update={"propensity": None, "residual_correlation": 0.0})
    return Bce()


def _same_for_all(sampler: Sampler) -> Sampler:
    """The sampler of held-out pairs, whatever is drawn in training."""
    if isinstance(sampler, AllPairs):
        return Observed()
    return sampler if isinstance(sampler, Observed) else UniformNegatives(per_positive=NEGATIVES)


def _no_score(users: Tensor, items: Tensor) -> Tensor:
    """Uniform negatives need no scores."""
    raise AssertionError("uniform negatives are drawn without scores")
