"""Metrics of top lists, without labels.

    of all lists together   catalogue coverage, the Gini index of exposure: exact for the users of the run, so without
    an
                            interval; they do not add up over runs
    of each user's list     ARP, APLT and their kin: means over users, or ratios of sums, with intervals

A list is a label set in which each item is a positive at its place, so that slices of items and users hold of lists as
of labels: in a slice of items, lists have the items of the slice only.
"""

from eval_engine.estimators.estimator import Estimator, Words
from eval_engine.estimators.labelled import Labelled
from eval_engine.estimators.user_batch import UserBatch

NO_LIST = "users without a top list"
WITH_LIST = Words("users with a top list", NO_LIST)


def recommended(batch: UserBatch) -> Labelled:
    """The top lists."""
    return batch.lists()


LISTS = Estimator(
    "lists",
    "lists",
    "truth",
    None,
    frozenset({"top"}),
    means=("lists", "recommended"),
    pairs=recommended,
    words={"labelled": WITH_LIST, "positive": WITH_LIST},
)
