"""The rank stage in a warm session, from score files to ranks in Delta, as the rank job runs it."""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from eval_engine.inputs.direct_read import stored_bytes
from eval_engine.inputs.read import flat_files
from eval_engine.inputs.score_files import Source
from eval_engine.lake.lake import Lake
from eval_engine.ranking import rank as ranking
from eval_engine.ranking.settings import Ranking
from eval_engine.spark.session import batches_by_bytes, planned_once
from eval_engine.tables import RANKS
from jobs.rank import write_ranks

DENSE = Source(0, "scores", "m", "user_id", None, "scores")
LONG = Source(0, "scores", "m", "user_id", "item_id", "score")


class Engine:
    """One score table and its labels."""

    def __init__(
        self,
        spark: SparkSession,
        folder: Path,
        scores: Path,
        source: Source,
        item_id: npt.NDArray[Any],
        positions: npt.NDArray[Any],
    ) -> None:
        self.spark, self.lake, self.scores, self.source = spark, Lake(spark, str(folder / "lake")), str(scores), source
        folder.mkdir(parents=True, exist_ok=True)
        catalogue, exposures = str(folder / "catalogue.parquet"), str(folder / "exposures.parquet")
        pq.write_table(pa.table({"item_id": item_id, "position": np.arange(len(item_id), dtype=np.int32)}), catalogue)
        users = np.repeat(np.arange(len(positions)), positions.shape[1])
        pq.write_table(
            pa.table({"user_id": users, "item_id": item_id[positions.ravel()], "value": np.ones(users.size)}), exposures
        )
        self.exposures = exposures
        self.settings = Ranking(len(item_id), 101, (catalogue,), "error", "all_items", ("random",), (10, 20))

    def run(self) -> None:
        """Labels and scores from their files to ranks and top lists in Delta."""
        pairs = ranking.Pairs(
            None,
            (self.exposures,),
            {name: name for name in ("user_id", "item_id", "value")},
            stored_bytes((self.exposures,)),
        )
        files = flat_files(self.scores) or ()
        asked = ranking.RankingRequest(
            (ranking.Table(self.source, files),), {"random": pairs}, ("m",), None, False, "BIGINT"
        )
        with planned_once(self.spark), batches_by_bytes(self.spark):
            assembled = ranking.assembled(self.spark, asked, self.settings)
            try:
                write_ranks(self.lake, "bench", "BIGINT", ranking.plans(assembled), {"m": "bench"}, ())
            finally:
                assembled.rows.unpersist()

    def warm_up(self) -> None:
        """Runs some times, to warm up Java's compiler."""
        for _ in range(6):
            self.run()

    def total(self) -> int:
        """The sum of `above` over all labels."""
        row = (
            self.lake.read(RANKS, "bench")
            .selectExpr("sum(aggregate(random.above, 0L, (s, a) -> s + a)) AS total")
            .first()
        )
        return int(row["total"]) if row else -1

    def top(self) -> pa.Table:
        """user_id and the scores of each user's top list."""
        return self.lake.read(RANKS, "bench").selectExpr("user_id", "top.scores AS top").toArrow()
