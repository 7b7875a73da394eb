"""The same scores in every layout a table can have give the same ranks, bit for bit, as a literal loop over them."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from tests.eval_engine.ranking.test_rank import check_ranks


def rows(run: Any, order: np.ndarray, kind: pa.DataType = pa.float32()) -> pa.Table:  # noqa: B008
    """The long table of model a, its rows in this order."""
    users, items = np.repeat(run.users, len(run.items)), np.tile(run.items, len(run.users))
    return pa.table({"user_id": users, "item_id": items, "score": pa.array(run.scores["a"].ravel(), kind)}).take(
        pa.array(order)
    )


def long_files(folder: Path, table: pa.Table, n_files: int, group: int) -> dict[str, Any]:
    folder.mkdir(parents=True)
    step = -(-table.num_rows // n_files)
    for n in range(n_files):
        pq.write_table(table.slice(n * step, step), folder / f"part-{n}.parquet", row_group_size=group)
    return {"path": str(folder)}


def vectors(folder: Path, run: Any, dtype: str) -> dict[str, Any]:
    folder.mkdir(parents=True)
    table = pa.table(
        {
            "user_id": run.users,
            "scores": pa.array([row.astype(dtype).tobytes() for row in run.scores["a"]], pa.binary()),
        }
    )
    pq.write_table(table, folder / "part-0.parquet", row_group_size=7)
    return {
        "path": str(folder),
        "dtype": dtype.removeprefix("<").replace("f2", "float16").replace("f4", "float32").replace("f8", "float64"),
    }


def layouts(run: Any, folder: Path, spark: SparkSession) -> dict[str, dict[str, Any]]:
    n = run.scores["a"].size
    together, apart = np.arange(n), np.random.default_rng(3).permutation(n)
    by_file = np.concatenate([together[part::3] for part in range(3)])  # a third of every user's items in each file
    several = pa.concat_tables(
        [rows(run, apart).append_column("model", pa.array([name] * n)) for name in ("m1", "m2")]
    ).take(pa.array(np.random.default_rng(4).permutation(2 * n)))
    lists = pa.table({"user_id": run.users, "scores": pa.array(list(run.scores["a"]), pa.list_(pa.float32()))})
    deleted = pa.concat_tables(
        [rows(run, together), rows(run, together[:50]).set_column(0, "user_id", pa.array([-1] * 50))]
    )
    text = rows(run, apart, pa.float64())
    (folder / "csv").mkdir(parents=True)
    pyarrow.csv.write_csv(text, folder / "csv" / "part.csv")
    delta = f"{folder}/delta"
    long_files(folder / "deleted", deleted, 2, 300)
    spark.read.parquet(str(folder / "deleted")).write.format("delta").option(
        "delta.enableDeletionVectors", "true"
    ).save(delta)
    spark.sql(f"DELETE FROM delta.`{delta}` WHERE user_id < 0")
    mapped = f"{folder}/mapped"
    spark.read.parquet(str(folder / "deleted")).where("user_id > 0").write.format("delta").option(
        "delta.columnMapping.mode", "name"
    ).save(mapped)
    found = {
        "dense float32": vectors(folder / "f4", run, "<f4"),
        "dense float16": vectors(folder / "f2", run, "<f2"),  # the scores are small whole numbers
        "dense float64": vectors(folder / "f8", run, "<f8"),
        "list<float>": long_files(folder / "list", lists, 2, 9),
        "long, together": long_files(folder / "together", rows(run, together), 1, 64),
        "long, cut between files": long_files(folder / "cut", rows(run, together), 7, 50),
        "long, a part in each file": long_files(folder / "by-file", rows(run, by_file), 3, 1000),
        "long, any order, tiny files": long_files(folder / "apart", rows(run, apart), 11, 32),
        "long, float64": long_files(folder / "double", rows(run, apart, pa.float64()), 2, 1000),
        "long, CSV": {"path": str(folder / "csv"), "format": "csv"},
        "long, deletion vectors": {"path": delta},
        "long, renamed columns": {"path": mapped},
    }
    return found | {"m1": long_files(folder / "models", several, 3, 100)}


def test_the_same_ranks_from_every_layout_on_any_partitioning(small_run: Any, spark: SparkSession) -> None:
    found = layouts(small_run, small_run.folder / "layouts", spark)
    scores = small_run.scores["a"]
    small_run.config["scores"] = [where | ({"model": name} if name != "m1" else {}) for name, where in found.items()]
    small_run.scores = dict.fromkeys([*found, "m2"], scores)
    del small_run.tables["scores/a"], small_run.tables["scores/b"]
    before = spark.conf.get("spark.sql.shuffle.partitions")
    try:
        for partitions in ("1", "7"):
            spark.conf.set("spark.sql.shuffle.partitions", partitions)
            check_ranks(small_run, small_run.ranks(spark))
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", before)


@pytest.mark.parametrize("ties", ["strict", "expected"])
def test_a_partial_list_that_is_cut_inside_a_tie_claims_nothing(small_run: Any, spark: SparkSession, ties: str) -> None:
    scores = np.tile(np.where(np.arange(len(small_run.items)) < 3, 2.0, 1.0), (len(small_run.users), 1))
    small_run.scores = {"a": scores.astype(np.float32)}
    best = np.flatnonzero(np.tile(np.arange(len(small_run.items)) < 12, len(small_run.users)))
    small_run.config["scores"] = [
        long_files(small_run.folder / name, rows(small_run, chosen), 2, 100)
        | {"model": name, "partial": name == "best"}
        for name, chosen in (("whole", np.arange(scores.size)), ("best", best))
    ]
    small_run.config |= {"frame": "all_items", "top": 11}
    small_run.config["evaluate"] |= {"metrics": ["recall@3", "recall@10"], "traditional": [], "ties": ties}
    small_run.run(spark)
    estimates = {(row[1], row[2], row[4]): row for row in small_run.rows(spark, "estimates")}
    for (model, estimator, k), row in estimates.items():
        whole = estimates["whole", estimator, k]
        if model == "best" and k == 3:  # the three items above the tie are known
            assert row.value == whole.value
        elif model == "best":  # twelve items are scored, but which ten of them are in the top ten is a matter of ties
            assert row.value is None
            assert "partial list" in row.reason
            assert whole.value is not None


def test_a_partial_list_leaves_unknown_what_it_does_not_tell(small_run: Any, spark: SparkSession) -> None:
    rng = np.random.default_rng(8)
    scores = rng.permuted(np.tile(np.arange(len(small_run.items), dtype=np.float32), (len(small_run.users), 1)), axis=1)
    small_run.scores = {"whole": scores, "best": scores}
    kept = np.flatnonzero(scores.ravel() >= 18)  # the best 12 of 30
    both = {}
    for name, chosen in (("whole", np.arange(scores.size)), ("best", kept)):
        small_run.scores["a"] = scores
        both[name] = long_files(small_run.folder / name, rows(small_run, rng.permutation(chosen)), 3, 100) | {
            "model": name,
            "partial": name == "best",
        }
    small_run.config |= {"scores": list(both.values()), "frame": "all_items"}
    small_run.config["evaluate"] |= {"metrics": ["recall@5", "recall@9"], "traditional": ["recall@5"]}
    del small_run.scores["a"], small_run.tables["scores/a"], small_run.tables["scores/b"]
    small_run.run(spark)
    ranks = {(row["model"], row["user_id"]): row for row in small_run.rows(spark, "ranks")}
    for u, user in enumerate(small_run.users):
        whole, best = ranks["whole", user], ranks["best", user]
        n_trained = int((scores[u, small_run.logged[u]] >= 18).sum())  # that are among the best 12
        assert (best["candidates"], best["scored"], whole["scored"]) == (25, 12 - n_trained, 25)
        assert best["top"]["items"] == whole["top"]["items"][: 12 - n_trained]
        assert best["random"]["k"] == whole["random"]["k"] == [5, 9]
        assert best["random"]["thresholds"] == whole["random"]["thresholds"]  # 12 scores are enough for both
        for source in ("random", "truth"):
            assert (best[source]["candidates"], best[source]["scored"]) == (30, 12)
            for n, score in enumerate(whole[source].scores):
                want = (
                    (whole[source].scores[n], whole[source].above[n], whole[source].tied[n])
                    if score >= 18
                    else (None, None, None)
                )
                assert (best[source].scores[n], best[source].above[n], best[source].tied[n]) == want
    estimates = {(row[1], row[2], row[4]): row for row in small_run.rows(spark, "estimates")}
    for (model, estimator, k), row in estimates.items():
        if model == "best" and estimator != "traditional":
            assert row[5:9] == estimates["whole", estimator, k][5:9]  # 12 scores are enough to know the first 9
            assert row.n_unknown == 0
    lost = estimates["best", "traditional", 5]
    assert lost.value is None  # several of the six exposed items have no score: their order is not known
    assert lost.n_unknown > 0
    assert "partial list" in lost.reason
