"""Thresholds from the top lists, against the scores themselves."""

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
    assert len(found) == 2 * len(finished_run.users) * finished_run.config["top"]
    for (model, user, k), threshold in found.items():
        u = int(np.flatnonzero(finished_run.users == user)[0])
        scores = np.sort(np.delete(finished_run.scores[model][u], finished_run.logged[u]))[::-1]
        assert threshold == scores[k]


def test_each_run_has_all_cutoffs_that_its_own_lists_answer(spark: SparkSession) -> None:
    """A view of all runs does not depend on which of them was ranked last."""
    rows = [
        ("long", "a", 1, 9, [5.0, 4.0, 3.0, 2.0], None),
        ("long", "a", 2, 2, [5.0, 4.0], None),  # fewer candidates than the cutoff: everything is in the top
        ("long", "a", 3, 9, [5.0, 4.0], None),  # a partial list
        ("long", "a", 4, 9, None, "its score vector is NULL"),
        ("short", "a", 1, 9, [5.0, 4.0], None),
        ("single", "a", 1, 1, [5.0], None),
    ]
    columns = "run_id STRING, model STRING, user_id BIGINT, candidates INT, scores ARRAY<FLOAT>, problem STRING"
    ranks = spark.createDataFrame(rows, columns).selectExpr("*", "struct(scores) AS top").drop("scores")
    ranks.createOrReplaceTempView("ranks_of_three_runs")
    found = {tuple(row) for row in spark.sql(thresholds_sql("ranks_of_three_runs")).collect()}
    assert found == {
        *(("long", "a", 1, k, threshold) for k, threshold in ((1, 4.0), (2, 3.0), (3, 2.0))),
        *(("long", "a", 2, k, threshold) for k, threshold in ((1, 4.0), (2, -np.inf), (3, -np.inf))),
        *(("long", "a", 3, k, threshold) for k, threshold in ((1, 4.0), (2, None), (3, None))),
        ("short", "a", 1, 1, 4.0),
        ("single", "a", 1, 1, -np.inf),
    }
