"""A metric and estimators made outside the package go through every step from ranks to comparisons."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from eval_engine.errors import DataError
from eval_engine.estimators.estimator import Doubles, Estimator, Terms, Words, mean_over
from eval_engine.estimators.labelled import Labelled
from eval_engine.estimators.metrics.kernel import Kernel, MetricKernel
from eval_engine.estimators.registry import ESTIMATORS, METRICS, formula
from eval_engine.estimators.user_batch import UserBatch
from eval_engine.evaluation.result_groups import InferenceSettings, described
from eval_engine.evaluation.results import results_by_workers
from eval_engine.evaluation.spec import EvaluationSpec
from eval_engine.evaluation.statistics_plan import STATISTICS_COLUMNS, statistics
from eval_engine.kernels.xxhash64 import xxhash64
from eval_engine.lake.lake import Lake
from eval_engine.metric import Metric, Parameter
from eval_engine.positive import Positive
from eval_engine.storage.keyed_table import KeyedTable
from eval_engine.tables import RANKS

PROPENSITY = np.random.default_rng(8).uniform(0.1, 1.0, 30)  # of each item of the small run


def toy_metric() -> MetricKernel:
    """Positives in the top k, each counted so often."""

    def scaled_hits(labelled: Labelled, k: int, ties: str, times: float) -> Terms:
        return mean_over(labelled.n_labelled > 0, times * labelled.gained("hits", k, ties))

    return MetricKernel(
        "hits",
        at_k=True,
        means={"mean": Kernel(scaled_hits, "labelled", "the number of positives in the top k, many times over")},
        parameters={"times": Parameter(1.0, 0.0, 100.0)},
    )


def snips() -> Estimator:
    """Pooled SNIPS with the propensity of each item, over the held-out pairs."""

    def held_out(batch: UserBatch) -> Labelled:
        return batch.complete("heldout")

    def inverse_propensity(batch: UserBatch) -> Doubles:
        return 1 / batch.item_values("propensity", "heldout")

    return Estimator(
        "snips",
        "SNIPS",
        "estimate",
        "full_micro",
        frozenset({"heldout", "item.propensity"}),
        means=("micro",),
        pairs=held_out,
        weight=inverse_propensity,
        words={"positive": Words("users with a held-out positive", "users without a held-out positive")},
        over="from held-out pairs, weighted by 1 / propensity",
        only=frozenset({"recall"}),
    )


def spec_of(sets: tuple[str, ...], metrics: tuple[Metric, ...], tables: tuple[KeyedTable, ...]) -> EvaluationSpec:
    return EvaluationSpec(
        metrics,
        (Metric("hits(times=1)", 2),),
        Positive(">", 3.0),
        "expected",
        sets,
        (*ESTIMATORS.values(), snips()),
        METRICS | {"hits": toy_metric()},
        item_tables=tables,
    )


def test_a_metric_and_an_estimator_from_outside(finished_run: Any, spark: SparkSession, tmp_path: Path) -> None:
    keys = xxhash64(pa.array(finished_run.items))
    pq.write_table(pa.table({"key": keys, "propensity": PROPENSITY}), tmp_path / "items.parquet")
    table = KeyedTable("items", (str(tmp_path / "items.parquet"),), ("propensity",))
    metrics = (Metric("recall", 3), Metric("hits(times=1)", 3), Metric("hits(times=4)", 3))
    spec = spec_of(("random", "heldout", "truth"), metrics, (table,))
    # the random exposures as held-out pairs, too
    ranks = Lake(spark, finished_run.config["lake"]).read(RANKS, "small").withColumn("heldout", F.col("random"))
    plan = statistics(ranks, spec)
    rows = plan.rows.mapInArrow(plan.worker, STATISTICS_COLUMNS)
    estimates, comparisons, *_ = results_by_workers(rows, InferenceSettings(0.95, 0.01, 0.8, 0, 0), described(spec))
    found = {(row["model"], row["estimator"], row["metric"], row["k"]): row["value"] for row in estimates}
    positive = finished_run.truth_values[np.arange(40)[:, None], finished_run.exposed] > 3
    weight = np.where(positive, 1 / PROPENSITY[finished_run.exposed], 0.0)
    for model in ("a", "b"):
        own = {key[1:] for key in found if key[0] == model and key[2].startswith("hits")}
        assert own == {
            *(
                (name, f"hits(times={n})", 3)
                for name in ("full_mean", "ure_mean", "holdout", "open_loop")
                for n in (1, 4)
            ),
            ("traditional", "hits(times=1)", 2),
        }
        once, often = (found[model, "ure_mean", f"hits(times={n})", 3] for n in (1, 4))
        assert often == pytest.approx(4 * once)
        assert 0 < once < positive.sum(axis=1).mean()
        scores = finished_run.scores[model].copy()
        np.put_along_axis(scores, finished_run.logged, -np.inf, axis=1)
        shown = np.take_along_axis(scores, finished_run.exposed, axis=1)
        above = (scores[:, None, :] > shown[:, :, None]).sum(axis=2)
        same = (scores[:, None, :] == shown[:, :, None]).sum(axis=2)
        inside = np.clip((3 - above) / same, 0, 1)
        assert found[model, "snips", "recall", 3] == pytest.approx((weight * inside).sum() / weight.sum(), rel=1e-9)
    wins = {(row["estimator"], row["metric"], row["k"]): row["wins"] for row in comparisons}
    assert wins["ure_mean", "hits(times=4)", 3] is not None
    assert wins["snips", "recall", 3] is None


def test_an_estimator_that_is_not_there_is_named() -> None:
    with pytest.raises(DataError, match=r"there is no estimator ure_macro of rbp.*evaluate\.py again"):
        formula("ure_macro", "rbp")
