"""The scorer of popularity and averages: the same row of scores for every user, s_ui = row_i.

A block is the row repeated, in new memory, because ranking may write to it. Rows are float32: above 2^24, counts that
differ by one tie.
"""

import numpy as np
import numpy.typing as npt


class ItemRowScorer:
    """The same scores for every user, also for one without feedback."""

    def __init__(self, row: npt.ArrayLike) -> None:
        self.row = np.asarray(row, dtype=np.float32)  # (n_items,)

    def score_block(self, users: npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
        """The row, once per user."""
        return np.repeat(self.row[None, :], len(users), axis=0)
