"""A folder has whole tables of one import, or no run.yaml; what somebody else wrote is never replaced."""

from pathlib import Path

import pyarrow as pa
import pytest

from eval_engine.errors import ConfigError, OutputError
from eval_engine.inputs.public_data import destination as written
from eval_engine.inputs.public_data.destination import Destination
from eval_engine.storage.process_id import process_id


def rows(n: int) -> pa.RecordBatch:
    return pa.record_batch({"item_id": pa.array(range(n), pa.int64())})


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_tables_of_another_import_are_replaced_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(written, "GROUP_ROWS", 4)
    with Destination(tmp_path, {}) as destination:
        for n in (3, 3, 0, 2):
            destination.add("log", rows(n))
        destination.add("catalogue", rows(0))
        destination.finish("a: 1\n")
    assert names(tmp_path) == {"log.parquet", "catalogue.parquet", "run.yaml", "_import.json"}
    assert pa.parquet.read_table(tmp_path / "log.parquet").num_rows == destination.n_rows["log"] == 8
    with Destination(tmp_path, {}) as destination:  # it ends before it is done, as by an error
        destination.add("feedback", rows(1))
    assert names(tmp_path) == {"log.parquet", "catalogue.parquet", "run.yaml", "_import.json"}
    with Destination(tmp_path, {}) as destination:
        destination.add("feedback", rows(1))
        destination.finish("a: 2\n")
    assert names(tmp_path) == {"feedback.parquet", "run.yaml", "_import.json"}


def test_run_yaml_is_there_only_if_all_tables_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Destination(tmp_path, {}) as destination:
        destination.add("log", rows(1))
        destination.finish("a: 1\n")

    def fail(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(written, "put_in_place", fail)
    with Destination(tmp_path, {}) as destination:
        destination.add("log", rows(2))
        with pytest.raises(OSError, match="disk full"):
            destination.finish("a: 2\n")
    assert names(tmp_path) == {"log.parquet", "_import.json"}


def test_folders_of_others_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "feedback.parquet").touch()
    with pytest.raises(ConfigError, match=r"files that no import wrote \(first: feedback.parquet\)"):
        Destination(tmp_path, {}).__enter__()
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match="cannot be written: "):
        Destination(tmp_path / "file", {}).__enter__()


def test_what_a_killed_import_left_is_removed(tmp_path: Path) -> None:
    machine, pid, start = process_id().split(".")
    (tmp_path / f"_import.{machine}.{pid}.{int(start) + 1}.tmp").mkdir()  # that process has ended
    with Destination(tmp_path, {}) as destination:
        assert names(tmp_path) == {destination.temporary.name}
    (tmp_path / f"_import.{process_id(1)}.tmp").mkdir()  # this one runs
    with pytest.raises(OutputError, match="Another import writes to"):
        Destination(tmp_path, {}).__enter__()
