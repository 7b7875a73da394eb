"""One row of scores for everybody: s_ui = row_i. What popularity and averages are to the rest.

A block is the row repeated, in memory of its own: who ranks it may write to it. Rows are float32: beyond 2^24 counts that differ by one tie.
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
