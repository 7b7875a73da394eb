"""Delta tables of the contract (eval_engine/tables.py) without Spark: made, asked what they hold, and small ones read. delta-rs.

Schema, partitions and CHECK constraints are those of the contract, so that Spark takes a table that is made here and the other way round. delta-rs declares the
constraints by the table features that Spark knows them by; files that are committed by name (delta_commit.py) are not checked against them by either: a test does.
"""

import re
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, TableFeatures
from deltalake.exceptions import DeltaError

from eval_engine.delta_commit import delta_uri
from eval_engine.stored_file import full_path
from eval_engine.tables import Table, split

TYPES = {
    "STRING": pa.string(),
    "BIGINT": pa.int64(),
    "INT": pa.int32(),
    "DOUBLE": pa.float64(),
    "FLOAT": pa.float32(),
    "BOOLEAN": pa.bool_(),
    "TIMESTAMP": pa.timestamp("us", "UTC"),
}
FEATURES = [TableFeatures.AppendOnly, TableFeatures.Invariants, TableFeatures.CheckConstraints]


def create_table(uri: str, table: Table, id_type: str) -> None:
    """The table; fine if another job makes it at the same time. id_type: BIGINT or STRING."""
    place = delta_uri(uri)
    rules = {f"delta.constraints.rule_{n}": rule for n, rule in enumerate(table.rules)}
    try:
        # The rules' keys are names of ours, which delta-rs cannot know.
        made = DeltaTable.create(
            place,
            arrow_schema(table, id_type),
            "error",
            list(table.partitions),
            description=table.about,
            configuration=rules,
            raise_if_key_not_exists=False,
        )
        made.alter.add_feature(FEATURES, allow_protocol_versions_increase=True)
    except DeltaError:
        if not DeltaTable.is_deltatable(place):
            raise


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


def files_of(uri: str, where: dict[str, str], column: str) -> list[tuple[str, str, int]]:
    """Path or URI of each file of some partitions, the value of one partition column in it, and its bytes."""
    found = pa.table(DeltaTable(delta_uri(uri)).get_add_actions(flatten=True)).to_pylist()
    chosen = [row for row in found if all(row[f"partition.{name}"] == value for name, value in where.items())]
    return sorted((f"{uri}/{row['path']}", row[f"partition.{column}"], row["size_bytes"]) for row in chosen)


def rows_of(uri: str, where: dict[str, str]) -> list[dict[str, Any]]:
    """The rows of some partitions of a small table."""
    found = DeltaTable(delta_uri(uri)).to_pyarrow_table(filters=[(name, "=", value) for name, value in where.items()])
    return [
        row
        | {
            name: dict(row[name])
            for name, kind in zip(found.column_names, found.schema.types, strict=True)
            if pa.types.is_map(kind)
        }
        for row in found.to_pylist()
    ]


def arrow_schema(table: Table, id_type: str) -> pa.Schema:
    """The contract's columns as Arrow types.

    >>> arrow_schema(Table("t", "", "a ID NOT NULL, b STRUCT<c: ARRAY<INT>, d: STRING>", ("a",)), "BIGINT").field("b").type
    StructType(struct<c: list<item: int32>, d: string>)
    """
    columns = (column.split(maxsplit=1) for column in split(table.columns(id_type)))
    return pa.schema(
        [
            pa.field(name, _type(kind.removesuffix(" NOT NULL")), not kind.endswith(" NOT NULL"))
            for name, kind in columns
        ]
    )


def _type(text: str) -> pa.DataType:
    if match := re.fullmatch(r"ARRAY<(.*)>", text):
        return pa.list_(_type(match[1]))
    if match := re.fullmatch(r"STRUCT<(.*)>", text):
        return pa.struct(
            [(name, _type(kind.strip())) for name, kind in (field.split(":", 1) for field in split(match[1]))]
        )
    if match := re.fullmatch(r"MAP<(.*)>", text):
        return pa.map_(*(_type(kind) for kind in split(match[1])))
    if match := re.fullmatch(r"DECIMAL\((\d+), (\d+)\)", text):
        return pa.decimal128(int(match[1]), int(match[2]))
    return TYPES[text]
