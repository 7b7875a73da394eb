"""The ranking stage on a warm session, from score files to ranks in Delta, as the rank job runs it."""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from eval_engine.labels import user_labels
from eval_engine.lake import Lake
from eval_engine.ranking import rank as ranking
from eval_engine.ranking.settings import Ranking, Source
from eval_engine.session import few_scan_tasks, planned_once, rows_per_batch
from eval_engine.tables import RANKS
from jobs.rank import write_ranks

DENSE = Source(0, "scores", "m", "user_id", None, "scores")
LONG = Source(0, "scores", "m", "user_id", "item_id", "score")


class Engine:
    """One score table, and labels that are gathered already: checking the inputs is another stage."""

    def __init__(
        self, spark: SparkSession, folder: Path, scores: Path, source: Source, item_id: npt.NDArray[Any], positions: npt.NDArray[Any]
    ) -> None:
        self.spark, self.lake, self.scores, self.source = spark, Lake(spark, str(folder / "lake")), str(scores), source
        folder.mkdir(parents=True, exist_ok=True)
        catalogue, exposures = str(folder / "catalogue.parquet"), str(folder / "exposures.parquet")
        pq.write_table(pa.table({"item_id": item_id, "position": np.arange(len(item_id), dtype=np.int32)}), catalogue)
        users = np.repeat(np.arange(len(positions)), positions.shape[1])
        pq.write_table(pa.table({"user_id": users, "item_id": item_id[positions.ravel()], "value": np.ones(users.size)}), exposures)
        spark.conf.set(*rows_per_batch(positions.shape[1]))
        self.labels = user_labels({"random": spark.read.parquet(exposures)}, spark.read.parquet(catalogue), "all_items").persist()
        self.labels.count()
        self.settings = Ranking(len(item_id), 101, (catalogue,), "error")

    def run(self) -> None:
        """Plan, rank, write ranks and top lists."""
        df = self.spark.read.parquet(self.scores)
        files = tuple(df.inputFiles()) if self.source.item else ()
        with planned_once(self.spark), few_scan_tasks(self.spark):
            scored = ranking.scored(self.spark, [ranking.Table(df, self.source, files)], "BIGINT")
            try:
                write_ranks(self.lake, "bench", "BIGINT", ranking.plans(self.spark, scored, self.labels, self.settings), {"m": "bench"}, ())
            finally:
                if scored.rows:
                    scored.rows.rows.unpersist()

    def warm_up(self) -> None:
        """Three runs: Java compiles what it will run."""
        for _ in range(3):
            self.run()

    def total(self) -> int:
        """The sum of `above` over all labels."""
        found = self.lake.read(RANKS, "bench").selectExpr("sum(aggregate(random.above, 0L, (s, a) -> s + a)) AS total").first()
        return int(found["total"]) if found else -1

    def top(self) -> pa.Table:
        """user_id and the scores of each user's top list."""
        return self.lake.read(RANKS, "bench").selectExpr("user_id", "top.scores AS top").toArrow()

    def close(self) -> None:
        self.labels.unpersist()
