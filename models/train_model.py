"""Train one model of a run with torch, and write its score table or its ranks.

    train_model(job, spec, data, positive, progress, processes)   ->   how it went

A trial of a search that fails for its settings or its data is not an error here: the trial says so.
"""

import hashlib
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from rich.progress import Progress
from torch import nn

from eval_engine.errors import ConfigError, DataError
from eval_engine.positive import Positive
from models.errors import TrainingError
from models.fused import Ranked, write_fused
from models.interactions import Interactions
from models.learning import Ground, Learned, Unfinished, learn, low_name
from models.logged_propensity import RunPropensities
from models.made_from import hash_of
from models.processes import Processes
from models.score_table import Content, Layout, write_scores
from models.scorer import Scorer
from models.spec.train import Model, Train
from models.train import Job, Ranking
from models.trials_table import Trial

CHECKPOINTS = "_checkpoints"  # in the folder of scores; Spark and Arrow read no name with _


def train_model(
    job: Job,
    spec: Train,
    data: Interactions,
    positive: Positive,
    progress: Progress,
    processes: Processes,
    propensities: RunPropensities | None = None,
) -> Trial:
    """Train and write one model; a trial of a search that fails is a trial with an error."""
    ground = Ground(
        data,
        positive,
        spec.seed_of(job.model),
        device_of(spec.device),
        progress,
        processes,
        _unfinished(job, spec),
        propensities,
    )
    started = time.monotonic()
    if ground.device.type == "cuda":
        torch.set_float32_matmul_precision("high")  # TF32: of matrix products on a GPU
    try:
        learned = _ranked(job, spec, ground) if isinstance(job.target, Ranking) else _scored(job, spec, ground)
    except (DataError, TrainingError) as error:
        _forget(job.model, ground)  # it would fail again
        if job.model.name not in spec.trials:
            raise
        return Trial(job.model, job.trained_from, None, time.monotonic() - started, str(error))
    _forget(job.model, ground)
    return Trial(job.model, job.inputs, learned.fit, time.monotonic() - started, held_out=learned.held_out)


def _unfinished(job: Job, spec: Train) -> Unfinished | None:
    """Where training that is stopped is kept; None: nowhere."""
    folder = spec.checkpoints or (f"{spec.scores}/{CHECKPOINTS}" if spec.scores else None)
    if folder is None:
        return None
    return Unfinished(Path(folder), hash_of(job.trained_from, spec.threads), spec.checkpoint_minutes)


def _forget(model: Model, ground: Ground) -> None:
    """Remove the checkpoints of a model whose training is over."""
    ground.processes.wait()
    if ground.unfinished and ground.processes.first:
        for name in (model.name, low_name(model.name)):
            ground.unfinished.of(name).remove()


def _ranked(job: Job, spec: Train, ground: Ground) -> Learned:
    """The model, trained, and its ranks written."""
    with _threads(spec.threads):
        learned = learn(job.model, ground)
    if ground.processes.first:
        assert isinstance(job.target, Ranking)
        _rank(Ranked(job.model.name, job.inputs, learned.scorer), job.target, spec.threads, ground.progress)
    return learned


def _scored(job: Job, spec: Train, ground: Ground) -> Learned:
    """The model, trained, and its score table written."""
    assert isinstance(job.target, Layout)
    data, name = ground.data, job.model.name
    with _threads(spec.threads):
        learned = learn(job.model, ground)
        made = hash_of(job.inputs, _weights_digest(learned.scorer), spec.threads)
        content = Content(name, data.user_ids, data.n_items, job.inputs, made)
        _write(Path(spec.scores or "") / name, content, learned.scorer, job.target, ground)
    return learned


def device_of(name: str) -> torch.device:
    """The device a config names, if this machine has it."""
    if name == "cuda" and not torch.cuda.is_available():
        raise ConfigError(
            "train.device is cuda, but torch finds no CUDA device here. Set it to cpu, or to auto to use one where "
            "there is one."
        )
    if name == "cpu" or not torch.cuda.is_available():
        return torch.device("cpu")
    # of several processes on a machine, each has a GPU of its own
    return torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))


@contextmanager
def _threads(n: int) -> Iterator[None]:
    """Torch on n CPU threads, and then on as many as before: rounding depends on the number, so it is never that of
    the machine's cores."""
    before = torch.get_num_threads()
    torch.set_num_threads(n)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _write(folder: Path, content: Content, scorer: Scorer, layout: Layout, ground: Ground) -> None:
    """The score table, with a bar of its own."""
    n_users, progress, size = len(content.user_ids), ground.progress, ground.processes.size
    bar = progress.add_task(
        f"score {content.model}", total=n_users, note=f"{n_users:,} users x {content.n_items:,} items"
    )
    write_scores(folder, content, scorer, layout, lambda users: progress.advance(bar, users * size), ground.processes)


def _rank(ranked: Ranked, ranking: Ranking, threads: int, progress: Progress) -> None:
    """The model's ranks, with a bar of their own; torch on one thread, since each block has a thread to itself."""
    n_users = ranking.labels.rows.num_rows
    bar = progress.add_task(
        f"rank {ranked.model}", total=n_users, note=f"{n_users:,} users x {len(ranking.labels.item_ids):,} items"
    )
    with _threads(1):
        write_fused(ranked, ranking.labels, ranking.run, threads, lambda users: progress.advance(bar, users))


def _weights_digest(scorer: Scorer) -> str:
    """A hash of what was learned; empty for a model that follows from its inputs alone."""
    if not isinstance(scorer, nn.Module):
        return ""
    sha = hashlib.sha256()
    for name, tensor in scorer.state_dict().items():
        sha.update(name.encode())
        sha.update(tensor.cpu().contiguous().numpy())
    return sha.hexdigest()
