"""The lake's ranks table without Spark: made as eval_engine/lake.py makes it, and asked what it holds.

Schema, partitions and CHECK constraints are read from the contract (eval_engine/tables.py), so either side takes a table that the other made.
delta-rs declares the constraints by the table features that Spark knows them by; it cannot check rows against them, since its SQL has no `size`:
the rows come from the same kernels as those of Spark's workers.
"""

import re
from collections.abc import Iterator

import pyarrow as pa
from deltalake import DeltaTable, TableFeatures
from deltalake.exceptions import DeltaError

from eval_engine.delta_commit import delta_uri
from eval_engine.errors import DataError, LakeError
from eval_engine.tables import RANKS, Table

TYPES = {"STRING": pa.string(), "BIGINT": pa.int64(), "INT": pa.int32(), "DOUBLE": pa.float64(), "FLOAT": pa.float32()}
FEATURES = [TableFeatures.AppendOnly, TableFeatures.Invariants, TableFeatures.CheckConstraints]


def make_ranks_table(uri: str, id_type: pa.DataType) -> None:
    """The table, if it is not there yet; an error if one is there that these rows do not fit."""
    schema = arrow_schema(RANKS, "BIGINT" if pa.types.is_integer(id_type) else "STRING")
    place = delta_uri(uri)
    try:
        if not DeltaTable.is_deltatable(place):
            _create(place, schema)
        have = pa.schema(DeltaTable(place).schema().to_arrow())
    except (DeltaError, OSError) as error:
        raise LakeError(
            f"The lake's table {uri} cannot be made or read: {str(error).splitlines()[0]} Give a writable `lake` in the config."
        ) from None
    if set(have.names) != set(schema.names):
        raise LakeError(
            f"{uri} has the columns {', '.join(sorted(have.names))}, not {', '.join(sorted(schema.names))}: another version made it. Give another `lake`."
        )
    if pa.types.is_integer(have.field("user_id").type) != pa.types.is_integer(id_type):
        raise DataError(
            f"ranks.user_id is {id_type} in this run but {have.field('user_id').type} in the lake: ids are of one type in a lake. "
            "Give another `lake`, or cast the input."
        )


def ranked_from(uri: str, run_id: str, model: str) -> set[str]:
    """The fingerprints of what the model's rows in the table were made from; empty: there are none."""
    found = DeltaTable(delta_uri(uri)).partitions(file_pruning_predicate=[("run_id", "=", run_id), ("model", "=", model)])
    return {partition["inputs"] for partition in found}


def arrow_schema(table: Table, id_type: str) -> pa.Schema:
    """The contract's columns as Arrow types.

    >>> arrow_schema(Table("t", "", "a ID NOT NULL, b STRUCT<c: ARRAY<INT>, d: STRING>", ("a",)), "BIGINT").field("b").type
    StructType(struct<c: list<item: int32>, d: string>)
    """
    columns = (column.split(maxsplit=1) for column in _split(table.columns(id_type)))
    return pa.schema([pa.field(name, _type(kind.removesuffix(" NOT NULL")), not kind.endswith(" NOT NULL")) for name, kind in columns])


def _create(uri: str, schema: pa.Schema) -> None:
    """The table; fine if another job makes it at the same time."""
    rules = {f"delta.constraints.rule_{n}": rule for n, rule in enumerate(RANKS.rules)}
    try:
        # The rules' keys are names of ours, which delta-rs cannot know.
        made = DeltaTable.create(
            uri, schema, "error", list(RANKS.partitions), description=RANKS.about, configuration=rules, raise_if_key_not_exists=False
        )
        made.alter.add_feature(FEATURES, allow_protocol_versions_increase=True)
    except DeltaError:
        if not DeltaTable.is_deltatable(uri):
            raise


def _type(text: str) -> pa.DataType:
    if match := re.fullmatch(r"ARRAY<(.*)>", text):
        return pa.list_(_type(match[1]))
    if match := re.fullmatch(r"STRUCT<(.*)>", text):
        return pa.struct([(name, _type(kind.strip())) for name, kind in (field.split(":", 1) for field in _split(match[1]))])
    return TYPES[text]


def _split(text: str) -> Iterator[str]:
    """The parts between commas that stand in no brackets."""
    depth, start = 0, 0
    for at, letter in enumerate(text):
        depth += (letter == "<") - (letter == ">")
        if letter == "," and not depth:
            yield text[start:at].strip()
            start = at + 1
    yield text[start:].strip()
