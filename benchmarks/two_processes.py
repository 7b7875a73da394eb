"""Speed of a training step by two processes against one, each on one thread of the same machine.

    python -m benchmarks.models --only two-processes            (it is in make bench-models)

Every process draws the whole batch and applies the whole update, so that both learn from the same examples; forward and
backward pass are of its own rows. So two processes gain where these passes are most of a step: the case measures NeuMF
with vectors of 256, 200,000 users x 50,000 items, 8,192 rows, four negatives per row. Beside it stand, in seconds of a
step by one and by two processes, NeuMF with vectors of 64, whose passes are half of a step, and BPR-MF, whose passes
are less: these are slower by two processes. Processes run in turns, best of three; the losses of both sides must be the
same up to rounding.
"""

import json
import os
import sys
import tempfile
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch.multiprocessing.spawn import spawn

from benchmarks.measure import REPEATS, say
from models.backbones.make_backbone import make_backbone
from models.logged import Logged
from models.losses import make_loss
from models.processes import Processes
from models.samplers import make_sampler
from models.spec.gradient import MF, NeuMF
from models.spec.losses import AutoDebias
from models.spec.train import MODEL
from models.training import Step, Task, fit, generator_of

USERS, ITEMS, ROWS, STEPS = 200_000, 50_000, 8192, 12
MODELS = (("neumf", 256), ("neumf", 64), ("bpr_mf", 64))  # and the size of their vectors
WARM = 3  # steps that are not measured
WAIT = timedelta(minutes=10)


def two_processes(scale: float) -> None:
    """Measures one process and two, of each model."""
    took = {}
    for model, dims in MODELS:
        sides: dict[int, list[dict[str, float]]] = {1: [], 2: []}
        for _ in range(REPEATS):
            for size, runs in sides.items():
                runs.append(_run(model, dims, size, scale))
        losses = [run["loss"] for runs in sides.values() for run in runs]
        if max(losses) - min(losses) > 1e-4 * max(losses):
            sys.exit(f"two-processes: {model} has other losses by two processes than by one: {losses}")
        took[f"{model} {dims}"] = [round(min(run["seconds"] for run in runs), 4) for runs in sides.values()]
    one, two = took["neumf 256"]
    say("two-processes", 1 / two, 1 / one, "steps/s", cores=os.cpu_count(), n_rows=ROWS, seconds=took)


def _run(model: str, dims: int, size: int, scale: float) -> dict[str, float]:
    """Seconds of a step, and the loss of the last one, as the first process has them."""
    with tempfile.TemporaryDirectory() as folder:
        spawn(_process, (model, dims, size, scale, folder), nprocs=size)
        told: dict[str, float] = json.loads((Path(folder) / "told.json").read_text())
        return told


def _process(rank: int, model: str, dims: int, size: int, scale: float, folder: str) -> None:
    """One of the processes."""
    torch.set_num_threads(1)
    if size > 1:
        dist.init_process_group("gloo", f"file://{folder}/store", rank=rank, world_size=size, timeout=WAIT)
    rng = np.random.default_rng(0)
    n_users, n_items = max(1000, int(USERS * scale)), max(500, int(ITEMS * scale))
    keys = np.unique(rng.integers(0, n_users * n_items, STEPS * ROWS + 1000))[: STEPS * ROWS]
    users, items = np.divmod(keys, n_items)
    logged = Logged(users, items, np.ones(len(keys), bool), np.ones(len(keys)), n_users, n_items)
    settings: dict[str, Any] = {"model": model, "dims": dims, "batch_size": ROWS, "epochs": 1}
    spec = MODEL.validate_python(settings)
    assert isinstance(spec, MF | NeuMF)
    assert not isinstance(spec.loss, AutoDebias)
    generator = generator_of(0, "init")
    task = Task(
        make_backbone(spec, logged, 0.0, generator),
        make_loss(spec.loss, logged, generator),
        make_sampler(spec.sampler, logged, logged),
        None,
    )
    times: list[float] = []

    def report(step: Step) -> None:
        times.append(time.perf_counter())

    result = fit(task, spec, 0, report, processes=Processes(rank, size))
    if rank == 0:
        told = {"seconds": float(np.diff(times)[WARM:].min()), "loss": result.losses[-1]}
        (Path(folder) / "told.json").write_text(json.dumps(told))
    if size > 1:
        dist.destroy_process_group()
