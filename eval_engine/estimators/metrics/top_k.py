"""Sums over the first k items of each user's list, the list as a label set (estimators/lists.py)."""

import numpy as np

from eval_engine.estimators.estimator import Doubles
from eval_engine.estimators.labelled import Labelled
from eval_engine.kernels.user_totals import user_totals

POPULARITY = frozenset({"popularity"})


def top_total(labelled: Labelled, k: int, column: str = "") -> Doubles:
    """The sum of a column of items over the first k items of each list; without a column their number."""
    inside = (labelled.above < k).astype(np.float64)
    return user_totals(labelled.offsets, inside * labelled.column(column) if column else inside)


def with_list(labelled: Labelled) -> Doubles:
    """1 for each user with a list, else 0."""
    return (labelled.n_labelled > 0).astype(np.float64)
