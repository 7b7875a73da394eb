"""`plumbline power`: the numbers of the numpy API from a run's ranks, and what it says."""

from io import StringIO

import numpy as np
import pytest
from rich.console import Console
from typer.testing import CliRunner

import eval_engine as e
from eval_engine.errors import ConfigError, DataError
from jobs import power, rank
from jobs.cli import app, load
from jobs.stage import lake_without_spark


def asked(run, *, metric="recall@3", detect="10%", users=20_000):
    console = Console(record=True, file=StringIO(), width=300)
    lake = lake_without_spark(run.config["lake"])
    rows = power.run(lake, "small", metric, detect, [6], 0.5, 0.8, users, console)
    return rows, console.export_text()


def test_the_numbers_are_those_of_numpy(finished_run):
    run = finished_run
    rows, said = asked(run)
    values = [row[shown] > 3 for row, shown in zip(run.truth_values, run.exposed, strict=True)]
    facts, lists = [], []
    for model in ("a", "b"):
        facts.append(e.rank_facts(run.scores[model], run.exposed, values, list(run.logged)))
        scores = run.scores[model].astype(float).copy()
        np.put_along_axis(scores, run.logged, -np.inf, axis=1)
        lists.append(np.argsort(-scores, axis=1, kind="stable")[:, :10])
    expected = e.power(facts, list(run.exposed), np.stack(lists), 30, "recall@3", 0.1, (6,))
    assert len(rows) == len(expected) == 3
    for row, own in zip(rows, expected, strict=True):
        assert row[:4] == own[:4]
        np.testing.assert_allclose(row[4:], own[4:], rtol=1e-9)
    assert "Users needed to see a difference of 10.00% in recall@3" in said
    assert "From 40 of the 40 users with random exposures" in said


def test_a_sample_of_users_is_a_part_of_the_run(finished_run):
    _, said = asked(finished_run, users=25)
    n = int(said.split("From ")[1].split()[0])
    assert 1 <= n <= 25


def test_the_command_prints_a_table(finished_run):
    given = ["power", "small", "--lake", finished_run.config["lake"], "--detect", "0.1", "--metric", "precision@3"]
    found = CliRunner().invoke(app, [*given, "--exposures", "5,6"], catch_exceptions=False)
    assert found.exit_code == 0
    assert found.stdout.count("uniform") >= 2
    assert "pair" in found.stdout


@pytest.mark.parametrize("detect", ["two", "0", "150%"])
def test_a_difference_is_a_share(finished_run, detect):
    with pytest.raises(ConfigError, match="share"):
        asked(finished_run, detect=detect)


def test_a_run_without_random_exposures_has_no_pilot(small_run, spark):
    small_run.config["inputs"].pop("exposures")
    rank.run(spark, load(small_run.write()), Console(file=StringIO()))
    with pytest.raises(DataError, match="no pilot to plan from"):
        asked(small_run)
