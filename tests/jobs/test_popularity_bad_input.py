"""Runs whose items make classes of popularity degenerate: what cannot be said is NULL with its reason, and nothing is
divided by zero.
"""

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import SparkSession

from eval_engine import popularity_classes

pytestmark = pytest.mark.filterwarnings("error::RuntimeWarning")  # numpy's divisions by zero
LISTS = ("arp", "aplt", "aclt", "tail_share", "novelty", "exposure_share", "coverage", "gini")
CLASSES = ("p_rsp", "p_rsp_by_user", "p_reo", "p_reo_by_user", "ndcg_compressed")
HELD_OUT = ("sampled_hit_rate", "sampled_hit_rate_drawn", "ndcg", "recall", "raw_recall")
K = 9


@pytest.fixture
def degenerate(small_run: Any) -> Any:
    """A run with every metric of popularity, and scores of model b against model a."""
    small_run.hold_out()
    small_run.config |= {
        "popularity": {"method": "elbow"},
        "frame": "all_items",
        "bqs": {"metrics": [f"ndcg@{K}"], "pairs": [{"baseline": "a", "debiased": "b"}]},
    }
    metrics = [f"{name}@{K}" for name in (*LISTS, *CLASSES, *HELD_OUT)]
    small_run.config["evaluate"] = {"metrics": metrics, "traditional": [], "replicates": 20}
    return small_run


def only(run: Any, n_items: int) -> None:
    """Leaves the first items in the run."""
    run.items = run.items[:n_items]
    kept = pa.array(run.items)
    run.tables["catalogue"] = pa.table({"item_id": run.items, "position": np.arange(n_items, dtype=np.int32)})
    for name in ("feedback", "exposures", "truth", "heldout"):
        run.tables[name] = run.tables[name].filter(pc.is_in(run.tables[name]["item_id"], kept))
    run.scores = {name: scores[:, :n_items] for name, scores in run.scores.items()}
    for name in run.scores:
        run.tables[f"scores/{name}"] = run.vectors(name)


class Evaluated:
    """The rows of a run: every number is finite, and what has no value or no interval says why."""

    def __init__(self, run: Any, spark: SparkSession) -> None:
        run.run(spark)
        (self.classes,) = run.rows(spark, "popularity_classes")
        (self.score,) = run.rows(spark, "bqs")
        self.lists = {row["user_id"]: row["top"]["items"] for row in run.rows(spark, "ranks") if row["model"] == "a"}
        rows = [row.asDict() for row in run.rows(spark, "estimates") if row["model"] == "a"]
        for row in [*rows, self.score.asDict()]:
            for name in ("value", "low", "high"):
                assert row[name] is None or math.isfinite(row[name]), (name, row)
                assert row[name] is not None or row["reason"], (name, row)
        self.rows = {(row["estimator"], row["metric"].partition("(")[0], row["slice"]): row for row in rows}

    def value(self, estimator: str, metric: str, part: str = "all") -> float | None:
        return self.rows[estimator, metric, part]["value"]


def equally_popular(run: Any) -> None:
    """Feedback that likes every item four times, never a held-out pair."""
    held = [set(own.tolist()) for own in run.held]
    pairs = []
    for item in range(len(run.items)):
        free = [user for n in range(40) if item not in held[user := (4 * item + n) % 40]]
        pairs += [(int(run.users[user]), int(run.items[item]), 5.0) for user in free[:4]]
    users, items, values = zip(*sorted(pairs), strict=True)
    run.tables["feedback"] = pa.table({"user_id": users, "item_id": items, "value": values})


def test_items_that_are_equally_popular(degenerate: Any, spark: SparkSession) -> None:
    equally_popular(degenerate)
    found = Evaluated(degenerate, spark)
    assert (found.classes["n_low"], found.classes["n_middle"], found.classes["n_high"]) == (0, 30, 0)
    assert found.classes["reason"] == "the items have 1 different counts, and 3 are needed"
    assert found.classes["remark"] == "no item is in class low or high"
    row = found.rows["lists", "arp", "all"]
    assert (row["value"], row["low"], row["high"]) == (4.0, 4.0, 4.0)
    assert [found.value("lists", name) for name in ("aplt", "aclt", "tail_share")] == [0, 0, 0]
    for name in ("p_rsp", "p_rsp_by_user", "p_reo", "p_reo_by_user"):
        assert found.value("lists", name) == 0
        assert "1 class of popularity, at most 0.000" in found.rows["lists", name, "all"]["estimand"]
    assert not [part for _, _, part in found.rows if part in ("popularity=low", "popularity=high")]
    assert found.score["value"] is None
    assert found.score["reason"].startswith("the quality of the group has no value")


def test_one_item(degenerate: Any, spark: SparkSession) -> None:
    only(degenerate, 1)
    found = Evaluated(degenerate, spark)
    assert (found.classes["n_items"], found.classes["reason"]) == (1, "fewer than 25 items have a count")
    assert (found.value("lists", "coverage"), found.value("lists", "gini")) == (1, 0)
    assert found.value("lists", "exposure_share", "popularity=middle") == 1
    assert found.value("holdout", "sampled_hit_rate") == 1  # there is no negative to lose to
    assert found.score["value"] is None


def test_three_items_in_lists_shorter_than_k(degenerate: Any, spark: SparkSession) -> None:
    only(degenerate, 3)
    found = Evaluated(degenerate, spark)
    pairs = degenerate.tables["feedback"].to_pylist()
    count = {i: sum(p["item_id"] == i and p["value"] > 3 for p in pairs) for i in degenerate.items.tolist()}
    low = {i for i, n in count.items() if n <= found.classes["low_at_most"]}
    lists = [own for own in found.lists.values() if own]
    assert {len(own) for own in lists} == {1, 2, 3}
    assert found.value("lists", "arp") == pytest.approx(np.mean([np.mean([count[i] for i in own]) for own in lists]))
    shares = [sum(i in low for i in own) / len(own) for own in lists]
    assert 0 < found.value("lists", "aplt") == pytest.approx(np.mean(shares))
    assert found.value("lists", "aclt") == pytest.approx(np.mean([sum(i in low for i in own) for own in lists]))
    assert found.value("lists", "p_rsp") == 0  # lists have all that they could
    row = found.rows["lists", "p_reo", "all"]
    assert (row["value"], row["low"]) == (0, None)
    assert row["reason"].startswith("too few users for a standard error")
    assert found.score["value"] is not None
    assert found.score["reason"].startswith("no interval")


def test_a_class_without_held_out_positives(degenerate: Any, spark: SparkSession) -> None:
    pairs = degenerate.tables["feedback"].to_pylist()
    counts = [sum(p["item_id"] == i and p["value"] > 3 for p in pairs) for i in degenerate.items.tolist()]
    low = degenerate.items[popularity_classes(counts, "quantile").class_of_each == "low"]
    held = degenerate.tables["heldout"]
    rare = pc.and_(pc.is_in(held["item_id"], pa.array(low)), pc.greater(held["value"], 3.0))
    assert pc.sum(rare).as_py() > 0
    degenerate.tables["heldout"] = held.filter(pc.invert(rare))
    degenerate.config["popularity"] = {"method": "quantile"}
    found = Evaluated(degenerate, spark)
    assert found.classes["n_low"] > 0
    for name in ("p_reo", "p_reo_by_user"):
        assert found.value("lists", name) is not None
        assert "2 classes of popularity, at most 1.000" in found.rows["lists", name, "all"]["estimand"]
        assert found.value("lists", name, "popularity=low") is None
    assert found.value("lists", "p_rsp") is not None
    assert "3 classes of popularity" in found.rows["lists", "p_rsp", "all"]["estimand"]
    row = found.rows["holdout", "sampled_hit_rate", "popularity=low"]
    assert (row["value"], row["reason"]) == (None, "no user can be used: all 40 are users without a held-out positive")
    assert (
        found.value("lists", "ndcg_compressed", "popularity=low") == 0
    )  # users with a low item in the list, none of them found
    assert found.score["value"] is None
    assert found.score["reason"].startswith("the quality of the group has no value")
