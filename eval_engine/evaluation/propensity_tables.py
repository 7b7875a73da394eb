"""The propensities of a run, prepared for workers: columns of items and users by key, and strata as slices of items.

power, power_legacy   one propensity per item: strata are slices of items
logistic              logits of items and users
naive_bayes           by value; logged: of the pair itself. Both need no table
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from eval_engine.config import StrataSettings
from eval_engine.evaluation.slice_tables import SourceTable
from eval_engine.evaluation.spec import PropensityRule, Strata
from eval_engine.propensity.strata import strata_edges, strata_of
from eval_engine.storage.keyed_table import KeyedTable

ITEMS, USERS, STRATA = "propensities", "propensity_users", "strata of propensities"  # names of source tables


class PropensityTables(NamedTuple):
    """What evaluating needs of the propensities of a run."""

    fit: Mapping[str, Any]  # row of propensity_fits
    floor: float
    sources: tuple[SourceTable, ...]
    strata: tuple[Strata, ...]
    rows: tuple[dict[str, Any], ...]  # of the table strata

    def rule(self, tables: Sequence[KeyedTable]) -> PropensityRule:
        """The rule, with the stored tables of the sources."""
        stored = {table.name: table for table in tables}
        # logged propensities are never scaled; those of items already are
        largest = self.fit["largest"] if self.fit["method"] in ("naive_bayes", "logistic") else 1.0
        by_value = tuple(sorted((self.fit["by_value"] or {}).items()))
        return PropensityRule(self.fit["method"], largest, self.floor, stored.get(ITEMS), stored.get(USERS), by_value)


def propensity_tables(
    fit: Mapping[str, Any], floor: float, items: DataFrame, users: DataFrame, asked: Sequence[StrataSettings]
) -> PropensityTables:
    """From the row of propensity_fits and the tables propensities and propensity_users of a run; one Spark job where
    there are strata.
    """
    sources: tuple[SourceTable, ...] = ()
    if fit["method"] == "logistic":
        sources = (
            SourceTable(ITEMS, "item", items.select("item_id", "logit"), ("logit",), False),
            SourceTable(USERS, "user", users.select("user_id", "logit"), ("logit",), False),
        )
        return PropensityTables(fit, floor, sources, (), ())
    if fit["method"] not in ("power", "power_legacy"):
        return PropensityTables(fit, floor, (), (), ())
    known = items.where("propensity IS NOT NULL")
    counts = (
        known.groupBy("propensity").agg(F.count(F.lit(1)).alias("items"), F.sum("heldout").alias("pairs")).collect()
    )
    p, n_items, n_pairs = (np.array([row[name] for row in counts]) for name in ("propensity", "items", "pairs"))
    strata = tuple(Strata(one.kind, one.n) for one in asked)
    columns, rows = [], []
    for one in strata:
        edges = strata_edges(p, n_pairs, one.n, one.kind)  # type: ignore[arg-type]
        number = F.lit(1)
        for edge in edges:
            number = number + (F.col("propensity") > F.lit(float(edge))).cast("int")
        columns.append(F.concat(F.lit("Q"), number.cast("string")).alias(one.slicing))
        of_item = strata_of(p, edges)
        for x in range(1, one.n + 1):
            mine = (of_item == x) & (n_pairs > 0)
            rows.append(
                {
                    "strata": one.slicing,
                    "stratum": f"Q{x}",
                    "low": float(p[mine].min()) if mine.any() else None,
                    "high": float(p[mine].max()) if mine.any() else None,
                    "n_items": int(n_items[of_item == x].sum()),
                    "n_pairs": int(n_pairs[mine].sum()),
                    "inverse_propensity": float((n_pairs[mine] / p[mine]).sum()),
                }
            )
    sources = (SourceTable(ITEMS, "item", known.select("item_id", "propensity"), ("propensity",), False),)
    if strata:
        names = tuple(one.slicing for one in strata)
        sources += (SourceTable(STRATA, "item", known.select("item_id", *columns), names, True),)
    return PropensityTables(fit, floor, sources, strata, tuple(rows))
