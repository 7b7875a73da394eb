"""An input table that a stage makes: replaced whole, in the format of the config, and left alone if it is made from the
same.

A Delta table keeps in its last commit (userMetadata) what it was made from. A Parquet table does not, so it is always
written.
"""

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from eval_engine.config import Input
from eval_engine.inputs.input_format import input_format
from eval_engine.lake.commits import delta_uri
from eval_engine.storage.stored_file import full_path


def written_format(where: Input) -> str:
    """The format that the table is written in: that of the config, else delta, in the catalog if it has such a name."""
    return where.format or ("table" if input_format(where) == "table" else "delta")


def made_from(where: Input, spark: SparkSession | None = None) -> str | None:
    """What the table says that it was made from; None if there is no table, or it does not say. Without Spark, also if
    only Spark reaches the table."""
    kind = written_format(where)
    if kind == "delta":
        try:
            return DeltaTable(delta_uri(full_path(where.path))).history(1)[0].get("userMetadata")
        except (DeltaError, OSError):  # no such table, or only Spark reads its storage
            pass
    if spark is None or kind == "parquet":
        return None
    try:
        name = where.path if kind == "table" else f"delta.`{full_path(where.path)}`"
        last = spark.sql(f"DESCRIBE HISTORY {name} LIMIT 1").first()
    except AnalysisException:  # no such table
        return None
    return last["userMetadata"] if last else None


def make_table(rows: DataFrame, where: Input, made_from: str) -> None:
    """Put these rows in place of the table's."""
    kind = written_format(where)
    writer = rows.write.mode("overwrite")
    if kind == "parquet":
        writer.parquet(full_path(where.path))
        return
    writer = writer.format("delta").option("overwriteSchema", "true").option("userMetadata", made_from)
    if kind == "table":
        writer.saveAsTable(where.path)
    else:
        writer.save(full_path(where.path))
