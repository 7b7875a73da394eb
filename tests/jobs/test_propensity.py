"""The propensity stage on real files: every method, its tables, and what it says of bad input."""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from rich.console import Console

from eval_engine.errors import ConfigError, DataError
from eval_engine.positive import Positive
from eval_engine.propensity.by_value import of_values
from eval_engine.propensity.logits import of_logits
from eval_engine.propensity.power_law import power_law
from eval_engine.propensity.power_legacy import power_legacy
from jobs import propensity
from jobs.cli import load
from jobs.pipeline import STAGES, stages_of

QUIET = Console(quiet=True)


def rows(run: Any, table: str) -> list[dict[str, Any]]:
    """The run's rows of a table of the lake."""
    return DeltaTable(run.folder / "lake" / table).to_pyarrow_table().to_pylist()


def skewed(run: Any) -> None:
    """Held-out pairs, and feedback in which low positions are frequent; one item of the catalogue is never logged."""
    run.hold_out()
    rng = np.random.default_rng(4)
    n_users, n_items = run.truth_values.shape
    logged = rng.random((n_users, n_items)) < np.linspace(0.9, 0.02, n_items)
    held = rng.random((n_users, n_items)) < 0.3
    logged[:, -1] = False
    for name, chosen in (("feedback", logged & ~held), ("heldout", logged & held)):
        user, item = np.nonzero(chosen)
        columns = {"user_id": run.users[user], "item_id": run.items[item], "value": run.truth_values[user, item]}
        run.tables[name] = pa.table(columns)
    run.config["frame"] = "all_items"


def started(run: Any, spark: SparkSession, **section: Any) -> dict[str, Any]:
    """The stage is run with this section; its row of fits."""
    run.config["propensity"] = section
    propensity.run(spark, load(run.write()), QUIET)
    (row,) = rows(run, "propensity_fits")
    return row


def counts_of(run: Any, *tables: str) -> dict[int, int]:
    ids = [i for table in tables for i in run.tables[table]["item_id"].to_pylist()]
    return {item: ids.count(item) for item in run.items.tolist()}


def test_power_law_of_all_logged_pairs_twice_the_same(small_run: Any, spark: SparkSession) -> None:
    skewed(small_run)
    feedback = small_run.tables["feedback"]  # one user has held-out pairs only: they count
    small_run.tables["feedback"] = feedback.filter(pc.not_equal(feedback["user_id"], small_run.users[3]))
    fit = started(small_run, spark, method="power", floor=0.2)
    counts = counts_of(small_run, "feedback", "heldout")
    law = power_law(list(counts.values()))
    assert (fit["alpha"], fit["xmin"], fit["n_tail"], fit["gamma"]) == (law.alpha, law.xmin, law.n_tail, law.alpha)
    stored = {row["item_id"]: row for row in rows(small_run, "propensities")}
    p = dict(zip(counts, law.propensity(list(counts.values())).tolist(), strict=True))
    assert {item: row["count"] for item, row in stored.items()} == counts
    for item, row in stored.items():
        assert row["propensity"] == (pytest.approx(p[item], rel=1e-12) if counts[item] else None)
    held = small_run.tables["heldout"]["item_id"].to_pylist()
    assert {item: row["heldout"] for item, row in stored.items()} == counts_of(small_run, "heldout")
    of_pairs = np.array([p[item] for item in held])
    assert (fit["least"], fit["largest"]) == (pytest.approx(of_pairs.min()), pytest.approx(of_pairs.max()))
    assert fit["share_below_floor"] == pytest.approx((of_pairs < 0.2).mean())
    assert (fit["n_items"], fit["n_unseen"], fit["n_heldout"]) == (30, 1, len(held))
    assert (fit["n_bad_rows"], fit["n_cold_users"]) == (0, 1)
    groups = rows(small_run, "propensity_calibration")
    check_calibration(small_run, groups, np.array([1 / p[item] for item in held]))
    before = spark.conf.get("spark.sql.shuffle.partitions")
    spark.conf.set("spark.sql.shuffle.partitions", "7")
    try:
        assert started(small_run, spark, method="power", floor=0.2) == fit
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", before)
    assert rows(small_run, "propensity_calibration") == groups
    assert {row["item_id"]: row for row in rows(small_run, "propensities")} == stored


def check_calibration(run: Any, groups: list[dict[str, Any]], weights: np.ndarray) -> None:
    """The shares of positives of each group, by loops over the pairs."""
    counts = counts_of(run, "feedback")
    positive = Positive(">", 3.0)
    held = run.tables["heldout"]
    hits = positive.of(held["value"].to_numpy())
    exposed = run.tables["exposures"].filter(pc.greater(run.tables["exposures"]["value"], 3.0))["item_id"].to_pylist()
    items = held["item_id"].to_pylist()
    assert {0, 1} <= {row["group"] for row in groups}
    assert sum(row["n_items"] for row in groups) == len(counts)
    for row in groups:
        inside = {item for item, n in counts.items() if row["trained_low"] <= n <= row["trained_high"]}
        assert row["n_items"] == len(inside)
        mine = np.array([item in inside for item in items])
        assert (row["heldout"], row["positives"]) == (mine.sum(), (mine & hits).sum())
        assert row["heldout_share"] == pytest.approx((mine & hits).sum() / hits.sum())
        assert row["weighted_share"] == pytest.approx(weights[mine & hits].sum() / weights[hits].sum())
        assert row["random_share"] == pytest.approx(sum(item in inside for item in exposed) / len(exposed))


def test_counts_of_training_pairs_only_and_ids_that_are_text(small_run: Any, spark: SparkSession) -> None:
    skewed(small_run)
    rare = small_run.items[-2]
    feedback, heldout = (small_run.tables[name] for name in ("feedback", "heldout"))
    small_run.tables["feedback"] = feedback.filter(pc.not_equal(feedback["item_id"], rare))
    one = pa.table({"user_id": small_run.users[:1], "item_id": [rare], "value": [4.0]})
    kept = heldout.filter(pc.not_equal(heldout["item_id"], rare))
    small_run.tables["heldout"] = pa.concat_tables([kept, one])
    counts = {str(item): n for item, n in counts_of(small_run, "feedback").items()}
    for name in ("catalogue", "feedback", "heldout", "exposures"):
        table = small_run.tables[name]
        for column in {"user_id", "item_id"} & set(table.column_names):
            table = table.set_column(table.column_names.index(column), column, table[column].cast(pa.string()))
        small_run.tables[name] = table
    fit = started(small_run, spark, method="power_legacy", counts="train", alpha=1.5, xmin=4, unseen="once")
    assert (fit["alpha"], fit["xmin"], fit["ks"], fit["n_unseen_pairs"]) == (1.5, 4, None, 1)
    stored = {row["item_id"]: row["propensity"] for row in rows(small_run, "propensities")}
    largest = max(counts.values())
    assert stored.pop(str(small_run.items[-1])) is None
    for item, p in stored.items():
        assert p == pytest.approx(float(power_legacy(max(1, counts[item]), 1.5, 4, largest)))


def test_naive_bayes_over_rating_values(small_run: Any, spark: SparkSession) -> None:
    skewed(small_run)
    fit = started(small_run, spark, method="naive_bayes", scale=[1, 2, 3, 4, 5])
    logged = [v for table in ("feedback", "heldout") for v in small_run.tables[table]["value"].to_pylist()]
    exposed = small_run.tables["exposures"]["value"].to_pylist()
    density = len(logged) / (40 * 30)
    by_value = dict(fit["by_value"])
    assert sorted(by_value) == [1, 2, 3, 4, 5]
    for value, p in by_value.items():
        bayes = logged.count(value) / len(logged) * density / (exposed.count(value) / len(exposed))
        assert p == pytest.approx(min(1, bayes))
    assert all(row["propensity"] is None for row in rows(small_run, "propensities"))
    weights = 1 / of_values(by_value, small_run.tables["heldout"]["value"].to_numpy())
    check_calibration(small_run, rows(small_run, "propensity_calibration"), weights)


def test_logged_propensities_are_judged_and_not_scaled(small_run: Any, spark: SparkSession) -> None:
    skewed(small_run)
    heldout = small_run.tables["heldout"]
    with pytest.raises(DataError, match="heldout: column 'propensity' is missing"):
        started(small_run, spark, method="logged")
    p = np.linspace(0.001, 0.4, heldout.num_rows)
    small_run.tables["heldout"] = heldout.append_column("propensity", pa.array(p))
    fit = started(small_run, spark, method="logged")
    assert (fit["least"], fit["largest"]) == (p[0], p[-1])
    assert fit["share_below_floor"] == pytest.approx((p < 0.01).mean())
    counts = counts_of(small_run, "feedback", "heldout")
    check_calibration(small_run, rows(small_run, "propensity_calibration"), 1 / p)
    p[3] = 0.0
    small_run.tables["heldout"] = heldout.append_column("propensity", pa.array([*p[:-1], None]))
    odd = {"user_id": pa.array([100, None], pa.int64()), "item_id": [7, 1000], "value": [1.0, 2.0]}
    small_run.tables["feedback"] = pa.concat_tables([small_run.tables["feedback"], pa.table(odd)])
    with pytest.raises(
        DataError, match=r"feedback: 3 rows break the rule null_key \(first: user_id=NULL, item_id=1000"
    ):
        started(small_run, spark, method="logged")
    small_run.config["on_bad_rows"] = "quarantine"
    fit = started(small_run, spark, method="logged")
    assert (fit["n_bad_rows"], fit["n_heldout"], fit["least"]) == (4, heldout.num_rows - 2, p[0])  # one: no such item
    counts[int(heldout["item_id"][3].as_py())] -= 1
    counts[int(heldout["item_id"][-1].as_py())] -= 1
    assert {row["item_id"]: row["count"] for row in rows(small_run, "propensities")} == counts


def test_logistic_regression_on_features_of_users_and_items(small_run: Any, spark: SparkSession) -> None:
    """Propensities of a known law: coefficients, the intercept's correction and the stored logits."""
    rng = np.random.default_rng(0)
    n_users, n_items = 400, 90
    small_run.hold_out()
    users, items = np.arange(n_users), np.arange(n_items) + 500
    activity, price = rng.normal(0, 1, n_users), rng.normal(3, 2, n_items)
    kind = np.array(["a", "b", "c"])[rng.integers(0, 3, n_items)]
    logit = -3 + 0.8 * activity[:, None] - 0.3 * price[None, :] + 1.2 * (kind == "b")[None, :]
    true = 1 / (1 + np.exp(-logit))
    user, item = np.nonzero(rng.random((n_users, n_items)) < true)
    value = rng.integers(1, 6, user.size).astype(float)
    table = pa.table({"user_id": users[user], "item_id": items[item], "value": value})
    held = pa.array(rng.random(user.size) < 0.3)
    small_run.tables |= {"feedback": table.filter(pc.invert(held)), "heldout": table.filter(held)}
    position = np.arange(n_items, dtype=np.int32)[::-1]
    small_run.tables["catalogue"] = pa.table({"item_id": items, "position": position})
    random = np.arange(n_users) % n_items
    small_run.tables["exposures"] = pa.table({"user_id": users, "item_id": items[random], "value": random * 1.0})
    small_run.tables["users"] = pa.table({"user_id": users, "activity": activity})
    small_run.tables["items"] = pa.table({"item_id": items, "price": price, "kind": kind})
    section: dict[str, Any] = {
        "users": [{"path": str(small_run.folder / "in" / "users"), "numbers": ["activity"]}],
        "items": [{"path": str(small_run.folder / "in" / "items"), "numbers": ["price"], "classes": ["kind"]}],
    }
    fit = started(small_run, spark, method="logistic", unlogged=8, **section)
    fitted = dict(fit["coefficients"])
    expected = {"intercept": -3, "users.activity": 0.8, "items.price": -0.3, "items.kind=b": 1.2, "items.kind=c": 0.0}
    assert set(fitted) == set(expected)
    for name, coefficient in expected.items():
        assert fitted[name] == pytest.approx(coefficient, abs=0.25), name
    item_logit = {row["item_id"]: row["logit"] for row in rows(small_run, "propensities")}
    user_logit = {row["user_id"]: row["logit"] for row in rows(small_run, "propensity_users")}
    logged = np.unique(user)  # users without a logged pair have no row
    assert set(user_logit) == set(logged.tolist())
    p = of_logits([item_logit[i] for i in items], np.array([[user_logit.get(u, np.nan)] for u in users]))
    n_pairs = logged.size * n_items
    assert p[logged].mean() == pytest.approx(user.size / n_pairs, rel=0.05)  # the intercept is that of all pairs
    np.testing.assert_allclose(p[logged], true[logged], atol=0.1)
    of_heldout = p[user, item][held.to_numpy(zero_copy_only=False)]
    assert (fit["least"], fit["largest"]) == (pytest.approx(of_heldout.min()), pytest.approx(of_heldout.max()))
    for written in STAGES["propensity"].lake_tables:
        broken = " OR ".join(f"NOT coalesce(({rule}), false)" for rule in written.rules)
        stored = spark.createDataFrame(DeltaTable(small_run.folder / "lake" / written.name).to_pyarrow_table())
        assert [row[0] for row in stored.select(F.expr(broken)).distinct().collect()] == [False], written.name
    small_run.tables["users"] = small_run.tables["users"].slice(1)
    with pytest.raises(
        DataError, match=r"propensity.users\[0\]: 1 of the run have no row in it.* \(first: user_id=0\)"
    ):
        started(small_run, spark, method="logistic", **section)


@pytest.mark.parametrize(
    ("section", "message"),
    [
        ({"method": "powr"}, "method"),
        ({"method": "power_legacy", "alpha": 2.0}, "alpha and xmin belong together"),
        ({"method": "naive_bayes", "scale": [0, 1]}, "at least 3"),
        ({"method": "logistic"}, "needs features"),
        ({"method": "power", "floor": 0}, "greater than 0"),
    ],
)
def test_bad_settings_are_named(small_run: Any, section: dict[str, Any], message: str) -> None:
    small_run.hold_out()
    small_run.config["propensity"] = section
    with pytest.raises(ConfigError, match=message):
        load(small_run.write())


def test_the_stage_needs_held_out_pairs_and_its_section(small_run: Any) -> None:
    assert "propensity" not in stages_of(load(small_run.write()))
    small_run.config["propensity"] = {"method": "power"}
    with pytest.raises(ConfigError, match=r"propensity is of held-out pairs, so inputs.heldout is needed"):
        load(small_run.write())
    small_run.hold_out()
    assert stages_of(load(small_run.write()))[0] == "propensity"
