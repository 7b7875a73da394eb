"""The propensities of a run, prepared for workers: columns of items and users by key.

power, power_legacy   propensities of items
logistic              logits of items and users
naive_bayes           by value; logged: of the pair itself. Both need no table
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from pyspark.sql import DataFrame

from eval_engine.evaluation.propensity_strata import NO_STRATA, PropensityStrata
from eval_engine.evaluation.slice_tables import SourceTable
from eval_engine.evaluation.spec import PropensityRule
from eval_engine.storage.keyed_table import KeyedTable

ITEMS, USERS = "propensities", "propensity_users"  # names of source tables
OF_ITEMS = ("power", "power_legacy")  # methods with one propensity per item


class PropensityTables(NamedTuple):
    """What evaluating needs of the propensities of a run."""

    fit: Mapping[str, Any]  # row of propensity_fits
    floor: float
    sources: tuple[SourceTable, ...]
    strata: PropensityStrata = NO_STRATA

    def rule(self, tables: Sequence[KeyedTable]) -> PropensityRule:
        """The rule, with the stored tables of the sources."""
        stored = {table.name: table for table in tables}
        # logged propensities are never scaled; those of items already are
        largest = self.fit["largest"] if self.fit["method"] in ("naive_bayes", "logistic") else 1.0
        by_value = tuple(sorted((self.fit["by_value"] or {}).items()))
        return PropensityRule(self.fit["method"], largest, self.floor, stored.get(ITEMS), stored.get(USERS), by_value)


def propensity_tables(fit: Mapping[str, Any], floor: float, items: DataFrame, users: DataFrame) -> PropensityTables:
    """From the row of propensity_fits and the tables propensities and propensity_users of a run."""
    sources: tuple[SourceTable, ...] = ()
    if fit["method"] == "logistic":
        sources = (
            SourceTable(ITEMS, "item", items.select("item_id", "logit"), ("logit",), False),
            SourceTable(USERS, "user", users.select("user_id", "logit"), ("logit",), False),
        )
    elif fit["method"] in OF_ITEMS:
        known = items.where("propensity IS NOT NULL").select("item_id", "propensity")
        sources = (SourceTable(ITEMS, "item", known, ("propensity",), False),)
    return PropensityTables(fit, floor, sources)
