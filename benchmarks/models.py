"""Speed of training and scoring, against plain torch and against other libraries.

    make bench-models        (python -m benchmarks.models --scale 0.1 for a quick look; --only score-vs-bare)

score-vs-bare       a score table of 20,000 users x 10,000 items, vectors of 64, written to Parquet: against torch's
                    matrix product and pyarrow's writer alone, with the same blocks
bpr-vs-peer         an epoch of BPR-MF over 1 M pairs, vectors of 64, batches of 2,048 rows, one negative per row, Adam:
                    against RecBole's
lightgcn-vs-peer    the same for LightGCN with three layers; some batches of an epoch, on both sides
knn-vs-implicit, wmf-vs-implicit
                    neighbours of items, and alternating least squares, over a log of the size of Gowalla's: against
                    implicit, on as many threads (benchmarks/baselines.py)
bpr-step-vs-sparse  a step of BPR-MF, 1 M users x 100,000 items, vectors of 64, 2,048 rows, one negative per row:
against
                    plain torch with sparse gradients and SparseAdam, which has not the numbers of dense Adam
bpr-vs-implicit     for the record: an epoch of implicit's compiled BPR, plain SGD without batches, over the same pairs
two-processes       a step of training by two processes against one (benchmarks/two_processes.py)

RecBole runs in its own environment (.venv-recbole) and by its own trainer. Best of three; both sides run with one and
with two threads, and the faster of the two counts.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
import torch

from benchmarks.baselines import knn_vs_implicit, wmf_vs_implicit
from benchmarks.measure import REPEATS, best, say
from benchmarks.two_processes import two_processes
from models.backbones.make_backbone import make_backbone
from models.logged import Logged
from models.losses import make_loss
from models.samplers import make_sampler
from models.score_table import Content, binary_column, layout_of, write_scores
from models.spec.gradient import MF, LightGCN
from models.spec.losses import Bpr
from models.spec.samplers import UniformNegatives
from models.spec.train import MODEL
from models.training import Step, Task, fit, generator_of
from models.vectors import VectorScorer

USERS, ITEMS, PAIRS, DIMS, BATCH, THREADS = 20_000, 10_000, 1_000_000, 64, 2048, (1, 2)
ROOT = Path(__file__).parent.parent
RECBOLE = ROOT / ".venv-recbole" / "bin" / "python"


def score_vs_bare(scale: float, folder: Path) -> None:
    """Measures scoring and writing a score table."""
    n_users = max(1000, int(USERS * scale))
    generator = torch.Generator().manual_seed(1)
    users, items = torch.randn(n_users, DIMS, generator=generator), torch.randn(ITEMS, DIMS, generator=generator)
    ids = pa.array(np.arange(n_users) * 3)
    layout = layout_of(ids, ITEMS, 64, 256)
    content = Content("m", ids, ITEMS, "inputs", "fingerprint")

    def ours() -> None:
        write_scores(folder / "ours", content, VectorScorer(users, items), layout, lambda n: None)

    def bare() -> None:
        (folder / "bare").mkdir()
        schema = pa.schema([("user_id", pa.int64()), ("scores", pa.binary())])
        with torch.inference_mode():
            for number, start in enumerate(range(0, n_users, layout.shard)):
                path = folder / "bare" / f"{number}.parquet"
                with pq.ParquetWriter(
                    path, schema, use_dictionary=False, compression="none", write_statistics=["user_id"]
                ) as writer:
                    for first in range(start, min(start + layout.shard, n_users), layout.group):
                        last = min(first + layout.group, start + layout.shard, n_users)
                        block = (users[first:last] @ items.T).numpy()
                        writer.write_batch(
                            pa.record_batch([ids.slice(first, last - first), binary_column(block)], schema=schema),
                            row_group_size=last - first,
                        )

    torch.set_num_threads(max(THREADS))
    times: dict[str, list[float]] = {"ours": [], "bare": []}
    for _ in range(REPEATS + 1):  # the first round warms up
        for name, work in (("ours", ours), ("bare", bare)):  # in turns: a slow minute of the disk affects both
            _empty(folder / name)
            os.sync()  # so that this side does not wait for unwritten pages of the other
            start = time.perf_counter()
            work()
            times[name].append(time.perf_counter() - start)
    ours_s, bare_s = (min(seconds[1:]) for seconds in times.values())
    mine, theirs = (pq.read_table(folder / name) for name in ("ours", "bare"))
    if not mine.equals(theirs):
        sys.exit("score-vs-bare: the two sides wrote different tables")
    mb = n_users * ITEMS * 4 / 1e6
    say("score-vs-bare", mb / ours_s, mb / bare_s, "MB/s", n_users=n_users, n_items=ITEMS)


def _empty(folder: Path) -> None:
    """Removes a folder of files."""
    if folder.exists():
        for file in folder.iterdir():
            file.unlink()
        folder.rmdir()


def pairs_of(n: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """n different pairs, with items drawn by a power law."""
    rng = np.random.default_rng(0)
    chance = 1 / np.arange(1, ITEMS + 1) ** 0.6
    drawn = rng.integers(0, USERS, 2 * n) * ITEMS + rng.choice(ITEMS, 2 * n, p=chance / chance.sum())
    users, items = np.divmod(np.sort(rng.permutation(np.unique(drawn))[:n]), ITEMS)
    return users, items


def our_epoch(model: str, logged: Logged, threads: int, steps: int) -> float:
    """Seconds of our best epoch; if an epoch has more than `steps` batches, those of `steps` batches, scaled up."""
    spec = MODEL.validate_python(
        {
            "model": model,
            "dims": DIMS,
            "batch_size": BATCH,
            "epochs": REPEATS + 1,
            "weight_decay": 0.0,
            "learning_rate": 1e-3,
            "sampler": {"per_positive": 1},
        }
    )
    assert isinstance(spec, MF | LightGCN)
    n_steps = -(-len(logged.users) // BATCH)
    torch.set_num_threads(threads)
    times: dict[int, list[float]] = {}
    # a shorter epoch, but over the whole graph
    kept = logged.where(np.arange(len(logged.users)) % n_steps < steps) if steps < n_steps else logged

    def report(step: Step) -> None:
        times.setdefault(step.epoch, []).append(time.perf_counter())

    task = Task(
        make_backbone(spec, logged, 0.0, generator_of(0, "init")),
        make_loss(Bpr(), logged, generator_of(0)),
        make_sampler(spec.sampler, kept, logged),
        None,
    )
    fit(task, spec, 0, report)
    return min((epoch[-1] - epoch[0]) / (len(epoch) - 1) for epoch in list(times.values())[1:]) * n_steps


def their_epoch(model: str, folder: Path, threads: int, steps: int) -> float:
    """Seconds of RecBole's best epoch, or of its first batches, scaled up."""
    options = {
        "model": model,
        "data": folder.resolve(),
        "threads": threads,
        "batch": BATCH,
        "dims": DIMS,
        "epochs": REPEATS + 1,
        "steps": steps,
    }
    command = [
        str(RECBOLE),
        str(ROOT / "benchmarks" / "recbole_epoch.py"),
        *(str(word) for name, value in options.items() for word in (f"--{name}", value)),
    ]
    # RecBole writes logs to the current folder
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
    if done.returncode:
        sys.exit(f"RecBole failed: {done.stderr[-1500:]}")
    printed: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return float(min(printed["seconds"][1:]))


def against_recbole(case: str, ours: str, theirs: str, n: int, steps: int, folder: Path) -> None:
    """Measures one model on both sides."""
    users, items = pairs_of(n)
    (folder / "pairs").mkdir(exist_ok=True)
    with (folder / "pairs" / "pairs.inter").open("w") as file:
        file.write("user_id:token\titem_id:token\n")
        file.writelines(f"{user}\t{item}\n" for user, item in zip(users.tolist(), items.tolist(), strict=True))
    logged = Logged(users, items, np.ones(n, bool), np.ones(n), USERS, ITEMS)
    mine = {threads: our_epoch(ours, logged, threads, steps) for threads in THREADS}
    other = {threads: their_epoch(theirs, folder, threads, steps) for threads in THREADS}
    details = {
        f"{side} {threads} thread": round(s, 1)
        for side, times in (("ours", mine), ("theirs", other))
        for threads, s in times.items()
    }
    say(case, n / min(mine.values()), n / min(other.values()), "pairs/s", pairs=n, **details)


def bpr_step_vs_sparse(scale: float) -> None:
    """Measures a step over long tables."""
    n_users, n_items, n_steps = max(20 * BATCH, int(1_000_000 * scale)), max(20 * BATCH, int(100_000 * scale)), 40
    rng = np.random.default_rng(0)
    keys = np.unique(rng.integers(0, n_users * n_items, n_steps * BATCH + 1000))[: n_steps * BATCH]
    users, items = np.divmod(keys, n_items)
    logged = Logged(users, items, np.ones(len(keys), bool), np.ones(len(keys)), n_users, n_items)
    torch.set_num_threads(1)
    mine = our_epoch("bpr_mf", logged, 1, 10**9) / n_steps
    sampler = make_sampler(UniformNegatives(per_positive=1), logged, logged)
    generator = torch.Generator().manual_seed(0)
    tables = [torch.nn.Embedding(n, DIMS, sparse=True) for n in (n_users, n_items)]
    optimizer = torch.optim.SparseAdam([table.weight for table in tables], lr=1e-3)
    order, seconds = sampler.epoch(generator), []
    for rows in order.split(BATCH):
        start = time.perf_counter()
        batch = sampler.batch(rows, generator, lambda users, items: items)
        vectors = tables[1](batch.items)
        numbers = (tables[0](batch.users).unsqueeze(1) * vectors).sum(2)
        optimizer.zero_grad()
        (-torch.nn.functional.logsigmoid(numbers[:, 0] - numbers[:, 1])).mean().backward()
        optimizer.step()
        seconds.append(time.perf_counter() - start)
    theirs = float(np.median(seconds[5:]))
    say("bpr-step-vs-sparse", 1 / mine, 1 / theirs, "steps/s", n_users=n_users, n_items=n_items)


def bpr_vs_implicit(n: int) -> None:
    """For the record: measures implicit's compiled BPR and ours."""
    import scipy.sparse as sp
    from implicit.bpr import BayesianPersonalizedRanking

    users, items = pairs_of(n)
    matrix = sp.csr_matrix((np.ones(n, np.float32), (users, items)), (USERS, ITEMS))
    model = BayesianPersonalizedRanking(
        factors=DIMS, iterations=1, num_threads=max(THREADS), use_gpu=False, random_state=1
    )
    model.fit(matrix, show_progress=False)
    seconds = best(lambda: model.fit(matrix, show_progress=False))
    logged = Logged(users, items, np.ones(n, bool), np.ones(n), USERS, ITEMS)
    mine = min(our_epoch("bpr_mf", logged, threads, 10**9) for threads in THREADS)
    say("bpr-vs-implicit", n / mine, n / seconds, "pairs/s", pairs=n)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--only", help="one case")
    given = parser.parse_args()
    n = max(10 * BATCH, int(PAIRS * given.scale))
    with tempfile.TemporaryDirectory(dir=".") as name:
        folder = Path(name)
        cases: dict[str, Callable[[], None]] = {
            "score-vs-bare": lambda: score_vs_bare(given.scale, folder),
            "bpr-vs-peer": lambda: against_recbole("bpr-vs-peer", "bpr_mf", "BPR", n, 10**9, folder),
            "lightgcn-vs-peer": lambda: against_recbole("lightgcn-vs-peer", "lightgcn", "LightGCN", n, 20, folder),
            "knn-vs-implicit": lambda: knn_vs_implicit(given.scale, max(THREADS)),
            "wmf-vs-implicit": lambda: wmf_vs_implicit(given.scale, max(THREADS)),
            "bpr-step-vs-sparse": lambda: bpr_step_vs_sparse(given.scale),
            "bpr-vs-implicit": lambda: bpr_vs_implicit(n),
            "two-processes": lambda: two_processes(given.scale),
        }
        for case, run in cases.items():
            if given.only in (None, case):
                run()


if __name__ == "__main__":
    main()
