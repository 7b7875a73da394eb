"""A CSV file that Python's csv module writes is read as csv.reader reads it; a malformed file is always an error."""

import bz2
import csv
import gzip
import io

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eval_engine.config import Csv
from eval_engine.errors import DataError
from eval_engine.inputs import csv_file
from eval_engine.inputs.csv_file import CsvFile, file_header, line_of, text_batches

HEADER = ("user_id", "item_id", "value")
RFC_4180 = Csv()
FIELDS = st.text(st.sampled_from("ab0 ,;\t|\"'\\\r\né😀\u2028\x00"), max_size=6)
DIALECTS = st.sampled_from(
    [
        RFC_4180,
        Csv(delimiter=";"),
        Csv(delimiter="\t", quote="'"),
        Csv(delimiter="|", escape="\\"),
        Csv(quote=None, escape="\\"),
    ]
)


def python_options(dialect: Csv) -> dict[str, object]:
    return {
        "delimiter": dialect.delimiter,
        "quotechar": dialect.quote,
        "escapechar": dialect.escape,
        "doublequote": dialect.escape is None,
        "quoting": csv.QUOTE_MINIMAL if dialect.quote else csv.QUOTE_NONE,
    }


def read(content: bytes, dialect: Csv = RFC_4180, uri: str = "x.csv") -> list[tuple[str | None, ...]]:
    file = CsvFile(uri, content)
    header = file_header(file, dialect, "exposures")
    assert header is not None
    batches = [rows for _, rows in text_batches(file, dialect, header, list(header), "exposures")]
    return [tuple(row.values()) for batch in batches for row in batch.to_pylist()]


def read_by_python(content: bytes, options: dict[str, object]) -> list[tuple[str | None, ...]]:
    text = io.StringIO(content.decode("utf-8-sig"), newline="")
    rows = [row for row in csv.reader(text, **options) if row]
    return [tuple(field or None for field in row) for row in rows[1:]]


@given(st.lists(st.tuples(FIELDS, FIELDS, FIELDS)), DIALECTS, st.sampled_from(["\n", "\r\n", "\r"]), st.booleans())
@settings(max_examples=300, deadline=None)
def test_rows_are_those_of_the_csv_module(
    rows: list[tuple[str, str, str]], dialect: Csv, ends: str, everything_quoted: bool
) -> None:
    options = python_options(dialect)
    if dialect.quote and everything_quoted:
        options["quoting"] = csv.QUOTE_ALL
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator=ends, **options).writerows([HEADER, *rows])  # type: ignore[arg-type]
    content = text.getvalue().encode()
    want = read_by_python(content, options)
    if all(len(row) == len(HEADER) for row in want):
        assert read(content, dialect) == want
    else:  # the writer does not quote a lone CR, which then ends a record
        with pytest.raises(DataError, match=r"line \d+"):
            read(content, dialect)


@given(st.lists(st.text(st.sampled_from('a,"\n'), max_size=12), min_size=1, max_size=4))
@settings(max_examples=300, deadline=None)
def test_what_the_csv_module_refuses_is_refused_and_the_rest_read_alike(lines: list[str]) -> None:
    content = ("x,y\n" + "\n".join(lines)).encode()
    options: dict[str, object] = {"strict": True}
    try:
        want = read_by_python(content, options)
        ragged = any(len(row) != 2 for row in want)
    except csv.Error:
        ragged = True
    if ragged:
        with pytest.raises(DataError, match=r"line \d+"):
            read(content)
    else:
        assert read(content) == want


def test_rows_and_quotes_over_the_ends_of_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    content = ("x,y\n" + 'a,"b ""c"", \n"\n"",5" disk\nüü,"d"\n' * 9).encode()
    want = read_by_python(content, {})
    for size in range(24, 60):
        monkeypatch.setattr(csv_file, "BLOCK_BYTES", size)
        assert read(content) == want
    bad = content + b'"x"y,z\n'
    for size in range(24, 60):
        monkeypatch.setattr(csv_file, "BLOCK_BYTES", size)
        with pytest.raises(DataError, match="line 38: ',' expected after"):
            read(bad)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'x,y\n1,2\n"say \\"hi\\"",3\n', r"x\.csv, line 3: .*expected after.*escape: \"\\\\\""),
        (b'x,y\n"say "hi" there",3\n', r"x\.csv, line 2: .*twice"),
        (b'x,y\n1,2\n"never closed,3\n4,5\n', r"x\.csv, line 3: unexpected end of data"),
        (b'x,y\n"two\nlines",2\n1\n', r"line 4 of x\.csv has 1 fields, but 2 columns are named: '1'"),
        (b"x,y\n1,2,3\n", r"line 2 of x\.csv has 3 fields, but 2 columns are named: '1,2,3'"),
        ("x,y\n1,2\n".encode("utf-16"), r"line 1 of x\.csv is not UTF-8: .*udcff"),
        (b"x,y\n1,2\n\xe9t\xe9,3\n", r"line 3 of x\.csv is not UTF-8: .*udce9t"),
    ],
)
def test_a_line_that_is_not_well_formed_is_named(content: bytes, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read(content)


def test_compressed_files_by_any_spelling_of_their_name_and_never_cut_short() -> None:
    text = b"x,y\n" + b"".join(b"%d,%d\n" % (n * 7919 % 99991, n) for n in range(20_000))
    want = read(text)
    members = gzip.compress(text[:50_002]) + gzip.compress(text[50_002:])  # two members, as parallel compressors write
    assert read(members, uri="X.CSV.GZ") == want
    assert read(bz2.compress(text), uri="x.csv.bz2") == want
    assert read(pa.compress(text, "zstd", asbytes=True), uri="x.csv.zst") == want
    with pytest.raises(DataError, match=r"x\.csv\.gz cannot be read as CSV: .*Is it whole"):
        read(members[:-2000], uri="x.csv.gz")


def test_blank_lines_byte_order_mark_and_files_without_a_line() -> None:
    assert read(b'\xef\xbb\xbf"x","y"\r\n\r\n1,2\r\n\r\n') == [("1", "2")]
    assert file_header(CsvFile("x.csv", b""), Csv(), "t") is None
    assert file_header(CsvFile("x.csv", b"\xef\xbb\xbf\n\n"), Csv(), "t") is None
    assert line_of(CsvFile("x.csv", b'x,y\n\n"a\nb",2\n3,4\n'), Csv(), 1) == 5


def test_the_names_of_files_without_a_header() -> None:
    dialect = Csv(header=("a", "b"))
    assert read(b"1,2\n3,4\n", dialect) == [("1", "2"), ("3", "4")]
    assert line_of(CsvFile("x.csv", b"1,2\n3,4\n"), dialect, 1) == 2
    with pytest.raises(DataError, match=r"line 1 of .* has 3 fields, but 2 columns are named"):
        read(b"1,2,3\n", dialect)
