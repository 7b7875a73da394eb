"""Commits by several jobs at once, in processes that are released together; files that killed jobs left; odd names."""

import multiprocessing as mp
import os
import subprocess
import sys
import time
from collections import Counter
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from eval_engine.errors import DataError, LakeError
from eval_engine.lake import commits
from eval_engine.lake.commits import active_files, commit_files
from eval_engine.lake.delta_table import damaged, files_of, make_table
from eval_engine.lake.part_files import WrittenFile, new_attempt
from eval_engine.lake.rows import write_rows
from eval_engine.lake.vacuum import remove_leftovers, vacuum
from eval_engine.ranking.ranks_files import unusable_ranks
from eval_engine.tables import QUALITY, TRIALS

ROUNDS, JOBS = 12, 4
ODD = 'mf[/dim]$x é%20 b=c:\x1b"\\'


def written(uri: str, where: dict[str, str], rule: str = "r") -> WrittenFile:
    """A row of quality, or of trials, in a file that no commit names."""
    table, known = QUALITY, {"table": "t", "rule": rule, "n_rows": 1}
    if "model" in where:
        table, known = TRIALS, {"kind": "mf", "spec": "{}", "status": "done"}
    row = {name: known.get(name) for name in table.names if name not in where}
    (file,) = write_rows(uri, table, [row], where, new_attempt())
    return file


def job(
    number: int, lake: str, same: bool, rounds: int, barrier: Barrier, answers: "Queue[tuple[int, bool, str]]"
) -> None:
    """Writes a run in every round, at the moment at which the others write theirs; each round has a new lake."""
    for n in range(rounds):
        uri, where = f"{lake}/{n}/quality", {"run_id": "same" if same else f"job-{number}"}
        barrier.wait()
        try:
            make_table(uri, QUALITY, "BIGINT")
            before = active_files(DeltaTable(uri), where)
            if same:
                barrier.wait()  # all have seen the run as it was
            commit_files(uri, QUALITY, [written(uri, where, str(number))], where, expected=before)
            answers.put((n, True, ""))
        except Exception as error:  # the test looks at it
            answers.put((n, False, f"{type(error).__name__}: {error}"))
            if same and not isinstance(error, LakeError):
                barrier.abort()


def race(lake: Path, same: bool, rounds: int = ROUNDS) -> list[tuple[int, bool, str]]:
    """Whether each job's commit went through in each round, and why not."""
    start = mp.get_context("forkserver")  # one process imports what the jobs need, and is forked for each
    start.set_forkserver_preload([__name__])
    barrier, answers = start.Barrier(JOBS), start.Queue()
    jobs = [start.Process(target=job, args=(n, str(lake), same, rounds, barrier, answers)) for n in range(JOBS)]
    for one in jobs:
        one.start()
    outcomes = [answers.get(timeout=300) for _ in range(rounds * JOBS)]
    for one in jobs:
        one.join()
    return outcomes


def test_of_jobs_that_write_one_run_at_once_one_wins_whole(tmp_path: Path) -> None:
    outcomes = race(tmp_path, same=True)
    assert Counter(n for n, won, _ in outcomes if won) == dict.fromkeys(range(ROUNDS), 1)
    assert all("was written by another job while this one ran" in why for _, won, why in outcomes if not won)
    for n in range(ROUNDS):
        assert DeltaTable(f"{tmp_path}/{n}/quality").to_pyarrow_table().num_rows == 1


def test_jobs_that_write_different_runs_of_a_new_lake_at_once_all_commit(tmp_path: Path) -> None:
    outcomes = race(tmp_path, same=False)
    assert [why for _, won, why in outcomes if not won] == []
    for n in range(ROUNDS):
        table = DeltaTable(f"{tmp_path}/{n}/quality")
        assert sorted(table.to_pyarrow_table().column("run_id").to_pylist()) == [f"job-{n}" for n in range(JOBS)]
        assert "checkConstraints" in (table.protocol().writer_features or ())


def test_what_another_job_wrote_meanwhile_is_not_replaced(tmp_path: Path) -> None:
    uri, where = str(tmp_path / "quality"), {"run_id": "a"}
    make_table(uri, QUALITY, "BIGINT")
    before = active_files(DeltaTable(uri), where)
    commit_files(uri, QUALITY, [written(uri, where, "theirs")], where)
    commit_files(uri, QUALITY, [written(uri, {"run_id": "b"})], {"run_id": "b"}, expected={})
    with pytest.raises(LakeError, match="a was written by another job while this one ran"):
        commit_files(uri, QUALITY, [written(uri, where, "ours")], where, expected=before)
    rows = DeltaTable(uri).to_pyarrow_table().to_pylist()
    assert sorted((row["run_id"], row["rule"]) for row in rows) == [("a", "theirs"), ("b", "r")]


def test_files_lie_in_the_folder_of_their_partition_whatever_its_name(tmp_path: Path) -> None:
    uri = str(tmp_path / "trials")
    make_table(uri, TRIALS, "BIGINT")
    for model in (ODD, "a b", "mf"):
        where = {"run_id": "r", "model": model}
        for _ in range(2):
            commit_files(uri, TRIALS, [written(uri, where)], where)
    assert sorted(DeltaTable(uri).to_pyarrow_table().column("model").to_pylist()) == sorted([ODD, "a b", "mf"])
    files = files_of(uri, {"run_id": "r"})
    assert {file.partition["model"] for file in files} == {ODD, "a b", "mf"}
    assert damaged(files) == {}
    with pytest.raises(DataError, match="Give it a shorter name"):
        written(uri, {"run_id": "r", "model": "m" * 300})


def test_a_file_that_is_gone_or_cut_is_seen(tmp_path: Path) -> None:
    uri = str(tmp_path / "trials")
    make_table(uri, TRIALS, "BIGINT")
    for model in ("a", "b", "c"):
        where = {"run_id": "r", "model": model}
        commit_files(uri, TRIALS, [written(uri, where)], where)
    a, b, _ = files_of(uri, {"run_id": "r"})
    Path(a.path).unlink()
    os.truncate(b.path, 100)
    assert damaged(files_of(uri, {"run_id": "r"})) == {
        a.path: "is gone",
        b.path: f"has 100 bytes, not the {b.n_bytes:,} that were written",
    }


def test_ranks_of_two_jobs_are_not_used(tmp_path: Path) -> None:
    uri = str(tmp_path / "trials")
    make_table(uri, TRIALS, "BIGINT")
    where = {"run_id": "r", "model": "a"}
    commit_files(uri, TRIALS, [written(uri, where), written(uri, where)], where)
    files = [file._replace(partition={**file.partition, "inputs": "x"}) for file in files_of(uri, {"run_id": "r"})]
    assert unusable_ranks(files[:1]) == {}
    assert "users are there twice" in unusable_ranks(files)["a"]


def killed_job(lake: Path) -> None:
    """A process that writes a file of run a, and is killed before it commits it."""
    code = (
        f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); import os, signal, test_commits as t;"
        f"t.written({str(lake / 'quality')!r}, {{'run_id': 'a'}}); os.kill(os.getpid(), signal.SIGKILL)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == -9


def parquet(lake: Path) -> int:
    return len(list(lake.rglob("*.parquet")))


def test_what_a_killed_job_left_is_removed_by_the_next_of_its_run(tmp_path: Path) -> None:
    uri, where = str(tmp_path / "quality"), {"run_id": "a"}
    make_table(uri, QUALITY, "BIGINT")
    for _ in range(2):
        commit_files(uri, QUALITY, [written(uri, where)], where)
    killed_job(tmp_path)
    written(uri, where)  # of this process, which may be about to commit it
    assert parquet(tmp_path) == 4
    assert remove_leftovers(uri, "b") == 0
    assert remove_leftovers(uri, "a") > 0
    assert (
        parquet(tmp_path) == 3
    )  # the run's rows, those they replaced, which somebody may be reading, and that of this process
    assert remove_leftovers(uri, "a") == 0


def test_vacuum_removes_what_is_old_and_not_named(tmp_path: Path) -> None:
    uri, where = str(tmp_path / "trials"), {"run_id": "a", "model": ODD}
    make_table(uri, TRIALS, "BIGINT")
    commit_files(uri, TRIALS, [written(uri, where)], where)
    old = Path(uri) / written(uri, where).path
    old = old.rename(old.with_name("part-" + "0" * 12 + ".1.1." + "0" * 12 + "-of-another-machine.parquet"))
    (tmp_path / "_staging" / "r").mkdir(parents=True)
    (tmp_path / "_staging" / "r" / "0.parquet").write_bytes(b"copy")
    assert vacuum(str(tmp_path), hours=1) == []
    long_ago = time.time() - 7200
    for path in (old, tmp_path / "_staging" / "r" / "0.parquet"):
        os.utime(path, (long_ago, long_ago))
    assert [(entry.table, entry.n_files) for entry in vacuum(str(tmp_path), hours=1)] == [
        ("trials", 1),
        ("_staging", 1),
    ]
    assert not old.exists()
    commit_files(uri, TRIALS, [written(uri, where)], where)
    kept = Path(uri) / written(uri, where).path  # of a process that still runs
    assert [entry.n_files for entry in vacuum(str(tmp_path), hours=0)] == [1]
    assert kept.exists()
    assert DeltaTable(uri).to_pyarrow_table().num_rows == 1


def test_what_a_failed_write_leaves_is_deleted_but_nothing_that_was_committed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    uri, where = str(tmp_path / "quality"), {"run_id": "a"}
    make_table(uri, QUALITY, "BIGINT")
    row = dict.fromkeys(QUALITY.names[1:]) | {"table": "t", "rule": "r", "n_rows": 1}

    def one(attempt: str) -> list[WrittenFile]:
        return write_rows(uri, QUALITY, [row], where, attempt)

    def twice(attempt: str) -> list[WrittenFile]:  # as a task that is run again
        one(attempt)
        return one(attempt)

    def half(attempt: str) -> list[WrittenFile]:
        one(attempt)
        raise OSError(28, "No space left on device")

    def unanswered(*arguments: Any) -> None:
        commit_files(*arguments)
        raise OSError("the store did not answer")

    (first,) = commits.replace_files(uri, QUALITY, where, twice)
    assert [path.name for path in tmp_path.rglob("*.parquet")] == [Path(first.path).name]
    with pytest.raises(OSError, match="No space"):
        commits.replace_files(uri, QUALITY, where, half)
    assert parquet(tmp_path) == 1
    monkeypatch.setattr(commits, "commit_files", unanswered)
    with pytest.raises(OSError, match="did not answer"):  # but the commit is there, and so is its file
        commits.replace_files(uri, QUALITY, where, one)
    assert DeltaTable(uri).to_pyarrow_table().num_rows == 1
    (current,) = files_of(uri, where)
    assert not current.path.endswith(first.path)

    def no_log(uri: str) -> set[str]:
        raise OSError("the store is gone")

    monkeypatch.setattr(commits, "_named", no_log)
    with pytest.raises(OSError, match="No space"):  # the first error is raised, also if the files cannot be deleted
        commits.replace_files(uri, QUALITY, where, half)
    assert "stay until `plumbline vacuum`: the store is gone" in caplog.text
