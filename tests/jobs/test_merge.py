"""Days of other users, added up, against one run over all of them."""

import copy
from typing import Any

import pyarrow.compute as pc
import pytest
from pyspark.sql import SparkSession
from rich.console import Console

from eval_engine.tables import COMPARISONS, ESTIMATES, REVERSALS
from jobs import evaluate, merge, rank, test_sets
from jobs.cli import load

QUIET = Console(quiet=True)
OF_ERRORS = ("standard_error", "low", "high", "estimand")  # of a merged run by bucket; in `estimates` only


def evaluated(spark: SparkSession, run: Any, run_id: str, first: int, last: int) -> None:
    """A run over the users of these positions."""
    own = copy.copy(run)
    users = own.users[first:last]
    own.tables = dict(run.tables)
    for name in run.tables.keys() - {"catalogue", "people"}:
        chosen = pc.is_in(run.tables[name].column("user_id"), pc.cast(users.tolist(), "int64"))
        own.tables[name] = run.tables[name].filter(chosen)
    own.config = run.config | {"run_id": run_id}
    config = load(own.write())
    rank.run(spark, config, QUIET)
    if config.test_sets is not None:
        test_sets.run(spark, config, QUIET)
    evaluate.run(spark, config, QUIET)


def same(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return one == pytest.approx(other, rel=1e-9, abs=1e-12)
    return bool(one == other)


def test_days_of_other_users_give_what_one_run_over_all_gives(small_run: Any, spark: SparkSession) -> None:
    small_run.hold_out()
    small_run.config["slices"] = {"users": [{"path": str(small_run.folder / "in" / "people"), "by": ["country"]}]}
    people = {"user_id": small_run.users, "country": ["de" if u % 3 else "fr" for u in small_run.users]}
    small_run.tables["people"] = small_run.tables["feedback"].schema.empty_table().from_pydict(people)
    evaluated(spark, small_run, "all", 0, 40)
    for day, (first, last) in enumerate(((0, 9), (9, 25), (25, 40)), 1):
        evaluated(spark, small_run, f"2026-11-0{day}", first, last)
    lake = merge.lake_of(small_run.config["lake"])
    merge.merge_runs(lake, ["2026-11-03", "2026-11-01", "2026-11-02"], "days", QUIET)
    for table in (ESTIMATES, COMPARISONS, REVERSALS):
        key = [name for name in table.key if name != "run_id"]
        rows = [
            {tuple(row[name] for name in key): row for row in lake.rows(table, {"run_id": run_id})}
            for run_id in ("all", "days")
        ]
        assert rows[0].keys() == rows[1].keys()
        for cell, row in rows[0].items():
            other = rows[1][cell]
            if "cannot be added" in (other.get("reason") or ""):
                assert row["reason"].startswith("exact for the users of the run")
                continue
            not_alike = OF_ERRORS if table is ESTIMATES else ()
            wrong = {
                n: (row[n], other[n]) for n in row if n not in ("run_id", *not_alike) and not same(row[n], other[n])
            }
            assert not wrong, (table.name, cell)
            if table is ESTIMATES and row["standard_error"] and row["n_users"] > 30:
                assert other["standard_error"] == pytest.approx(row["standard_error"], rel=0.5), cell
