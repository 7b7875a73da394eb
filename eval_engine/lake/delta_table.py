"""Delta tables of the contract (eval_engine/tables.py) without Spark: made, asked what they hold, and small ones read. delta-rs.

Schema, partitions and CHECK constraints are those of the contract, so that Spark takes a table that is made here and the other way round. delta-rs declares the
constraints by the table features that Spark knows them by; files that are committed by name (delta_commit.py) are not checked against them by either: a test does.
"""

import random
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import pyarrow as pa
from deltalake import DeltaTable, TableFeatures
from deltalake import Schema as DeltaSchema
from deltalake.exceptions import DeltaError

from eval_engine.errors import DataError, LakeError
from eval_engine.lake.arrow_schema import arrow_schema
from eval_engine.lake.commits import TRIES, active_files, delta_uri, disk_path
from eval_engine.storage.stored_file import full_path, located
from eval_engine.tables import Table

IDS = {"int64": "BIGINT", "string": "STRING", "large_string": "STRING", "string_view": "STRING"}  # Arrow's name: SQL's
FEATURES = [TableFeatures.AppendOnly, TableFeatures.Invariants, TableFeatures.CheckConstraints]


def make_table(uri: str, table: Table, id_type: str) -> None:
    """The table, made or with the columns of the contract that it lacks; an error if it has others, or ids of another type. id_type: BIGINT or STRING.

    delta-rs makes a table and declares its features in two commits. Whoever finds a table without the features adds them, so a job that is in between, or died
    there, stops nobody; no job writes rows before the features are there. Several jobs may do this at once.
    """
    place, schema = delta_uri(uri), arrow_schema(table, id_type)
    for attempt in range(TRIES):
        try:
            have = _made(place, table, schema)
            break
        except (DeltaError, OSError):  # another job does the same at this moment, or the storage cannot be written
            if attempt == TRIES - 1 or not DeltaTable.is_deltatable(place):
                raise
            time.sleep(random.uniform(0, 0.02))
    if strange := sorted(set(fields_of(have)) - set(table.fields)):
        raise LakeError(
            f"{uri} has the column {strange[0]}, which this version does not know: a newer one made it. Give another `lake`, or update."
        )
    for name in ("user_id", "item_id"):
        if name in have.names and (stored := IDS.get(str(have.field(name).type))) != id_type:
            raise DataError(
                f"{table.name}.{name} is {id_type} in this run but {stored} in the lake: ids are of one type in a lake. "
                "Give another `lake`, or cast the input."
            )


def _made(place: str, table: Table, schema: pa.Schema) -> pa.Schema:
    """The columns of the table after what is missing was made."""
    if DeltaTable.is_deltatable(place):
        delta = DeltaTable(place)
    else:
        delta = DeltaTable.create(
            place,
            schema,
            "error",
            list(table.partitions),
            description=table.about,
            configuration={f"delta.constraints.rule_{n}": rule for n, rule in enumerate(table.rules)},
            raise_if_key_not_exists=False,  # the rules' keys are names of ours, which delta-rs cannot know
        )
    if "checkConstraints" not in (delta.protocol().writer_features or ()):
        delta.alter.add_feature(FEATURES, allow_protocol_versions_increase=True)
        delta = DeltaTable(place)
    have = pa.schema(delta.schema().to_arrow())
    lacking = {name.split(".")[0] for name in set(table.fields) - set(fields_of(have))}
    if not lacking:
        return have
    if tuple(delta.metadata().partition_columns) != table.partitions:
        raise LakeError(
            f"{place} has the columns {', '.join(have.names)} and the partitions "
            f"{', '.join(delta.metadata().partition_columns) or 'none'}: it is not a table of Plumbline. Give another `lake`."
        )
    delta.alter.add_columns(DeltaSchema.from_arrow(pa.schema([f for f in schema if f.name in lacking])).fields)
    return schema_of(place)


def schema_of(uri: str) -> pa.Schema:
    """The columns of a table that is there."""
    return pa.schema(DeltaTable(delta_uri(uri)).schema().to_arrow())


def fields_of(schema: pa.Schema) -> list[str]:
    """The columns' names, and those of the fields in their structs, as Table.fields has them."""
    inside = {column.name: column.type if pa.types.is_struct(column.type) else () for column in schema}
    return [
        name for column, fields in inside.items() for name in (column, *(f"{column}.{field.name}" for field in fields))
    ]


def delta_version(path: str) -> tuple[str, int] | None:
    """Id and version of a Delta table; None if delta-rs cannot tell."""
    try:
        found = DeltaTable(delta_uri(full_path(path)))
        return str(found.metadata().id), found.version()
    except Exception:  # storage or features that it does not know, or no such table: Spark says which
        return None


def partitions_of(uri: str, where: dict[str, str]) -> list[dict[str, str]]:
    """The partitions that match, each as its columns' values."""
    return DeltaTable(delta_uri(uri)).partitions(
        file_pruning_predicate=[(name, "=", value) for name, value in where.items()]
    )


class StoredFile(NamedTuple):
    """A file of a table, as the table's log names it."""

    path: str  # path or URI
    partition: Mapping[str, str | None]  # value of each partition column
    n_bytes: int


def files_of(uri: str, where: dict[str, str]) -> list[StoredFile]:
    """The files of some partitions."""
    delta = DeltaTable(delta_uri(uri))
    chosen = active_files(delta, where)
    found = pa.table(delta.get_add_actions(flatten=True))
    sizes = dict(zip(found.column("path").to_pylist(), found.column("size_bytes").to_pylist(), strict=True))
    return sorted(StoredFile(f"{uri}/{disk_path(path)}", partition, sizes[path]) for path, partition in chosen.items())


def damaged(files: Iterable[StoredFile]) -> dict[str, str]:
    """The files that are gone or not as long as the log says, and what is wrong with each."""

    def wrong(file: StoredFile) -> str | None:
        system, path = located(file.path)
        info = system.get_file_info(path)
        if not info.is_file:
            return "is gone"
        return (
            None
            if info.size == file.n_bytes
            else f"has {info.size:,} bytes, not the {file.n_bytes:,} that were written"
        )

    files = list(files)
    with ThreadPoolExecutor(16) as pool:
        return {file.path: told for file, told in zip(files, pool.map(wrong, files), strict=True) if told}


def rows_of(uri: str, where: dict[str, str]) -> list[dict[str, Any]]:
    """The rows of some partitions of a small table."""
    found = DeltaTable(delta_uri(uri)).to_pyarrow_table(filters=[(name, "=", value) for name, value in where.items()])
    return [
        row
        | {
            name: None if row[name] is None else dict(row[name])
            for name, kind in zip(found.column_names, found.schema.types, strict=True)
            if pa.types.is_map(kind)
        }
        for row in found.to_pylist()
    ]
