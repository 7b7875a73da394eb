"""An ensemble of two models: softmax(base) + delta softmax(low), low trained on positives of unpopular items only.

[bqs] section 3.6. Unpopular items are the `share` of items with the fewest positives, ties by catalogue position. The
paper uses its class "low", whose bound is the elbow of the popularity curve: as models/item_classes.py does where the
run has popularity classes.
"""

import numpy as np
import torch
from torch import Tensor

from models.device_scorer import DeviceScorer
from models.logged import Logged


class EnsembleScorer(DeviceScorer):
    """The weighted sum of two scorers, each after a softmax over the catalogue."""

    def __init__(self, base: DeviceScorer, low: DeviceScorer, delta: float) -> None:
        super().__init__()
        self.base, self.low, self.delta = base, low, delta

    def scores(self, users: Tensor) -> Tensor:
        """The weighted sum of these users' softmaxes."""
        base, low = (torch.softmax(scorer.scores(users), dim=1) for scorer in (self.base, self.low))
        return base.add_(low, alpha=self.delta)


def low_only(logged: Logged, share: float) -> Logged:
    """The pairs of unpopular items."""
    counts = logged.positives().item_counts()
    low = np.zeros(logged.n_items, bool)
    low[np.argsort(counts, kind="stable")[: round(share * logged.n_items)]] = True
    return logged.where(low[logged.items])
