"""Items drawn uniformly from each user's items, without replacement, by a hash of ids: the draw is the same on any
partitioning and in SQL.

    key(u, i) = xxhash64(seed, user_id, item_id)        as in Spark SQL, seed a BIGINT
    place     = number of the user's items with a smaller key; among equal keys, with an earlier place in the list

The items with place < e are a uniform draw of e items; the draw of a smaller e is a subset of that of a larger e.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eval_engine.kernels.arrays import Ints
from eval_engine.kernels.ragged import users_of
from eval_engine.kernels.rank_facts import RankFacts
from eval_engine.kernels.xxhash64 import xxhash64


def places_drawn(seed: int, user_ids: Any, offsets: Ints, item_ids: Any) -> Ints:
    """The place of each item in the random order of its user's items, int64 (n_items,). The items of user n are
    item_ids[offsets[n] : offsets[n + 1]].
    """
    user = users_of(offsets)
    users = xxhash64(user_ids, np.repeat(xxhash64(pa.array([seed], pa.int64())), len(user_ids)))
    keys = xxhash64(item_ids, users[user])
    place = np.empty(keys.size, np.int64)
    place[np.lexsort((keys, user))] = np.arange(keys.size) - offsets[user]
    return place


def some_pairs(facts: RankFacts, chosen: npt.NDArray[np.bool_]) -> RankFacts:
    """The facts of some of the pairs, for the same users; their places among all candidates are unchanged."""
    offsets = np.concatenate([[0], np.cumsum(chosen)])[facts.offsets]
    score = facts.score[chosen] if facts.score.size else facts.score  # facts of the ranks table have no scores
    probability = None if facts.probability is None else facts.probability[chosen]
    return RankFacts(
        offsets, facts.value[chosen], score, facts.above[chosen], facts.tied[chosen], facts.candidates, probability
    )
