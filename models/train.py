"""Train every model of a config and write its score table, or rank it as it is scored (output: ranks) and write its ranks.

    train_all(spec, feedback, catalogue, users, positive, progress, run)   ->   a Trial for each model

The hash of the model's spec, the seed, the rule of positives and the data, and of the layout or the labels, says what is made from what: where a
finished table, or the run's ranks in the lake, has the same, the model is skipped. Training that was stopped goes on from its checkpoint, and scoring from
the shards that are whole.
"""

import hashlib
import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import torch
from rich.progress import Progress
from torch import nn

from eval_engine.config import Input
from eval_engine.errors import ConfigError
from eval_engine.positive import Positive
from models.errors import DivergedError, TrainingError
from models.fused import Ranked, Run, write_fused
from models.interactions import Interactions, read_interactions, read_random_set
from models.label_lists import LabelLists, read_label_lists
from models.learning import Ground, Learned, Unfinished, learn, low_name
from models.processes import Processes, joined
from models.ranks_table import make_ranks_table, ranked_from
from models.score_table import Content, Layout, finished, layout_of, write_scores
from models.scorer import Scorer
from models.spec.losses import AutoDebias
from models.spec.train import Model, Train
from models.trials_table import Trial

REVISION = 2  # raise it when a change of this package changes scores: tables made before are then made again
CHECKPOINTS = "_checkpoints"  # in the folder of scores; Spark and Arrow read no name with _


def train_all(
    spec: Train,
    feedback: Input,
    catalogue: Input,
    users: Input | None,
    positive: Positive,
    progress: Progress,
    run: Run | None = None,
    note: Callable[[Trial], None] = lambda trial: None,
) -> list[Trial]:
    """Train and write every model that is not there yet. `run` is needed by models that write ranks; `note` hears of each model when it is done."""
    device = device_of(spec.device)
    trials: list[Trial] = []
    with joined(device) as processes:
        if not processes.first:
            progress.disable = True
        data = read_interactions(feedback, catalogue, users)
        ranking = _ranking(spec, run, data, processes)
        ground, digest = Ground(data, positive, spec.seed, device, progress, processes), data.digest()
        fused, may_fail = set(spec.fused_models()), set(spec.trials)
        for model in spec.panel:
            trained_from = _trained_from(model, spec, ground, digest)
            trials.append(_one(model, spec, ground, ranking if model.name in fused else None, trained_from))
            if trials[-1].error and model.name not in may_fail:
                raise TrainingError(trials[-1].error)
            if processes.first:
                note(trials[-1])
    return trials


def _one(model: Model, spec: Train, ground: Ground, ranking: "_Ranking | None", trained_from: str) -> Trial:
    """Train and write one model, unless it is there; training that goes astray is told in the trial."""
    if folder := spec.checkpoints or (f"{spec.scores}/{CHECKPOINTS}" if spec.scores else None):
        ground = ground._replace(
            unfinished=Unfinished(Path(folder), _hash(trained_from, spec.threads), spec.checkpoint_minutes)
        )
    started = time.monotonic()
    try:
        if ranking:
            inputs, learned = _ranked(model, spec, ground, ranking, trained_from)
        else:
            inputs, learned = _scored(model, spec, ground, trained_from)
    except DivergedError as error:
        _forget(model, ground)  # it would go astray again
        return Trial(model, trained_from, None, time.monotonic() - started, str(error))
    if learned is None:
        return Trial(model, inputs, None, None)
    _forget(model, ground)
    return Trial(model, inputs, learned.fit, time.monotonic() - started)


def _forget(model: Model, ground: Ground) -> None:
    """Remove the checkpoints of a model that is done with."""
    ground.processes.wait()
    if ground.unfinished and ground.processes.first:
        for name in (model.name, low_name(model.name)):
            ground.unfinished.of(name).remove()


def _ranked(
    model: Model, spec: Train, ground: Ground, ranking: "_Ranking", trained_from: str
) -> tuple[str, Learned | None]:
    """What the model's ranks are made from, and the model, if they were not there yet."""
    run = ranking.run
    inputs = _hash(trained_from, ranking.digest, run.frame, run.top)
    if _agreed(ground.processes, ranked_from(run.table, run.run_id, model.name) == {inputs}):
        return inputs, None
    with _threads(spec.threads):
        learned = learn(model, ground)
    if ground.processes.first:
        _rank(Ranked(model.name, inputs, learned.scorer), ranking, spec.threads, ground.progress)
    return inputs, learned


def _scored(model: Model, spec: Train, ground: Ground, trained_from: str) -> tuple[str, Learned | None]:
    """What the model's score table is made from, and the model, if it was not there yet."""
    data, table = ground.data, Path(spec.scores or "") / model.name
    layout = layout_of(data.user_ids, data.n_items, spec.block_mb, spec.shard_mb)
    inputs = _hash(trained_from, layout)
    if _agreed(ground.processes, finished(table, inputs)):
        return inputs, None
    with _threads(spec.threads):
        learned = learn(model, ground)
        content = Content(
            model.name,
            data.user_ids,
            data.n_items,
            inputs,
            _hash(inputs, _weights_digest(learned.scorer), spec.threads),
        )
        _write(table, content, learned.scorer, layout, ground)
    return inputs, learned


def _agreed(processes: Processes, done: bool) -> bool:
    """What all processes saw, before one of them changes it."""
    processes.wait()
    return done


class _Ranking(NamedTuple):
    """What the models that write ranks share."""

    run: Run
    labels: LabelLists
    digest: str


def _ranking(spec: Train, run: Run | None, data: Interactions, processes: Processes) -> _Ranking | None:
    """The labels, read and judged, and a table to write to: what is wrong with either is told before any training."""
    if not spec.fused_models():
        return None
    if run is None:
        raise ConfigError(
            f"train: {spec.fused_models()[0]} has output: ranks, which needs a run with a lake to write to. Train it by jobs/train.py."
        )
    labels = read_label_lists(run.inputs, data.user_ids, data.item_ids, run.frame, run.on_bad_rows)
    if processes.first:
        make_ranks_table(run.table, data.user_ids.type)
    processes.wait()
    return _Ranking(run, labels, labels.digest())


def device_of(name: str) -> torch.device:
    """The device a config names, if this machine has it."""
    if name == "cuda" and not torch.cuda.is_available():
        raise ConfigError(
            "train.device is cuda, but torch finds no CUDA device here. Set it to cpu, or to auto to use one where there is one."
        )
    if name == "cpu" or not torch.cuda.is_available():
        return torch.device("cpu")
    return torch.device(
        "cuda", int(os.environ.get("LOCAL_RANK", "0"))
    )  # of several processes on a machine, each has a GPU of its own


@contextmanager
def _threads(n: int) -> Iterator[None]:
    """Torch on n CPU threads, and then on as many as before: rounding depends on it, so it is never the machine's number of cores."""
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


def _rank(ranked: Ranked, ranking: _Ranking, threads: int, progress: Progress) -> None:
    """The model's ranks, with a bar of their own; torch on one thread, since each block has a thread to itself."""
    n_users = ranking.labels.rows.num_rows
    bar = progress.add_task(
        f"rank {ranked.model}", total=n_users, note=f"{n_users:,} users x {len(ranking.labels.item_ids):,} items"
    )
    with _threads(1):
        write_fused(ranked, ranking.labels, ranking.run, threads, lambda users: progress.advance(bar, users))


def _trained_from(model: Model, spec: Train, ground: Ground, digest: str) -> str:
    """A hash of all that the model's weights follow from; `digest` is that of the feedback."""
    loss = getattr(model, "loss", None)
    random = read_random_set(loss.random, ground.data).digest() if isinstance(loss, AutoDebias) else ""
    return _hash(
        REVISION,
        model.model_dump(exclude={"output"}),
        spec.seed,
        ground.device.type,
        str(ground.positive),
        digest,
        random,
    )


def _weights_digest(scorer: Scorer) -> str:
    """A hash of what was learned; empty for a model that follows from its inputs alone."""
    if not isinstance(scorer, nn.Module):
        return ""
    sha = hashlib.sha256()
    for name, tensor in scorer.state_dict().items():
        sha.update(name.encode())
        sha.update(tensor.cpu().contiguous().numpy())
    return sha.hexdigest()


def _hash(*parts: object) -> str:
    """A hash of values that JSON can hold."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()
