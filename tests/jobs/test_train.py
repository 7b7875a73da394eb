"""The train job as a process: killed and started again, in several processes, and as a search whose panel is then evaluated."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.dataset as ds
import pytest
import yaml
from deltalake import DeltaTable
from pyspark.sql import SparkSession
from rich.console import Console

from eval_engine.errors import ConfigError
from eval_engine.lake.lake import Lake
from eval_engine.tables import TRIALS
from jobs import evaluate, rank, train
from jobs.cli import load
from models.score_table import Layout

ROOT = Path(__file__).parent.parent.parent
QUIET = Console(quiet=True)
LOOP = {"epochs": 6, "batch_size": 16, "patience": 9}
DISTRIBUTED = [
    {"model": "mf", "dims": 4, **LOOP},
    {"model": "lightgcn", "dims": 4, **LOOP},
    {"model": "rvae", "dims": 4, "hidden": 8, **LOOP},
    {"model": "mf_dr", "dims": 4, **LOOP},
    {"kind": "random", "name": "random"},
]


def as_trained(run: Any, models: list[dict[str, Any]], scores: str, **section: Any) -> str:
    """The config of a run that trains its models into a folder."""
    run.config.pop("scores", None)
    run.config["train"] = {"seed": 3, "scores": str(run.folder / scores), "models": models} | section
    return str(run.write())


def scores_of(folder: Path) -> np.ndarray:
    table = ds.dataset(folder).to_table().sort_by("user_id")
    return np.frombuffer(b"".join(table.column("scores").to_pylist()), "<f4").reshape(table.num_rows, -1)


def files_of(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def kill_when(seen: Callable[[], bool], command: list[str]) -> None:
    """Start the command, and kill it -9 once something is there."""
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    while not seen():
        assert process.poll() is None, "it ended before it could be killed"
        assert time.monotonic() < deadline
        time.sleep(0.002)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL


def test_killed_in_training_and_in_scoring_it_goes_on_to_the_same_bits(small_run: Any) -> None:
    slow = [
        {"model": "mf_ips", "name": "mf", "dims": 400, "epochs": 12, "batch_size": 8, "patience": 12, "stop_on": "loss"}
    ]
    section = {"checkpoint_minutes": 0.0}
    config = as_trained(small_run, slow, "whole", **section)
    train.run(load(config), QUIET)
    expected = files_of(small_run.folder / "whole")
    config = as_trained(small_run, slow, "killed", **section)
    command = [sys.executable, "jobs/train.py", "--config", config]
    checkpoint = small_run.folder / "killed" / "_checkpoints" / "mf.pt"
    kill_when(checkpoint.exists, command)  # in the first epochs
    assert not (small_run.folder / "killed" / "mf").exists()
    first = checkpoint.read_bytes()
    kill_when(lambda: checkpoint.read_bytes() != first, command)  # it went on, and is killed again
    train.run(load(config), QUIET)
    assert files_of(small_run.folder / "killed") == expected
    assert not checkpoint.exists()


def test_killed_between_shards_it_writes_the_rest(small_run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    models = [{"model": "bpr_mf", "dims": 4, **LOOP}]
    monkeypatch.setattr("models.train.layout_of", lambda *parts: Layout(4, 4))
    train.run(load(as_trained(small_run, models, "whole")), QUIET)
    expected = files_of(small_run.folder / "whole")
    assert len(expected) == 11  # ten shards and the manifest
    config = as_trained(small_run, models, "killed")
    program = (
        "import os, signal, sys, models.train, models.score_table as t; from jobs import train; from jobs.cli import "
        "load; from rich.console import Console\n"
        "models.train.layout_of = lambda *parts: t.Layout(4, 4)\n"
        "write = t._write_shard\n"
        "def until(path, *rest):\n"
        "    if path.name == 'shard-00003.parquet': os.kill(os.getpid(), signal.SIGKILL)\n"
        "    write(path, *rest)\n"
        "t._write_shard = until\n"
        "train.run(load(sys.argv[1]), Console(quiet=True))\n"
    )
    done = subprocess.run([sys.executable, "-c", program, config], cwd=ROOT, capture_output=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr[-2000:]
    table, checkpoint = (
        small_run.folder / "killed" / "bpr_mf",
        small_run.folder / "killed" / "_checkpoints" / "bpr_mf.pt",
    )
    kept = {path.name: path.stat().st_mtime_ns for path in table.glob("shard-*")}
    assert (
        {"shard-00000.parquet", "shard-00001.parquet"}
        <= set(kept)
        <= {f"shard-{number:05d}.parquet" for number in range(3)}
    )  # the disk may be one behind
    assert ds.dataset(table).count_rows() == 4 * len(kept)
    assert checkpoint.exists()
    epochs: list[int] = []
    monkeypatch.setattr("models.training._Training.epoch", lambda self: epochs.append(1))  # it must not train again
    train.run(load(config), QUIET)
    assert epochs == []
    assert files_of(small_run.folder / "killed") == expected
    assert {name: (table / name).stat().st_mtime_ns for name in kept} == kept


def test_two_processes_give_the_scores_of_one(
    small_run: Any, submit: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    train.run(load(as_trained(small_run, DISTRIBUTED, "one")), QUIET)
    config = as_trained(small_run, DISTRIBUTED, "torchrun")
    command = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--nproc-per-node",
        "2",
        "--master-port",
        "29541",
        "jobs/train.py",
        "--config",
        config,
    ]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    local = subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    own_lake = small_run.config | {
        "lake": str(small_run.folder / "other lake"),
        "train": small_run.config["train"] | {"scores": str(small_run.folder / "spark")},
    }
    (small_run.folder / "spark.yaml").write_text(yaml.safe_dump(own_lake))
    spark = submit(
        "jobs/train.py", "local[2]", "--config", str(small_run.folder / "spark.yaml"), "--processes", "2"
    )  # while torchrun is at it
    told = local.communicate()[0]
    assert local.returncode == 0, told[-3000:]
    assert spark.returncode == 0, (spark.stdout + spark.stderr)[-3000:]
    for by in ("torchrun", "spark"):
        for name in ("mf", "lightgcn", "rvae", "mf_dr", "random"):
            one, two = (scores_of(small_run.folder / folder / name) for folder in ("one", by))
            np.testing.assert_allclose(two, one, rtol=1e-3, atol=1e-4, err_msg=f"{name} by {by}")
            assert np.std(one) > 0.001
        assert not list((small_run.folder / by / "_checkpoints").glob("*"))


def test_a_search_trains_a_panel_notes_it_and_leaves_out_what_failed(small_run: Any, spark: SparkSession) -> None:
    search = [
        {
            "model": "mf",
            "fixed": {**LOOP, "dims": 4},
            "grid": {"learning_rate": [0.01, 1e30], "loss.residual_correlation": [0.0, 0.1]},
        }
    ]
    config = load(as_trained(small_run, [{"model": "positive_popularity"}], "scores", search=search))
    train.run(config, QUIET)
    trials = {
        row["model"]: row for row in DeltaTable(small_run.folder / "lake" / "trials").to_pyarrow_table().to_pylist()
    }
    assert {name: row["status"] for name, row in trials.items()} == {
        "positive_popularity": "done",
        "mf-000": "done",
        "mf-001": "done",
        "mf-002": "failed",
        "mf-003": "failed",
    }
    assert "the loss is" in trials["mf-002"]["error"]
    assert trials["mf-000"]["stop_on"] == "ndcg@10"
    assert 1 <= trials["mf-000"]["best_epoch"] <= trials["mf-000"]["epochs"] <= 6
    rows = Lake(spark, config.lake).read(TRIALS, config.run_id)
    assert rows.where(" OR ".join(f"NOT coalesce(({rule}), false)" for rule in TRIALS.rules)).isEmpty()
    before = DeltaTable(small_run.folder / "lake" / "trials").version()
    train.run(config.without(("mf-002", "mf-003")), QUIET)  # nothing is trained, so nothing is noted
    assert DeltaTable(small_run.folder / "lake" / "trials").version() == before
    console = Console(record=True, width=150)
    train.show_trials(config, console)
    assert "mf-003" in (shown := console.export_text())
    assert "failed" in shown
    assert "learning_rate=0.01" in shown
    assert "mf-002: model mf-002: the loss is" in " ".join(shown.split())
    assert trials["mf-000"]["held_out"] > 0
    assert trials["mf-000"]["better"] == "higher"
    best = max((name for name in ("mf-000", "mf-001")), key=lambda name: trials[name]["held_out"])
    assert shown.index(best) == min(shown.index(name) for name in ("mf-000", "mf-001", "mf-002", "mf-003"))
    rank.run(spark, config, QUIET)
    evaluate.run(spark, config, QUIET)
    estimates = DeltaTable(small_run.folder / "lake" / "estimates").to_pyarrow_table()
    assert set(estimates.column("model").to_pylist()) == {"positive_popularity", "mf-000", "mf-001"}


def test_nothing_to_train(small_run: Any) -> None:
    with pytest.raises(ConfigError, match="no train section"):
        train.run(load(str(small_run.write())), QUIET)


def test_tasks_of_spark_have_a_gpu_where_the_config_says_cuda(
    small_run: Any, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    class Distributor:
        def __init__(self, num_processes: int, local_mode: bool, use_gpu: bool) -> None:
            asked.append((num_processes, use_gpu))

        def run(self, *arguments: str) -> None:
            asked.append(arguments[1:])

    monkeypatch.setattr("pyspark.ml.torch.distributor.TorchDistributor", Distributor)
    monkeypatch.setattr(SparkSession, "stop", lambda session: None)
    for device in ("cpu", "cuda"):
        config = as_trained(small_run, [{"kind": "random", "name": "r"}], "s", device=device)
        train.on_spark(config, None, 3)
    assert asked == [(3, False), ("--config", config), (3, True), ("--config", config)]
