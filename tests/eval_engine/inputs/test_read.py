"""CSV tables: Spark's stages and training read the same rows as Python's csv module."""

import csv
import gzip
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from eval_engine.config import Csv, Input
from eval_engine.errors import DataError, as_operator_error
from eval_engine.inputs.read import read_input
from models.inputs import read_rows

WANTED = {"user_id": "id", "item_id": "id", "value": "value"}
NAMES = tuple(WANTED)
ROWS = [
    ('say "hi"', "007", "1.5"),
    ("a,b;c\td|e", "8", "-2e3"),
    ("two\nlines", "9", "+3"),
    ("CR\r\nLF", "10", " 4 "),
    (" blanks ", " 11", "5"),
    ("NA", "null", "NaN"),
    ("back\\slash\\", "'", "0"),
    ("ünïcödé 😀\u2028", "#", ""),
    ("", "12", "1"),
    ('"', '""', "7"),
    ('5" disk', "x", "8"),
]
Rows = list[tuple[Any, ...]]


def by_spark(spark: SparkSession, where: Input) -> Rows:
    with as_operator_error():
        return [tuple(row) for row in read_input(spark, "exposures", where, WANTED).collect()]


def by_training(where: Input) -> Rows:
    return [tuple(row.values()) for row in read_rows(where, NAMES).to_pylist()]


def comparable(rows: Rows) -> Rows:
    return sorted((repr(row) for row in rows), key=str)  # NaN is NaN


def written(rows: Rows, lineterminator: str = "\r\n", **dialect: Any) -> bytes:
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator=lineterminator, **dialect).writerows(rows)
    return text.getvalue().encode()


def oracle(content: bytes, whole: tuple[str, ...] = (), **dialect: Any) -> Rows:
    """The rows that csv.reader reads after the header; an empty field is a missing value."""
    reader = csv.reader(io.StringIO(content.decode("utf-8-sig"), newline=""), **dialect)
    _, *rows = [row for row in reader if row]
    as_id = {name: (int if name in whole else str) for name in ("user_id", "item_id")}
    return [
        (
            as_id["user_id"](user) if user else None,
            as_id["item_id"](item) if item else None,
            float(value) if value.strip() else None,
        )
        for user, item, value in rows
    ]


def minimal(folder: Path) -> tuple[Input, Rows]:
    content = written([NAMES, *ROWS])
    (folder / "x.csv").write_bytes(content)
    return Input(path=str(folder / "x.csv")), oracle(content)


def all_quoted(folder: Path) -> tuple[Input, Rows]:
    content = b"\xef\xbb\xbf" + written([NAMES, *ROWS], "\n", quoting=csv.QUOTE_ALL)
    (folder / "X.CSV").write_bytes(content)
    return Input(path=str(folder / "X.CSV")), oracle(content)


def gzipped(folder: Path) -> tuple[Input, Rows]:
    content = written([NAMES, *ROWS])
    (folder / "x.csv.gz").write_bytes(gzip.compress(content))
    return Input(path=str(folder / "x.csv.gz")), oracle(content)


def semicolons(folder: Path) -> tuple[Input, Rows]:
    options = {"delimiter": ";", "quotechar": "'"}
    content = written([NAMES, *ROWS], **options)
    (folder / "x.csv").write_bytes(content)
    return Input(path=str(folder / "x.csv"), csv=Csv(delimiter=";", quote="'")), oracle(content, **options)


def backslashes(folder: Path) -> tuple[Input, Rows]:
    options = {"delimiter": "\t", "escapechar": "\\", "doublequote": False}
    content = written([NAMES, *ROWS], **options)
    assert b'say \\"hi\\"' in content
    (folder / "part-0").write_bytes(content)
    return Input(path=str(folder / "part-0"), csv=Csv(delimiter="\t", escape="\\")), oracle(content, **options)


def no_header(folder: Path) -> tuple[Input, Rows]:
    (folder / "x.csv").write_bytes(written(ROWS))
    names = {"user_id": "uid", "item_id": "iid", "value": "rating"}
    where = Input(path=str(folder / "x.csv"), columns=names, csv=Csv(header=("uid", "iid", "rating")))
    return where, oracle(written([NAMES, *ROWS]))


def a_folder(folder: Path) -> tuple[Input, Rows]:
    """Columns in another order in each file; one file has no row, one is empty, hidden files are ignored."""
    (folder / "1.csv").write_bytes(written([NAMES, *ROWS[:5]]))
    turned = [("value", "extra", "item_id", "user_id"), *[(v, "", i, u) for u, i, v in ROWS[5:]]]
    (folder / "1.csv").write_bytes(written([(*NAMES, "extra"), *[(*row, "z") for row in ROWS[:5]]]))
    (folder / "2.csv.gz").write_bytes(gzip.compress(written(turned)))
    (folder / "3.csv").write_bytes(written([(*NAMES, "extra")]))
    (folder / "4.csv").write_bytes(b"")
    (folder / "_SUCCESS").write_bytes(b"")
    (folder / ".1.csv.crc").write_bytes(b"\xff")
    return Input(path=str(folder)), oracle(written([NAMES, *ROWS]))


def whole_numbers(folder: Path) -> tuple[Input, Rows]:
    content = written([NAMES, ("1", "-5", "1"), ("", "0", "2"), ("123456789012345678", "7", "3")])
    (folder / "x.csv").write_bytes(content)
    return Input(path=str(folder / "x.csv")), oracle(content, ("user_id", "item_id"))


def partitions(folder: Path) -> tuple[Input, Rows]:
    folder = folder / "day=1"  # the table is one partition of another table: day is not one of its columns
    folder.mkdir()
    for user in ("7", "8"):
        (folder / f"user_id={user}").mkdir()
        (folder / f"user_id={user}" / "x.csv").write_bytes(written([("item_id", "value"), ("00", user)]))
    return Input(path=str(folder)), [(7, "00", 7.0), (8, "00", 8.0)]


@pytest.mark.parametrize(
    "case",
    [
        minimal,
        all_quoted,
        gzipped,
        semicolons,
        backslashes,
        no_header,
        a_folder,
        whole_numbers,
        partitions,
    ],
)
def test_csv_gives_spark_and_training_the_rows_of_the_csv_module(
    spark: SparkSession, tmp_path: Path, case: Callable[[Path], tuple[Input, Rows]]
) -> None:
    where, want = case(tmp_path)
    assert comparable(by_training(where)) == comparable(want)
    assert comparable(by_spark(spark, where)) == comparable(want)


def test_csv_on_storage_that_arrow_does_not_reach(spark: SparkSession, tmp_path: Path) -> None:
    where, want = minimal(tmp_path)
    spark.conf.set("fs.viewfs.mounttable.only-spark.link./data", tmp_path.as_uri())
    try:
        unreached = where.model_copy(update={"path": "viewfs://only-spark/data/x.csv"})
        assert comparable(by_spark(spark, unreached)) == comparable(want)
        with pytest.raises(DataError, match=r"viewfs://.*cannot be read as csv"):
            by_training(unreached)
    finally:
        spark.conf.unset("fs.viewfs.mounttable.only-spark.link./data")
    (tmp_path / "y.csv").write_bytes((tmp_path / "x.csv").read_bytes())
    pattern = where.model_copy(update={"path": str(tmp_path / "[xy].csv")})  # Spark reads patterns, Arrow does not
    assert comparable(by_spark(spark, pattern)) == comparable(want * 2)


GOOD = b"user_id,item_id,value\nu1,i1,1\n"


@pytest.mark.parametrize(
    ("content", "options", "message"),
    [
        (
            GOOD + b'"u\n2","say ""hi""",lots\n',
            None,
            r"column value is 'lots' in line 3 of .*x\.csv \(user_id='u\\n2', item_id=say \"hi\"\), "
            "which is not a number",
        ),
        (GOOD + b"u2,i2\n", None, r"line 3 of .*x\.csv has 2 fields, but 3 columns are named: 'u2,i2'"),
        (GOOD + b'"u \\"2\\"",i2,3\n', None, r'line 3: .*set csv: \{escape: "\\\\"\}'),
        (b"user_id;item_id;value\nu1;i1;1\n", None, r'csv: \{delimiter: ";"\}'),
        (b"user_id,item_id,user_id,value\n1,2,3,4\n", None, "2 columns called 'user_id'"),
        (b"", None, "empty"),
        (b"user_id,item_id,value\n", None, "empty"),
        (b"u1,i1\n", Csv(header=NAMES), "line 1 of .*has 2 fields, but 3 columns"),
    ],
)
def test_a_bad_csv_file_is_refused_alike_by_spark_and_by_training(
    spark: SparkSession, tmp_path: Path, content: bytes, options: Csv | None, message: str
) -> None:
    (tmp_path / "x.csv").write_bytes(content)
    where = Input(path=str(tmp_path / "x.csv"), csv=options)
    for name, read in (("exposures", lambda: by_spark(spark, where)), (where.path, lambda: by_training(where))):
        with pytest.raises(DataError, match=message) as error:
            read()
        text = str(error.value)
        assert text.startswith(f"{name}: ")
        assert "quarantine" not in text
        assert "Exception" not in text
        assert len(text.splitlines()) == 1


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"u2,i2,true\n", "column value is 'true' in line 3 of .*user_id=u2, item_id=i2"),
        (b',i2,"1,5"\n', "column value is '1,5' in line 3 of .*user_id=NULL, item_id=i2"),
        (b"u2,i2,3,4\n", r"line 3 of .*x\.csv has 4 fields, but 3 columns are named: 'u2,i2,3,4'"),
        (b"u2,\xe9,3\n", "line 3 of .* is not UTF-8"),
    ],
)
def test_a_bad_csv_row_is_named(tmp_path: Path, line: bytes, message: str) -> None:
    (tmp_path / "x.csv").write_bytes(GOOD + line)
    with pytest.raises(DataError, match=message):
        by_training(Input(path=str(tmp_path / "x.csv")))


def test_files_of_one_csv_table_have_the_same_columns(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "1.csv").write_bytes(GOOD)
    (tmp_path / "2.csv").write_bytes(b"user_id,item_id,value,exposure_probability\nu1,i2,1,0.5\n")
    where = Input(path=str(tmp_path))
    for read in (lambda: by_spark(spark, where), lambda: by_training(where)):
        with pytest.raises(DataError, match=r"2\.csv has the columns .*other files .* have user_id, item_id, value"):
            read()
