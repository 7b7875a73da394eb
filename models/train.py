"""Train every model of a config and write its score table.

    train_all(spec, feedback, catalogue, users, positive, progress)  ->  [("mf", Path("scores/mf")), ...]

The hash of the model's spec, the seed, the rule of positives, the data and the layout says what a table is made from: where a finished table
has the same, the model is skipped. If training was done but not all shards were written, the model is trained again, and shards
of the same weights are kept.
"""

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch
from rich.progress import Progress
from torch import nn

from eval_engine.config import Input
from eval_engine.errors import ConfigError, DataError
from eval_engine.positive import Positive
from models.baselines import PopularityScorer, RandomScorer
from models.interactions import Interactions, read_interactions
from models.keyed import id_keys
from models.losses import make_loss
from models.mf import MatrixFactorisation
from models.samplers import Logged, make_sampler
from models.score_table import Content, Layout, finished, layout_of, write_scores
from models.scorer import Scorer
from models.spec import MF, Model, Popularity, Random, Train
from models.training import Step, Task, fit, generator_of, held_out_mask

REVISION = 1  # raise it when a change of this package changes scores: tables made before are then made again


def train_all(spec: Train, feedback: Input, catalogue: Input, users: Input | None, positive: Positive, progress: Progress) -> list[tuple[str, Path]]:
    """Train and write every model that is not there yet; name and folder of each."""
    device = device_of(spec.device)
    data = read_interactions(feedback, catalogue, users)
    layout = layout_of(data.user_ids, data.n_items, spec.block_mb, spec.shard_mb)
    digest = data.digest()
    tables = []
    for model in spec.models:
        folder = Path(spec.scores) / model.name
        inputs = _hash(REVISION, model.model_dump(), spec.seed, device.type, str(positive), digest, layout)
        if not finished(folder, inputs):
            with _threads(spec.threads):
                scorer = train(model, data, positive, spec.seed, device, progress)
                content = Content(model.name, data.user_ids, data.n_items, inputs, _hash(inputs, _weights_digest(scorer), spec.threads))
                _write(folder, content, scorer, layout, progress)
        tables.append((model.name, folder))
    return tables


def device_of(name: str) -> torch.device:
    """The device a config names, if this machine has it."""
    if name == "cuda" and not torch.cuda.is_available():
        raise ConfigError("train.device is cuda, but torch finds no CUDA device here. Set it to cpu, or to auto to use one where there is one.")
    return torch.device("cuda" if name != "cpu" and torch.cuda.is_available() else "cpu")


@contextmanager
def _threads(n: int) -> Iterator[None]:
    """Torch on n CPU threads, and then on as many as before: rounding depends on it, so it is never the machine's number of cores."""
    before = torch.get_num_threads()
    torch.set_num_threads(n)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def train(model: Model, data: Interactions, positive: Positive, seed: int, device: torch.device, progress: Progress) -> Scorer:
    """One trained model."""
    logged = Logged(data.users, data.items, positive.of(data.values), data.n_items)
    match model:
        case Random():
            return RandomScorer(seed, id_keys(data.user_ids), id_keys(data.item_ids))
        case Popularity():
            return PopularityScorer(logged.items, logged.positive, logged.n_items)
        case MF():
            return _train_mf(model, data, logged, seed, device, progress)


def _train_mf(model: MF, data: Interactions, logged: Logged, seed: int, device: torch.device, progress: Progress) -> MatrixFactorisation:
    """Matrix factorisation under the config's loss and sampler."""
    held = held_out_mask(seed, id_keys(data.user_ids)[data.users], id_keys(data.item_ids)[data.items], model.validation_share)
    seen = logged.where(~held)
    training = make_sampler(model.sampler, seen, seen)
    first = training.draw(generator_of(seed, "base"))
    if not 0 < (share := float(first.labels.mean()) if len(first.labels) else 0.0) < 1:
        raise DataError(
            f"model {model.name}: of {len(seen.users):,} training pairs, {int(seen.positive.sum()):,} are positive; with sampler {model.sampler.kind} "
            "nothing can be told apart. Check the rule `positive` against the values of the feedback, or lower validation_share."
        )
    base = float(np.log(share / (1 - share)))
    backbone = MatrixFactorisation(data.n_users, data.n_items, model.dims, base, generator_of(seed, "init")).to(device)
    held_out = make_sampler(model.sampler, logged.where(held), logged)
    has_held_out = len(held_out.draw(generator_of(seed, "held-out")).labels) > 0
    task = Task(backbone, make_loss(model.loss, logged, device), training, held_out if has_held_out else None)
    bar = progress.add_task(f"train {model.name}", total=model.epochs, note="")

    def report(step: Step) -> None:
        progress.update(bar, completed=step.done, note=f"epoch {step.epoch}  loss {step.loss:.4f}  {step.rate:,.0f} pairs/s")

    result = fit(task, model, seed, report)
    progress.update(bar, total=result.epochs, completed=result.epochs)
    return backbone


def _write(folder: Path, content: Content, scorer: Scorer, layout: Layout, progress: Progress) -> None:
    """The score table, with a bar of its own."""
    n_users = len(content.user_ids)
    bar = progress.add_task(f"score {content.model}", total=n_users, note=f"{n_users:,} users x {content.n_items:,} items")
    write_scores(folder, content, scorer, layout, lambda users: progress.advance(bar, users))


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
