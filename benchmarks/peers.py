"""Alternatives to the rank engine for long score tables: DuckDB and Polars (Spark's window function is in window.py).

    duckdb_top    SELECT user_id, max(score, k) GROUP BY user_id: the scores of the top k only, no ranks of labels
    polars_top    group_by("user_id").agg(top_k(k)): the same

Each alternative runs at its best: Polars runs with both of its engines, and the faster one counts. Results are compared
as integers, so the order of summation cannot hide or cause a difference.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa


class Timed(NamedTuple):
    """The shortest time of an alternative, and the checksum of its result."""

    seconds: float
    checksum: int


def checksum(user_id: npt.NDArray[np.int64], top: npt.NDArray[np.float32]) -> int:
    """sum (2 user_id + 1) bits(score) mod 2^64 over all scores of top lists (flat arrays); exact in any order."""
    bits = (top + np.float32(0)).view(np.uint32).astype(np.uint64)  # + 0 makes 0 of -0
    return int(np.sum(bits * (2 * user_id.astype(np.uint64) + 1), dtype=np.uint64))


def duckdb_top(files: list[str], k: int, threads: int) -> pa.Table:
    """An Arrow table of user_id and the list `top` of the user's k highest scores."""
    import duckdb

    query = f"SELECT user_id, max(score, {k}) AS top FROM read_parquet($files) GROUP BY user_id"
    with duckdb.connect(config={"threads": threads}) as connection:
        return connection.sql(query, params={"files": files}).to_arrow_table()


def lists_checksum(lists: pa.Table) -> int:
    """The checksum of a table of user_id and `top`."""
    lists = lists.combine_chunks()
    top = lists["top"].combine_chunks()
    user_id = np.repeat(lists["user_id"].to_numpy(), top.value_lengths().to_numpy())
    return checksum(user_id, top.flatten().to_numpy())


def polars_top(files: list[str], k: int, threads: int = 2) -> Timed:
    """The same by Polars, in its own process: Polars reads its number of threads once, at import."""
    call = [sys.executable, __file__, "--k", str(k), *files]
    done = subprocess.run(
        call, env=os.environ | {"POLARS_MAX_THREADS": str(threads)}, stdout=subprocess.PIPE, text=True, check=True
    )
    return Timed(**json.loads(done.stdout))


def _polars_here(files: list[str], k: int) -> dict[str, Any]:
    """The best of three of each engine of Polars, and the checksum, which must be the same for both."""
    import polars as pl

    times, sums = [], set()
    for engine in ("streaming", "in-memory"):
        for _ in range(3):
            start = time.perf_counter()
            lists = (
                pl.scan_parquet(files)
                .group_by("user_id")
                .agg(pl.col("score").top_k(k).alias("top"))
                .collect(engine=engine)
            )
            times.append(time.perf_counter() - start)
        sums.add(lists_checksum(lists.to_arrow()))
    assert len(sums) == 1, "Polars' engines disagree"
    return {"seconds": min(times), "checksum": sums.pop()}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Polars' top k of long score files, timed: one JSON line.")
    parser.add_argument("--k", type=int, required=True)
    parser.add_argument("files", nargs="+")
    given = parser.parse_args()
    print(json.dumps(_polars_here(given.files, given.k)))
