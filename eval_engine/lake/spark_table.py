"""Delta tables of the contract (eval_engine/tables.py) by Spark's SQL, as delta_table.py has them by delta-rs."""

import re
from collections.abc import Collection, Iterator

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from eval_engine.columns import Column
from eval_engine.lake.delta_table import changed_rules, check_columns
from eval_engine.tables import Table

NO_TABLE = re.compile(
    r"TABLE_OR_VIEW_NOT_FOUND|DELTA_TABLE_NOT_FOUND|DELTA_MISSING_DELTA_TABLE|PATH_NOT_FOUND|"
    r"DELTA_PATH_DOES_NOT_EXIST|is not a Delta table"
)


def make_spark_table(spark: SparkSession, name: str, table: Table, id_type: str) -> None:
    """Make the table, or give an older one the columns and rules of the contract; an error if it does not fit."""
    if not has_table(spark, name):
        _create(spark, name, table, id_type)
    stored = spark.table(name)
    ids = {column: kind.upper() for column, kind in stored.dtypes if column in ("user_id", "item_id")}
    check_columns(name, table, id_type, _fields_of(stored.schema), ids)
    if new := [f"{path} {column.type.sql(id_type)}" for path, column in _lacking(stored, table)]:
        spark.sql(f"ALTER TABLE {name} ADD COLUMNS ({', '.join(new)})")
    _update_rules(spark, name, table)


def has_table(spark: SparkSession, name: str) -> bool:
    """Whether the table is there."""
    try:
        spark.table(name).schema  # noqa: B018  asks for the table
    except AnalysisException as error:
        if NO_TABLE.search(str(error)):
            return False
        raise
    return True


def _create(spark: SparkSession, name: str, table: Table, id_type: str) -> None:
    """A new table, unless another job makes it first."""
    rules = ", ".join(f"'delta.constraints.rule_{n}' = {quoted(rule)}" for n, rule in enumerate(table.rules))
    spark.sql(
        f"CREATE TABLE IF NOT EXISTS {name} ({table.ddl(id_type)}) USING DELTA "
        f"PARTITIONED BY ({', '.join(table.partitions)}) COMMENT {quoted(table.about)} "
        + (f"TBLPROPERTIES ({rules})" if rules else "")
    )


def _update_rules(spark: SparkSession, name: str, table: Table) -> None:
    """Put the rules of the contract in place of an older version's; Spark checks the stored rows against new ones."""
    properties = {row["key"]: row["value"] for row in spark.sql(f"SHOW TBLPROPERTIES {name}").collect()}
    dropped, new = changed_rules(table, properties)
    for rule in dropped:
        spark.sql(f"ALTER TABLE {name} DROP CONSTRAINT {rule}")
    for rule, text in new.items():
        spark.sql(f"ALTER TABLE {name} ADD CONSTRAINT {rule} CHECK ({text})")


def with_new_columns(stored: DataFrame, table: Table) -> DataFrame:
    """The rows of a table that an older version may have made, with NULL in the columns and fields that it lacks."""
    types = dict(stored.dtypes)
    id_type = types.get("user_id", types.get("item_id", "bigint")).upper()
    rows = stored
    for path, column in _lacking(stored, table):
        null = F.lit(None).cast(column.type.sql(id_type))
        name, _, inside = path.partition(".")
        rows = rows.withColumn(name, F.col(name).withField(inside, null) if inside else null)
    return rows


def quoted(text: str) -> str:
    """A SQL literal."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _lacking(stored: DataFrame, table: Table) -> Iterator[tuple[str, Column]]:
    """Columns and fields of structs that a stored table lacks; not the fields of a struct that it lacks as a whole."""
    have = _fields_of(stored.schema)
    for column in table.columns:
        for path, inside in column.paths():
            above = path.rpartition(".")[0]
            if path not in have and (not above or above in have):
                yield path, inside


def _fields_of(schema: StructType, above: str = "") -> Collection[str]:
    """The columns' names, and those of the fields in their structs, as Table.fields has them."""
    paths: list[str] = []
    for field in schema:
        paths.append(f"{above}{field.name}")
        if isinstance(field.dataType, StructType):
            paths += _fields_of(field.dataType, f"{above}{field.name}.")
    return paths
