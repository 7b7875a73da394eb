"""Reads a CSV table, one file or a folder of files, into our columns and types; with and without Spark.

Columns are identified by name in each file, in any order; all files have the same columns. Folders called name=value
are columns too. The text is converted by the meaning of its column:

    id         BIGINT if every id of the table is a whole number that prints back the same (not 007), else STRING
    value      DOUBLE; blanks around the number are ignored; other text is an error that names line, user and item
    position   INT, in the same way
    text       STRING
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import fs

from eval_engine.config import Csv, Input
from eval_engine.errors import DataError
from eval_engine.inputs.csv_file import CsvFile, file_header, line_of, text_batches
from eval_engine.storage.stored_file import full_path, located

WHOLE_NUMBER = "^(0|-?[1-9][0-9]{0,17})$"  # numbers that fit a BIGINT and print back the same: 007 stays a STRING
NUMBERS = {"value": pa.float64(), "position": pa.int32()}
EMPTY_PARTITION = "__HIVE_DEFAULT_PARTITION__"


class CsvTable(NamedTuple):
    """How to read a table, and which columns of it; sent to every task."""

    table: str  # its name in errors
    path: str
    dialect: Csv
    header: tuple[str, ...]  # all columns of a file, also those of its folders
    columns: dict[str, str]  # our name: the table's name
    meaning: dict[str, str]  # our name: id, value, text or position

    def ids(self) -> list[str]:
        """Our names of the id columns."""
        return [name for name in self.columns if self.meaning[name] == "id"]


def csv_files(path: str) -> tuple[str, ...] | None:
    """The files of the table; None if Arrow does not see such a file or folder."""
    try:
        system, place = located(full_path(path))
        info = system.get_file_info(place)
        if info.type == fs.FileType.NotFound:
            return None
        files = [info] if info.is_file else system.get_file_info(fs.FileSelector(place, recursive=True))
    except (OSError, pa.ArrowException):
        return None
    before = "" if isinstance(system, fs.LocalFileSystem) else full_path(path).removesuffix(place)
    shown = [
        file.path
        for file in files
        if file.is_file
        and not any(part.startswith(("_", ".")) for part in file.path.removeprefix(place).strip("/").split("/"))
    ]
    return tuple(sorted(f"{before}{file}" for file in shown))


def partition_of(uri: str, path: str) -> dict[str, str | None]:
    """The columns of a file that its folders give, with their values."""
    own = set(full_path(path).split("/"))
    named = [part.split("=", 1) for part in uri.split("/")[:-1] if "=" in part.strip("=") and part not in own]
    return {unquote(name): None if value == EMPTY_PARTITION else unquote(value) for name, value in named}


def table_columns(file: CsvFile, path: str, dialect: Csv, table: str) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    """The columns in a file, and those that its folders give; None if the file has no line."""
    header = file_header(file, dialect, table)
    return None if header is None else (header, tuple(partition_of(file.uri, path)))


def csv_table(
    table: str,
    where: Input,
    columns: tuple[tuple[str, ...], tuple[str, ...]],
    ours: dict[str, str],
    meaning: dict[str, str],
) -> CsvTable:
    """The CsvTable of a table with these columns (table_columns); each wanted column must be there once."""
    header: tuple[str, ...] = sum(columns, ())
    for theirs in ours.values():
        if (n_columns := header.count(theirs)) > 1:
            raise DataError(
                f"{table}: {where.path} has {n_columns} columns called {theirs!r}. Give each a different name."
            )
    return CsvTable(table, where.path, where.csv or Csv(), header, ours, meaning)


def delimiter_hint(header: tuple[str, ...]) -> str:
    """The remedy if the fields seem to be separated by another character, else an empty text."""
    delimiters = [character for character in ";\t|,:" if len(header) == 1 and character in header[0]]
    as_yaml = repr(delimiters[0]).replace("'", '"') if delimiters else ""
    return (
        f" Are its fields separated by {as_yaml}? Then set csv: {{delimiter: {as_yaml}}} of this input."
        if delimiters
        else ""
    )


def text_rows(file: CsvFile, wanted: CsvTable) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Batches of a file's rows as text under our names, each with the number of its first record."""
    header = file_header(file, wanted.dialect, wanted.table)
    if header is None:
        return
    partition = partition_of(file.uri, wanted.path)
    if sorted(have := (*header, *partition)) != sorted(wanted.header):
        raise DataError(
            f"{wanted.table}: {file.uri} has the columns {', '.join(have)}, but other files of {wanted.path} have "
            f"{', '.join(wanted.header)}. Files of one table must have the same columns: write them again, "
            "or move other files away."
        )
    own = [theirs for theirs in wanted.columns.values() if theirs not in partition]
    for record, batch in text_batches(file, wanted.dialect, header, own, wanted.table):
        arrays = {
            ours: pa.array([partition[theirs]] * batch.num_rows, pa.string())
            if theirs in partition
            else batch.column(theirs)
            for ours, theirs in wanted.columns.items()
        }
        yield record, pa.RecordBatch.from_pydict(arrays)


def are_whole(ids: pa.Array | pa.ChunkedArray) -> bool:
    """Whether every id, as text, is a whole number."""
    return bool(pc.all(pc.match_substring_regex(ids, WHOLE_NUMBER), min_count=0).as_py())


def typed_rows(
    file: CsvFile, wanted: CsvTable, record: int, rows: pa.RecordBatch, whole: Mapping[str, bool]
) -> pa.RecordBatch:
    """Rows in our types; whole: which ids become BIGINT."""
    columns = {}
    for name, text in zip(rows.schema.names, rows.columns, strict=True):
        kind = NUMBERS.get(wanted.meaning[name])
        if kind is not None:
            columns[name] = _numbers(file, wanted, record, rows, name, kind)
        else:
            columns[name] = text.cast(pa.int64()) if whole.get(name) else text
    return pa.RecordBatch.from_pydict(columns)


def _numbers(
    file: CsvFile, wanted: CsvTable, record: int, rows: pa.RecordBatch, name: str, kind: pa.DataType
) -> pa.Array:
    """The column as numbers; an error names the first row that has no number."""
    text = pc.utf8_trim_whitespace(rows.column(name))
    try:
        return text.cast(kind)
    except pa.ArrowInvalid:
        row = next(row for row in range(len(text)) if not _is_number(text.slice(row, 1), kind))
    pair = ", ".join(f"{key}={_shown(rows.column(key)[row].as_py())}" for key in wanted.ids())
    line = line_of(file, wanted.dialect, record + row)
    number = "a number" if kind == pa.float64() else "a whole number"
    raise DataError(
        f"{wanted.table}: column {wanted.columns[name]} is {rows.column(name)[row].as_py()!r:.80} in line {line} of "
        f"{file.uri} ({pair}), which is not {number}. Fix the job that writes it; a missing value is an empty field."
    )


def _shown(text: str | None) -> str:
    """An id on one line."""
    return "NULL" if text is None else text if text.isprintable() else repr(text)


def _is_number(text: pa.Array, kind: pa.DataType) -> bool:
    try:
        text.cast(kind)
    except pa.ArrowInvalid:
        return False
    return True
