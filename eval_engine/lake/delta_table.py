"""Delta tables of the contract (eval_engine/tables.py) by delta-rs: make, update, read without Spark.

Columns, partitions and CHECK constraints are those of the contract, so Spark takes a table that was made here, and
the other way round. delta-rs declares the constraints by the table features that Spark knows them by. Neither of them
checks files that are committed by name (commits.py) against the constraints: a test does.
"""

import logging
import random
import re
import time
from collections.abc import Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import pyarrow as pa
from deltalake import DeltaTable, TableFeatures
from deltalake import Schema as DeltaSchema
from deltalake.exceptions import CommitFailedError, DeltaError

from eval_engine.errors import DataError, LakeError
from eval_engine.lake.arrow_schema import arrow_schema
from eval_engine.lake.commits import TRIES, active_files, delta_uri, disk_path, native_files
from eval_engine.storage.stored_file import full_path, located
from eval_engine.tables import Table

log = logging.getLogger(__name__)
IDS = {"int64": "BIGINT", "string": "STRING", "large_string": "STRING", "string_view": "STRING"}  # Arrow's name: SQL's
FEATURES = [TableFeatures.AppendOnly, TableFeatures.Invariants, TableFeatures.CheckConstraints]
RULE = re.compile(r"delta\.constraints\.(rule_\d+)")  # a rule of the contract; other constraints are the owner's


def make_table(uri: str, table: Table, id_type: str) -> None:
    """Make the table, or give an older one the columns and rules of the contract; an error if it does not fit.

    id_type: BIGINT or STRING. New columns and new fields of structs are NULL in older rows. Several jobs may call this
    at once. One that is killed on the way stops no other: the next call does what is missing.
    """
    for attempt in range(TRIES):
        try:
            _make(uri, table, id_type)
            return
        except CommitFailedError:  # another job changed the table since it was read
            if attempt == TRIES - 1:
                raise
        except DeltaError as error:  # another job made the table since it was looked for
            if attempt == TRIES - 1 or "already exists" not in str(error):
                raise
        time.sleep(random.uniform(0, 0.02))


def _make(uri: str, table: Table, id_type: str) -> None:
    """One attempt: each step is a commit of its own."""
    place, schema = delta_uri(uri), arrow_schema(table, id_type)
    rules = {f"delta.constraints.rule_{n}": rule for n, rule in enumerate(table.rules)}
    if not DeltaTable.is_deltatable(place):
        DeltaTable.create(
            place,
            schema,
            "error",
            list(table.partitions),
            description=table.about,
            configuration=rules,
            raise_if_key_not_exists=False,  # the rules' keys are names of ours, which delta-rs cannot know
        )
    delta = DeltaTable(place)
    if "checkConstraints" not in (delta.protocol().writer_features or ()):  # no job writes rows before they are there
        delta.alter.add_feature(FEATURES, allow_protocol_versions_increase=True)
        delta = DeltaTable(place)
    have = pa.schema(delta.schema().to_arrow())
    if tuple(delta.metadata().partition_columns) != table.partitions:
        raise LakeError(
            f"{uri} has the columns {', '.join(have.names)} and the partitions "
            f"{', '.join(delta.metadata().partition_columns) or 'none'}: it is not a table of Plumbline. "
            "Give another `lake`."
        )
    ids = {name: IDS.get(str(have.field(name).type)) for name in ("user_id", "item_id") if name in have.names}
    check_columns(uri, table, id_type, fields_of(have), ids)
    lacking = {name.split(".")[0] for name in set(table.fields) - set(fields_of(have))}
    if lacking:
        columns = pa.schema([field.with_nullable(True) for field in schema if field.name in lacking])
        delta.alter.add_columns(DeltaSchema.from_arrow(columns).fields)
        delta = DeltaTable(place)
    dropped, new = changed_rules(table, delta.metadata().configuration)
    for rule in dropped:
        delta.alter.drop_constraint(rule)
        delta = DeltaTable(place)
    if new:
        properties = {f"delta.constraints.{rule}": text for rule, text in new.items()}
        delta.alter.set_table_properties(properties, raise_if_not_exists=False)


def changed_rules(table: Table, properties: Mapping[str, str | None]) -> tuple[list[str], dict[str, str]]:
    """Names of stored rules that are not in the contract, and rules of the contract that are not stored."""
    stored = {match[1]: _bare(text) for key, text in properties.items() if (match := RULE.fullmatch(key))}
    rules = {f"rule_{n}": rule for n, rule in enumerate(table.rules)}
    dropped = [name for name, text in stored.items() if name not in rules or text != _bare(rules[name])]
    return dropped, {name: rule for name, rule in rules.items() if stored.get(name) != _bare(rule)}


def _bare(rule: str | None) -> str:
    """A rule without blanks: Spark's ADD CONSTRAINT puts some between all tokens."""
    return re.sub(r"\s", "", rule or "")


def check_columns(
    place: str, table: Table, id_type: str, fields: Collection[str], ids: Mapping[str, str | None]
) -> None:
    """An error if rows of the contract do not fit a stored table; ids: stored type of each id column."""
    if unknown := sorted(set(fields) - set(table.fields)):
        raise LakeError(
            f"{place} has the column {unknown[0]}, which this version does not know: a newer one made it. "
            "Give another `lake`, or update."
        )
    for name, stored in ids.items():
        if stored != id_type:
            raise DataError(
                f"{table.name}.{name} is {id_type} in this run but {stored} in the lake: ids are of one type in a "
                "lake. Give another `lake`, or cast the input."
            )


def fields_of(schema: pa.Schema) -> list[str]:
    """The columns' names, and those of the fields in their structs, as Table.fields has them."""

    def paths(field: pa.Field, above: str) -> list[str]:
        inside = field.type if pa.types.is_struct(field.type) else ()
        path = f"{above}{field.name}"
        return [path, *(name for one in inside for name in paths(one, f"{path}."))]

    return [name for field in schema for name in paths(field, "")]


def delta_version(path: str) -> tuple[str, int] | None:
    """Id and version of a Delta table; None if delta-rs cannot read it."""
    try:
        delta = DeltaTable(delta_uri(full_path(path)))
        return str(delta.metadata().id), delta.version()
    except (DeltaError, OSError) as error:  # storage or features that it does not know, or no such table
        log.info("%s: Spark is asked for the version, since delta-rs cannot read it: %s", path, first_line(error))
        return None


def first_line(error: Exception) -> str:
    """The first line of an error's text, cut to 300 characters; it ends in a full stop."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines[0] if lines else type(error).__name__)[:300].rstrip(".") + "."


def partitions_of(uri: str, where: dict[str, str]) -> list[dict[str, str]]:
    """The partitions that match, each as its columns' values."""
    filters = [(name, "=", value) for name, value in where.items()]
    return DeltaTable(delta_uri(uri)).partitions(file_pruning_predicate=filters)


def id_types_of(uri: str, name: str) -> list[str]:
    """The type of a column of ids, BIGINT or STRING, as a list of one."""
    return [IDS[str(pa.schema(DeltaTable(delta_uri(uri)).schema().to_arrow()).field(name).type)]]


class StoredFile(NamedTuple):
    """A file of a table, as the table's log names it."""

    path: str  # path or URI
    partition: Mapping[str, str | None]  # value of each partition column
    n_bytes: int


def files_of(uri: str, where: dict[str, str]) -> list[StoredFile]:
    """The files of some partitions."""
    delta = DeltaTable(delta_uri(uri))
    chosen = active_files(delta, where)
    added = pa.table(delta.get_add_actions(flatten=True))
    sizes = dict(zip(added.column("path").to_pylist(), added.column("size_bytes").to_pylist(), strict=True))
    return sorted(StoredFile(f"{uri}/{disk_path(path)}", partition, sizes[path]) for path, partition in chosen.items())


def damaged(files: Iterable[StoredFile]) -> dict[str, str]:
    """The files that are gone or whose size is not that of the log, and what is wrong with each."""

    def problem(file: StoredFile) -> str | None:
        system, path = located(file.path)
        info = system.get_file_info(path)
        if not info.is_file:
            return "is gone"
        if info.size != file.n_bytes:
            return f"has {info.size:,} bytes, not the {file.n_bytes:,} that were written"
        return None

    files = list(files)
    with ThreadPoolExecutor(16) as pool:
        return {file.path: wrong for file, wrong in zip(files, pool.map(problem, files), strict=True) if wrong}


def rows_of(uri: str, table: Table, where: dict[str, str]) -> list[dict[str, Any]]:
    """The rows of some partitions of a small table; None in a column that an older version's table lacks."""
    filters = [(name, "=", value) for name, value in where.items()]
    stored = DeltaTable(delta_uri(uri)).to_pyarrow_table(filters=filters or None, filesystem=native_files(uri))
    maps = [field.name for field in stored.schema if pa.types.is_map(field.type)]
    rows = [dict.fromkeys(table.names) | row for row in stored.to_pylist()]
    for row in rows:
        row |= {name: dict(row[name]) for name in maps if row[name] is not None}
    return rows
