"""What holds for all users of a ranking; travels to every task."""

from typing import NamedTuple


class Ranking(NamedTuple):
    """How lists are ranked."""

    n_items: int
    top: int  # length of a top list
    catalogue: tuple[str, ...]  # files of (item_id, position)
    on_bad_rows: str  # error, quarantine
    probabilities: bool = False  # exposures come with theirs: rank.assembled sees to it
