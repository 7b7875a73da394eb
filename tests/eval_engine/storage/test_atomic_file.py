"""A reader sees the old file or the new one."""

import os

import pytest

from eval_engine.storage.atomic_file import write_atomically


def test_writes_replaces_and_makes_the_folder(tmp_path):
    path = tmp_path / "a" / "b.txt"
    assert write_atomically(b"old", path) == path
    write_atomically(b"new", path)
    assert path.read_bytes() == b"new"
    assert [p.name for p in path.parent.iterdir()] == ["b.txt"]


def test_a_failure_leaves_the_old_file_and_no_part(tmp_path, monkeypatch):
    path = write_atomically(b"old", tmp_path / "b.txt")

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_atomically(b"new", path)
    assert path.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["b.txt"]


def test_permissions_are_those_of_any_new_file(tmp_path):
    plain = tmp_path / "plain"
    plain.write_bytes(b"")
    assert write_atomically(b"", tmp_path / "ours").stat().st_mode == plain.stat().st_mode
