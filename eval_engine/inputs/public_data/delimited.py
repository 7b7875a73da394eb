"""Reads pairs from a delimited text file, batch by batch: ids as int64, the value and other numbers in their types.

A line with another number of fields, a field that is no number, an empty field and a value outside the scale are errors
that name file, line and value. Memory does not grow with the file: Arrow reads BLOCK_BYTES at a time.
"""

import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as arrow_csv

from eval_engine.errors import DataError
from eval_engine.inputs.public_data.source_files import Progress, Sources

BLOCK_BYTES = 8 << 20
CONVERSION = re.compile(r"Row #(\d+): CSV conversion error to (\w+): invalid value '(.*)'", re.DOTALL)
KINDS = {"int64": "a whole number", "double": "a number"}
SHOWN = 120  # characters of a line in a message


class Layout(NamedTuple):
    """How the lines of a file are written, and which fields are read."""

    columns: dict[str, str]  # our name: the file's name of the column
    header: tuple[str, ...] | None = None  # names of the fields in order; None: the first line has them
    delimiter: str = ","
    low: float = -float("inf")  # the scale of `value`
    high: float = float("inf")
    step: float | None = None  # between two values of the scale; None: any number

    @property
    def scale(self) -> str:
        """The scale in words."""
        upper = "" if self.high == float("inf") else f" to {self.high:g}"
        return f"{self.low:g}{upper or ' or more'}{f' in steps of {self.step:g}' if self.step else ''}"


def pair_batches(sources: Sources, file: Path, layout: Layout, progress: Progress) -> Iterator[pa.RecordBatch]:
    """Batches of the columns under our names: `value` as float64, all others as int64."""
    names = layout.header or _header(sources, file, layout)
    types = {theirs: pa.float64() if ours == "value" else pa.int64() for ours, theirs in layout.columns.items()}
    invalid: list[arrow_csv.InvalidRow] = []

    def note(row: arrow_csv.InvalidRow) -> str:
        invalid.append(row)
        return "error"

    size, n_records = file.stat().st_size, 0
    try:
        with pa.OSFile(str(file)) as handle:
            reader = arrow_csv.open_csv(
                handle,
                read_options=arrow_csv.ReadOptions(
                    use_threads=False,
                    block_size=BLOCK_BYTES,
                    column_names=list(names),
                    skip_rows=0 if layout.header else 1,
                ),
                parse_options=arrow_csv.ParseOptions(delimiter=layout.delimiter, invalid_row_handler=note),
                convert_options=arrow_csv.ConvertOptions(
                    column_types=types, include_columns=list(layout.columns.values()), null_values=[""]
                ),
            )
            for batch in reader:
                batch = batch.rename_columns(list(layout.columns))
                _check(sources, file, layout, batch, n_records)
                n_records += batch.num_rows
                progress(file, handle.tell(), size)
                yield batch
    except pa.ArrowInvalid as error:
        raise _unreadable(sources, file, layout, names, invalid, error) from None
    if n_records == 0:
        raise DataError(f"{file} of {sources.data_set.name} has no rows. Is the download whole? {sources.origin}")


def _header(sources: Sources, file: Path, layout: Layout) -> tuple[str, ...]:
    """The names of the first line, which must have the columns."""
    with file.open(encoding="utf-8-sig", errors="replace") as lines:
        names = tuple(name.strip('"') for name in lines.readline().rstrip("\r\n").split(layout.delimiter))
    for column in layout.columns.values():
        if column not in names:
            raise DataError(
                f"{file}: line 1 names no column {column!r}; found {', '.join(names)[:SHOWN]}. {sources.data_set.name} "
                f"has the columns {', '.join(layout.columns.values())}. {sources.origin}"
            )
    return names


def _check(sources: Sources, file: Path, layout: Layout, batch: pa.RecordBatch, before: int) -> None:
    """Raises if a field is empty or a value is outside the scale; before: records of the file before this batch."""
    for ours, theirs in layout.columns.items():
        column = batch.column(ours)
        if column.null_count:
            record = before + pc.index(column.is_null(), True).as_py()
            raise DataError(
                f"{file}: line {_line(file, layout, record)}: {theirs} is empty, but every row of "
                f"{sources.data_set.name} has one. Is the download whole? {sources.origin}"
            )
    if "value" not in layout.columns:
        return
    value = batch.column("value")
    good = pc.and_(pc.greater_equal(value, layout.low), pc.less_equal(value, layout.high))  # of NaN: no
    if layout.step:
        steps = pc.divide(pc.subtract(value, layout.low), layout.step)
        good = pc.and_(good, pc.equal(pc.floor(steps), steps))
    if not pc.all(good).as_py():
        record = pc.index(good, False).as_py()
        raise DataError(
            f"{file}: line {_line(file, layout, before + record)}: {layout.columns['value']} is "
            f"{value[record].as_py():g}, outside the scale of {sources.data_set.name}: {layout.scale}. "
            f"Is it the owner's file, unchanged? {sources.origin}"
        )


def _line(file: Path, layout: Layout, record: int) -> int:
    """The line of a record, both counted from 1 and from 0; blank lines and the header are no records."""
    with file.open("rb") as lines:
        filled = (number for number, line in enumerate(lines, 1) if line.strip(b"\r\n"))
        return next(islice(filled, record + (layout.header is None), None), 0)


def _unreadable(
    sources: Sources,
    file: Path,
    layout: Layout,
    names: tuple[str, ...],
    invalid: list[arrow_csv.InvalidRow],
    error: Exception,
) -> DataError:
    """The error of a file that Arrow cannot read."""
    remedy = f"Is the download whole, and the file unchanged? {sources.origin}"
    first = 2 if layout.header is None else 1  # Arrow's number of the first record
    if invalid:
        line = _line(file, layout, invalid[0].number - first)
        return DataError(
            f"{file}: line {line} has {invalid[0].actual_columns} fields, but {sources.data_set.name} has {len(names)} "
            f"({', '.join(names)}): {invalid[0].text[:SHOWN]!r}. {remedy}"
        )
    if match := CONVERSION.search(str(error)):
        return DataError(
            f"{file}: line {_line(file, layout, int(match[1]) - first)}: {match[3][:SHOWN]!r} is not "
            f"{KINDS.get(match[2], match[2])}. {remedy}"
        )
    return DataError(f"{file} cannot be read ({str(error)[:SHOWN]}). {remedy}")
