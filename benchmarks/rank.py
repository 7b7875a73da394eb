"""Speed of ranking, against the machine's speed without Spark and against alternatives.

    make bench-rank            # --scale 0.1 for a quick look, --case to run some only

One JSON line per case; ratio > 1 is good for us. Both sides are measured in the same run on the same files, best of
three; their results are compared, and a difference is a failure. Dense score tables have 10,000 items, 10 labels per
user and a top list of 100 (one more, for thresholds).

    dense-kernel      rank_rows on one core against numpy: sort of each row, searchsorted of its labels
    dense-vs-bare     the engine (Spark plans, workers rank, ranks and top lists go to Delta) against two bare processes
                      with the same reads and kernel
    dense-vs-numpy    the engine against two bare processes with the same reads and numpy
    dense-vs-read     the engine against two bare processes that only read
    growth            4 time(n) / time(4n) of the engine
    long-vs-window    the engine on 60 M (user, item, score) rows sorted by user against Spark's window function
    long-vs-duckdb    the same against DuckDB's max(score, 101), which gives the scores of the top only
    long-vs-polars    the same against Polars' top_k
    spread-vs-window  the same rows in random order over the files, against the window function
    replay            recall@10 of 8 M rows, from files to value, against RePlay on Spark
    fused-vs-torch    ranking inside the training job, without a score table, against bare matmul + topk
    worker-memory     the 1,024 MB that a Python worker may use, divided by its largest resident memory at 1e6 items per
                      user

Times of the `dense-vs-` cases and of DuckDB and Polars are slopes, (time(4n) - time(n)) / 3n, so that start-up does not
count; the lines have the whole times too.
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.dense_files import ITEMS, TOP, WAYS, bare_files, kernel_rows, label_positions, numpy_rows, write_vectors
from benchmarks.engine import DENSE, LONG, Engine
from benchmarks.fused import fused_case
from benchmarks.long_files import item_ids, write_labels, write_sorted, write_spread
from benchmarks.measure import best, best_of, say
from benchmarks.peers import duckdb_top, lists_checksum, polars_top
from benchmarks.window import timed_window
from eval_engine.spark.session import spark_session

PROCESSES = 2
HERE = Path(__file__).parent


def dense_kernel(scale: float) -> None:
    scores = np.random.default_rng(0).normal(size=(800, ITEMS)).astype(np.float32)
    positions = label_positions(0, len(scores))
    for ours, theirs in zip(kernel_rows(scores, positions), numpy_rows(scores, positions), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    rate = scores.size / 1e6
    say(
        "dense-kernel",
        rate / best(lambda: kernel_rows(scores, positions)),
        rate / best(lambda: numpy_rows(scores, positions)),
        "M scores/s",
    )


def dense_engine(scale: float) -> None:
    small = max(6400, int(60_000 * scale))
    sizes = {"n": small, "4n": 4 * small}
    spark = spark_session("bench-rank")
    times: dict[str, dict[str, float]] = {}
    for size, n_users in sizes.items():
        with tempfile.TemporaryDirectory() as name, ProcessPoolExecutor(PROCESSES) as pool:
            folder = Path(name)
            files = write_vectors(folder / "scores", n_users)
            bare: dict[str, Callable[[], object]] = {way: partial(bare_files, pool, files, way) for way in WAYS}
            answer = bare["kernel"]()
            assert answer == bare["numpy"](), "numpy and kernel disagree"
            engine = Engine(spark, folder, folder / "scores", DENSE, np.arange(ITEMS), label_positions(0, n_users))
            engine.warm_up()
            assert engine.total() == answer, "engine and bare processes disagree"
            times[size] = best_of({"engine": engine.run} | bare)
            shutil.rmtree(folder / "scores")
    scores = {size: n_users * ITEMS / 1e6 for size, n_users in sizes.items()}
    slope = {side: (scores["4n"] - scores["n"]) / (times["4n"][side] - times["n"][side]) for side in times["n"]}
    for case, side in (("dense-vs-bare", "kernel"), ("dense-vs-numpy", "numpy"), ("dense-vs-read", "read")):
        seconds = {
            f"{who}_{size}": round(times[size][who_key], 2)
            for size in sizes
            for who, who_key in (("ours", "engine"), ("theirs", side))
        }
        say(
            case,
            slope["engine"],
            slope[side],
            "M scores/s",
            ratio_at_n=round(times["n"][side] / times["n"]["engine"], 3),
            seconds=seconds,
        )
    say("growth", 4 * times["n"]["engine"], times["4n"]["engine"], "s")


def long_engine(scale: float) -> None:
    spark = spark_session("bench-rank")
    n_users = max(400, int(6_000 * scale))
    times: dict[str, dict[str, float]] = {}
    for size, n in (("n", n_users // 4), ("4n", n_users)):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            positions = label_positions(0, n)
            labels = write_labels(folder / "labels.parquet", positions)
            files = write_sorted(folder / "sorted", n, ITEMS, 8)
            engine = Engine(spark, folder / "engine", folder / "sorted", LONG, item_ids(np.arange(ITEMS)), positions)
            engine.warm_up()
            checksum = lists_checksum(engine.top())
            assert checksum == lists_checksum(duckdb_top(files, TOP + 1, PROCESSES)), "engine and DuckDB disagree"
            polars = polars_top(files, TOP + 1, PROCESSES)
            assert checksum == polars.checksum, "engine and Polars disagree"
            times[size] = best_of({"engine": engine.run, "duckdb": partial(duckdb_top, files, TOP + 1, PROCESSES)}) | {
                "polars": polars.seconds
            }
            if size == "4n":
                window = timed_window(str(folder / "sorted"), labels, TOP + 1)
                assert engine.total() + n * positions.shape[1] == window.answer, "engine and window disagree"
                shutil.rmtree(folder / "sorted")
                write_spread(folder / "spread", n, ITEMS, 8)
                spread = Engine(
                    spark, folder / "engine-spread", folder / "spread", LONG, item_ids(np.arange(ITEMS)), positions
                )
                spread.warm_up()
                assert (spread.total(), lists_checksum(spread.top())) == (engine.total(), checksum), (
                    "sorted and spread rows disagree"
                )
                times[size] |= {"spread": best(spread.run), "window": window.seconds}
                times[size]["spread_window"] = timed_window(str(folder / "spread"), labels, TOP + 1).seconds
    rows = n_users * ITEMS / 1e6
    whole, part = times["4n"], times["n"]
    say("long-vs-window", rows / whole["engine"], rows / whole["window"], "M rows/s", seconds=round(whole["engine"], 2))
    for case, side in (("long-vs-duckdb", "duckdb"), ("long-vs-polars", "polars")):
        slopes = {who: rows * 0.75 / (whole[who] - part[who]) for who in ("engine", side)}
        seconds = {
            f"{who}_{size}": round(times[size][key], 2)
            for size in times
            for who, key in (("ours", "engine"), ("theirs", side))
        }
        say(
            case,
            slopes["engine"],
            slopes[side],
            "M rows/s",
            ratio_whole=round(whole[side] / whole["engine"], 3),
            seconds=seconds,
        )
    say(
        "spread-vs-window",
        rows / whole["spread"],
        rows / whole["spread_window"],
        "M rows/s",
        seconds=round(whole["spread"], 2),
    )


def fused(scale: float) -> None:
    result = fused_case(scale)
    assert result.largest_file <= result.ranks, "a file is larger than the ranks written"
    say(
        "fused-vs-torch",
        result.ours,
        result.theirs,
        "M scores/s",
        largest_file_mb=round(result.largest_file / 2**20, 1),
        ranks_mb=round(result.ranks / 2**20, 1),
    )


def in_own_process(script: str, scale: float) -> None:
    """Runs a case that needs its own process and session."""
    subprocess.run([sys.executable, "-m", f"benchmarks.{script}", "--scale", str(scale)], check=True, cwd=HERE.parent)


CASES: dict[str, Callable[[float], None]] = {
    "dense-kernel": dense_kernel,
    "dense": dense_engine,
    "long": long_engine,
    "replay": partial(in_own_process, "against_replay"),
    "fused": fused,
    "worker-memory": partial(in_own_process, "worker_memory"),
}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Speed of ranking.")
    parser.add_argument("--scale", type=float, default=1.0, help="1: n is 600 M scores, long tables have 60 M rows")
    parser.add_argument(
        "--case", choices=list(CASES), action="append", help="only these; dense and long stand for all of their cases"
    )
    given = parser.parse_args()
    for case in given.case or CASES:
        CASES[case](given.scale)
