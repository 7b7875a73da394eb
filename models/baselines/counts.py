"""Numbers of logged pairs and of logged positives of each item.

    popularity            s_i = #{u: (u, i) logged}
    positive_popularity   s_i = #{u: (u, i) logged and positive}

An item without logged pairs has 0.
"""

import numpy as np
import numpy.typing as npt

from models.logged import Logged


def popularity(logged: Logged) -> npt.NDArray[np.int64]:
    """Logged pairs of each item, shape (n_items,)."""
    return logged.item_counts()


def positive_popularity(logged: Logged) -> npt.NDArray[np.int64]:
    """Logged positives of each item, shape (n_items,)."""
    return logged.positives().item_counts()
