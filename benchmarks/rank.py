"""How fast is ranking, against the machine itself and against what a user would pick instead?

    make bench-rank            # --scale 0.1 for a quick look

Dense score tables of 10,000 items, 10 labels a user and a top list of 100. One JSON line per case; ratio > 1 is good for us. Each side is measured in the same
run on the same files, best of three; the answers of both sides are compared, and a difference is a failure.

    dense-kernel    rank_rows on one core against numpy: sort of each row, searchsorted of its labels
    dense-vs-bare   the engine (Spark plans, workers rank, Delta holds ranks and top lists) against two bare processes with the same reads and kernel
    dense-vs-numpy  the engine against two bare processes with the same reads and numpy
    dense-vs-read   the engine against two bare processes that only read
    growth          4 time(n) / time(4n) of the engine

Times of the three `-vs-` cases are slopes, (time(4n) - time(n)) / 3n, so that start-up does not count; start-up stands beside them.
"""

import argparse
import json
import shutil
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from eval_engine.kernels.rank_rows import rank_rows
from eval_engine.labels import user_labels
from eval_engine.lake import Lake
from eval_engine.ranking import rank as ranking
from eval_engine.ranking.score_file import read_blocks
from eval_engine.session import rows_per_batch, spark_session
from eval_engine.tables import RANKS
from models.score_table import binary_column

ITEMS, LABELS, TOP, PROCESSES, REPEATS = 10_000, 10, 100, 2, 3
GROUP = 1600  # users of a row group of 64 MB
Floats = npt.NDArray[np.float32]
Rows = tuple[npt.NDArray[Any], ...]  # above, tied, scores of the top


def best(work: Callable[[], object]) -> float:
    """The shortest of three times."""
    times = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def say(case: str, ours: float, theirs: float, unit: str, **more: float) -> None:
    """One JSON line; ours and theirs are rates."""
    print(
        json.dumps({"case": case, "ours": round(ours, 3), "theirs": round(theirs, 3), "ratio": round(ours / theirs, 3), "unit": unit} | more),
        flush=True,
    )


def label_positions(first: int, n_users: int) -> npt.NDArray[np.int64]:
    """The labelled positions of some users: 10 different ones each, by user, (n_users, 10)."""
    user = np.arange(first, first + n_users)[:, None]
    return (user * 7919 + np.arange(LABELS) * 997) % ITEMS


def numpy_rows(scores: Floats, positions: npt.NDArray[np.int64]) -> Rows:
    """above, tied and the first 101 scores of each row: what one writes with numpy."""
    above, tied = np.empty(positions.shape, np.int64), np.empty(positions.shape, np.int64)
    top = np.empty((len(scores), TOP + 1), np.float32)
    for n, row in enumerate(scores):
        ordered = np.sort(row)
        mine = row[positions[n]]
        right = np.searchsorted(ordered, mine, "right")
        above[n] = ITEMS - right
        tied[n] = right - np.searchsorted(ordered, mine, "left") - 1
        top[n] = ordered[: -TOP - 2 : -1]
    return above, tied, top


def kernel_rows(scores: Floats, positions: npt.NDArray[np.int64]) -> Rows:
    """The same by the engine's kernel."""
    n = len(scores)
    nobody = np.zeros(n + 1, np.int64), np.zeros(0, np.int32)
    ranked = rank_rows(scores, np.arange(n + 1) * LABELS, positions.ravel().astype(np.int32), *nobody, TOP + 1)
    return ranked.above.reshape(n, LABELS), ranked.tied.reshape(n, LABELS), ranked.top_scores


def only_read(scores: Floats, positions: npt.NDArray[np.int64]) -> Rows:
    """Nothing is done with the scores."""
    return (positions[:, :0],)


ROWS = {"kernel": kernel_rows, "numpy": numpy_rows, "read": only_read}


def bare_file(task: tuple[str, int, str]) -> int:
    """One file read and ranked in a bare process; the sum of `above`, to compare."""
    file, first, how = task
    total = 0
    for block in read_blocks(file, "scores", ITEMS, 0):
        result = ROWS[how](block.scores, label_positions(first + block.first, len(block.scores)))
        total += int(result[0].sum())
    return total


def bare_files(pool: ProcessPoolExecutor, files: list[tuple[str, int]], how: str) -> int:
    """All files, shared out over the processes."""
    return sum(pool.map(bare_file, [(file, first, how) for file, first in files]))


def write_scores(folder: Path, n_users: int) -> list[tuple[str, int]]:
    """Score files of a quarter GB; (file, first user) of each."""
    rng = np.random.default_rng(1)
    noise = rng.normal(size=(GROUP, ITEMS)).astype(np.float32)
    files = []
    per_file = 4 * GROUP
    for first in range(0, n_users, per_file):
        path = folder / f"part-{first:09d}.parquet"
        with pq.ParquetWriter(
            path, pa.schema([("user_id", pa.int64()), ("scores", pa.binary())]), use_dictionary=False, compression="none"
        ) as writer:
            for start in range(first, min(first + per_file, n_users), GROUP):
                users = np.arange(start, min(start + GROUP, n_users))
                block = np.roll(noise[: len(users)], start % ITEMS, axis=1)
                writer.write_batch(pa.record_batch([pa.array(users), binary_column(block)], names=["user_id", "scores"]), row_group_size=len(users))
        files.append((str(path), first))
    return files


def dense_kernel() -> None:
    scores = np.random.default_rng(0).normal(size=(800, ITEMS)).astype(np.float32)
    positions = label_positions(0, len(scores))
    for ours, theirs in zip(kernel_rows(scores, positions), numpy_rows(scores, positions), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    rate = scores.size / 1e6
    say("dense-kernel", rate / best(lambda: kernel_rows(scores, positions)), rate / best(lambda: numpy_rows(scores, positions)), "M scores/s")


class Engine:
    """The ranking stage on a warm session, over one folder of scores."""

    def __init__(self, spark: SparkSession, folder: Path, n_users: int) -> None:
        self.spark, self.lake = spark, Lake(spark, str(folder / "lake"))
        self.users = ranking.scored_users([ranking.ScoreTable(spark.read.parquet(str(folder / "scores")), "user_id", "scores", "m", "scores")])
        catalogue = pa.table({"item_id": np.arange(ITEMS), "position": np.arange(ITEMS, dtype=np.int32)})
        pq.write_table(catalogue, folder / "catalogue.parquet")
        users = np.repeat(np.arange(n_users), LABELS)
        pq.write_table(
            pa.table({"user_id": users, "item_id": label_positions(0, n_users).ravel(), "value": np.ones(users.size)}), folder / "exposures.parquet"
        )
        frames: dict[str, DataFrame] = {"random": spark.read.parquet(str(folder / "exposures.parquet"))}
        spark.conf.set(*rows_per_batch(ITEMS))
        self.labels = user_labels(frames, spark.read.parquet(str(folder / "catalogue.parquet")), "all_items").persist()
        self.labels.count()
        self.settings = ranking.Ranking(ITEMS, TOP + 1, ("scores",), (str(folder / "catalogue.parquet"),), "error")

    def run(self) -> None:
        """Plan, rank, write ranks and top lists."""
        files = ranking.scored(self.users).files
        self.lake.replace(RANKS, ranking.rank(self.spark, self.users, self.labels, files, self.settings), {"run_id": "bench"})

    def total(self) -> int:
        """The sum of `above` over all labels."""
        found = self.lake.read(RANKS, "bench").selectExpr("sum(aggregate(random.above, 0L, (s, a) -> s + a)) AS total").first()
        return int(found["total"]) if found else -1


def dense_engine(scale: float) -> None:
    small = max(4 * GROUP, int(60_000 * scale))
    sizes = {"n": small, "4n": 4 * small}
    spark = spark_session("bench-rank")
    times: dict[str, dict[str, float]] = {}
    for size, n_users in sizes.items():
        with tempfile.TemporaryDirectory() as folder, ProcessPoolExecutor(PROCESSES) as pool:
            (Path(folder) / "scores").mkdir()
            files = write_scores(Path(folder) / "scores", n_users)
            bare = {how: partial(bare_files, pool, files, how) for how in ROWS}
            answer = bare["kernel"]()
            assert answer == bare["numpy"](), "numpy and kernel disagree"
            engine = Engine(spark, Path(folder), n_users)
            engine.run()
            assert engine.total() == answer, "engine and bare processes disagree"
            times[size] = {"engine": best(engine.run)} | {how: best(work) for how, work in bare.items()}
            engine.labels.unpersist()
            shutil.rmtree(Path(folder) / "scores")
    scores = {size: n_users * ITEMS / 1e6 for size, n_users in sizes.items()}
    slope = {side: (scores["4n"] - scores["n"]) / (times["4n"][side] - times["n"][side]) for side in times["n"]}
    for case, side in (("dense-vs-bare", "kernel"), ("dense-vs-numpy", "numpy"), ("dense-vs-read", "read")):
        at_n = times["n"][side] / times["n"]["engine"]
        say(case, slope["engine"], slope[side], "M scores/s", ratio_at_n=round(at_n, 3), engine_seconds_at_n=round(times["n"]["engine"], 2))
    say("growth", 4 * times["n"]["engine"], times["4n"]["engine"], "s")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Speed of ranking.")
    parser.add_argument("--scale", type=float, default=1.0, help="1: n is 600 M scores")
    given = parser.parse_args()
    dense_kernel()
    dense_engine(given.scale)
