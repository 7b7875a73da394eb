"""An ensemble of two models: softmax(base) + delta softmax(low), low trained on positives of unpopular items only.

[bqs] section 3.6. Unpopular items are the `share` of items with the fewest positives, ties by catalogue position. The
paper uses its class "low", whose bound is the elbow of the popularity curve: as models/item_classes.py does where the
run has popularity classes.
"""

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from models.logged import Logged
from models.scorer import Scorer


class EnsembleScorer(nn.Module):
    """The weighted sum of two scorers, each after a softmax over the catalogue."""

    def __init__(self, base: Scorer, low: Scorer, delta: float) -> None:
        super().__init__()
        self.base, self.low, self.delta = base, low, delta

    def score_block(self, users: npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
        """The weighted sum of these users' softmaxes."""
        base, low = (
            torch.softmax(torch.from_numpy(scorer.score_block(users)), dim=1) for scorer in (self.base, self.low)
        )
        scores: npt.NDArray[np.float32] = base.add_(low, alpha=self.delta).numpy()
        return scores


def low_only(logged: Logged, share: float) -> Logged:
    """The pairs of unpopular items."""
    counts = logged.positives().item_counts()
    low = np.zeros(logged.n_items, bool)
    low[np.argsort(counts, kind="stable")[: round(share * logged.n_items)]] = True
    return logged.where(low[logged.items])
