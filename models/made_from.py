"""What a model's scores or ranks are made from, as a hash: known before training, and without torch.

    trained_from   the model's spec, the seed, the kind of device, the rule of positives, the feedback, the small
                   random set of AutoDebias, and given propensities: all that the weights follow from

Where a finished table has the same hash, the model is not trained again.
"""

import hashlib
import json

from eval_engine.positive import Positive
from models.interactions import Interactions, read_random_set
from models.logged_propensity import RunPropensities, digest_of, propensity_of
from models.spec.losses import AutoDebias
from models.spec.train import Model

REVISION = 4  # raise it when a change of this package changes scores: tables made before are then made again


def trained_from(
    model: Model,
    seed: int,
    device: str,
    positive: Positive,
    data: Interactions,
    digest: str,
    propensities: RunPropensities | None = None,
) -> str:
    """A hash of all that the model's weights follow from; device: cpu or cuda; `digest` is that of the data."""
    loss = getattr(model, "loss", None)
    random = read_random_set(loss.random, data).digest() if isinstance(loss, AutoDebias) else ""
    given = digest_of(propensity_of(model), data, propensities)
    return hash_of(REVISION, model.model_dump(exclude={"output"}), seed, device, str(positive), digest, random, given)


def hash_of(*parts: object) -> str:
    """A hash of values that JSON can hold."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()
