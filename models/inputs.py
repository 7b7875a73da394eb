"""Reads an input table into Arrow without Spark: Parquet, CSV (eval_engine/inputs/csv_table.py) or Delta.

Only the requested columns are read, under our names. Ids become int64 (BIGINT) or string (STRING), values float64,
positions int64. NULL, NaN, inf, an id of another type, a missing column and an empty table are DataErrors that name
table, column and row. read_rows keeps NULL and NaN, for callers that check each row.
"""

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from eval_engine.config import Csv, Input
from eval_engine.errors import ConfigError, DataError
from eval_engine.inputs.csv_file import CsvFile
from eval_engine.inputs.csv_table import (
    are_whole,
    csv_files,
    csv_table,
    delimiter_hint,
    table_columns,
    text_rows,
    typed_rows,
)
from eval_engine.inputs.input_format import input_format
from eval_engine.lake.commits import delta_uri, native_files
from eval_engine.storage.stored_file import full_path, spelled, unreachable

MEANINGS = dict.fromkeys(("value", "exposure_probability", "propensity"), "value") | {
    "position": "position"
}  # else: id
NUMBERS = {name: pa.int64() if meaning == "position" else pa.float64() for name, meaning in MEANINGS.items()}


def read_columns(source: Input, names: tuple[str, ...], optional: tuple[str, ...] = ()) -> pa.Table:
    """The named columns of a table, and those optional ones that it has, checked and cast."""
    table = read_rows(source, names, optional)
    for name in table.column_names:
        _check_whole(source.path, source.columns.get(name, name), table.column(name))
    return table


def read_rows(source: Input, names: tuple[str, ...], optional: tuple[str, ...] = ()) -> pa.Table:
    """The named columns of a table, cast; NULL and NaN stay.

    An optional column is read if the table has it, and must be there if the config maps it.
    """
    if input_format(source) == "csv":
        return _csv_rows(source, names, optional)
    dataset = _open(source)
    theirs = _matched(source, tuple(dataset.schema.names), names, optional)
    try:
        table = dataset.to_table(columns={name: ds.field(column) for name, column in theirs.items()})
    except (pa.ArrowInvalid, OSError) as error:
        raise DataError(f"{source.path}: cannot be read as {input_format(source)}: {error}") from None
    if table.num_rows == 0:
        raise _empty(source)
    return pa.table({name: _typed(source.path, theirs[name], name, table.column(name)) for name in theirs})


def _matched(
    source: Input, have: tuple[str, ...], names: tuple[str, ...], optional: tuple[str, ...], hint: str = ""
) -> dict[str, str]:
    """The table's own name of each column that is read, by our name."""
    names += tuple(name for name in optional if name in source.columns or name in have)
    theirs = {name: source.columns.get(name, name) for name in names}
    if missing := [column for column in theirs.values() if column not in have]:
        raise DataError(
            f"{source.path}: no column {missing[0]!r}; it has {', '.join(have)}. "
            f"Name the table's own columns in `columns` of this input, as in columns: {{user_id: uid}}.{hint}"
        )
    return theirs


def _empty(source: Input) -> DataError:
    return DataError(
        f"{source.path}: the table is empty, and there is nothing to learn or score from it. "
        "Check the path and the job that fills it."
    )


def _csv_rows(source: Input, names: tuple[str, ...], optional: tuple[str, ...]) -> pa.Table:
    """The named columns of a CSV table, in the same types as in evaluation."""
    files = [CsvFile(file) for file in csv_files(source.path) or ()]
    dialect = source.csv or Csv()
    if not files and (reason := unreachable(full_path(source.path))):
        raise DataError(
            f"{source.path}: cannot be read as csv: {reason}. Check the path, or copy it to where Arrow reaches it."
        )
    header = next(
        (columns for file in files if (columns := table_columns(file, source.path, dialect, source.path))), None
    )
    if header is None:
        raise _empty(source)
    theirs = _matched(source, sum(header, ()), names, optional, delimiter_hint(header[0]))
    wanted = csv_table(source.path, source, header, theirs, {name: MEANINGS.get(name, "id") for name in theirs})
    texts = [(file, record, rows) for file in files for record, rows in text_rows(file, wanted)]
    if not sum(rows.num_rows for *_, rows in texts):
        raise _empty(source)
    whole = {name: all(are_whole(rows.column(name)) for *_, rows in texts) for name in wanted.ids()}
    table = pa.Table.from_batches([typed_rows(file, wanted, record, rows, whole) for file, record, rows in texts])
    return pa.table({name: _typed(source.path, theirs[name], name, table.column(name)) for name in theirs})


def _open(source: Input) -> ds.Dataset:
    """The table as an Arrow dataset, of which only the schema is read yet."""
    kind = input_format(source)
    if kind == "table":
        raise ConfigError(
            f"{source.path}: training runs without Spark and cannot read a catalog name. "
            "Give the table's path, and format: delta or parquet."
        )
    try:
        if kind == "delta":
            return DeltaTable(delta_uri(source.path)).to_pyarrow_dataset(filesystem=native_files(source.path))
        return ds.dataset(spelled(source.path, "arrow"), format=kind, partitioning="hive")
    except DeltaError as error:
        raise DataError(
            f"{source.path}: not readable as a Delta table without Spark: {error}. "
            "If it has deletion vectors or column mapping, rewrite it (REORG TABLE ... APPLY (PURGE)) "
            "or give a Parquet copy."
        ) from None
    except (pa.ArrowInvalid, OSError) as error:
        raise DataError(
            f"{source.path}: cannot be read as {kind}: {error}. Check the path, or set `format` of this input."
        ) from None


def _typed(path: str, column: str, name: str, values: pa.ChunkedArray) -> pa.ChunkedArray:
    """The column in the type of its meaning."""
    if pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    try:
        return values.cast(NUMBERS.get(name) or _id_type(values.type))
    except pa.ArrowInvalid as error:
        wanted = "a number" if name in NUMBERS else "an id: BIGINT or STRING"
        raise DataError(
            f"{path}: column {column} has type {values.type}, which does not make {wanted} ({error}). "
            "Cast it where the table is made."
        ) from None


def _check_whole(path: str, column: str, values: pa.ChunkedArray) -> None:
    """Raises an error if the column has a NULL, a NaN or an infinite value."""
    if values.null_count:
        row = pc.index(pc.is_null(values), True).as_py()
        raise DataError(
            f"{path}: column {column} is NULL in {values.null_count:,} of {len(values):,} rows (first: row {row}). "
            "Remove those rows, or fill them in."
        )
    if pa.types.is_floating(values.type) and pc.any(pc.is_nan(values)).as_py():
        row = pc.index(pc.is_nan(values), True).as_py()
        raise DataError(
            f"{path}: column {column} is NaN (first: row {row}), which is neither positive nor negative. "
            "Remove those rows."
        )
    if pa.types.is_floating(values.type) and pc.any(pc.is_inf(values)).as_py():
        row = pc.index(pc.is_inf(values), True).as_py()
        raise DataError(
            f"{path}: column {column} is {values[row].as_py()} (first: row {row}), of which no mean, scale or product "
            "can be computed. Remove those rows, or give them the largest value that there is."
        )


def _id_type(stored: pa.DataType) -> pa.DataType:
    """The type of ids here, int64 or string, from the type in the table."""
    if pa.types.is_integer(stored):
        return pa.int64()
    if pa.types.is_string(stored) or pa.types.is_large_string(stored) or pa.types.is_string_view(stored):
        return pa.string()
    raise pa.ArrowInvalid("neither an integer nor a string")
