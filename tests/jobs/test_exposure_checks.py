"""Is the random data random? Exposures that are not, or not as declared, get a failed check in the quality table.

The run is stopped if the config says so.
"""

import re
from io import StringIO
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from rich.console import Console

from eval_engine.errors import DataError
from eval_engine.lake.lake import Lake
from eval_engine.tables import QUALITY, RANKS
from jobs import evaluate, rank, report
from jobs.cli import load
from tests.conftest import EXPOSED, ITEMS, USERS


def checks(run: Any, spark: SparkSession) -> dict[str, dict[str, Any]]:
    """The rows of the quality table that are checks, by rule."""
    return {
        row["rule"]: row
        for row in Lake(spark, run.config["lake"]).rows(QUALITY, {"run_id": run.config["run_id"]})
        if row["verdict"]
    }


def ranked(run: Any, spark: SparkSession) -> str:
    """The output of the rank stage."""
    console = Console(record=True, file=StringIO(), width=500)
    rank.run(spark, load(run.write()), console)
    return console.export_text()


def follow(run: Any, appeal: np.ndarray, unseen: bool) -> None:
    """Draws the exposures again: an item with larger appeal is drawn with a larger probability."""
    keys = appeal + np.random.default_rng(3).gumbel(size=(USERS, ITEMS))
    if unseen:
        keys[np.arange(USERS)[:, None], run.logged] = -np.inf
    run.exposed = np.argsort(-keys, axis=1)[:, :EXPOSED]
    run.tables["exposures"] = run.pairs(run.exposed)


def test_good_data_passes(finished_run: Any, spark: SparkSession) -> None:
    assert "scores of a, scores of b: " in finished_run.said_by_rank
    assert "uniform_exposure" not in finished_run.said_by_rank
    rows = checks(finished_run, spark)
    assert {rule: row["verdict"] for rule, row in rows.items()} == dict.fromkeys(
        ("uniform_exposure", "overlap", "score_coverage", "positives_per_user"), "pass"
    ) | {"probability_sums": "not applicable"}
    assert {row["action"] for row in rows.values()} == {"reported"}
    uniform = rows["uniform_exposure"]
    assert uniform["n_rows"] == USERS * EXPOSED
    assert 0.001 < uniform["p"] <= 1
    assert "as uniform drawing from unseen gives" in uniform["example"]
    liked = (np.take_along_axis(finished_run.truth_values, finished_run.exposed, axis=1) > 3).any(axis=1).sum()
    assert rows["positives_per_user"]["example"].startswith(f"{liked} of {USERS} users")
    assert rows["score_coverage"]["statistic"] == 1.0


def test_a_finished_run_shows_its_checks(finished_run: Any, spark: SparkSession) -> None:
    console = Console(record=True, file=StringIO(), width=300)
    report.show(spark, finished_run.config["lake"], "small", console)
    assert "Is the random data random?" in console.export_text()


def test_exposures_that_follow_popularity_stop_the_run_if_asked(small_run: Any, spark: SparkSession) -> None:
    small_run.config |= {"run_id": "popular", "checks": {"stop_on": "fail"}}
    follow(small_run, np.where(np.arange(ITEMS) < 8, 2.0, 0.0), unseen=True)
    with pytest.raises(
        DataError, match=r"exposures: the check uniform_exposure says fail: 30 items in 240 exposures, not as uniform"
    ) as error:
        ranked(small_run, spark)
    assert "Draw the exposures again" in str(error.value)
    assert "checks.stop_on: nothing" in str(error.value)
    assert Lake(spark, small_run.config["lake"]).partitions(RANKS, "popular") == []
    rows = checks(small_run, spark)
    assert (rows["uniform_exposure"]["verdict"], rows["uniform_exposure"]["action"]) == ("fail", "stopped")
    assert rows["uniform_exposure"]["p"] < 1e-6
    worst = int(rows["uniform_exposure"]["example"].split("item_id=")[1].split(":")[0])
    counts = np.bincount(small_run.exposed.ravel(), minlength=ITEMS)
    assert counts[(worst - 1000) // 3] > 15  # 8 are expected
    assert rows["overlap"]["action"] == "reported"
    assert [row[2] for row in small_run.rows(spark, "runs")] == ["failed"]

    small_run.config["checks"] = {"stop_on": "nothing"}
    assert "exposures: uniform_exposure: fail" in ranked(small_run, spark)
    assert checks(small_run, spark)["uniform_exposure"]["action"] == "reported"
    assert not Lake(spark, small_run.config["lake"]).read(RANKS, "popular").isEmpty()


def test_exposures_of_unseen_items_declared_as_of_all_are_caught(small_run: Any, spark: SparkSession) -> None:
    small_run.config |= {"run_id": "all_items", "frame": "all_items"}
    ranked(small_run, spark)
    row = checks(small_run, spark)["overlap"]
    assert row["verdict"] == "fail"
    assert row["statistic"] < -5
    assert "0 of 240 exposures are logged pairs too, where 40.0 are expected" in row["example"]
    assert "frame: unseen is right" in row["example"]
    evaluate.run(spark, load(small_run.write()), Console(quiet=True))
    console = Console(record=True, file=StringIO(), width=300)
    report.show(spark, small_run.config["lake"], "all_items", console)
    text = console.export_text()
    assert text.startswith(
        "Do not rely on numbers that rest on the random exposures: they failed the check overlap\noverlap: 0 of 240"
    )
    assert re.findall(r"^recall@(\d) +not to be relied on \(overlap failed\): ", text, re.MULTILINE) == ["3", "9"]

    small_run.config["run_id"] = "really_all"
    follow(small_run, np.zeros(ITEMS), unseen=False)
    ranked(small_run, spark)
    rows = checks(small_run, spark)
    assert {row["verdict"] for rule, row in rows.items() if rule != "probability_sums"} == {"pass"}
    both = sum(len(set(a) & set(b)) for a, b in zip(small_run.exposed.tolist(), small_run.logged.tolist(), strict=True))
    assert rows["overlap"]["example"].startswith(f"{both} of 240 exposures are logged pairs too")


def test_checks_are_made_again_when_their_settings_change(small_run: Any, spark: SparkSession) -> None:
    small_run.config |= {"run_id": "few", "on_bad_rows": "quarantine"}
    small_run.tables["scores/b"] = small_run.tables["scores/b"].slice(1)
    path = small_run.write()
    rank.run(spark, load(path), Console(quiet=True))
    rows = checks(small_run, spark)
    assert (rows["score_coverage"]["verdict"], rows["score_coverage"]["statistic"]) == ("warn", 0.975)
    assert "39 of 40 users with exposures were scored by every model" in rows["score_coverage"]["example"]
    before = small_run.rows(spark, "ranks")

    none = load(path).model_copy(update={"positive": load(path).positive._replace(threshold=9.0)})
    rank.run(spark, none, Console(quiet=True))  # inputs are the same: nothing is ranked
    rows = checks(small_run, spark)
    assert rows["positives_per_user"]["verdict"] == "fail"
    assert "0 of 40 users" in rows["positives_per_user"]["example"]
    assert small_run.rows(spark, "ranks") == before
    stop = none.model_copy(update={"checks": none.checks.model_copy(update={"stop_on": "warn"})})
    with pytest.raises(
        DataError,
        match=r"scores: the check score_coverage says warn.*exposures: the check positives_per_user says fail",
    ):
        rank.run(spark, stop, Console(quiet=True))
    assert small_run.rows(spark, "ranks") == before


def test_exposures_with_probabilities_are_not_tested_for_uniformity(small_run: Any, spark: SparkSession) -> None:
    small_run.config |= {"run_id": "weighted", "checks": {"stop_on": "fail"}}
    follow(small_run, np.where(np.arange(ITEMS) < 8, 2.0, 0.0), unseen=True)
    exposures = small_run.tables["exposures"]
    small_run.tables["exposures"] = exposures.append_column(
        "exposure_probability", pa.array(np.full(exposures.num_rows, 0.24))
    )
    ranked(small_run, spark)
    row = checks(small_run, spark)["probability_sums"]
    assert (row["verdict"], row["statistic"], row["n_rows"]) == ("pass", 1.0, 240)  # 6 of 25 candidates
    row = checks(small_run, spark)["uniform_exposure"]
    assert (row["verdict"], row["p"]) == ("not applicable", None)
    assert "exposure_probability" in row["example"]


def test_probabilities_that_cannot_be_those_of_the_exposures_stop_the_run_if_asked(
    small_run: Any, spark: SparkSession
) -> None:
    """Probabilities of a single draw, where six were drawn."""
    small_run.config |= {"run_id": "one_draw", "checks": {"stop_on": "fail"}}
    exposures = small_run.tables["exposures"]
    chance = 0.04 * np.random.default_rng(1).uniform(0.8, 1.25, exposures.num_rows)
    small_run.tables["exposures"] = exposures.append_column("exposure_probability", pa.array(chance))
    with pytest.raises(DataError, match=r"exposures: the check probability_sums says fail: The sum of 1 / exposure_p"):
        ranked(small_run, spark)
    row = checks(small_run, spark)["probability_sums"]
    ratio = (1 / chance).reshape(USERS, EXPOSED).sum(axis=1) / 25
    assert row["statistic"] == pytest.approx(ratio.mean(), rel=1e-5)
    assert row["action"] == "stopped"
    error = ratio.std(ddof=1) / np.sqrt(USERS)
    assert f"is {ratio.mean():.4g} times the user's number of candidates, in the mean over 40 users" in row["example"]
    assert f"standard error {error:.2g}; 25.0 candidates a user" in row["example"]
    assert "should be 1 within 4 standard errors: probabilities are too small" in row["example"]
