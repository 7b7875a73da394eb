"""Thresholds as SQL, against the scores themselves."""

from typing import Any

import numpy as np
from pyspark.sql import SparkSession

from eval_engine.lake.lake import Lake
from eval_engine.ranking.thresholds import thresholds_sql
from eval_engine.tables import RANKS


def test_an_item_passes_exactly_if_it_is_in_the_top_k_for_certain(finished_run: Any, spark: SparkSession) -> None:
    lake = Lake(spark, finished_run.config["lake"])
    found = {
        (r["model"], r["user_id"], r["k"]): r["threshold"]
        for r in spark.sql(thresholds_sql(lake.name(RANKS))).collect()
    }
    assert {k for _, _, k in found} == {3, 9}  # the cutoffs of the run's metrics
    assert len(found) == 2 * len(finished_run.users) * 2
    for (model, user, k), threshold in found.items():
        u = int(np.flatnonzero(finished_run.users == user)[0])
        scores = np.sort(np.delete(finished_run.scores[model][u], finished_run.logged[u]))[::-1]
        assert threshold == scores[k]


def test_each_run_has_its_own_cutoffs(spark: SparkSession) -> None:
    """A view of all runs does not depend on which of them was ranked last; older versions kept no thresholds."""
    rows = [
        ("one", "a", 1, ([1, 3], [4.0, 2.0]), None),
        ("one", "a", 2, ([1, 3], [4.0, -np.inf]), None),  # fewer candidates than the cutoff: everything is in the top
        ("one", "a", 3, ([1, 3], [4.0, None]), None),  # a partial list
        ("one", "a", 4, None, "its score vector is NULL"),
        ("two", "a", 1, ([2], [4.0]), None),
        ("none", "a", 1, ([], []), None),
        ("old", "a", 1, (None, None), None),
    ]
    columns = "run_id STRING, model STRING, user_id BIGINT, random STRUCT<k: ARRAY<INT>, thresholds: ARRAY<FLOAT>>"
    spark.createDataFrame(rows, f"{columns}, problem STRING").createOrReplaceTempView("ranks_of_four_runs")
    found = {tuple(row) for row in spark.sql(thresholds_sql("ranks_of_four_runs")).collect()}
    assert found == {
        *(("one", "a", 1, k, threshold) for k, threshold in ((1, 4.0), (3, 2.0))),
        *(("one", "a", 2, k, threshold) for k, threshold in ((1, 4.0), (3, -np.inf))),
        *(("one", "a", 3, k, threshold) for k, threshold in ((1, 4.0), (3, None))),
        ("two", "a", 1, 2, 4.0),
    }
