"""Thresholds from the top lists, against the scores themselves."""

from typing import Any

import numpy as np
from pyspark.sql import SparkSession

from eval_engine.lake import Lake
from eval_engine.ranking.thresholds import thresholds_sql
from eval_engine.tables import RANKS


def test_an_item_passes_exactly_if_it_is_in_the_top_k_for_certain(finished_run: Any, spark: SparkSession) -> None:
    lake = Lake(spark, finished_run.config["lake"])
    found = {
        (r["model"], r["user_id"], r["k"]): r["threshold"]
        for r in spark.sql(thresholds_sql(lake.name(RANKS), (1, 9, 25, 26))).collect()
    }
    assert len(found) == 2 * len(finished_run.users) * 4
    for (model, user, k), threshold in found.items():
        u = int(np.flatnonzero(finished_run.users == user)[0])
        scores = np.sort(np.delete(finished_run.scores[model][u], finished_run.logged[u]))[::-1]
        if k == 9 or k == 1:
            assert threshold == scores[k]
        else:
            assert threshold == -np.inf  # 25 candidates: everything is in the top
