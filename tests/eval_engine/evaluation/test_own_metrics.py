"""A metric of one estimator only, made outside the package, goes through every step from ranks to comparisons."""

from typing import Any

import numpy as np
import pytest
from pyspark.sql import SparkSession

from eval_engine.errors import DataError
from eval_engine.estimators.by_metric import ESTIMATORS
from eval_engine.estimators.by_metric import estimator as estimator_of
from eval_engine.estimators.estimator import Estimator, Terms, mean_over
from eval_engine.evaluation.results import InferenceSettings, estimates_and_comparisons
from eval_engine.evaluation.spec import EvaluationSpec
from eval_engine.evaluation.statistics_plan import STATISTICS_COLUMNS, statistics
from eval_engine.lake.lake import Lake
from eval_engine.metric import Metric
from eval_engine.positive import Positive
from eval_engine.tables import COMPARISONS, RANKS

SOURCE = {
    "full_mean": "truth",
    "full_selected": "both",
    "traditional": "random",
    "ure_mean": "random",
    "ure_x": "random",
}


def own(name: str) -> Estimator:
    """A metric of its own for this estimator: the number of positives in the top k."""

    def terms(labelled: Any, k: int, ties: str, *more: Any) -> Terms:
        return mean_over(labelled.n_labelled > 0, labelled.gained("hits", k, ties))

    return Estimator(name, f"{name}_hits", SOURCE[name], terms, "Mean hits.", "nobody")  # type: ignore[arg-type]


def test_a_metric_of_one_estimator_alone(finished_run: Any, spark: SparkSession) -> None:
    own_ones = [own(name) for name in SOURCE]
    metrics = tuple(Metric(one.metric, 3) for one in own_ones)
    question = EvaluationSpec(
        (Metric("recall", 3), *metrics),
        metrics,
        Positive(">", 3.0),
        "expected",
        ("random", "truth"),
        (*ESTIMATORS, *own_ones),
    )
    lake = Lake(spark, finished_run.config["lake"])
    plan = statistics(lake.read(RANKS, "small"), question)
    rows = plan.rows.mapInArrow(plan.worker, STATISTICS_COLUMNS)
    estimates, comparisons = estimates_and_comparisons(
        rows, InferenceSettings(0.95, 0.01, 0.8, 0, 0), question.estimators
    )
    found = {row[:4]: row[4] for row in estimates}
    exposed = finished_run.truth_values[np.arange(40)[:, None], finished_run.exposed] > 3
    for model in ("a", "b"):
        assert {key[1:] for key in found if key[0] == model and key[2].endswith("hits")} == {
            (name, f"{name}_hits", 3) for name in SOURCE
        }
        assert found[model, "ure_mean", "ure_mean_hits", 3] == found[model, "ure_x", "ure_x_hits", 3]
        assert 0 < found[model, "ure_mean", "ure_mean_hits", 3] < exposed.sum(axis=1).mean()
        assert found[model, "full_mean", "full_mean_hits", 3] == found[model, "full_selected", "full_selected_hits", 3]
    wins = {row[1]: row[COMPARISONS.names.index("wins") - 1] for row in comparisons}  # without run_id
    assert {metric for metric, won in wins.items() if won is not None} == {"recall", "ure_mean_hits"}
    assert set(wins) == {"recall", *(one.metric for one in own_ones)}


def test_an_estimator_that_is_not_there_is_named() -> None:
    with pytest.raises(DataError, match=r"there is no estimator ure_macro of rbp.*evaluate\.py again"):
        estimator_of("ure_macro", "rbp")
