"""The columns of a table (eval_engine/columns.py) as an Arrow schema."""

from collections.abc import Collection

import pyarrow as pa

from eval_engine.columns import Decimal, List, Map, Scalar, Struct, Type
from eval_engine.tables import Table

SCALARS = {
    "STRING": pa.string(),
    "INT": pa.int32(),
    "BIGINT": pa.int64(),
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
    "BOOLEAN": pa.bool_(),
    "TIMESTAMP": pa.timestamp("us", "UTC"),
}


def arrow_schema(table: Table, id_type: str) -> pa.Schema:
    """All columns of the table; id_type: BIGINT or STRING."""
    return pa.schema(
        [pa.field(column.name, arrow_type(column.type, id_type), column.nullable) for column in table.columns]
    )


def row_schema(table: Table, id_type: str = "BIGINT", without: Collection[str] = ("run_id",)) -> pa.Schema:
    """The Arrow form of Table.row_ddl: the columns of rows to be written, without those of their partition."""
    return pa.schema([field.with_nullable(True) for field in arrow_schema(table, id_type) if field.name not in without])


def arrow_type(kind: Type, id_type: str) -> pa.DataType:
    """One type.

    >>> from eval_engine.columns import ID, STRING, Column
    >>> arrow_type(Struct(Column("c", List(ID), ""), Column("d", STRING, "")), "BIGINT")
    StructType(struct<c: list<item: int64>, d: string>)
    """
    match kind:
        case Scalar():
            return SCALARS[kind.sql(id_type)]
        case Decimal():
            return pa.decimal128(kind.precision, kind.scale)
        case List():
            return pa.list_(arrow_type(kind.element, id_type))
        case Map():
            return pa.map_(arrow_type(kind.key, id_type), arrow_type(kind.value, id_type))
        case Struct():
            return pa.struct([(field.name, arrow_type(field.type, id_type)) for field in kind.fields])
