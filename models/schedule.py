"""The schedule of training: batch size, epochs and weight decay, from numbers of pairs where a config has none.

It counts steps, so that it holds for any number of pairs. The batch size is a power of two with which an epoch has at
least STEPS steps, if batches have SMALLEST rows or more; there are EPOCHS epochs, or as many as LEAST_STEPS steps take.

A decay is that of the penalty in models/used_rows.py, against a loss that is a mean over examples:

    label: value         PRIOR n / pairs, n the number of users or items that have pairs; a quarter with link: sigmoid
    label: positive      DECAY / sqrt(positives), at most LARGEST_DECAY

The first makes the objective, times the number of pairs, that of [Salakhutdinov, Mnih 2007] eq. 4: the sum of squared
errors + PRIOR / 2 times the sum of |w|^2 over all rows. PRIOR is twice the variance of the noise over that of an entry
of a vector, so it depends neither on the number of pairs nor on whether users or items are more. Near 0 a sigmoid is
1/2 + x/4: s(u.v) predicts what the product of u/2 and v/2 does, and |u/2|^2 is |u|^2 / 4.
"""

import math
from typing import NamedTuple

from models.samplers import Sampler
from models.spec.gradient import Gradient
from models.spec.losses import Mse
from models.spec.samplers import Observed

SMALLEST, STEPS = 128, 10  # rows of a batch; steps of an epoch
EPOCHS, LEAST_STEPS = 60, 3000  # at most, unless the config says how many epochs
PRIOR = 2.0
DECAY, LARGEST_DECAY = 4.5, 0.1


class Schedule(NamedTuple):
    """How long training takes at most, and the penalty of a batch's rows."""

    batch_size: int
    epochs: int
    decay: dict[str, float]  # of users, of items, and of items in histories


def schedule_of(spec: Gradient, training: Sampler) -> Schedule:
    """The spec's batch size, epochs and decay, or those that the training pairs give."""
    n_rows = training.n_rows
    size = spec.batch_size or min(spec.largest_batch, max(SMALLEST, 1 << max(0, (n_rows // STEPS).bit_length() - 1)))
    steps = max(1, -(-n_rows // size))
    decay = _decay(spec, training)
    return Schedule(size, spec.epochs or max(EPOCHS, -(-LEAST_STEPS // steps)), decay | {"past": decay["item"]})


def _decay(spec: Gradient, training: Sampler) -> dict[str, float]:
    """The decay of users and of items."""
    if spec.weight_decay is not None:
        return dict.fromkeys(("user", "item"), spec.weight_decay)
    if isinstance(spec.sampler, Observed) and spec.sampler.label == "value":
        prior = PRIOR / 4 if isinstance(spec.loss, Mse) and spec.loss.link == "sigmoid" else PRIOR
        return {side: prior * int((n > 0).sum()) / max(1, training.n_rows) for side, n in training.uses().items()}
    return dict.fromkeys(("user", "item"), min(LARGEST_DECAY, DECAY / math.sqrt(max(1, training.n_positives))))
