"""What is unusual in logged feedback, from files to tables: a named error, or a stated policy with a count."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import SparkSession
from rich.console import Console

from eval_engine.errors import ConfigError, DataError
from eval_engine.propensity.logits import of_logits
from eval_engine.propensity.strata import strata_edges, strata_of
from jobs import evaluate, propensity, rank
from jobs.cli import load
from tests.jobs.test_logged_feedback import STRATA, K, estimates, logged_run, positives, rows

QUIET = Console(quiet=True)


def with_propensities(run: Any, make: Callable[[int], list[float]]) -> None:
    """Gives held-out pairs logged propensities."""
    logged_run(run)
    held = run.tables["heldout"]
    run.tables["heldout"] = held.append_column("propensity", pa.array(make(held.num_rows), pa.float64()))
    run.config["propensity"] = {"method": "logged"}
    run.config["evaluate"] = {"metrics": ["recall@3"], "replicates": 20}


def started(run: Any, spark: SparkSession, *stages: Any) -> None:
    config = load(run.write())
    for stage in stages:
        stage.run(spark, config, QUIET)


def column(run: Any, table: str, name: str, values: Any) -> None:
    """Replaces a column of an input."""
    old = run.tables[table]
    run.tables[table] = old.set_column(old.column_names.index(name), name, pa.array(values))


def test_one_propensity_of_all_pairs_has_no_strata_unless_they_are_named(small_run: Any, spark: SparkSession) -> None:
    with_propensities(small_run, lambda n: [0.25] * n)
    started(small_run, spark, rank, propensity, evaluate)
    (fit,) = rows(small_run, "propensity_fits")
    n_pairs = small_run.tables["heldout"].num_rows
    assert f"all {n_pairs} held-out pairs have the propensity 0.25" in fit["remark"]
    assert "there are no strata" in fit["remark"]
    assert rows(small_run, "strata") == []
    names = {row["estimator"] for row in rows(small_run, "estimates")}
    assert {"holdout", "snips", "snips_user", "clipped", "ips"} <= names
    assert not {name for name in names if name.startswith("stratified")}
    assert {row["slice"] for row in rows(small_run, "estimates")} == {"all"}
    small_run.config["evaluate"]["strata"] = [{"kind": "equal_count", "n": 2}]
    with pytest.raises(
        DataError, match=r"2 strata of test pairs with 1 different propensities.*evaluate\.strata: \[\]"
    ):
        started(small_run, spark, evaluate)
    small_run.config["evaluate"]["strata"] = [{"kind": "equal_count", "n": 1}]
    started(small_run, spark, evaluate)
    found = estimates(small_run)
    for model in ("a", "b"):
        one = found["stratified(equal_count=1)", "recall", model, "all"]
        assert one["value"] == pytest.approx(found["holdout", "recall", model, "all"]["value"], rel=1e-12)
    (stratum,) = rows(small_run, "strata")
    assert (stratum["stratum"], stratum["n_pairs"], stratum["low"], stratum["high"]) == ("Q1", n_pairs, 0.25, 0.25)


def test_more_strata_than_propensities(small_run: Any, spark: SparkSession) -> None:
    with_propensities(small_run, _two)
    small_run.config["evaluate"]["strata"] = [{"kind": "equal_width", "n": 3}]
    with pytest.raises(DataError, match=r"3 strata of test pairs with 2 different propensities.* at most 2 strata"):
        started(small_run, spark, rank, propensity, evaluate)
    small_run.config["evaluate"]["strata"] = [{"kind": "equal_width", "n": 11}]
    with pytest.raises(ConfigError, match=r"evaluate\.strata\.0\.n: .* less than or equal to 10"):
        load(small_run.write())
    small_run.config["evaluate"]["strata"] = [{"kind": "equal_width", "n": 2}] * 2
    with pytest.raises(ConfigError, match=r"evaluate\.strata: {kind: equal_width, n: 2} is given twice"):
        load(small_run.write())


def _two(n: int) -> list[float]:
    return [0.25 if x % 2 else 0.5 for x in range(n)]


BAD = [0.0, None, 1.5]


@pytest.mark.parametrize("bad", BAD)
def test_zero_or_missing_propensity(bad: float | None, small_run: Any, spark: SparkSession) -> None:
    with_propensities(small_run, lambda n: [bad, *_two(n - 1)])  # type: ignore[list-item]
    shown = "NULL" if bad is None else str(bad)
    message = rf"heldout: 1 row breaks the rule bad_probability \(first: .*probability={shown}\)"
    with pytest.raises(DataError, match=message):
        started(small_run, spark, propensity)


def test_zero_and_missing_propensities_go_to_quarantine(small_run: Any, spark: SparkSession) -> None:
    with_propensities(small_run, lambda n: [*BAD, *_two(n - 3)])  # type: ignore[list-item]
    with pytest.raises(DataError, match="heldout: 3 rows break the rule bad_probability"):
        started(small_run, spark, rank)
    small_run.config["on_bad_rows"] = "quarantine"
    started(small_run, spark, rank, propensity, evaluate)
    (fit,) = rows(small_run, "propensity_fits")
    n_pairs = small_run.tables["heldout"].num_rows
    assert (fit["n_bad_rows"], fit["n_heldout"]) == (3, n_pairs - 3)
    assert [row["n_rows"] for row in rows(small_run, "quality") if row["rule"] == "bad_probability"] == [3]
    assert sum(row["n_pairs"] for row in rows(small_run, "strata") if row["strata"] == "propensity_equal_count_2") == (
        n_pairs - 3
    )


def test_a_stratum_without_positives_is_left_out_and_its_share_is_told(small_run: Any, spark: SparkSession) -> None:
    logged_run(small_run)
    counts = (small_run.logged_matrix | small_run.held_matrix).sum(axis=0)
    p, tests = counts / counts.max(), small_run.held_matrix.sum(axis=0)
    stratum = strata_of(p, strata_edges(p, tests, 3, "equal_count"))
    small_run.truth_values[:, stratum == 2] = 1.0
    user, item = np.nonzero(small_run.held_matrix)
    column(small_run, "heldout", "value", small_run.truth_values[user, item])
    started(small_run, spark, rank, propensity, evaluate)
    found = estimates(small_run)
    for model in ("a", "b"):
        pairs, values = positives(small_run, model), {}
        assert not any(stratum[pair[1]] == 2 for pair in pairs)
        for x in (1, 3):
            own: dict[int, list[float]] = {}
            for pair in pairs:
                if stratum[pair[1]] == x:
                    own.setdefault(pair[0], []).append(float(pair[3] <= K))
            values[x] = np.mean([np.mean(hits) for hits in own.values()])
        for name, weight in (("stratified", tests), ("stratified_balanced", tests / p)):
            n = {x: weight[stratum == x].sum() for x in (1, 2, 3)}
            row = found[f"{name}(equal_count=3)", "recall", model, "all"]
            left = (values[1] * n[1] + values[3] * n[3]) / (n[1] + n[3])
            assert row["value"] == pytest.approx(left, rel=1e-9)
            assert f"strata with {n[2] / sum(n.values()):.1%} of the weight have no positive" in row["unreliable"]
        empty = found["holdout", "recall", model, "propensity_equal_count_3=Q2"]
        assert empty["value"] is None
        assert "no user can be used" in empty["reason"]
    (counted,) = (
        r for r in rows(small_run, "strata") if r["strata"] == "propensity_equal_count_3" and r["stratum"] == "Q2"
    )
    assert counted["n_pairs"] == tests[stratum == 2].sum()


def test_held_out_users_without_training_pairs_count_and_are_counted(small_run: Any, spark: SparkSession) -> None:
    logged_run(small_run)
    small_run.logged_matrix[[3, 5]] = False
    user, item = np.nonzero(small_run.logged_matrix)
    of = {"user_id": small_run.users[user], "item_id": small_run.items[item]}
    small_run.tables["feedback"] = pa.table(of | {"value": small_run.truth_values[user, item]})
    started(small_run, spark, rank, propensity, evaluate)
    (fit,) = rows(small_run, "propensity_fits")
    assert fit["n_cold_users"] == 2
    found = estimates(small_run)
    for model in ("a", "b"):
        own: dict[int, list[float]] = {}
        for pair in positives(small_run, model):
            own.setdefault(pair[0], []).append(float(pair[3] <= K))
        assert {3, 5} <= own.keys()  # ranked among all items
        row = found["holdout", "recall", model, "all"]
        assert row["n_users"] == len(own)
        assert row["value"] == pytest.approx(np.mean([np.mean(hits) for hits in own.values()]), rel=1e-9)


def test_items_never_seen_in_training(small_run: Any, spark: SparkSession) -> None:
    logged_run(small_run)
    new = small_run.items[2]
    small_run.logged_matrix[:, 2] = False
    feedback = small_run.tables["feedback"]
    small_run.tables["feedback"] = feedback.filter(pc.not_equal(feedback["item_id"], new))
    n_pairs = int(small_run.held_matrix[:, 2].sum())
    assert n_pairs
    small_run.config["propensity"] |= {"counts": "train"}
    message = rf"1 items with {n_pairs} held-out pairs have no training pair \(first: item_id={new}\).*unseen: once"
    with pytest.raises(DataError, match=message):
        started(small_run, spark, propensity)
    small_run.config["propensity"] |= {"unseen": "once"}
    started(small_run, spark, rank, propensity, evaluate)
    (fit,) = rows(small_run, "propensity_fits")
    assert (fit["n_unseen"], fit["n_unseen_pairs"]) == (1, n_pairs)
    counts = small_run.logged_matrix.sum(axis=0)
    p = np.maximum(counts, 1) / counts.max()
    pairs = positives(small_run, "a")
    assert any(pair[1] == 2 for pair in pairs)
    w = np.array([1 / p[pair[1]] for pair in pairs])
    hits = np.array([pair[3] <= K for pair in pairs])
    row = estimates(small_run)["snips", "recall", "a", "all"]
    assert row["value"] == pytest.approx((w * hits).sum() / w.sum(), rel=1e-9)


def test_naive_bayes_over_binary_labels_and_ratings_outside_the_scale(small_run: Any, spark: SparkSession) -> None:
    logged_run(small_run)
    small_run.config["propensity"] = {"method": "naive_bayes", "scale": [1, 2, 3, 4]}
    n = sum(pc.sum(pc.equal(small_run.tables[t]["value"], 5.0)).as_py() for t in ("feedback", "heldout"))
    message = rf"the value 5 \({n} logged pairs, \d+ random exposures\) is outside the scale 1, 2, 3, 4"
    with pytest.raises(DataError, match=message):
        started(small_run, spark, propensity)
    small_run.config["propensity"] = {"method": "naive_bayes"}
    for table in ("feedback", "heldout", "exposures"):
        column(small_run, table, "value", (small_run.tables[table]["value"].to_numpy() > 3).astype(float))
    with pytest.raises(DataError, match=r"naive_bayes over 2 different values \(0, 1\): all positives would have one"):
        started(small_run, spark, propensity)


@pytest.mark.parametrize("strata", STRATA, ids=lambda one: one["kind"])
def test_strata_of_logistic_propensities(strata: dict[str, Any], logistic: Any) -> None:
    found, kind, n = estimates(logistic), strata["kind"], strata["n"]
    of_item = {row["item_id"]: row["logit"] for row in rows(logistic, "propensities")}
    of_user = {row["user_id"]: row["logit"] for row in rows(logistic, "propensity_users")}
    held = logistic.tables["heldout"]
    users, items = (held[name].to_pylist() for name in ("user_id", "item_id"))
    p = of_logits([of_item[item] for item in items], [of_user[user] for user in users])
    edges = strata_edges(p, np.ones(p.size, np.int64), n, kind)
    of_pair = dict(zip(zip(users, items, strict=True), strata_of(p, edges).tolist(), strict=True))
    table = {row["stratum"]: row for row in rows(logistic, "strata") if row["strata"] == f"propensity_{kind}_{n}"}
    for x in range(1, n + 1):
        own = [pair for pair, mine in of_pair.items() if mine == x]
        assert own
        row = table[f"Q{x}"]
        assert (row["n_pairs"], row["n_items"]) == (len(own), len({item for _, item in own}))
        for model in ("a", "b"):
            hits: dict[int, list[float]] = {}
            for user, item, _, place, _ in positives(logistic, model):
                if of_pair[int(logistic.users[user]), int(logistic.items[item])] == x:
                    hits.setdefault(user, []).append(float(place <= K))
            value = found["holdout", "recall", model, f"propensity_{kind}_{n}=Q{x}"]["value"]
            assert value == pytest.approx(np.mean([np.mean(one) for one in hits.values()]), rel=1e-9)


@pytest.fixture(scope="module")
def logistic(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Any:
    """A run whose propensities come from features of users and items."""
    from tests.conftest import SmallRun

    run = SmallRun(tmp_path_factory.mktemp("logistic"))
    logged_run(run)
    rng = np.random.default_rng(6)
    run.tables["people"] = pa.table({"user_id": run.users, "activity": rng.normal(0, 1, run.users.size)})
    run.tables["things"] = pa.table({"item_id": run.items, "place": np.arange(run.items.size) / run.items.size})
    run.config["propensity"] = {
        "method": "logistic",
        "users": [{"path": str(run.folder / "in" / "people"), "numbers": ["activity"]}],
        "items": [{"path": str(run.folder / "in" / "things"), "numbers": ["place"]}],
    }
    run.run(spark)
    return run
