"""The interface of a trained model: all scores of a block of users."""

from typing import Protocol

import numpy as np
import numpy.typing as npt


class Scorer(Protocol):
    """Scores in catalogue order; up to rounding, a user's scores do not depend on the other users of the block."""

    def score_block(self, users: npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
        """Scores of these users (indices) for all items, shape (n_block, n_items)."""
        ...
