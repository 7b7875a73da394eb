"""What holds for all users of a ranking; travels to every task."""

from typing import NamedTuple


class Ranking(NamedTuple):
    """How lists are ranked."""

    n_items: int
    top: int  # length of a top list
    catalogue: tuple[str, ...]  # files of (item_id, position)
    on_bad_rows: str  # error, quarantine
    frame: str  # unseen, all_items: what random exposures were drawn from
    label_sets: tuple[str, ...]  # that the run has (inputs/label_sets.py)
    cutoffs: tuple[int, ...]  # K of the thresholds, ascending, below `top`
    probabilities: tuple[str, ...] = ()  # label sets whose table has probabilities: rank.assembled sees to it
