"""Days of other users, added up, against one run over all of them."""

import copy
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import SparkSession
from rich.console import Console

from eval_engine.errors import MergeError
from eval_engine.tables import COMPARISONS, ESTIMATES, REVERSALS
from jobs import evaluate, merge, propensity, rank, test_sets
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
    if config.propensity is not None:
        propensity.run(spark, config, QUIET)
    if config.test_sets is not None:
        test_sets.run(spark, config, QUIET)
    evaluate.run(spark, config, QUIET)


def of_pairs(run: Any) -> None:
    """Held-out pairs with logged propensities."""
    run.hold_out()
    p = np.random.default_rng(3).uniform(0.05, 0.9, run.tables["heldout"].num_rows)
    run.tables["heldout"] = run.tables["heldout"].append_column("propensity", pa.array(p))
    run.config["propensity"] = {"method": "logged"}


def test_days_with_logged_propensities_are_added(small_run: Any, spark: SparkSession) -> None:
    of_pairs(small_run)
    small_run.config["evaluate"] |= {"strata": [], "replicates": 20}
    evaluated(spark, small_run, "all", 0, 40)
    for day, (first, last) in enumerate(((0, 15), (15, 40)), 1):
        evaluated(spark, small_run, f"2026-11-0{day}", first, last)
    lake = merge.lake_of(small_run.config["lake"])
    merge.merge_runs(lake, ["2026-11-01", "2026-11-02"], "days", QUIET)
    whole, added = (
        {
            (row["model"], row["estimator"], row["metric"], row["k"]): row
            for row in lake.rows(ESTIMATES, {"run_id": name})
        }
        for name in ("all", "days")
    )
    assert whole.keys() == added.keys()
    weighted = [cell for cell in whole if cell[1] in ("snips", "snips_user", "clipped", "ips")]
    assert weighted
    for cell in weighted:
        assert added[cell]["value"] == pytest.approx(whole[cell]["value"], rel=1e-9), cell
        for name in ("n_pairs", "effective_pairs", "largest_weight_share", "clipped_share"):
            assert same(added[cell][name], whole[cell][name]), (cell, name)


def test_days_with_propensities_fitted_anew_or_strata_of_their_own_are_not_added(
    small_run: Any, spark: SparkSession
) -> None:
    of_pairs(small_run)
    small_run.config["evaluate"] |= {"replicates": 0}
    small_run.config["window"] = 2
    for method, given in (("logged", {}), ("power", {"gamma": 1.0})):
        small_run.config["propensity"] = {"method": method} | given
        for day, (first, last) in enumerate(((0, 15), (15, 40)), 1):
            evaluated(spark, small_run, f"2026-11-0{day}", first, last)
        lake, said = merge.lake_of(small_run.config["lake"]), Console(record=True, width=300)
        wrong = "edges of strata" if method == "logged" else "propensities"
        with pytest.raises(MergeError, match=rf"their {wrong} differ"):
            merge.merge_runs(lake, ["2026-11-01", "2026-11-02"], "days", QUIET)
        own = copy.copy(small_run)
        own.config = small_run.config | {"run_id": "2026-11-02"}
        merge.run(load(own.write()), said)
        assert (
            f"Added up 1 days, 2026-11-02 to 2026-11-02, as 2026-11-02.window; not beyond 2026-11-01, whose {wrong}"
            in (said.export_text())
        )


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
