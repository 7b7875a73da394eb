"""A lake of an older version is read, written and keeps its runs.

tests/data/lake_before was written by an older version: the tables of SmallRun, ranked and evaluated as run `before`.
"""

import io
import shutil
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession
from rich.console import Console

from eval_engine.lake.delta_table import fields_of
from eval_engine.lake.lake import Lake
from eval_engine.tables import COMPARISONS, ESTIMATES, TABLES, Table
from jobs import report

BEFORE = Path(__file__).parents[1] / "data" / "lake_before"
WRITTEN = [table for table in TABLES if (BEFORE / table.name).exists()]


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Path:
    """A copy of the lake, with a run `after` of the same inputs by this version."""
    from tests.conftest import SmallRun

    folder = tmp_path_factory.mktemp("older")
    shutil.copytree(BEFORE, folder / "lake")
    run = SmallRun(folder)
    run.config["run_id"] = "after"
    run.run(spark)
    return folder / "lake"


def stored(table: Table, lake: Path = BEFORE, run_id: str = "before") -> pa.Table:
    rows = DeltaTable(lake / table.name).to_pyarrow_table()
    return rows.filter(pc.equal(rows.column("run_id"), run_id))


def in_fields(value: Any, kind: pa.DataType) -> Any:
    """A value without the fields of structs that its older type lacks; a new field must be NULL."""
    if value is None or not pa.types.is_struct(kind):
        return value
    assert [name for name, inside in value.items() if kind.get_field_index(name) < 0 and inside is not None] == []
    return {field.name: in_fields(value[field.name], field.type) for field in kind}


def texts(rows: pa.Table, old: pa.Schema) -> list[str]:
    """Rows as text, sorted, in the columns of the older version; new columns must be NULL."""
    for name in set(rows.column_names) - set(old.names):
        assert rows.column(name).null_count == rows.num_rows, name
    kept = rows.select(old.names)
    if "started_at" in old.names:  # readers give it in time zones of their own
        number = kept.schema.get_field_index("started_at")
        kept = kept.set_column(number, "started_at", kept.column("started_at").cast(pa.int64()))
    return sorted(str([in_fields(row[field.name], field.type) for field in old]) for row in kept.to_pylist())


def test_show_prints_its_numbers_and_writes_nothing(spark: SparkSession) -> None:
    files = {path: path.stat().st_mtime_ns for path in BEFORE.rglob("*")}
    printed = io.StringIO()
    report.show(spark, str(BEFORE), "before", Console(file=printed, width=100))
    rows = [row for row in stored(ESTIMATES).to_pylist() if row["value"] is not None]
    assert {row["model"] for row in rows} == {"a", "b"}
    assert len(rows) > 20
    for row in rows:
        assert f"{row['value']:.4f}" in printed.getvalue(), row
    assert {path: path.stat().st_mtime_ns for path in BEFORE.rglob("*")} == files


@pytest.mark.parametrize("table", WRITTEN, ids=lambda table: table.name)
def test_its_run_reads_the_same_in_every_reader_after_a_new_run(lake: Path, spark: SparkSession, table: Table) -> None:
    old = stored(table)
    expected = texts(old, old.schema)
    assert expected or table.name == "quarantine"
    assert set(fields_of(stored(table, lake).schema)) == set(table.fields)  # the new run has brought what is new
    assert texts(stored(table, lake), old.schema) == expected
    assert texts(Lake(spark, str(lake)).read(table, "before").toArrow(), old.schema) == expected
    dataset = DeltaTable(lake / table.name).to_pyarrow_dataset()  # DuckDB finds it by its name
    by_duckdb = duckdb.sql("SELECT * FROM dataset WHERE run_id = 'before'").to_arrow_table()
    assert texts(by_duckdb, old.schema) == expected
    assert dataset is not None


CHANGED = {  # intervals, chances and verdicts have other formulas since; of balanced URE the values too (CHANGELOG)
    *("low", "high", "ties_low", "ties_high", "bootstrap_error", "bootstrap_low", "bootstrap_high", "chance_best"),
    *("p", "p_holm", "p_bh", "p_a_no_worse", "p_b_no_worse", "users_needed", "verdict", "reason"),
}


@pytest.mark.parametrize("table", [ESTIMATES, COMPARISONS], ids=lambda table: table.name)
def test_a_new_run_of_the_same_inputs_has_the_same_numbers(lake: Path, table: Table) -> None:
    key = [name for name in table.key if name not in ("run_id", "slice")]

    def by_key(rows: pa.Table) -> dict[tuple[Any, ...], dict[str, Any]]:
        return {
            tuple(row[name] for name in key): {name: row[name] for name in row if name != "run_id"}
            for row in rows.to_pylist()
            if row.get("slice") in (None, "all")  # NULL before there were slices
        }

    before, after = by_key(stored(table)), by_key(stored(table, lake, "after"))
    for place, row in before.items():
        for name, value in row.items():
            if not isinstance(value, str) and name not in CHANGED and "ure_balanced" not in place:
                expected = value if value is None else pytest.approx(value, rel=1e-9, abs=1e-12)
                assert after[place][name] == expected, (place, name)
