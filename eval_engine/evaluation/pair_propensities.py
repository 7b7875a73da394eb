"""The propensity of each held-out pair of some users, by the method of the run: of its item, its value, or the pair
itself.
"""

import numpy as np
import pyarrow as pa

from eval_engine.errors import DataError
from eval_engine.estimators.user_batch import Propensities
from eval_engine.evaluation.spec import PropensityRule
from eval_engine.kernels.rank_facts import RankFacts
from eval_engine.kernels.xxhash64 import xxhash64
from eval_engine.propensity.by_value import of_values
from eval_engine.propensity.logits import of_logits
from eval_engine.storage.keyed_table import loaded


def pair_propensities(
    rows: pa.RecordBatch, rule: PropensityRule, facts: RankFacts, ids: pa.Array | None
) -> Propensities:
    """The propensities of held-out pairs; an error if one is missing."""
    if rule.items is not None and ids is not None:
        own = loaded(rule.items)
        place = own.rows(xxhash64(ids))
        p = np.append(own.columns[rule.items.columns[0]], np.nan)[place]
        if rule.users is not None:
            users = loaded(rule.users)
            logits = np.append(users.columns["logit"], np.nan)[users.rows(xxhash64(rows.column("user_id")))]
            p = of_logits(p, np.repeat(logits, facts.n_labels))
    elif rule.by_value:
        p = of_values(dict(rule.by_value), facts.value)
    else:
        p = np.full(facts.value.size, np.nan) if facts.probability is None else facts.probability
    for pair in np.flatnonzero(~(p > 0))[:1]:
        user = np.searchsorted(facts.offsets, pair, side="right") - 1
        item = "" if ids is None else f", item_id={ids[int(pair)].as_py()}"
        raise DataError(
            f"propensities: the held-out pair of user_id={rows.column('user_id')[int(user)].as_py()}{item} has no "
            f"propensity above 0 by method {rule.method}. Run jobs/propensity.py on the tables of this run again."
        )
    return Propensities({"heldout": p}, rule.largest, rule.floor)
