"""The one training loop: mini-batches, Adam, early stopping on held-out pairs, checkpoints.

Batch size, epochs and weight decay are those of models/schedule.py. Early stopping needs `patience` epochs and
`patience_steps` steps without a better result.

A pair is held out if hash(seed, user, item) is below the share, so other pairs do not change whether it is. Each epoch
draws from a generator seeded by (seed, epoch): a run on CPU always gives the same weights bit for bit, also if it was
killed and resumed from a checkpoint. The weights of the epoch with the best held-out result are kept; without held-out
pairs, those of the last epoch. A loss that is not finite ends training with an error.
"""

import copy
import math
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from models.adam import Adam, Rows
from models.autodebias import AutoDebiasLoss
from models.backbones.backbone import Backbone, Noise
from models.checkpoint import Checkpoint
from models.doubly_robust import DoublyRobustLoss
from models.errors import DivergedError
from models.host_memory import sent
from models.keyed import Keys, combine, seed_key, stream_seed, unit
from models.losses import WeightedLoss
from models.processes import Processes
from models.samplers import Sampler
from models.schedule import schedule_of
from models.spec.gradient import Gradient
from models.used_rows import Used, compact, even_factors, penalised, rows_of_past, tables_of, used_rows
from models.validation import HeldOutMetric, RandomAuc

READ = 50  # steps between two looks at the loss on a GPU: each look waits for the device
FEW_STEPS, HARDLY = 100, 0.01  # below these, a warning: steps; share by which the loss fell
TrainingLoss = WeightedLoss | DoublyRobustLoss | AutoDebiasLoss


class Task(NamedTuple):
    """A backbone, its loss, the samplers of training and held-out pairs, and the metric of early stopping."""

    backbone: Backbone
    loss: TrainingLoss
    training: Sampler
    held_out: Sampler | None
    metric: HeldOutMetric | RandomAuc | None = None  # None: early stopping uses the held-out loss


class Step(NamedTuple):
    """The state of training after a step, for a progress bar."""

    epoch: int
    done: float  # epochs, with fraction
    loss: float  # mean over the epoch so far
    rate: float  # rows per second


class Fit(NamedTuple):
    """The course of training."""

    epochs: int
    best_epoch: int
    losses: tuple[float, ...]  # per epoch, training
    held_out: tuple[float, ...]  # per epoch, smaller is better; empty without held-out pairs
    warning: str | None = None  # that the schedule was too short, or the model learned hardly anything


def held_out_mask(seed: int, users: Keys, items: Keys, share: float) -> npt.NDArray[np.bool_]:
    """Which pairs are held out, from their keys, shape (n_pairs,)."""
    return unit(combine(combine(seed_key(stream_seed(seed, "held-out")), users), items)) < share


def generator_of(seed: int, *stream: str | int) -> torch.Generator:
    """The generator of one stream of random numbers."""
    return torch.Generator().manual_seed(stream_seed(seed, *stream))


def fit(
    task: Task,
    spec: Gradient,
    seed: int,
    report: Callable[[Step], None],
    checkpoint: Checkpoint | None = None,
    processes: Processes = Processes(),  # noqa: B008 an immutable value
) -> Fit:
    """Trains the task's backbone in place."""
    training = _Training(task, spec, seed, processes)
    if checkpoint is not None and (saved := checkpoint.load()) is not None:
        training.load(saved)
    while not training.ended():
        for step in training.epoch():
            report(step)
            if checkpoint is not None and processes.first and checkpoint.due():
                checkpoint.save(training.state())
    if checkpoint is not None and processes.first:
        checkpoint.save(training.state())  # if scoring is killed, the next run does not train again
    if training.best is not None:
        task.backbone.load_state_dict(training.best)
    return training.course()


class _Training:
    """The state of training, which can be saved and loaded between two steps."""

    def __init__(self, task: Task, spec: Gradient, seed: int, processes: Processes) -> None:
        self.task, self.spec, self.seed, self.processes = task, spec, seed, processes
        self.device = next(task.backbone.parameters()).device
        # AutoDebias updates the parameters of its loss itself, from the random set
        modules = [task.backbone] if isinstance(task.loss, AutoDebiasLoss) else [task.backbone, task.loss]
        self.schedule = schedule_of(spec, task.training)
        # AutoDebias differentiates a step of the backbone, which needs whole gradients
        lazy = not isinstance(task.loss, AutoDebiasLoss)
        self.tables = tables_of(modules, task.backbone.reads_rows, lazy, self.schedule.batch_size)
        self.optimizer = Adam(
            [parameter for module in modules for parameter in module.parameters()],
            spec.learning_rate,
            [table.number for table in self.tables if table.lazy],
        )
        uses = task.training.uses()
        self.factors, self.past = even_factors(uses), rows_of_past(uses["item"]).to(self.device)
        self.losses: list[float] = []
        self.held_out: list[float] = []
        self.best: dict[str, Tensor] | None = None
        self.best_epoch, self.best_step = 0, 0
        self.row, self.total, self.resume = 0, 0.0, None  # of the current epoch
        self.unread: list[tuple[Tensor, int]] = []  # losses on the device, and rows of their batches

    def ended(self) -> bool:
        """Whether all epochs are done, or the held-out result no longer improves."""
        n, spec = len(self.losses), self.spec
        if n >= self.schedule.epochs:
            return True
        return (
            bool(self.held_out)
            and n - self.best_epoch >= spec.patience
            and self.optimizer.t - self.best_step >= spec.patience_steps
        )

    def epoch(self) -> Iterator[Step]:
        """One pass over the epoch's rows, then the held-out result."""
        number, size = len(self.losses) + 1, self.schedule.batch_size
        generator = generator_of(self.seed, "epoch", number)
        order = self.task.training.epoch(generator)
        if self.resume is not None:
            generator.set_state(self.resume)
        self.generator = generator
        n, began, started = len(order), self.row, time.perf_counter()
        while self.row < n:
            rows = order[self.row : self.row + size]
            self.unread.append((self._step(rows, generator), len(rows)))
            self.row += len(rows)
            if self.device.type == "cpu" or len(self.unread) == READ or self.row == n:
                self._read(number)
            yield Step(
                number,
                number - 1 + self.row / n,
                self.total / max(1, self.row - sum(rows for _, rows in self.unread)),
                (self.row - began) / (time.perf_counter() - started),
            )
        self.losses.append(self.total / n)
        self.row, self.total, self.resume = 0, 0.0, None
        self.optimizer.settle()
        self._judge()

    def _read(self, epoch: int) -> None:
        """Adds the losses of the last steps to the epoch's sum."""
        done = self.row - sum(rows for _, rows in self.unread)
        for value, rows in self.unread:
            loss = float(value)
            self._check(loss, epoch, f"step {done // self.schedule.batch_size + 1}")
            self.total += loss * rows
            done += rows
        self.unread = []

    def _step(self, rows: Tensor, generator: torch.Generator) -> Tensor:
        """Makes one step of Adam; returns the batch's mean loss, without the penalty of its rows."""
        backbone, loss = self.task.backbone, self.task.loss
        part = self.processes.part(len(rows))
        whole = self.task.training.batch(rows, generator, self._score)
        found = used_rows(whole, self.spec.by_pair, self.factors)
        used = {side: rows.to(self.device) for side, rows in found.items()} | {"past": self.past}
        for table in self.tables:
            if table.lazy:
                self.optimizer.catch_up(table.number, used[table.side].rows, hold=True)
        batch = whole.rows(part).to(self.device)
        noise = Noise(generator, len(rows), part, self.device)
        share = len(batch.users) / len(rows)
        if isinstance(loss, AutoDebiasLoss):
            loss.learn(backbone, batch, generator, self.processes)
        with self._precision():
            numbers, own = backbone.train_batch(batch.users, batch.items, noise)
        mean = loss(numbers.float(), batch).mean() * share if share else numbers.float().sum()
        if own is not None:
            mean = mean + own * share
        gradients = torch.autograd.grad(mean, self.optimizer.parameters, allow_unused=True, materialize_grads=True)
        added, mean = self._added(list(gradients), used, mean.detach())
        self.optimizer.step(added)
        backbone.project()
        return mean

    def _added(
        self, gradients: list[Tensor], used: dict[str, Used], mean: Tensor
    ) -> tuple[list[Tensor | Rows], Tensor]:
        """The sums of gradients and loss over all processes, of a table the batch's rows alone, with the penalty."""
        sent = list(gradients)
        for table in self.tables:
            if table.lazy or (table.read_by_row and self.processes.size > 1):
                sent[table.number] = compact(gradients[table.number], used[table.side])
        *summed, mean = self.processes.added([*sent, mean])
        added: list[Tensor | Rows] = list(summed)
        for table in self.tables:
            number, rows = table.number, used[table.side]
            if table.lazy:
                added[number] = Rows(rows.rows, summed[number])
            elif len(summed[number]) != len(gradients[number]) or sent[number] is not gradients[number]:
                added[number] = gradients[number].index_copy_(0, rows.rows, summed[number])
            added[number] = penalised(added[number], table, rows, self.schedule.decay[table.side])
        return added, mean

    @torch.no_grad()
    def _score(self, users: Tensor, items: Tensor) -> Tensor:
        """Scores of the current backbone, for samplers that choose hard negatives."""
        for table in self.tables:
            if table.lazy:
                rows = (users if table.side == "user" else items).unique()
                self.optimizer.catch_up(table.number, sent(rows, self.device))
        numbers: Tensor = self.task.backbone(sent(users, self.device), sent(items, self.device))
        return numbers

    def _precision(self) -> AbstractContextManager[Any]:
        """The number format of the forward pass."""
        wanted = self.spec.precision
        if wanted == "auto":
            wanted = "bfloat16" if self.device.type == "cuda" and torch.cuda.is_bf16_supported() else "float32"
        return torch.autocast(self.device.type, torch.bfloat16) if wanted == "bfloat16" else nullcontext()

    def _judge(self) -> None:
        """Computes the held-out result of the last epoch, and keeps its weights if it is the best so far."""
        if self.task.metric:
            result = -self.task.metric(self.task.backbone.scorer())
        elif self.task.held_out:
            result = self._held_out_loss(self.task.held_out)
        else:
            self.best_epoch, self.best_step = len(self.losses), self.optimizer.t
            return
        result = self.processes.agreed(result)
        self.held_out.append(result)
        if result < min(self.held_out[:-1], default=math.inf):
            self.best, self.best_epoch = copy.deepcopy(self.task.backbone.state_dict()), len(self.losses)
            self.best_step = self.optimizer.t

    @torch.no_grad()
    def _held_out_loss(self, held_out: Sampler) -> float:
        """The mean loss of the held-out pairs, with the same draws after every epoch."""
        generator = generator_of(self.seed, "held-out")
        order, sums, n = held_out.epoch(generator), [], 0
        for at in range(0, len(order), size := self.schedule.batch_size):
            batch = held_out.batch(order[at : at + size], generator, self._score).to(self.device)
            losses = self.task.loss(self.task.backbone(batch.users, batch.items).float(), batch)
            sums.append(losses.sum())  # read at the end: on a GPU each look waits
            n += losses.numel()
        result = math.fsum(float(value) for value in sums) / n
        self._check(result, len(self.losses), "its held-out pairs")
        return result

    def course(self) -> Fit:
        """The course of training, with a warning where the schedule did not suit the data."""
        return Fit(len(self.losses), self.best_epoch, tuple(self.losses), tuple(self.held_out), self._warning())

    def _warning(self) -> str | None:
        """What is wrong with the schedule, and what helps."""
        name, steps, n = self.spec.name, self.best_step, len(self.losses)
        if self.held_out and self.best_epoch == n == self.schedule.epochs:
            return (
                f"model {name}: the held-out result was still getting better in the last of {n} epochs. Raise epochs."
            )
        if self.held_out and steps < FEW_STEPS:
            return (
                f"model {name}: the weights kept are those after {steps} steps; later ones were worse on the held-out "
                f"pairs. Lower learning_rate ({self.spec.learning_rate:g} now) or batch_size "
                f"({self.schedule.batch_size:,} now)."
            )
        fell = self.losses[0] - min(self.losses)
        if n > 1 and fell < HARDLY * abs(self.losses[0]):
            return (
                f"model {name}: the loss hardly moved in {self.optimizer.t:,} steps, from {self.losses[0]:.4g} to "
                f"{min(self.losses):.4g}. Raise learning_rate ({self.spec.learning_rate:g} now) or lower weight_decay "
                f"({max(self.schedule.decay.values()):g} now)."
            )
        return None

    def _check(self, loss: float, epoch: int, where: str) -> None:
        """Raises an error if the loss is NaN or infinite."""
        if not math.isfinite(loss):
            spec = self.spec
            raise DivergedError(
                f"model {spec.name}: the loss is {loss} in epoch {epoch}, {where}: {self._cause()}. "
                f"Lower learning_rate ({spec.learning_rate:g} now), or raise weight_decay or the propensity floor."
            )

    def _cause(self) -> str:
        """Whether a parameter is not finite, or only the output for this batch."""
        for name, value in self.task.backbone.named_parameters():
            if not torch.isfinite(value).all():
                return f"the parameter {name} is no longer finite, because earlier steps were too large"
        largest = max(float(value.detach().abs().max()) for value in self.task.backbone.parameters())
        return f"all parameters are finite (largest absolute value {largest:.3g}), but their products are not"

    def state(self) -> dict[str, Any]:
        """The state for a checkpoint."""
        self._read(len(self.losses) + 1)
        return {
            "backbone": self.task.backbone.state_dict(),
            "loss": self.task.loss.state_dict(),
            "optimizer": self.optimizer.state(),
            "generator": self.generator.get_state() if self.row else None,
            "row": self.row,
            "total": self.total,
            "losses": self.losses,
            "held_out": self.held_out,
            "best": self.best,
            "best_epoch": self.best_epoch,
            "best_step": self.best_step,
        }

    def load(self, state: dict[str, Any]) -> None:
        """Restores the state of a checkpoint."""
        self.task.backbone.load_state_dict(state["backbone"])
        self.task.loss.load_state_dict(state["loss"])
        self.optimizer.load(state["optimizer"])
        self.resume, self.row, self.total = state["generator"], state["row"], state["total"]
        self.losses, self.held_out = list(state["losses"]), list(state["held_out"])
        self.best, self.best_epoch, self.best_step = state["best"], state["best_epoch"], state["best_step"]
