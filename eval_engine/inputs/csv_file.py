"""Reads a CSV file as columns of text: the one reader of CSV for every stage, with and without Spark.

The dialect is RFC 4180 unless the config's `csv` sets another one: a field that contains a delimiter, a quote or a line
break is enclosed in quotes, and a quote inside it is doubled. Records end with LF, CRLF or CR. Blanks are part of a
field. Blank lines and a byte order mark are skipped. An empty field is NULL, quoted or not: writers that quote every
field quote missing values too.

Arrow parses the file. It appends text after a closing quote to the field, so it misreads a file that escapes quotes in
another way, without an error. Therefore the quotes are checked while Arrow reads: an opening quote must follow a
delimiter, a closing quote must precede one. If a quote does not, or if Arrow fails, Python's csv module reads the file
in strict mode: it decides whether the file is well-formed, and gives the line number for the error.
"""

import csv
import io
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.csv as arrow_csv

from eval_engine.config import Csv
from eval_engine.errors import DataError
from eval_engine.storage.stored_file import located

BLOCK_BYTES = 8 << 20  # per read; a record must not be longer
CODECS = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd"}
SHOWN = 120  # characters of a row in a message
BOM = b"\xef\xbb\xbf"


class CsvFile(NamedTuple):
    """A stored file; the end of its name says whether and how it is compressed."""

    uri: str
    content: bytes | None = None  # given if Arrow does not reach the file

    def open(self) -> pa.NativeFile:
        """The uncompressed bytes of the file."""
        if self.content is not None:
            raw = pa.BufferReader(self.content)
        else:
            system, path = located(self.uri)
            raw = system.open_input_stream(path, compression=None)
        codec = next((codec for end, codec in CODECS.items() if self.uri.lower().endswith(end)), None)
        return pa.CompressedInputStream(raw, codec) if codec else raw


def file_header(file: CsvFile, dialect: Csv, table: str) -> tuple[str, ...] | None:
    """The column names in the order of the file; None if the file has no line."""
    if dialect.header is not True:
        return dialect.header
    try:
        line, fields = next(_records(file, dialect), (0, []))
    except (csv.Error, OSError) as error:
        raise unreadable(table, file, error) from None
    if not all(map(_is_text, fields)):
        raise _not_utf8(table, file, line, fields)
    return tuple(fields) if fields else None


def text_batches(
    file: CsvFile, dialect: Csv, header: tuple[str, ...], columns: list[str], table: str
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Batches of these columns as text, each with the number of its first record; header: all columns of the file."""
    n_records = 0
    try:
        with file.open() as raw:
            stream = _QuoteCheck(raw, dialect)
            reader = arrow_csv.open_csv(
                stream,
                read_options=arrow_csv.ReadOptions(
                    use_threads=False,
                    block_size=BLOCK_BYTES,
                    column_names=None if dialect.header is True else list(dialect.header),
                ),
                parse_options=arrow_csv.ParseOptions(
                    delimiter=dialect.delimiter,
                    quote_char=dialect.quote or False,
                    escape_char=dialect.escape or False,
                    newlines_in_values=dialect.quote is not None or dialect.escape is not None,
                ),
                convert_options=arrow_csv.ConvertOptions(
                    column_types={name: pa.string() for name in header},
                    include_columns=columns,
                    null_values=[""],
                    strings_can_be_null=True,
                ),
            )
            for batch in reader:
                if stream.doubtful:
                    _refuse_wrong_line(file, dialect, len(header), table)
                    stream.trust()
                yield n_records, batch
                n_records += batch.num_rows
    except (pa.ArrowInvalid, OSError) as error:
        _refuse_wrong_line(file, dialect, len(header), table)
        raise unreadable(table, file, error) from None
    if stream.doubtful:
        _refuse_wrong_line(file, dialect, len(header), table)


def line_of(file: CsvFile, dialect: Csv, record: int) -> int | None:
    """The line, counted from 1, where a record begins; records are counted from 0, without the header."""
    skipped = record + (dialect.header is True)
    return next((line for number, (line, _) in enumerate(_records(file, dialect)) if number == skipped), None)


def unreadable(table: str, file: CsvFile, error: Exception) -> DataError:
    """The error of a file that neither parser can read."""
    return DataError(
        f"{table}: {file.uri} cannot be read as CSV: {str(error).rstrip('.')}. Is it whole? Check its path and format, "
        "and `csv` of this input: delimiter, quote, escape and header."
    )


class _QuoteCheck:
    """A file object for Arrow that sets `doubtful` if a quote is at a place where none may be.

    Quotes are not checked in a dialect with an escape character.
    """

    closed = False

    def __init__(self, raw: pa.NativeFile, dialect: Csv) -> None:
        self.raw, self.doubtful, self.started = raw, False, False
        self.quote = dialect.quote.encode() if dialect.quote and dialect.escape is None else None
        self.beside = np.zeros(256, np.bool_)  # bytes allowed before an opening quote or after a closing one
        self.beside[list(f"{dialect.delimiter}{dialect.quote or ''}\r\n".encode())] = True
        self.inside = 0  # 1: in a quoted field
        self.tail = b"\n"  # the last checked byte, and the next one, which can be checked when its successor is read

    def read(self, n_bytes: int = -1) -> bytes:
        block = bytes(self.raw.read(n_bytes))
        if self.quote is not None:
            self._look(self.quote, block if self.started else block.removeprefix(BOM))
            self.started = True
        return block

    def readable(self) -> bool:
        return True

    def close(self) -> None:
        self.closed = True

    def trust(self) -> None:
        """Stops the checks: the file is known to be well-formed."""
        self.quote, self.doubtful = None, False

    def _look(self, quote: bytes, block: bytes) -> None:
        if quote not in block and quote not in self.tail and block:
            self.tail = block[-2:] if len(block) > 1 else self.tail[-1:] + block
            return
        text = np.frombuffer(self.tail + (block or b"\n"), np.uint8)
        places = np.flatnonzero(text[1:-1] == quote[0]) + 1
        opening, closing = places[self.inside :: 2], places[1 - self.inside :: 2]
        self.inside = (self.inside + places.size) % 2
        good = self.beside[text[opening - 1]].all() and self.beside[text[closing + 1]].all()
        self.doubtful |= not good or (not block and self.inside == 1)
        self.tail = text[-2:].tobytes()


def _records(file: CsvFile, dialect: Csv) -> Iterator[tuple[int, list[str]]]:
    """First line and fields of each record, also of the header, by Python's csv module.

    Raises a csv.Error with the line if the file is not well-formed.
    """
    csv.field_size_limit(BLOCK_BYTES)
    line = 1
    with file.open() as raw, io.TextIOWrapper(raw, "utf-8-sig", errors="surrogateescape", newline="") as text:
        reader = csv.reader(
            text,
            delimiter=dialect.delimiter,
            quotechar=dialect.quote,
            escapechar=dialect.escape,
            quoting=csv.QUOTE_MINIMAL if dialect.quote else csv.QUOTE_NONE,
            strict=True,
        )
        try:
            for fields in reader:
                if fields:
                    yield line, fields
                line = reader.line_num + 1
        except csv.Error as error:
            raise csv.Error(f"line {line}: {error}") from None


def _refuse_wrong_line(file: CsvFile, dialect: Csv, n_fields: int, table: str) -> None:
    """Raises an error that names the first line that is not well-formed, if there is one."""
    try:
        for line, fields in _records(file, dialect):
            shown = repr(dialect.delimiter.join(fields))[:SHOWN]
            if len(fields) != n_fields:
                raise DataError(
                    f"{table}: line {line} of {file.uri} has {len(fields)} fields, but {n_fields} columns are named: "
                    f"{shown}. Fix the job that writes it: a field that contains a delimiter or a line break must be "
                    "in quotes. Or set `csv` of this input to its dialect: delimiter, quote, escape, header."
                )
            if not all(map(_is_text, fields)):
                raise _not_utf8(table, file, line, fields)
    except csv.Error as error:
        raise DataError(
            f"{table}: {file.uri}, {error}: a quoted field must end where its quotes do. "
            "Write the quotes inside a quoted field twice (RFC 4180); "
            'or, if the file has a backslash before them, set csv: {escape: "\\\\"} of this input.'
        ) from None
    except OSError:  # the file is truncated or removed: the caller raises the error
        return


def _not_utf8(table: str, file: CsvFile, line: int, fields: list[str]) -> DataError:
    return DataError(
        f"{table}: line {line} of {file.uri} is not UTF-8: {' '.join(fields)[:SHOWN]!a}. Write the file as UTF-8."
    )


def _is_text(field: str) -> bool:
    """Whether all bytes of a field are UTF-8."""
    try:
        field.encode()
    except UnicodeEncodeError:
        return False
    return True
