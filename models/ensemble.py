"""An ensemble of two models: softmax(base) + delta softmax(low), low trained on positives of unpopular items only.

[bqs] section 3.6. Unpopular items are the `share` of items with the fewest positives, ties by catalogue position. The
paper uses its class "low", whose bound is the elbow of the popularity curve: as models/item_classes.py does where the
run has popularity classes.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from eval_engine.errors import DataError
from eval_engine.evaluation.bqs_settings import PUNISHMENT
from eval_engine.statistics.bqs import bqs
from models.device_scorer import DeviceScorer
from models.logged import Logged
from models.scorer import Scorer
from models.spec.ensemble import Ensemble
from models.validation import HeldOutMetric


class HeldOutParts(NamedTuple):
    """The pairs that were trained on, those held out, and which items are unpopular."""

    seen: Logged
    held_out: Logged
    low: npt.NDArray[np.bool_]


class EnsembleScorer(DeviceScorer):
    """The weighted sum of two scorers, each after a softmax over the catalogue."""

    def __init__(self, base: DeviceScorer, low: DeviceScorer, delta: float) -> None:
        super().__init__()
        self.base, self.low, self.delta = base, low, delta

    def scores(self, users: Tensor) -> Tensor:
        """The weighted sum of these users' softmaxes."""
        base, low = (torch.softmax(scorer.scores(users), dim=1) for scorer in (self.base, self.low))
        return base.add_(low, alpha=self.delta)


def low_items(logged: Logged, share: float) -> npt.NDArray[np.bool_]:
    """Whether each item is unpopular."""
    counts = logged.positives().item_counts()
    low = np.zeros(logged.n_items, bool)
    low[np.argsort(counts, kind="stable")[: round(share * logged.n_items)]] = True
    return low


def low_only(logged: Logged, share: float) -> Logged:
    """The pairs of unpopular items."""
    return logged.where(low_items(logged, share)[logged.items])


def held_out_result(model: Ensemble, base: Scorer, whole: Scorer, parts: HeldOutParts) -> float | None:
    """What trials are compared by: the metric of the ensemble, or its balanced quality score against its base. None
    where base stops on its loss, which the ensemble does not have, or nothing is held out.

    The score has the form of eval_engine/statistics/bqs.py: gains of the metric over all held-out positives and over
    those of the low items. Base and low-only model stopped on the same held-out pairs.
    """
    metric, seen, held_out = model.base.stop_on, parts.seen, parts.held_out
    if metric == "loss" or not held_out.positive.any():
        return None
    of_all = HeldOutMetric(model.name, metric, seen, held_out)
    if model.maximise == "quality":
        return of_all(whole)
    rare = held_out.where(parts.low[held_out.items])
    if not rare.positive.any():
        raise DataError(
            f"model {model.name}: maximise bqs needs held-out positives of items that the low-only model learns from, "
            "and none was held out. Raise validation_share or low_share."
        )
    of_low = HeldOutMetric(model.name, metric, seen, rare)
    a = PUNISHMENT[metric.partition("@")[0]]
    return float(bqs(of_all(whole), of_all(base), of_low(whole), of_low(base), a))
