"""Metrics of the top lists of all users together: catalogue coverage and the Gini index of exposure.

They are exact for the users of the run, so they have no interval. They do not add up over runs.
"""

from eval_engine.estimators.estimator import Estimator

NO_LIST = "users without a top list"
LISTS = Estimator("lists", "lists", "truth", None, frozenset({"top"}), means=("lists",))
