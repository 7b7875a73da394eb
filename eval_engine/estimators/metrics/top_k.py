"""Sums over the first k items of each user's list, the list as a label set (estimators/lists.py)."""

from eval_engine.estimators.estimator import Doubles
from eval_engine.estimators.labelled import Labelled

POPULARITY = frozenset({"popularity"})


def top_total(labelled: Labelled, k: int, column: str = "") -> Doubles:
    """The sum of a column of items over the first k items of each list; without a column their number."""
    return labelled.within(k, column)
