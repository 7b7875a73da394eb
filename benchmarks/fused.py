"""How fast is fused ranking, compared with torch alone?

    python -m benchmarks.fused            # --scale 0.1 for a quick look

benchmarks/rank.py runs it with its other cases. 20,000 users x 10,000 items, vectors of 64, 10 labels per user, top
lists of 100, two threads. Both sides score the same blocks of users in the same process, in turns, best of three.

    ours      rank_fused: scores, ranks of the labels, top lists, rows; written as Parquet, committed to a Delta table
    theirs    torch.matmul and torch.topk(101), torch on two threads: no label is ranked, nothing is written

The scores of both sides' top lists are compared, and a difference beyond rounding is a failure. No file may be larger
than the ranks written.
"""

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from deltalake import DeltaTable

from eval_engine.config import Input, Inputs
from models.fused import Ranked, Run, block_users, write_fused
from models.label_lists import read_label_lists
from models.ranks_table import make_ranks_table
from models.vectors import VectorScorer

USERS, ITEMS, DIMS, LABELS, TOP, THREADS, REPEATS = 20_000, 10_000, 64, 10, 100, 2, 3


class Fused(NamedTuple):
    """The result of the case; rates in M scores/s."""

    ours: float
    theirs: float
    largest_file: int  # bytes of the largest file in the lake
    ranks: int  # bytes of all ranks written by one run


def fused_case(scale: float = 1.0) -> Fused:
    """Measures both sides and compares their results."""
    n_users = max(1000, int(USERS * scale))
    generator = torch.Generator().manual_seed(1)
    users, items = torch.randn(n_users, DIMS, generator=generator), torch.randn(ITEMS, DIMS, generator=generator)
    with tempfile.TemporaryDirectory() as folder:
        run = _run(Path(folder), n_users)
        labels = read_label_lists(
            run.inputs, pa.array(np.arange(n_users)), pa.array(np.arange(ITEMS)), run.frame, run.on_bad_rows
        )
        make_ranks_table(run.table, pa.int64())
        scorer = VectorScorer(users, items)
        before = torch.get_num_threads()
        times: dict[str, list[float]] = {"ours": [], "theirs": []}
        try:
            for attempt in range(REPEATS + 1):  # the first attempt warms up
                torch.set_num_threads(1)
                started = time.perf_counter()
                parts = write_fused(Ranked("m", str(attempt), scorer), labels, run, THREADS, lambda done: None)
                middle = time.perf_counter()
                torch.set_num_threads(THREADS)
                there = time.perf_counter()
                top = _bare(users, items)
                times["theirs"].append(time.perf_counter() - there)
                times["ours"].append(middle - started)
        finally:
            torch.set_num_threads(before)
        np.testing.assert_allclose(_written_top(run.table, n_users), top, rtol=1e-5, atol=1e-5)
        largest = max(path.stat().st_size for path in Path(run.table).rglob("*") if path.is_file())
    ranks = sum(part.n_bytes for part in parts)
    assert largest <= ranks, f"a file of {largest:,} bytes is larger than the ranks, {ranks:,}"
    rates = {side: n_users * ITEMS / 1e6 / min(seconds[1:]) for side, seconds in times.items()}
    return Fused(rates["ours"], rates["theirs"], largest, ranks)


@torch.inference_mode()
def _bare(users: torch.Tensor, items: torch.Tensor) -> npt.NDArray[np.float32]:
    """The scores of the first 101 items of each user, (n_users, 101)."""
    step = block_users(len(items))
    blocks = [torch.topk(users[start : start + step] @ items.T, TOP + 1) for start in range(0, len(users), step)]
    scores: npt.NDArray[np.float32] = torch.cat([block.values for block in blocks]).numpy()
    return scores


def _written_top(table: str, n_users: int) -> npt.NDArray[Any]:
    """The same scores from the ranks table, sorted by user."""
    rows = DeltaTable(table).to_pyarrow_table(columns=["user_id", "top"]).sort_by("user_id").combine_chunks()
    return np.asarray(pa.concat_arrays(rows.column("top").chunks).field("scores").flatten()).reshape(n_users, TOP + 1)


def _run(folder: Path, n_users: int) -> Run:
    """A run whose exposures are 10 different items per user."""
    users = np.repeat(np.arange(n_users), LABELS)
    shown = (np.arange(n_users)[:, None] * 7919 + np.arange(LABELS) * 997) % ITEMS
    pq.write_table(
        pa.table({"user_id": users, "item_id": shown.ravel(), "value": np.ones(users.size)}),
        folder / "exposures.parquet",
    )
    inputs = Inputs(catalogue=Input(path="catalogue"), exposures=Input(path=str(folder / "exposures.parquet")))
    return Run(str(folder / "lake" / "ranks"), "bench", inputs, "all_items", TOP, "error", (10, 20))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Speed of fused ranking.")
    parser.add_argument("--scale", type=float, default=1.0, help="1: 20,000 users")
    result = fused_case(parser.parse_args().scale)
    line = {
        "case": "fused-vs-torch",
        "ours": round(result.ours, 3),
        "theirs": round(result.theirs, 3),
        "ratio": round(result.ours / result.theirs, 3),
    }
    print(json.dumps(line | {"unit": "M scores/s", "largest_file": result.largest_file, "ranks": result.ranks}))
