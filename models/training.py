"""The one training loop: mini-batches, Adam, early stopping on the held-out loss.

A pair is held out if hash(seed, user, item) falls below the share, so the split does not move when other pairs come or go. Each epoch draws
from a generator seeded by (seed, epoch): a run on CPU gives the same weights bit for bit, every time. The weights of the epoch with the
least held-out loss are kept; without held-out pairs, those of the last epoch. A loss that is not finite ends training with an error.
"""

import copy
import math
import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from models.adam import Adam
from models.errors import TrainingError
from models.keyed import Keys, combine, seed_key, stream_seed, unit
from models.losses import Loss
from models.samplers import Pairs, Sampler
from models.spec import Gradient


class Task(NamedTuple):
    """A backbone, the loss it minimises and where its examples come from."""

    backbone: nn.Module
    loss: Loss
    training: Sampler
    held_out: Sampler | None


class Step(NamedTuple):
    """What a progress bar shows after a step."""

    epoch: int
    done: float  # epochs, with fraction
    loss: float  # mean over the epoch so far
    rate: float  # examples per second


class Fit(NamedTuple):
    """What training came to."""

    epochs: int
    best_epoch: int
    losses: tuple[float, ...]  # per epoch, training
    held_out: tuple[float, ...]  # per epoch; empty without held-out pairs


def held_out_mask(seed: int, users: Keys, items: Keys, share: float) -> npt.NDArray[np.bool_]:
    """Which pairs are held out, by their keys, shape (n_pairs,)."""
    return unit(combine(combine(seed_key(stream_seed(seed, "held-out")), users), items)) < share


def generator_of(seed: int, *stream: str | int) -> torch.Generator:
    """The random numbers of one stream."""
    return torch.Generator().manual_seed(stream_seed(seed, *stream))


def fit(task: Task, spec: Gradient, seed: int, report: Callable[[Step], None]) -> Fit:
    """Train the task's backbone in place."""
    device = next(task.backbone.parameters()).device
    optimizer = Adam(task.backbone.parameters(), spec.learning_rate, spec.weight_decay)
    held_out_pairs = None if task.held_out is None else _to(task.held_out.draw(generator_of(seed, "held-out")), device)
    losses: list[float] = []
    held_out: list[float] = []
    best, best_epoch = None, spec.epochs
    for epoch in range(1, spec.epochs + 1):
        losses.append(_epoch(task, optimizer, spec, seed, epoch, report))
        if held_out_pairs is None:
            continue
        held_out.append(_mean_loss(task, held_out_pairs, spec.batch_size))
        _check(held_out[-1], spec, epoch, "its held-out pairs")
        if held_out[-1] < min(held_out[:-1], default=math.inf):
            best, best_epoch = copy.deepcopy(task.backbone.state_dict()), epoch
        elif epoch - best_epoch >= spec.patience:
            break
    if best is not None:
        task.backbone.load_state_dict(best)
    return Fit(len(losses), best_epoch, tuple(losses), tuple(held_out))


def _epoch(task: Task, optimizer: Adam, spec: Gradient, seed: int, epoch: int, report: Callable[[Step], None]) -> float:
    """One pass over the epoch's examples; their mean loss on the way."""
    device = next(task.backbone.parameters()).device
    generator = generator_of(seed, "epoch", epoch)
    pairs = task.training.draw(generator)
    n = len(pairs.users)
    pairs = _to(_rows(pairs, torch.randperm(n, generator=generator)), device)
    total, started = 0.0, time.perf_counter()
    for step, first in enumerate(range(0, n, spec.batch_size), start=1):
        last = min(first + spec.batch_size, n)
        loss = task.loss(task.backbone, _rows(pairs, slice(first, last))).mean()
        value = loss.item()
        _check(value, spec, epoch, f"step {step}")
        optimizer.step(torch.autograd.grad(loss, optimizer.parameters))  # returned, not added up: there is nothing to reset
        total += value * (last - first)
        report(Step(epoch, epoch - 1 + last / n, total / last, last / (time.perf_counter() - started)))
    return total / n


@torch.no_grad()
def _mean_loss(task: Task, pairs: Pairs, batch_size: int) -> float:
    """The mean loss, batch by batch."""
    n = len(pairs.users)
    return math.fsum(task.loss(task.backbone, _rows(pairs, slice(at, at + batch_size))).sum().item() for at in range(0, n, batch_size)) / n


def _check(loss: float, spec: Gradient, epoch: int, where: str) -> None:
    """An error if the loss is NaN or infinite."""
    if not math.isfinite(loss):
        raise TrainingError(
            f"model {spec.name}: the loss is {loss} in epoch {epoch}, {where}. Lower learning_rate ({spec.learning_rate:g} now), "
            "or raise weight_decay or the propensity floor."
        )


def _rows(pairs: Pairs, rows: torch.Tensor | slice) -> Pairs:
    """The same rows of every tensor."""
    return type(pairs)(*(tensor[rows] for tensor in pairs))


def _to(pairs: Pairs, device: torch.device) -> Pairs:
    """Every tensor on the device."""
    return type(pairs)(*(tensor.to(device) for tensor in pairs))
