"""`plumbline power`: the numbers of the numpy API from a run's ranks, and what it says."""

import shutil
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console
from typer.testing import CliRunner

import eval_engine as e
from eval_engine.errors import ConfigError, DataError, OutputError
from eval_engine.metric import Metric
from jobs import power, rank
from jobs.cli import app, load
from jobs.stage import lake_without_spark
from tests.conftest import SmallRun

BEFORE = Path(__file__).parents[1] / "data" / "lake_before"  # SmallRun, ranked by an older version as run `before`


@pytest.fixture
def lake(tmp_path):
    shutil.copytree(BEFORE, tmp_path / "lake")
    return str(tmp_path / "lake")


def asked(lake, run_id="before", *, metric="recall@9", detect="10%", users=20_000):
    console = Console(record=True, file=StringIO(), width=300)
    rows = power.run(lake_without_spark(lake), run_id, metric, detect, [6], 0.5, 0.8, users, console)
    return rows, console.export_text()


def test_the_numbers_are_those_of_numpy(lake, tmp_path):
    run = SmallRun(tmp_path)
    rows, said = asked(lake)
    values = [row[shown] > 3 for row, shown in zip(run.truth_values, run.exposed, strict=True)]
    facts, lists = [], []
    for model in ("a", "b"):
        facts.append(e.rank_facts(run.scores[model], run.exposed, values, list(run.logged)))
        scores = run.scores[model].astype(float).copy()
        np.put_along_axis(scores, run.logged, -np.inf, axis=1)
        lists.append(np.argsort(-scores, axis=1, kind="stable")[:, :9])
    expected = e.power(facts, list(run.exposed), np.stack(lists), 30, "recall@9", 0.1, (6,))
    assert len(rows) == len(expected) == 3
    assert all(row.users > 0 for row in rows)
    for row, own in zip(rows, expected, strict=True):
        assert row[:4] == own[:4]
        np.testing.assert_allclose(row[4:], own[4:], rtol=1e-9)
    assert "Users needed to see a difference of 10.00% in recall@9" in said
    assert "From 40 of the 40 users with random exposures" in said
    assert "Smallest difference in recall@9 that is seen with 80% power, by number of users" in " ".join(said.split())
    for row in rows:  # the pilot showed 6 items to each of 40 users: what is planned for as many sees this
        assert f"{row.detectable:.1%}" in said
        assert f"{row.low:,.0f} to {row.high:,.0f}" in said


def test_what_could_be_had_is_with_as_many_exposures_in_all(lake):
    sample = power.sample_of(lake_without_spark(lake), "before", Metric.parse("recall@9"), 20_000)
    assert [power.users_there(sample, e) for e in (6, 12, 3)] == [40, 20, 80]


def test_the_curve_is_drawn(lake, tmp_path):
    given = ["power", "before", "--lake", lake, "--detect", "0.1", "--metric", "recall@9", "--exposures", "6"]
    found = CliRunner().invoke(app, [*given, "--curve", str(tmp_path / "new" / "curve.png")], catch_exceptions=False)
    assert found.exit_code == 0
    assert (tmp_path / "new" / "curve.png").read_bytes().startswith(b"\x89PNG")
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match=r"--curve .* cannot be written"):
        CliRunner().invoke(app, [*given, "--curve", str(tmp_path / "file" / "x.png")], catch_exceptions=False)


def test_a_sample_of_users_is_a_part_of_the_run(lake):
    _, said = asked(lake, users=25)
    n = int(said.split("From ")[1].split()[0])
    assert 1 <= n <= 25


def test_a_small_pilot_gives_no_number(lake):
    assert "fewer than 30 positives of the pilot" in asked(lake, metric="recall@1")[1]


def test_the_command_prints_a_table(lake):
    given = ["power", "before", "--lake", lake, "--detect", "0.1", "--metric", "precision@9"]
    found = CliRunner().invoke(app, [*given, "--exposures", "5,6"], catch_exceptions=False)
    assert found.exit_code == 0
    assert found.stdout.count("uniform") >= 2
    assert "pair" in found.stdout


@pytest.mark.parametrize("detect", ["two", "0", "150%"])
def test_a_difference_is_a_share(lake, detect):
    with pytest.raises(ConfigError, match="share"):
        asked(lake, detect=detect)


def test_a_run_without_random_exposures_has_no_pilot(small_run, spark):
    small_run.config["inputs"].pop("exposures")
    rank.run(spark, load(small_run.write()), Console(file=StringIO()))
    with pytest.raises(DataError, match="no pilot to plan from"):
        asked(small_run.config["lake"], "small")
