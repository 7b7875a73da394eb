"""A table's format is guessed from its path and its files, in the same way for every stage."""

from pathlib import Path

import pytest
from deltalake import write_deltalake
from pyarrow import table

from eval_engine.config import Csv, Input
from eval_engine.errors import ConfigError
from eval_engine.inputs.input_format import input_format


def touch(*files: Path) -> None:
    for file in files:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()


@pytest.mark.parametrize(
    ("path", "want"),
    [
        ("a/x.csv", "csv"),
        ("a/x.CSV", "csv"),
        ("a/x.csv.gz", "csv"),
        ("a/x.Csv.GZ", "csv"),
        ("a/x.csv.bz2", "csv"),
        ("a/x.csv.zst", "csv"),
        ("s3://bucket/x.csv.gz", "csv"),
        ("hdfs://name/x.csv", "csv"),
        ("a/folder.csv/", "csv"),
        ("main.logs.ratings", "table"),
        ("logs.ratings", "table"),
        ("x.parquet", "parquet"),
        ("a/not/there", "parquet"),
    ],
)
def test_by_the_name_alone(path: str, want: str) -> None:
    assert input_format(Input(path=path)) == want


def test_by_the_files_in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    touch(
        tmp_path / "csv" / "part-0.csv",
        tmp_path / "csv" / "_SUCCESS",
        tmp_path / "csv" / ".part-0.csv.crc",
        tmp_path / "upper" / "PART.CSV.GZ",
        tmp_path / "parts" / "day=1" / "model=a" / "x.csv",
        tmp_path / "parts" / "_old" / "x.parquet",
        tmp_path / "parquet" / "part-0.parquet",
        tmp_path / "deep" / "day=1" / "part-0.parquet",
        tmp_path / "file",
        tmp_path / "a.table",
    )
    (tmp_path / "empty").mkdir()
    write_deltalake(tmp_path / "delta", table({"x": [1]}))
    want = {
        "csv": "csv",
        "upper": "csv",
        "parts": "csv",
        "parquet": "parquet",
        "deep": "parquet",
        "file": "parquet",
        "empty": "parquet",
        "delta": "delta",
    }
    for name, kind in want.items():
        for path in (f"{tmp_path}/{name}", f"{tmp_path}/{name}/", (tmp_path / name).as_uri()):
            assert input_format(Input(path=path)) == kind, path
    monkeypatch.chdir(tmp_path)
    assert input_format(Input(path="a.table")) == "parquet"  # the path of an existing file is no catalog name
    assert input_format(Input(path="delta")) == "delta"


def test_a_declared_format_has_precedence(tmp_path: Path) -> None:
    assert input_format(Input(path="x.csv", format="parquet")) == "parquet"
    assert input_format(Input(path=str(tmp_path), csv=Csv(delimiter=";"))) == "csv"


def test_a_format_that_cannot_be_guessed_must_be_given(tmp_path: Path) -> None:
    touch(tmp_path / "x.csv", tmp_path / "y.parquet")
    with pytest.raises(ConfigError, match=r"holds CSV files and others.*Give `format`"):
        input_format(Input(path=str(tmp_path)))
    with pytest.raises(ConfigError, match=r"nosuch://host/x: .*Give `format`"):
        input_format(Input(path="nosuch://host/x"))
