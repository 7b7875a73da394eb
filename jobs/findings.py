"""What a stage found in its inputs: its rows of `quality`, and the rows themselves that it kept out, in `quarantine`.

Two stages judge inputs: split the log, rank all others. Both tables are replaced per run, so a stage puts its own
rows in place and keeps those of the other one.
"""

from collections.abc import Sequence
from functools import reduce
from typing import Any, Literal

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from eval_engine.lake.lake import Lake
from eval_engine.quality.quality_row import QualityRow
from eval_engine.tables import QUALITY, QUARANTINE

LOG = "log"  # what the log is called in the column `table`
QUARANTINED = "quarantined"
Judge = Literal["split", "rank"]


def put_quality(lake: Lake, run_id: str, by: Judge, rows: Sequence[QualityRow]) -> None:
    """Put the stage's rows of quality in place."""
    lake.put(QUALITY, [*rows, *_others(lake, run_id, by)], {"run_id": run_id})


def put_quarantine(lake: Lake, run_id: str, by: Judge, rows: DataFrame | None) -> None:
    """Put the stage's quarantined rows (table, rule, row) in place; None: there are none."""
    frames = [rows] if rows is not None else []
    if any(row.action == QUARANTINED for row in _others(lake, run_id, by)):
        own = F.col("table") == LOG if by == "split" else F.col("table") != LOG
        frames.append(lake.read(QUARANTINE, run_id).where(~own).select("table", "rule", "row"))
    if frames:
        lake.replace(QUARANTINE, reduce(DataFrame.unionByName, frames), {"run_id": run_id})
    else:
        lake.put(QUARANTINE, [], {"run_id": run_id})


def _others(lake: Lake, run_id: str, by: Judge) -> list[QualityRow]:
    """The rows of quality that are not the stage's own."""
    rows = [row for row in lake.rows(QUALITY, {"run_id": run_id}) if (row["table"] == LOG) != (by == "split")]
    values: list[list[Any]] = [[row.get(name) for name in QualityRow._fields] for row in rows]
    return [QualityRow(*row) for row in values]
