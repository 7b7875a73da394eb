"""A model's scores are in one table: the same name in a second one is an error that names both."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from eval_engine.errors import DataError
from eval_engine.lake.lake import Lake
from jobs import rank
from jobs.cli import load


def of_models(run: Any, **names: str) -> None:
    """The tables get a model column with this name, and the config gives no name."""
    for number, (table, name) in enumerate(names.items()):
        old = run.tables[f"scores/{table}"]
        run.tables[f"scores/{table}"] = old.append_column("model", pa.array([name] * old.num_rows))
        run.config["scores"][number].pop("model")


def test_two_model_columns_with_the_same_name(small_run: Any, spark: SparkSession) -> None:
    of_models(small_run, a="m", b="m")
    with pytest.raises(DataError, match=r"model m is in two tables: .*in/scores/a\) and .*in/scores/b\)\. Give one"):
        small_run.ranks(spark)


def test_a_declared_name_and_a_model_column(small_run: Any, spark: SparkSession) -> None:
    of_models(small_run, a="b")
    with pytest.raises(DataError, match=r"model b is in two tables: .*in/scores/a\) and scores of b .*in/scores/b\)"):
        small_run.ranks(spark)


def test_a_model_that_is_ranked_already_and_a_new_table(finished_run: Any, spark: SparkSession, tmp_path: Path) -> None:
    table = finished_run.tables["scores/b"]
    pq.write_table(table.append_column("model", pa.array(["a"] * table.num_rows)), tmp_path / "new.parquet")
    config = load(finished_run.folder / "run.yaml")
    new = config.scores[1].model_copy(update={"model": None, "path": str(tmp_path / "new.parquet")})
    config = config.model_copy(update={"scores": (config.scores[0], new)})
    lake = Lake(spark, config.lake)
    ranked = rank.already_ranked(spark, config, lake)
    assert (ranked.models, list(ranked.inputs)) == (("a",), [1])
    told = pytest.raises(DataError, match=r"model a is in two tables: scores of a .*in/scores/a\) and .*new.parquet\)")
    with told, rank.checked(spark, config, lake, ranked):
        pass
