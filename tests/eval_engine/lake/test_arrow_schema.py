"""The Arrow form of a contract is that of its SQL form, as Spark reads it."""

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from eval_engine.lake.arrow_schema import arrow_schema
from eval_engine.tables import TABLES, Table


@pytest.mark.parametrize("id_type", ["BIGINT", "STRING"])
@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_arrow_and_sql_agree(spark: SparkSession, table: Table, id_type: str) -> None:
    by_spark = to_arrow_schema(StructType.fromDDL(table.ddl(id_type)), timezone="UTC")
    ours = arrow_schema(table, id_type)
    assert [(f.name, f.type, f.nullable) for f in ours] == [(f.name, f.type, f.nullable) for f in by_spark]
