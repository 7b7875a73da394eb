"""Which process wrote something: alive, gone, another machine's."""

import os
import subprocess
import sys

from eval_engine.lake.part_files import new_attempt, process_of
from eval_engine.storage.process_id import is_gone, process_id


def test_a_process_is_there_until_it_ends() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    name = process_id(child.pid)
    assert is_gone(name) is False
    child.kill()
    child.wait()
    assert is_gone(name) is True


def test_a_killed_process_that_nobody_waited_for_is_gone() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    name = process_id(child.pid)
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # it has ended, and is still in the list of processes
    assert is_gone(name) is True
    child.wait()


def test_another_process_with_the_same_number_is_not_the_one() -> None:
    machine, pid, start = process_id().split(".")
    assert is_gone(f"{machine}.{pid}.{int(start) + 1}") is True
    assert is_gone(f"{'0' * 12}.{pid}.{start}") is None
    assert is_gone("nonsense") is None


def test_a_file_name_tells_its_process() -> None:
    assert process_of(f"part-{new_attempt()}-0.parquet") == process_id()
    assert process_of("part-00000-1f0c.c000.snappy.parquet") is None
