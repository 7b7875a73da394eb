"""Ranks against a literal loop over scores, through every way a dense table can lie on disk."""

from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession

LISTS = ("items", "values", "scores", "above", "tied")


def expected_ranks(run: Any) -> dict[tuple[str, int], dict[str, Any]]:
    """The ranks table of a small run, by loops from the definitions."""
    found = {}
    cutoffs = sorted({int(metric.split("@")[1]) for metric in run.config["evaluate"]["metrics"]})
    for model, scores in run.scores.items():
        for u, user in enumerate(run.users):
            left = [j for j in range(len(run.items)) if j not in set(run.logged[u])]
            frame = left if run.config["frame"] == "unseen" else list(range(len(run.items)))
            held = sorted(run.held[u]) if "heldout" in run.config["inputs"] else []
            row: dict[str, Any] = {}
            for name, positions, candidates in (
                ("random", sorted(run.exposed[u]), frame),
                ("heldout", held, left),
                ("truth", frame, frame),
            ):
                row[name] = [
                    (
                        int(run.items[i]),
                        float(run.truth_values[u, i]),
                        float(scores[u, i]),
                        sum(scores[u, j] > scores[u, i] for j in candidates),
                        sum(scores[u, j] == scores[u, i] for j in candidates if j != i),
                    )
                    for i in positions
                ]
                row[f"{name} candidates"] = len(candidates)
            top = sorted(left, key=lambda j: (-scores[u, j], j))[: run.config["top"] + 1]
            ranked = sorted((float(scores[u, j]) for j in frame), reverse=True)
            found[model, int(user)] = row | {
                "candidates": len(left),
                "top": [(int(run.items[j]), float(scores[u, j])) for j in top],
                "thresholds": [(k, ranked[k] if k < len(ranked) else -np.inf) for k in cutoffs],
            }
    return found


def check_ranks(run: Any, rows: list[Any]) -> None:
    expected = expected_ranks(run)
    assert len(rows) == len(expected)
    for row in rows:
        want = expected[row["model"], row["user_id"]]
        assert row["candidates"] == row["scored"] == want["candidates"]
        assert row["problem"] is None
        for name in ("random", "heldout", "truth"):
            assert list(zip(*(row[name][field] for field in LISTS), strict=True)) == want[name]
            assert row[name]["probabilities"] is None
            assert row[name]["candidates"] == row[name]["scored"] == want[f"{name} candidates"]
        assert list(zip(row["top"]["items"], row["top"]["scores"], strict=True)) == want["top"]
        assert list(zip(row["random"]["k"], row["random"]["thresholds"], strict=True)) == want["thresholds"]


def test_matches_loops_over_the_scores_on_any_number_of_tasks(small_run: Any, spark: SparkSession) -> None:
    before = spark.conf.get("spark.sql.shuffle.partitions")
    try:
        for partitions in ("1", "5"):
            spark.conf.set("spark.sql.shuffle.partitions", partitions)
            check_ranks(small_run, small_run.ranks(spark))
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", before)


def test_vectors_as_lists_in_a_folder_with_spaces(make_small_run: Any, spark: SparkSession) -> None:
    run = make_small_run("a b%20c")
    run.tables["scores/a"] = pa.table(
        {"user_id": run.users, "scores": pa.array(list(run.scores["a"]), pa.list_(pa.float32()))}
    )
    check_ranks(run, run.ranks(spark))


def test_all_models_in_one_delta_table_with_deleted_rows(small_run: Any, spark: SparkSession) -> None:
    both = pa.concat_tables(
        [small_run.vectors(name).append_column("model", pa.array([name] * len(small_run.users))) for name in ("a", "b")]
    )
    junk = both.slice(0, 3).set_column(0, "user_id", pa.array([-1, -2, -3]))
    del small_run.tables["scores/b"]
    small_run.tables["scores/a"] = pa.concat_tables([junk, both])
    small_run.write()
    delta = f"{small_run.folder}/in/delta"
    spark.read.parquet(f"{small_run.folder}/in/scores/a").repartition(3).write.format("delta").option(
        "delta.enableDeletionVectors", "true"
    ).save(delta)
    spark.sql(f"DELETE FROM delta.`{delta}` WHERE user_id < 0")
    small_run.config["scores"] = [{"path": delta}]
    check_ranks(small_run, small_run.ranks(spark))


def test_a_user_with_scores_but_no_labels_has_a_top_list(small_run: Any, spark: SparkSession) -> None:
    stranger = pa.table({"user_id": [7], "scores": pa.array([np.arange(len(small_run.items), dtype="<f4").tobytes()])})
    small_run.tables = {
        name: pa.concat_tables([table, stranger]) if name.startswith("scores") else table
        for name, table in small_run.tables.items()
    }
    row = next(r for r in small_run.ranks(spark) if (r["model"], r["user_id"]) == ("a", 7))
    assert row["candidates"] == len(small_run.items)
    assert row["random"]["items"] == []
    assert row["top"]["items"] == [int(i) for i in small_run.items[::-1][: small_run.config["top"] + 1]]


def test_constant_scorers_tie_with_everybody(small_run: Any, spark: SparkSession) -> None:
    small_run.scores["a"][:] = -np.inf
    small_run.scores["b"][:] = 0.0
    small_run.tables |= {f"scores/{name}": small_run.vectors(name) for name in ("a", "b")}
    check_ranks(small_run, small_run.ranks(spark))


def test_the_frame_of_all_items_keeps_logged_pairs(small_run: Any, spark: SparkSession) -> None:
    small_run.config["frame"] = "all_items"
    check_ranks(small_run, small_run.ranks(spark))


def test_labels_in_delta_whose_columns_took_each_others_names_and_whose_rows_were_deleted(
    small_run: Any, spark: SparkSession
) -> None:
    right = small_run.tables["exposures"]
    wrong = right.slice(0, 5).set_column(0, "user_id", pa.array([-1] * 5))
    both = pa.concat_tables([wrong, right]).rename_columns(["user_id", "item_id", "stars"])
    small_run.tables["exposures"] = both.append_column("value", pa.array(np.full(both.num_rows, 0.5)))
    small_run.write()
    delta = f"{small_run.folder}/in/delta"
    writer = (
        spark.read.parquet(f"{small_run.folder}/in/exposures")
        .write.format("delta")
        .option("delta.enableDeletionVectors", "true")
    )
    writer.option("delta.columnMapping.mode", "name").save(delta)
    spark.sql(f"DELETE FROM delta.`{delta}` WHERE user_id < 0")
    spark.sql(f"ALTER TABLE delta.`{delta}` RENAME COLUMN value TO old")
    spark.sql(f"ALTER TABLE delta.`{delta}` RENAME COLUMN stars TO value")
    small_run.config["inputs"]["exposures"]["path"] = delta
    check_ranks(small_run, small_run.ranks(spark))
