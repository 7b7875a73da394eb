"""The fingerprint of a table's content, a short text that changes when the content does.

It is the version of a Delta table; of any other table, a hash of the paths, sizes and times of its files.
"""

import hashlib
import json
from collections.abc import Iterable
from typing import Any

import pyarrow as pa
from pyarrow import fs
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from eval_engine.config import Input
from eval_engine.inputs.input_format import input_format
from eval_engine.lake.delta_table import delta_version
from eval_engine.storage.stored_file import full_path, located, spelled

REVISION = 2  # raise it when a change of the engine changes ranks: then no earlier ranks are reused


def content_of(spark: SparkSession, where: Input) -> str:
    """The fingerprint of the table's content; "nothing" if there is no such table."""
    return content_without_spark(where) or _content_by_spark(spark, where)


def content_without_spark(where: Input) -> str | None:
    """The fingerprint of the table's content; None if only Spark reaches the table."""
    kind = input_format(where)
    if kind in ("delta", "table"):
        version = delta_version(where.path) if kind == "delta" else None
        return f"{version[0]} version {version[1]}" if version else None
    try:
        system, path = located(full_path(where.path))
        info = system.get_file_info(path)
        files = [info] if info.is_file else system.get_file_info(fs.FileSelector(path, recursive=True))
        return digest(sorted((file.path, file.size, file.mtime_ns) for file in files if file.is_file))
    except (OSError, pa.ArrowException):
        return None


def _content_by_spark(spark: SparkSession, where: Input) -> str:
    kind = input_format(where)
    if kind in ("delta", "table"):
        name = f"delta.`{full_path(where.path)}`" if kind == "delta" else where.path
        try:
            detail = spark.sql(f"DESCRIBE DETAIL {name}").first()
            version = spark.sql(f"DESCRIBE HISTORY {name} LIMIT 1").first()
            return f"{detail['id']} version {version['version']}" if detail and version else "nothing"
        except AnalysisException:  # it does not exist, or is a catalog's table that is not Delta
            return _files_of(spark, where.path) if kind == "table" else "nothing"
    try:
        listed = spark.read.format("binaryFile").option("recursiveFileLookup", "true").load(full_path(where.path))
        files = listed.select("path", "length", "modificationTime").collect()
    except AnalysisException:  # it does not exist: reading it raises the error
        return "nothing"
    return digest(sorted((row["path"], row["length"], str(row["modificationTime"])) for row in files))


def _files_of(spark: SparkSession, table: str) -> str:
    """A hash of the file names of a catalog's table; Spark gives every file it writes a new name."""
    try:
        return digest(sorted(spark.table(table).inputFiles()))
    except AnalysisException:
        return "nothing"


def digest(*parts: object) -> str:
    """A hash of values that JSON can represent."""
    return hashlib.sha256(json.dumps([REVISION, *parts], sort_keys=True).encode()).hexdigest()[:32]


def ranked_from(spark: SparkSession, tables: Iterable[Input], others: Iterable[Input], settings: object) -> list[str]:
    """For each score table, a hash of all that its ranks depend on: the table, the other inputs and the settings."""
    common = [(_as_named(where), content_of(spark, where)) for where in others]
    return [digest(_as_named(where), content_of(spark, where), common, settings) for where in tables]


def _as_named(where: Input) -> dict[str, Any]:
    """The table's entry in the config, with s3:// and s3a:// spelled alike."""
    return where.model_dump(mode="json") | {"path": spelled(where.path, "spark")}
