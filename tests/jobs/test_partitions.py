"""With Spark's default of 200 partitions a small run makes few tasks and few files, and the same answers."""

from pathlib import Path
from typing import Any

from deltalake import DeltaTable
from pyspark.sql import SparkSession


def test_a_small_run_with_200_shuffle_partitions_writes_few_files(
    finished_run: Any, small_run: Any, spark: SparkSession
) -> None:
    before = spark.conf.get("spark.sql.shuffle.partitions")
    spark.conf.set("spark.sql.shuffle.partitions", "200")
    try:
        small_run.run(spark)
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", str(before))
    lake = Path(small_run.config["lake"])
    assert len(DeltaTable(str(lake / "statistics")).file_uris()) <= 4
    assert len(DeltaTable(str(lake / "ranks")).file_uris()) <= 8
    for table in ("estimates", "comparisons"):
        assert small_run.rows(spark, table) == finished_run.rows(spark, table)
