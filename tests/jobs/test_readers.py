"""Every written table reads the same in Spark, delta-rs, Polars and DuckDB."""

from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession
from rich.console import Console

from eval_engine.lake.lake import Lake
from eval_engine.tables import BQS, PROPENSITY_USERS, TABLES, TRIALS, Table
from jobs import design, gate, merge
from jobs.cli import load
from jobs.train import run as train


@pytest.fixture(scope="module")
def odd_run(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Any:
    """A run with slices, whose models have odd names, one of them trained, and that kept bad rows out."""
    from tests.conftest import SmallRun

    run = SmallRun(tmp_path_factory.mktemp("odd"))
    run.config["scores"][0]["model"] = "a b/ü=100%"
    run.config["on_bad_rows"] = "quarantine"
    run.config["evaluate"]["user_metrics"] = True
    run.hold_out()
    run.config["propensity"] = {"method": "power", "gamma": 1.0}
    run.config["design"] = {"exposures": 6, "uniform": 2, "cutoffs": [3]}
    run.config["popularity"] = {"method": "quantile"}
    run.config["test_sets"] = [{"strategy": "WTD_H", "draws": 2, "pairs": True}]
    twice = pa.concat_tables([run.tables["exposures"], run.tables["exposures"].slice(0, 1)])
    run.tables["exposures"] = twice
    run.tables["segments"] = pa.table({"user_id": run.users, "segment": pa.array(["a", "b"] * (len(run.users) // 2))})
    run.config["slices"] = {"users": [{"path": str(run.folder / "in/segments"), "by": ["segment"]}]}
    run.config["train"] = {"scores": str(run.folder / "made"), "models": [{"name": "pop", "kind": "popularity"}]}
    rule = {"name": "ü", "kind": "quality", "rule": "uniform_exposure", "on_fail": "warn"}
    run.config |= {"run_id": "manual__2026-11-17T00:00:00+00:00", "window": 7, "gates": {"rules": [rule]}}
    run.write()
    config = load(run.folder / "run.yaml")
    train(config, Console(quiet=True))
    run.run(spark)
    design.run(spark, config, Console(quiet=True))
    for stage in (merge, gate):
        stage.run(config, Console(quiet=True))
    return run


def texts(table: pa.Table) -> list[str]:
    """Rows as text, in an order of their own: times in UTC, maps and structs as Python has them."""
    rows = []
    for row in table.select(sorted(table.column_names)).to_pylist():
        rows.append(str({name: _plain(value) for name, value in row.items()}))
    return sorted(rows)


def _plain(value: Any) -> Any:
    if hasattr(value, "timestamp"):
        return round(value.timestamp(), 6)
    if isinstance(value, dict):
        return {name: _plain(inside) for name, inside in sorted(value.items())}
    if isinstance(value, (list, tuple)):
        pairs = [
            tuple(_plain(x) for x in (v.values() if isinstance(v, dict) else v))
            for v in value
            if isinstance(v, (tuple, dict))
        ]
        return dict(sorted(pairs)) if len(pairs) == len(value) and pairs else [_plain(v) for v in value]
    return f"{value:.12g}" if isinstance(value, float) else value


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_every_reader_reads_the_same(odd_run: Any, spark: SparkSession, table: Table) -> None:
    uri = f"{odd_run.config['lake']}/{table.name}"
    if not DeltaTable.is_deltatable(uri):
        assert table.name in ("agreement", "study_estimates", "design_study")  # of studies only
        return
    expected = texts(DeltaTable(uri).to_pyarrow_table())
    assert expected or table in (PROPENSITY_USERS, BQS)  # tests/jobs/test_propensity.py, test_bqs.py
    for column in table.partitions:
        assert not pc.any(pc.is_null(DeltaTable(uri).to_pyarrow_table().column(column))).as_py()
    lake, run_id = Lake(spark, odd_run.config["lake"]), odd_run.config["run_id"]
    by_spark = lake.read(table, run_id).unionByName(lake.read(table, f"{run_id}.window"))
    broken = " OR ".join(f"NOT coalesce(({rule}), false)" for rule in table.rules) or "false"
    checked = by_spark.selectExpr("*", f"({broken}) AS broken").toArrow()
    assert texts(checked.drop_columns("broken")) == expected
    assert not any(checked["broken"].to_pylist())
    assert texts(pl.scan_delta(uri).collect().to_arrow()) == expected
    ours = DeltaTable(uri).to_pyarrow_dataset()  # DuckDB finds it by its name
    assert texts(duckdb.sql("SELECT * FROM ours").to_arrow_table()) == expected
    assert ours is not None
    assert table != TRIALS or "pop" in expected[0]
