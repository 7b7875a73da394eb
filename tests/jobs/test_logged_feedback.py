"""Estimators over held-out pairs, from files to estimates: against loops over the pairs."""

import json
import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession
from rich.console import Console

from eval_engine.errors import DataError, StageError
from eval_engine.lake.lake import Lake
from eval_engine.propensity.settings import Logged
from eval_engine.propensity.strata import strata_edges, strata_of
from jobs import evaluate, propensity, rank, report
from jobs.cli import load
from tests.conftest import SmallRun

K, FLOOR = 3, 0.3
METRICS = ["recall@3", "ndcg@3", "dcg@3", "rbp(p=0.8)@3", "auc", "map@3", "precision@3"]
STRATA = [{"kind": "equal_width", "n": 2}, {"kind": "equal_count", "n": 3}]


def logged_run(run: Any) -> None:
    """Feedback and held-out pairs of a platform that shows low positions often."""
    run.hold_out()
    rng = np.random.default_rng(4)
    n_users, n_items = run.truth_values.shape
    logged = rng.random((n_users, n_items)) < np.linspace(0.9, 0.1, n_items)
    held = rng.random((n_users, n_items)) < 0.4
    held[7] = False  # one user has no held-out pair
    for name, chosen in (("feedback", logged & ~held), ("heldout", logged & held)):
        user, item = np.nonzero(chosen)
        columns = {"user_id": run.users[user], "item_id": run.items[item], "value": run.truth_values[user, item]}
        run.tables[name] = pa.table(columns)
    # every score once per user: places are known, so that loops need no ties
    for model in ("a", "b"):
        run.scores[model] = rng.permuted(np.tile(np.arange(n_items), (n_users, 1)), axis=1).astype(np.float32)
        run.tables[f"scores/{model}"] = run.vectors(model)
    run.logged_matrix, run.held_matrix = logged & ~held, logged & held
    run.config |= {"frame": "all_items", "propensity": {"method": "power", "gamma": 1.0, "floor": FLOOR}}
    run.config["evaluate"] = {"metrics": METRICS, "strata": STRATA, "replicates": 200, "least_effective_pairs": 20}


@pytest.fixture(scope="module")
def logged(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Any:

    run = SmallRun(tmp_path_factory.mktemp("logged"))
    logged_run(run)
    run.run(spark)
    return run


def rows(run: Any, table: str) -> list[dict[str, Any]]:
    return DeltaTable(run.folder / "lake" / table).to_pyarrow_table().to_pylist()


def positives(run: Any, model: str) -> list[tuple[int, int, float, int, int]]:
    """user, item, propensity, rank among what the model was not trained on, candidates: of each held-out positive."""
    counts = (run.logged_matrix | run.held_matrix).sum(axis=0)
    found = []
    for user, item in zip(*np.nonzero(run.held_matrix & (run.truth_values > 3)), strict=True):
        frame = ~run.logged_matrix[user]
        rank = 1 + int((run.scores[model][user][frame] > run.scores[model][user, item]).sum())
        found.append((int(user), int(item), float(counts[item] / counts.max()), rank, int(frame.sum())))
    return found


def gain(metric: str, rank: int) -> float:
    inside = rank <= K
    return {"recall": 1.0, "dcg": 1 / math.log2(rank + 1), "rbp(p=0.8)": 0.2 * 0.8 ** (rank - 1)}[metric] * inside


def estimates(run: Any) -> dict[tuple[str, str, str, str], dict[str, Any]]:
    return {(row["estimator"], row["metric"], row["model"], row["slice"]): row for row in rows(run, "estimates")}


@pytest.mark.parametrize("metric", ["recall", "dcg", "rbp(p=0.8)"])
@pytest.mark.parametrize("model", ["a", "b"])
def test_weighted_sums_are_what_loops_give(model: str, metric: str, logged: Any) -> None:
    pairs, found = positives(logged, model), estimates(logged)

    def pooled(floor: float) -> float:
        weights = [1 / max(p, floor) for _, _, p, _, _ in pairs]
        return sum(w * gain(metric, pair[3]) for w, pair in zip(weights, pairs, strict=True)) / sum(weights)

    assert found["snips", metric, model, "all"]["value"] == pytest.approx(pooled(0.0), rel=1e-9)
    assert found["clipped", metric, model, "all"]["value"] == pytest.approx(pooled(FLOOR), rel=1e-9)
    users = sorted({pair[0] for pair in pairs})
    own = {user: [pair for pair in pairs if pair[0] == user] for user in users}
    per_user = [
        sum(gain(metric, r) / p for _, _, p, r, _ in own[u]) / sum(1 / p for _, _, p, _, _ in own[u]) for u in users
    ]
    ips = [sum(gain(metric, r) / p for _, _, p, r, _ in own[u]) / len(own[u]) for u in users]
    assert found["snips_user", metric, model, "all"]["value"] == pytest.approx(np.mean(per_user), rel=1e-9)
    assert found["ips", metric, model, "all"]["value"] == pytest.approx(np.mean(ips), rel=1e-9)
    error = np.std(per_user, ddof=1) / math.sqrt(len(users))
    assert found["snips_user", metric, model, "all"]["standard_error"] == pytest.approx(error, rel=1e-9)
    row = found["ips", metric, model, "all"]
    assert (row["low"], row["standard_error"], row["chance_best"]) == (None, None, None)
    assert "estimates nothing" in row["reason"]


def test_weighted_ndcg_and_auc(logged: Any) -> None:
    pairs, found = positives(logged, "a"), estimates(logged)
    users = sorted({pair[0] for pair in pairs})
    above, below, shares, won = [], [], [], []
    for user in users:
        own = [pair for pair in pairs if pair[0] == user]
        gains = sum((1 / math.log2(r + 1) if r <= K else 0.0) / p for _, _, p, r, _ in own)
        heaviest = sorted((1 / p for _, _, p, _, _ in own), reverse=True)
        ideal = sum(w / math.log2(n + 2) for n, w in enumerate(heaviest[:K]))
        above.append(gains)
        below.append(ideal)
        shares.append(gains / ideal)
        negatives = own[0][4] - len(own)
        for _, _, p, place, _ in own:
            better = sum(other[3] < place for other in own)
            won.append((1 / p, 1 - (place - 1 - better) / negatives))
    assert found["snips", "ndcg", "a", "all"]["value"] == pytest.approx(sum(above) / sum(below), rel=1e-9)
    assert found["snips_user", "ndcg", "a", "all"]["value"] == pytest.approx(np.mean(shares), rel=1e-9)
    auc = sum(w * x for w, x in won) / sum(w for w, _ in won)
    assert found["snips", "auc", "a", "all"]["value"] == pytest.approx(auc, rel=1e-9)
    for estimator in ("snips", "snips_user", "clipped", "ips"):
        for metric in ("map", "precision"):
            row = found[estimator, metric, "a", "all"]
            assert row["value"] is None
            assert row["reason"].startswith("not defined: ")


def test_how_the_weight_is_spread(logged: Any) -> None:
    pairs, found = positives(logged, "a"), estimates(logged)
    w = np.array([1 / p for _, _, p, _, _ in pairs])
    row = found["snips", "recall", "a", "all"]
    assert row["effective_pairs"] == pytest.approx(w.sum() ** 2 / (w**2).sum(), rel=1e-6)
    assert row["largest_weight_share"] == pytest.approx(w.max() / w.sum(), rel=1e-6)
    assert (row["clipped_share"], row["n_pairs"]) == (None, len(pairs))
    row = found["clipped", "recall", "b", "all"]
    assert row["clipped_share"] == pytest.approx(np.mean([p < FLOOR for _, _, p, _, _ in pairs]))
    (shared,) = {
        row["share_of"] for row in rows(logged, "reversals") if row["estimator"] == "holdout" and row["share_of"]
    } or {"pairs"}
    assert shared == "pairs"
    slices = [row for row in found.values() if row["slice"].startswith("propensity_equal_count_3=")]
    assert {row["slice"][-2:] for row in slices} >= {"Q1", "Q2", "Q3"}
    small = [row for row in found.values() if row["estimator"] == "snips" and row["effective_pairs"] is not None]
    for row in small:
        assert (row["unreliable"] is not None) == (row["effective_pairs"] < 20)
        assert row["unreliable"] is None or "effective sample size" in row["unreliable"]


@pytest.mark.parametrize("strata", STRATA, ids=lambda one: one["kind"])
def test_strata_are_combined_as_published_and_by_inverse_propensity(strata: dict[str, Any], logged: Any) -> None:
    found, kind, n = estimates(logged), strata["kind"], strata["n"]
    counts = (logged.logged_matrix | logged.held_matrix).sum(axis=0)
    p, tests = counts / counts.max(), logged.held_matrix.sum(axis=0)
    stratum = strata_of(p, strata_edges(p, tests, n, kind))
    table = {row["stratum"]: row for row in rows(logged, "strata") if row["strata"] == f"propensity_{kind}_{n}"}
    for model in ("a", "b"):
        pairs, values = positives(logged, model), []
        for x in range(1, n + 1):
            own: dict[int, list[float]] = {}
            for user, item, _, place, _ in pairs:
                if stratum[item] == x:
                    own.setdefault(user, []).append(float(place <= K))
            values.append(np.mean([np.mean(hits) for hits in own.values()]))
            row = found["holdout", "recall", model, f"propensity_{kind}_{n}=Q{x}"]
            assert row["value"] == pytest.approx(values[-1], rel=1e-9)
            assert table[f"Q{x}"]["n_items"] == (stratum == x).sum()
            assert table[f"Q{x}"]["n_pairs"] == tests[stratum == x].sum()
        for name, weight in (("stratified", tests), ("stratified_balanced", tests / p)):
            shares = np.array([weight[stratum == x].sum() for x in range(1, n + 1)])
            row = found[f"{name}({kind}={n})", "recall", model, "all"]
            assert row["value"] == pytest.approx(values @ shares / shares.sum(), rel=1e-9)
            assert 0 < row["standard_error"] < 0.5
            assert row["effective_pairs"] > 1


def test_open_loop_recall_is_that_of_random_exposure(logged: Any) -> None:
    found = estimates(logged)
    for model in ("a", "b"):
        assert (
            found["open_loop", "recall", model, "all"]["value"] == found["ure_macro", "recall", model, "all"]["value"]
        )


def test_every_number_is_held_against_the_truth_under_its_own_name(logged: Any) -> None:
    found = [
        (row["estimator"], row["metric"], row["k"], row["reference"]) for row in rows(logged, "estimator_agreement")
    ]
    assert len(set(found)) == len(found)
    assert {"stratified(equal_width=2)", "stratified(equal_count=3)", "snips"} <= {name for name, _, _, _ in found}


def test_agreement_says_how_many_users_both_sides_have(logged: Any) -> None:
    users = {
        name: set(logged.tables[table]["user_id"].to_pylist())
        for name, table in (("random", "exposures"), ("heldout", "heldout"), ("truth", "truth"))
    }
    assert len({len(own) for own in users.values()}) > 1
    compared = 0
    for row in rows(logged, "estimator_agreement"):
        if row["estimator"] in ("holdout", "snips", "ure_macro") and row["reference"] in ("full_macro", "full_micro"):
            own = users["random" if row["estimator"] == "ure_macro" else "heldout"]
            shared = len(own & users["truth"])
            assert (row["n_users"], row["n_reference_users"]) == (len(own), len(users["truth"]))
            assert row["n_shared_users"] == shared
            compared += 1
    assert compared > 3


def test_models_are_compared_but_not_by_ips(logged: Any) -> None:
    names = {row["estimator"] for row in rows(logged, "comparisons") if row["slice"] == "all"}
    assert {"snips", "clipped", "snips_user", "stratified(equal_count=3)", "open_loop"} <= names
    assert "ips" not in names


def test_propensities_of_another_method_or_of_no_job(logged: Any, spark: SparkSession) -> None:
    config = load(logged.write())
    other = config.model_copy(update={"propensity": Logged(method="logged")})
    with pytest.raises(
        DataError, match=r"run_id=small were made by method power, but the config asks for method logged"
    ):
        evaluate.propensities_of(Lake(spark, config.lake), other)
    new = config.model_copy(update={"run_id": "new"})
    with pytest.raises(DataError, match=r"run_id=new were made by no job.* Run jobs/propensity.py with this run_id"):
        evaluate.propensities_of(Lake(spark, config.lake), new)


@pytest.fixture(scope="module")
def of_pairs(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Any:
    """The same run with a logged propensity of each held-out pair; few pairs have one in common."""
    run = SmallRun(tmp_path_factory.mktemp("of_pairs"))
    logged_run(run)
    held = run.tables["heldout"]
    run.p = {}
    drawn = np.random.default_rng(8).beta(1, 4, held.num_rows).round(3).clip(0.001, 1)
    for user, item, p in zip(held["user_id"].to_pylist(), held["item_id"].to_pylist(), drawn.tolist(), strict=True):
        run.p[user, item] = p
    run.tables["heldout"] = held.append_column("propensity", pa.array(drawn))
    run.config["propensity"] = {"method": "logged", "floor": FLOOR}
    run.run(spark)
    return run


@pytest.mark.parametrize("strata", STRATA, ids=lambda one: one["kind"])
def test_strata_of_logged_propensities(strata: dict[str, Any], of_pairs: Any) -> None:
    found, kind, n = estimates(of_pairs), strata["kind"], strata["n"]
    values, counts = np.unique(list(of_pairs.p.values()), return_counts=True)
    edges = strata_edges(values, counts, n, kind)
    stratum = {pair: int(strata_of([p], edges)[0]) for pair, p in of_pairs.p.items()}
    assert any(len({stratum[pair] for pair in stratum if pair[1] == item}) > 1 for item in of_pairs.items.tolist())
    table = {row["stratum"]: row for row in rows(of_pairs, "strata") if row["strata"] == f"propensity_{kind}_{n}"}
    assert len(table) == n
    sizes = []
    for x in range(1, n + 1):
        own = {pair: of_pairs.p[pair] for pair in stratum if stratum[pair] == x}
        row = table[f"Q{x}"]
        assert (row["n_pairs"], row["n_items"]) == (len(own), len({item for _, item in own}))
        assert (row["low"], row["high"]) == (min(own.values()), max(own.values()))
        assert row["inverse_propensity"] == pytest.approx(sum(1 / p for p in own.values()), rel=1e-9)
        sizes.append((row["n_pairs"], row["inverse_propensity"]))
    for model in ("a", "b"):
        means = []
        for x in range(1, n + 1):
            hits: dict[int, list[float]] = {}
            pooled = [0.0, 0.0]
            for user, item, _, place, _ in positives(of_pairs, model):
                pair = int(of_pairs.users[user]), int(of_pairs.items[item])
                if stratum[pair] == x:
                    hits.setdefault(user, []).append(float(place <= K))
                    pooled[0] += (place <= K) / of_pairs.p[pair]
                    pooled[1] += 1 / of_pairs.p[pair]
            means.append(np.mean([np.mean(own) for own in hits.values()]))
            name = f"propensity_{kind}_{n}=Q{x}"
            assert found["holdout", "recall", model, name]["value"] == pytest.approx(means[-1], rel=1e-9)
            assert found["snips", "recall", model, name]["value"] == pytest.approx(pooled[0] / pooled[1], rel=1e-9)
        for name, column in (("stratified", 0), ("stratified_balanced", 1)):
            shares = np.array([size[column] for size in sizes])
            row = found[f"{name}({kind}={n})", "recall", model, "all"]
            assert row["value"] == pytest.approx(means @ shares / shares.sum(), rel=1e-9)


def test_strata_where_only_spark_reads_the_ranks(
    of_pairs: Any, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    config, lake = load(of_pairs.write()), Lake(spark, of_pairs.config["lake"])
    monkeypatch.setattr(Lake, "files", lambda self, table, run_id: [])
    with evaluate.slices_of(spark, lake, config) as (_, propensities, _):
        assert propensities is not None
        strata = sorted(propensities.strata.rows, key=lambda row: (row["strata"], row["stratum"]))
    before = sorted(rows(of_pairs, "strata"), key=lambda row: (row["strata"], row["stratum"]))
    assert [{"run_id": "small"} | row for row in strata] == before


def test_estimates_that_are_older_than_the_propensities_are_not_reported(of_pairs: Any, spark: SparkSession) -> None:
    config, quiet = load(of_pairs.write()), Console(quiet=True)
    propensity.run(spark, config, quiet)  # the same propensities
    report.show(spark, config.lake, "small", quiet)
    other = config.model_copy(update={"propensity": Logged(method="logged", floor=0.5)})
    propensity.run(spark, other, quiet)
    with pytest.raises(StageError, match=r"its estimates of .* are older than its propensity_fits. Run jobs/evaluate"):
        report.show(spark, config.lake, "small", quiet)
    propensity.run(spark, config, quiet)
    report.show(spark, config.lake, "small", quiet)


def test_strata_are_of_held_out_pairs_only(logged: Any, of_pairs: Any) -> None:
    for run in (logged, of_pairs):
        names = {row["estimator"] for row in rows(run, "estimates") if row["slice"].startswith("propensity_")}
        assert names == {"holdout", "snips", "snips_user", "clipped", "ips"}


def test_propensities_too_small_for_exact_sums(logged: Any, spark: SparkSession) -> None:
    config = logged.config | {"run_id": "small", "lake": str(logged.folder / "small")}
    config["propensity"] = {"method": "power", "gamma": 60.0}
    (logged.folder / "small.yaml").write_text(json.dumps(config))
    asked = load(logged.folder / "small.yaml")
    for stage in (propensity, rank):
        stage.run(spark, asked, Console(quiet=True))
    with pytest.raises(DataError, match=r"^\w+ .*cannot be summed exactly.*Give propensity.gamma"):
        evaluate.run(spark, asked, Console(quiet=True))


@pytest.mark.parametrize("floor", [0.0, FLOOR])
def test_precision_with_logged_propensities(floor: float, of_pairs: Any) -> None:
    found, users = estimates(of_pairs), {user for user, _ in of_pairs.p}
    total = 0.0
    for user, item, _, place, _ in positives(of_pairs, "a"):
        p = of_pairs.p[int(of_pairs.users[user]), int(of_pairs.items[item])]
        total += (place <= K) / max(p, floor) / K
    row = found["clipped" if floor else "snips", "precision", "a", "all"]
    assert row["value"] == pytest.approx(total / len(users), rel=1e-9)
    assert row["n_users"] == len(users)
    assert row["reason"] is None
    assert "users with a held-out pair" in row["estimand"]
    assert found["snips_user", "precision", "a", "all"]["value"] is None


@pytest.mark.parametrize("which", ["logged", "of_pairs"])
def test_spark_workers_give_the_same_tables(
    which: str, request: pytest.FixtureRequest, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run is small enough for one process; with these limits workers do all of it."""
    logged = request.getfixturevalue(which)
    names = ("estimates", "comparisons", "reversals", "estimator_agreement", "strata")
    before = {name: rows(logged, name) for name in names}
    monkeypatch.setattr(evaluate, "SMALL_BYTES", 0)
    monkeypatch.setattr(evaluate, "SMALL_STATISTICS", 0)
    evaluate.run(spark, load(logged.write()), Console(quiet=True))
    for name in names:
        for one, other in zip(before[name], rows(logged, name), strict=True):
            for column, value in one.items():
                expected = pytest.approx(value, rel=1e-9, abs=1e-12) if isinstance(value, float) else value
                assert other[column] == expected, (name, column)
