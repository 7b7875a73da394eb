"""The ranks of one model, for what is the same for all models: propensities of pairs, and who has labels of which set.

Of a small run this process reads them, of a larger one Spark's workers; where only Spark can read the files, Spark
does.
"""

from typing import NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from eval_engine.evaluation.spec import EvaluationSpec
from eval_engine.evaluation.statistics_plan import File, by_files, needed_columns, read_ranks
from eval_engine.spark.worker_types import Worker


class ModelRanks(NamedTuple):
    """Files of ranks of one model, or its rows."""

    files: tuple[File, ...]
    spark: SparkSession | None = None  # None: this process reads the files
    rows: DataFrame | None = None  # where only Spark can read the files

    @property
    def in_process(self) -> bool:
        """Whether this process reads the files."""
        return self.spark is None and self.rows is None

    def here(self, run: Worker, spec: EvaluationSpec, schema: pa.Schema) -> pa.Table:
        """What a function gives for the needed columns, in this process."""
        batches = (rows for path, model, _ in self.files for rows in read_ranks(path, model, spec))
        return pa.Table.from_batches(list(run(batches)), schema)

    def by_tasks(self, run: Worker, spec: EvaluationSpec, schema: pa.Schema) -> DataFrame:
        """The same by tasks of Spark; columns are BIGINT and DOUBLE."""
        ddl = ", ".join(f"{field.name} {'DOUBLE' if field.type == pa.float64() else 'BIGINT'}" for field in schema)
        if self.rows is not None:
            return needed_columns(self.rows, spec).mapInArrow(run, ddl)
        assert self.spark is not None
        return by_files(self.spark, self.files, spec, run, ddl)
