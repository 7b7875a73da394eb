"""Random scores: the lower bound of every comparison.

    s_ui = hash(seed, user_id, item_id) as a number in [0, 1)

The hash is keyed by ids (models/keyed.py): a score does not depend on the block or on the other users.
"""

import numpy as np
import numpy.typing as npt

from models.keyed import Keys, combine, seed_key, unit

IN_CACHE = 1 << 15  # keys at once, which fit the cache: with more, the steps of the hash are memory-bound


class RandomScorer:
    """Random scores keyed by ids."""

    def __init__(self, seed: int, user_keys: Keys, item_keys: Keys) -> None:
        self.user_keys = combine(seed_key(seed), user_keys)
        self.item_keys = item_keys

    def score_block(self, users: npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
        """Draws of these users for all items."""
        keys = self.user_keys[users, None]
        scores = np.empty((len(users), len(self.item_keys)), np.float32)
        step = max(1, IN_CACHE // len(self.item_keys))
        for at in range(0, len(users), step):
            scores[at : at + step] = unit(combine(keys[at : at + step], self.item_keys))
        return scores
