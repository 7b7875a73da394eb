"""A file that changes while a run reads it raises an error that names table and file, and nothing is committed."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from rich.console import Console

from eval_engine.errors import DataError, as_operator_error
from eval_engine.inputs.file_stamp import stamped, unchanged
from eval_engine.lake.lake import Lake
from eval_engine.ranking import rank as ranking
from eval_engine.ranking.user_shards import pair_splits, read_splits
from eval_engine.tables import RANKS
from jobs import rank
from jobs.cli import load


def _long(run: Any, order: Any) -> pa.Table:
    """Model a's scores, one row each, in this order."""
    rows = np.repeat(np.arange(len(run.users)), len(run.items))
    columns = {
        "user_id": run.users[rows],
        "item_id": np.tile(run.items, len(run.users)),
        "score": run.scores["a"].ravel(),
    }
    return pa.table(columns).take(pa.array(order))


def test_a_dense_file_replaced_between_plan_and_ranking_is_an_error_and_nothing_is_committed(
    small_run: Any, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = load(small_run.write())
    file, table = small_run.folder / "in" / "scores" / "a" / "part-0.parquet", small_run.tables["scores/a"]
    plans = ranking.plans

    def replaced(assembled: Any) -> Any:
        pq.write_table(table.take(pa.array(np.arange(table.num_rows)[::-1])), file.with_name("new"), row_group_size=16)
        file.with_name("new").rename(file)  # the same number of rows in another order
        return plans(assembled)

    monkeypatch.setattr(ranking, "plans", replaced)
    with pytest.raises(
        DataError, match=rf"scores of a: \S*{file} was replaced, changed or removed .*Start the run again"
    ):
        rank.run(spark, config, Console(quiet=True))
    assert Lake(spark, config.lake).partitions(RANKS, config.run_id) == []
    assert list(Path(config.lake, "ranks").rglob("part-*")) == []


def test_a_long_file_replaced_between_plan_and_ranking_is_an_error_in_any_row_order(
    small_run: Any, spark: SparkSession
) -> None:
    n_rows = small_run.scores["a"].size
    orders = [np.arange(n_rows), np.random.default_rng(1).permutation(n_rows)]  # users contiguous, users scattered
    for model, order in zip("ab", orders, strict=True):
        small_run.tables[f"scores/{model}"] = _long(small_run, order)
    config = load(small_run.write())
    lake = Lake(spark, config.lake)
    with rank.checked(spark, config, lake, rank.already_ranked(spark, config, lake)) as inputs:
        assert inputs.found.facts.apart == len(small_run.users)  # of model b
        for model, order, plan in zip("ab", orders, ranking.plans(inputs.found), strict=True):
            file = small_run.folder / "in" / "scores" / model / "part-0.parquet"
            before, changed = file.read_bytes(), os.stat(file)
            pq.write_table(_long(small_run, order[::-1]), file, row_group_size=16)
            rows = ranking.ranked_rows([plan], inputs.found.id_type)
            with pytest.raises(DataError, match=rf"scores of {model}: \S*{file} was replaced"), as_operator_error():
                rows.collect()
            file.write_bytes(before)
            os.utime(file, ns=(changed.st_atime_ns, changed.st_mtime_ns))


def test_a_label_file_replaced_while_it_is_read_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "truth.parquet"
    pairs = pa.table({"user_id": [1, 1, 2], "item_id": [7, 8, 7], "value": [1.0, 2.0, 3.0]})
    pq.write_table(pairs, file)
    splits = pair_splits({"truth": ((str(file),), {name: name for name in pairs.column_names})}, 1)
    read = read_splits((), (), splits, 1, 1)
    assert len(list(read(iter([pa.RecordBatch.from_pydict({"id": [0]})])))) == 1
    pq.write_table(pa.concat_tables([pairs, pairs]), file)  # rows that no split has
    with pytest.raises(DataError, match=r"truth: \S*truth.parquet was replaced, changed or removed"):
        list(read(iter([pa.RecordBatch.from_pydict({"id": [0]})])))


def test_a_change_in_place_that_keeps_the_size_is_detected(tmp_path: Path) -> None:
    file = tmp_path / "f"
    file.write_bytes(b"abcd")
    read = stamped("scores", [str(file)])
    with unchanged(read):
        pass

    def change() -> None:
        with unchanged(read), file.open("r+b") as handle:
            handle.seek(2)
            handle.write(b"x")

    with pytest.raises(DataError, match=r"scores: \S*f was replaced, changed or removed"):
        change()


def test_the_error_of_a_removed_file_replaces_the_error_that_it_caused(tmp_path: Path) -> None:
    file = tmp_path / "f"
    file.write_bytes(b"abcd")

    def read() -> None:
        with unchanged(stamped("scores", [str(file)])):
            file.unlink()
            raise ValueError("no row 7")

    with pytest.raises(DataError, match="replaced, changed or removed"):
        read()


def test_a_file_that_arrow_does_not_reach_is_not_checked() -> None:
    with unchanged(stamped("scores", ["nosuchstore://bucket/f"])):
        pass
