"""The jobs whose classes are archived run."""

from pathlib import Path

from pyspark.sql import SparkSession

from eval_engine.spark.class_archive import _use


def test_jobs_run_to_their_end(tmp_path: Path, spark: SparkSession) -> None:
    _use(spark, tmp_path)
    assert spark.read.format("delta").load(str(tmp_path / "table")).count() == 1000
