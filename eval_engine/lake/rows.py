"""A few rows of a table by name: dicts or NamedTuples with its columns, without those of their partition."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Protocol

import pyarrow as pa

from eval_engine.lake.arrow_schema import row_schema
from eval_engine.lake.part_files import WrittenFile, write_file
from eval_engine.tables import Table


class NamedRow(Protocol):
    """A NamedTuple."""

    def _asdict(self) -> dict[str, Any]: ...


Row = Mapping[str, Any] | NamedRow


def as_dicts(table: Table, rows: Sequence[Row], without: Collection[str]) -> list[Mapping[str, Any]]:
    """The rows as dicts; an error if one lacks a column, except those in `without`, or has another field."""
    dicts = [row if isinstance(row, Mapping) else row._asdict() for row in rows]
    wanted = set(table.names) - set(without)
    for row in dicts:
        if missing := sorted(wanted - row.keys()):
            raise ValueError(f"a row of {table.name} lacks {', '.join(missing)}: {dict(row)}")
        if unknown := sorted(row.keys() - wanted):
            raise ValueError(f"a row of {table.name} has {', '.join(unknown)}, not one of {', '.join(sorted(wanted))}")
    return dicts


def write_rows(
    uri: str, table: Table, rows: Sequence[Row], where: dict[str, str], attempt: str, id_type: str = "BIGINT"
) -> list[WrittenFile]:
    """Write rows of one partition to a file in the table's folder that no commit names yet; no rows, no file."""
    if set(where) != set(table.partitions):
        raise ValueError(f"rows of {table.name} are of one partition, {', '.join(table.partitions)}, not {where}")
    dicts = as_dicts(table, rows, where)
    arrow = pa.Table.from_pylist(dicts, row_schema(table, id_type, where))
    return [write_file(uri, arrow, where, attempt)] if rows else []
