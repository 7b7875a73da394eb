"""Metrics of top lists by class of popularity, in a whole run, against loops over its tables."""

from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from rich.console import Console

from eval_engine import popularity_classes
from eval_engine.config import Slices
from eval_engine.errors import ConfigError
from eval_engine.evaluation.popularity_tables import popularity_tables
from eval_engine.evaluation.slice_tables import read_slices

OF_LISTS = ["arp", "aplt", "aclt", "tail_share", "novelty", "exposure_share", "p_rsp", "p_rsp_by_user"]
METRICS = [
    *OF_LISTS,
    "p_reo",
    "p_reo_by_user",
    "ndcg_compressed",
    "sampled_hit_rate(negatives=5)",
    "raw_recall",
    "recall",
    "ndcg",
]
K = 3


@pytest.fixture(scope="module")
def popular(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Any:
    from tests.conftest import SmallRun

    run = SmallRun(tmp_path_factory.mktemp("popular"))
    run.hold_out()
    run.config["popularity"] = {"method": "quantile"}
    run.config["evaluate"]["metrics"] = [f"{name}@{k}" for name in METRICS for k in (1, K)]
    run.config["evaluate"]["replicates"] = 0
    run.run(spark)
    return run


class World:
    """The tables of a run as dicts of sets."""

    def __init__(self, run: Any, spark: SparkSession) -> None:
        pairs = run.tables["feedback"].to_pylist()
        items = run.items.tolist()
        self.count = {i: sum(p["item_id"] == i and p["value"] > 3 for p in pairs) for i in items}
        names = popularity_classes(list(self.count.values()), "quantile").class_of_each.tolist()
        self.of_class = dict(zip(items, names, strict=True))
        self.trained = {u: {p["item_id"] for p in pairs if p["user_id"] == u} for u in run.users.tolist()}
        self.n_users = len({p["user_id"] for p in pairs if p["value"] > 3})
        rows = [row for row in run.rows(spark, "ranks") if row["model"] == "a"]
        self.lists = {row["user_id"]: row["top"]["items"] for row in rows}
        self.held = {
            row["user_id"]: [
                (i, above, tied)
                for i, v, above, tied in zip(
                    *(row["heldout"][name] for name in ("items", "values", "above", "tied")), strict=True
                )
                if v > 3
            ]
            for row in rows
        }
        self.candidates = {row["user_id"]: row["heldout"]["candidates"] for row in rows}


def variation(values: list[float]) -> float:
    mean = sum(values) / len(values)
    return (sum((v - mean) ** 2 for v in values) / len(values)) ** 0.5 / mean


def values(run: Any, spark: SparkSession) -> dict[tuple[str, str, int, str], Any]:
    rows = [row for row in run.rows(spark, "estimates") if row["model"] == "a"]
    return {(row["estimator"], row["metric"], row["k"], row["slice"]): row for row in rows}


def test_means_over_lists_are_those_of_loops(popular: Any, spark: SparkSession) -> None:
    w, found = World(popular, spark), values(popular, spark)
    tops = [one[:K] for one in w.lists.values()]
    low = [[w.of_class[i] == "low" for i in top] for top in tops]
    novelty = [[-np.log2((w.count[i] + 1) / (w.n_users + 1)) for i in top] for top in tops]
    expected = {
        "arp": np.mean([np.mean([w.count[i] for i in top]) for top in tops]),
        "aplt": np.mean([np.mean(one) for one in low]),
        "aclt": np.mean([np.sum(one) for one in low]),
        "tail_share": np.sum([np.sum(one) for one in low]) / sum(map(len, tops)),
        "novelty": np.mean([np.mean(one) for one in novelty]),
        "exposure_share": 1.0,
    }
    for name, value in expected.items():
        row = found["lists", name, K, "all"]
        assert row["value"] == pytest.approx(value, rel=1e-12), name
        assert row["low"] <= row["value"] <= row["high"]
    for name in ("unseen", "low", "middle", "high"):
        share = sum(w.of_class[i] == name for top in tops for i in top) / sum(map(len, tops))
        assert found["lists", "exposure_share", K, f"popularity={name}"]["value"] == pytest.approx(share, abs=1e-12)
        own = [[w.count[i] for i in top if w.of_class[i] == name] for top in tops]
        mean = np.mean([np.mean(one) for one in own if one])
        assert found["lists", "arp", K, f"popularity={name}"]["value"] == pytest.approx(mean)


def test_parity_of_classes_is_that_of_loops(popular: Any, spark: SparkSession) -> None:
    w, found = World(popular, spark), values(popular, spark)
    pooled, summed, found_share, found_summed = [], [], [], []
    for name in ("low", "middle", "high"):
        size = sum(one == name for one in w.of_class.values())
        shown = {u: sum(w.of_class[i] == name for i in top[:K]) for u, top in w.lists.items()}
        there = {u: size - sum(w.of_class[i] == name for i in w.trained[u]) for u in w.lists}
        pooled.append(sum(shown.values()) / sum(there.values()))
        summed.append(sum(shown[u] / there[u] for u in shown if there[u]))
        row = found["lists", "p_rsp", K, f"popularity={name}"]
        assert row["value"] == pytest.approx(pooled[-1], rel=1e-12)
        hits = {
            u: [min(max((K - above) / (tied + 1), 0), 1) for i, above, tied in own if w.of_class[i] == name]
            for u, own in w.held.items()
        }
        found_share.append(sum(map(sum, hits.values())) / sum(map(len, hits.values())))
        found_summed.append(sum(sum(one) / len(one) for one in hits.values() if one))
        for metric in ("raw_recall", "recall"):
            assert ("ure_micro", metric, K, f"popularity={name}") in found
    expected = {"p_rsp": pooled, "p_rsp_by_user": summed, "p_reo": found_share, "p_reo_by_user": found_summed}
    for name, of_classes in expected.items():
        row = found["lists", name, K, "all"]
        assert row["value"] == pytest.approx(variation(of_classes), rel=1e-9), name
        assert row["standard_error"] > 0
        assert "3 classes of popularity, at most 1.414" in row["estimand"]


def test_compressed_ndcg_ranks_a_class_among_itself(popular: Any, spark: SparkSession) -> None:
    w, found = World(popular, spark), values(popular, spark)
    for name in ("low", "high"):
        each = []
        for u, top in w.lists.items():
            own = [i for i in top[:K] if w.of_class[i] == name]
            positives = {i for i, _, _ in w.held[u] if w.of_class[i] == name}
            if own:
                dcg = sum(1 / np.log2(r + 1) for r, i in enumerate(own, 1) if i in positives)
                best = sum(1 / np.log2(r + 1) for r in range(1, min(len(own), len(positives)) + 1))
                each.append(dcg / best if best else 0.0)
        row = found["lists", "ndcg_compressed", K, f"popularity={name}"]
        assert row["value"] == pytest.approx(np.mean(each), abs=1e-12)
        assert row["n_users"] == len(each)


def test_ndcg_of_a_class_has_the_ranks_of_the_full_list(popular: Any, spark: SparkSession) -> None:
    """nDCG_L, restricted: low positives at their full ranks, over users with one; the compressed form has other users."""
    w, found = World(popular, spark), values(popular, spark)
    for name in ("low", "high"):
        each = []
        for own in w.held.values():
            ranks = [range(above + 1, above + tied + 2) for i, above, tied in own if w.of_class[i] == name]
            if ranks:
                dcg = sum(np.mean([1 / np.log2(1 + r) if r <= K else 0.0 for r in places]) for places in ranks)
                each.append(dcg / sum(1 / np.log2(1 + r) for r in range(1, min(K, len(ranks)) + 1)))
        row = found["holdout", "ndcg", K, f"popularity={name}"]
        assert row["value"] == pytest.approx(np.mean(each), rel=1e-9)
        assert row["n_users"] == len(each)
        assert row["value"] != pytest.approx(found["lists", "ndcg_compressed", K, f"popularity={name}"]["value"])


def test_means_over_lists_by_declared_slices(small_run: Any, spark: SparkSession) -> None:
    """A slice of items: the lists' items in it; a slice of users: their lists."""
    items, users = small_run.items, small_run.users
    small_run.tables["kinds"] = pa.table({"item_id": items, "kind": np.arange(items.size) % 3})
    small_run.tables["segments"] = pa.table({"user_id": users, "segment": np.arange(users.size) % 2})
    small_run.config["slices"] = {
        "items": [{"path": str(small_run.folder / "in/kinds"), "by": ["kind"]}],
        "users": [{"path": str(small_run.folder / "in/segments"), "by": ["segment"]}],
    }
    small_run.config["popularity"] = {"method": "quantile"}
    names = ("arp", "aplt", "tail_share", "exposure_share")
    small_run.config["evaluate"] = {"metrics": [f"{name}@{K}" for name in names], "traditional": [], "replicates": 0}
    small_run.hold_out()
    small_run.run(spark)
    w, found = World(small_run, spark), values(small_run, spark)
    kind, segment = (
        dict(zip(items.tolist(), range(items.size), strict=True)),
        {int(u): n % 2 for n, u in enumerate(users)},
    )
    every = {u: top[:K] for u, top in w.lists.items()}
    n_all = sum(map(len, every.values()))
    for part, tops, of in (
        ("kind=1", [[i for i in top if kind[i] % 3 == 1] for top in every.values()], n_all),
        ("segment=1", [top for u, top in every.items() if segment[u]], None),
    ):
        low = [[w.of_class[i] == "low" for i in top] for top in tops]
        n = sum(map(len, tops))
        expected = {
            "arp": np.mean([np.mean([w.count[i] for i in top]) for top in tops if top]),
            "aplt": np.mean([np.mean(one) for one in low if one]),
            "tail_share": sum(map(sum, low)) / n,
            "exposure_share": n / (of or n),
        }
        for name, value in expected.items():
            row = found["lists", name, K, part]
            assert row["value"] == pytest.approx(value), (part, name)
            assert row["low"] <= row["value"] <= row["high"]


def test_sampled_hit_rate_leaves_the_other_held_out_positives_out(popular: Any, spark: SparkSession) -> None:
    from scipy.stats import hypergeom

    w, found = World(popular, spark), values(popular, spark)
    for name in ("all", "low"):
        hits, n = 0.0, 0
        for u, own in w.held.items():
            for i, above, tied in own:
                if name == "all" or w.of_class[i] == name:
                    a = above - sum(other < above for j, other, _ in own if j != i)
                    t = tied - sum(other == above for j, other, _ in own if j != i)
                    m = w.candidates[u] - len(own)
                    hits += np.mean([hypergeom.cdf(K - 1, m, a + x, min(5, m)) for x in range(t + 1)])
                    n += 1
        part = name if name == "all" else f"popularity={name}"
        row = found["holdout", "sampled_hit_rate(negatives=5)", K, part]
        assert row["value"] == pytest.approx(hits / n, rel=1e-9)


def test_spark_jobs_are_few_and_do_not_grow_with_metrics(
    popular: Any, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    from jobs import evaluate
    from jobs.cli import load
    from jobs.run_config import RunConfig

    def n_jobs(metrics: list[str]) -> int:
        config = RunConfig.model_validate(asked | {"evaluate": asked["evaluate"] | {"metrics": metrics}})
        before = spark.sparkContext._jsc.sc().dagScheduler().numTotalJobs()
        evaluate.run(spark, config, Console(file=StringIO()))
        return spark.sparkContext._jsc.sc().dagScheduler().numTotalJobs() - before

    monkeypatch.setattr(evaluate, "SMALL_BYTES", 0)  # statistics by Spark, as of large ranks
    asked = load(popular.folder / "run.yaml").model_dump()
    jobs_of_one = n_jobs(["arp@3"])
    assert 0 < jobs_of_one <= 3  # lookup of classes, groupBy of feedback, statistics
    assert n_jobs([f"{name}@{k}" for name in OF_LISTS for k in (1, 2, 3, 5, 9)]) == jobs_of_one
    jobs_with_labels = n_jobs(["recall@3"])
    assert jobs_with_labels <= 4  # and the count of users by label sets
    assert n_jobs(popular.config["evaluate"]["metrics"]) == jobs_with_labels  # the last: other tests read its tables


def test_a_class_without_items_is_no_slice(spark: SparkSession, tmp_path: Path) -> None:
    items = spark.createDataFrame(
        [(1, 0, "unseen"), (2, 4, "low"), (3, 9, "high")], "item_id BIGINT, count BIGINT, class STRING"
    )
    pairs = spark.createDataFrame([(7, 2), (7, 3), (8, 3)], "user_id BIGINT, item_id BIGINT")
    row = {"n_unseen": 1, "n_low": 1, "n_middle": 0, "n_high": 1, "n_users": 2}
    made = popularity_tables(row, items, pairs)
    known = read_slices(spark, Slices(), (), "BIGINT", str(tmp_path / "known"), made.sources)
    looked_up = [source._replace(values=None) for source in made.sources]
    found = read_slices(spark, Slices(), (), "BIGINT", str(tmp_path / "found"), looked_up)
    assert known.slicings == found.slicings
    assert known.slicings[0].values == ("high", "low", "unseen")
    assert known.n_items == found.n_items


def test_models_are_not_compared_where_more_is_not_better(popular: Any, spark: SparkSession) -> None:
    compared = {row["metric"] for row in popular.rows(spark, "comparisons")}
    assert "sampled_hit_rate(negatives=5)" in compared
    assert not {"arp", "p_rsp", "p_reo", "exposure_share"} & compared


def test_a_metric_of_classes_needs_the_section(small_run: Any, spark: SparkSession) -> None:
    small_run.config["evaluate"]["metrics"] = ["arp@3"]
    with pytest.raises(ConfigError, match=r"arp@3 is of classes of popularity, so the section popularity is needed"):
        small_run.run(spark)
