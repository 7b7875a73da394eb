"""One line of the table `reversals` as plain Python: a pair of models whose order in slices contradicts the whole."""

from collections.abc import Sequence
from typing import NamedTuple


class ReversalRow(NamedTuple):
    """A flagged pair of models, or a family without one (flag `none`); differences are of model_a minus model_b."""

    estimator: str
    metric: str
    k: int
    slicing: str
    flag: str  # reversed, vanishes, weak, none
    n_model_pairs: int
    n_reversed: int
    n_vanishes: int
    n_weak: int
    model_a: str | None = None  # better in the slices named
    model_b: str | None = None
    difference: float | None = None  # in the whole
    p_holm: float | None = None
    slices: Sequence[str] | None = None
    differences: Sequence[float] | None = None
    shares: Sequence[float] | None = None
    share: float | None = None
    share_of: str | None = None  # pairs, users
    items: Sequence[int] | None = None
    random_estimator: str | None = None
    random_difference: float | None = None
    random_says: str | None = None  # as the slices, against the slices, not decided
