"""The run's popularity classes in the specs of models that use classes, where the run has them.

    ensemble       low_share    =  share of items with at most low_at_most positives
    oversampled    high_share   =  share of items with more than high_above positives         (strategy: dynamic)

The bounds are those of the table popularity_classes; the counts are those of all training positives, held out or not,
as in that table. Items with equal counts are in one class, so a share selects exactly the items of the class. Items
without a positive count as low. The shares that were used are in the spec of the table trials. No torch here.
"""

from typing import NamedTuple

import numpy as np
from deltalake.exceptions import DeltaError, TableNotFoundError

from eval_engine.errors import DataError, LakeError
from eval_engine.lake.delta_table import first_line, rows_of
from eval_engine.tables import POPULARITY_CLASSES
from models.logged import Ints
from models.spec.ensemble import Ensemble
from models.spec.samplers import Oversampled
from models.spec.train import Model


class Bounds(NamedTuple):
    """The counts that separate the classes."""

    low_at_most: float
    high_above: float


def read_bounds(uri: str, run_id: str) -> Bounds:
    """The bounds of a run, from the lake's table popularity_classes at this path or URI."""
    try:
        rows = rows_of(uri, POPULARITY_CLASSES, {"run_id": run_id})
    except TableNotFoundError:
        rows = []
    except (DeltaError, OSError) as error:
        raise LakeError(f"The lake's table {uri} cannot be read: {first_line(error)} Check `lake`.") from None
    if not rows:
        raise DataError(
            f"{uri} has no row of run {run_id}, and a model of `train` uses the popularity classes of the run. Run the "
            "stage popularity first, or leave out the section popularity."
        )
    return Bounds(rows[0]["low_at_most"], rows[0]["high_above"])


def uses_classes(model: Model) -> bool:
    """Whether the model treats items by their popularity class."""
    return isinstance(model, Ensemble) or _by_class(model)


def with_classes(model: Model, bounds: Bounds, counts: Ints) -> Model:
    """The model with the shares of the run's classes; counts: training positives of each item."""
    if isinstance(model, Ensemble):
        low = float(np.mean(counts <= bounds.low_at_most))
        base = with_classes(model.base, bounds, counts)
        return model.model_copy(update={"low_share": low, "base": base})
    if not _by_class(model):
        return model
    high = float(np.mean(counts > bounds.high_above))
    sampler = model.sampler.model_copy(update={"high_share": high})  # type: ignore[union-attr]
    return model.model_copy(update={"sampler": sampler})


def _by_class(model: Model) -> bool:
    """Whether the sampler oversamples by the number of highly popular items."""
    sampler = getattr(model, "sampler", None)
    return isinstance(sampler, Oversampled) and sampler.strategy == "dynamic"
