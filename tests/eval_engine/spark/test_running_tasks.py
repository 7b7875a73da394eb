"""After a job has failed, its other tasks still run: they are waited for."""

import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from eval_engine.spark.running_tasks import wait_for_tasks


def test_a_task_that_outlives_its_job_is_waited_for(spark: SparkSession, tmp_path: Path) -> None:
    begun, late = tmp_path / "begun", tmp_path / "late"

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if batch.column(0)[0].as_py() == 0:
                while not begun.exists():
                    time.sleep(0.01)
                raise ValueError("the first task fails")
            begun.touch()
            time.sleep(1.0)
            late.touch()
            yield batch

    with pytest.raises(PySparkException, match="the first task fails"):
        spark.range(0, 2, 1, 2).mapInArrow(run, "id BIGINT").collect()
    assert not late.exists()
    wait_for_tasks(spark)
    assert late.exists()


def test_without_spark_nothing_is_waited_for() -> None:
    wait_for_tasks(None)
