"""Trains one model: a baseline from counts, a gradient model by the training loop, an ensemble as two of these.

    learn(model, Ground(data, positive, seed=7, device, progress))   ->   a Scorer, and the course of training

A held-out pair is in no sampler, graph or history of training.
"""

from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from rich.progress import Progress

from eval_engine.errors import DataError
from eval_engine.positive import Positive
from models.autodebias import AutoDebiasLoss
from models.backbones.make_backbone import make_backbone
from models.baselines.baseline import make_baseline
from models.checkpoint import Checkpoint
from models.device_scorer import DeviceScorer
from models.ensemble import EnsembleScorer, HeldOutParts, held_out_result, low_items, low_only
from models.interactions import Interactions, read_random_set
from models.keyed import id_keys
from models.logged import Logged, logged_of
from models.logged_propensity import RunPropensities, logged_propensity
from models.losses import make_loss
from models.plain_loss import plain_loss
from models.processes import Processes
from models.propensity import Given
from models.samplers import Sampler, held_out_sampler, make_sampler
from models.schedule import schedule_of
from models.scorer import Scorer
from models.spec.baselines import Baseline
from models.spec.ensemble import Ensemble
from models.spec.gradient import PAIRWISE, RANDOM_AUC, Backbone
from models.spec.losses import AutoDebias, Mse
from models.spec.samplers import AllPairs
from models.spec.train import Model
from models.training import Fit, Step, Task, TrainingLoss, fit, generator_of, held_out_mask
from models.validation import HeldOutMetric, RandomAuc

BASE_ROWS = 1 << 16  # rows of the sampler from which the average label is estimated


class Unfinished(NamedTuple):
    """Where checkpoints of unfinished training are written, and how often."""

    folder: Path
    made_from: str  # hash of everything that the weights depend on
    minutes: float

    def of(self, model: str) -> Checkpoint:
        """The checkpoint of one model."""
        return Checkpoint(self.folder / f"{model}.pt", model, self.made_from, self.minutes)


class Ground(NamedTuple):
    """What all models of a run share: data, rule of positives, seed, device, progress bars, processes, checkpoints."""

    data: Interactions
    positive: Positive
    seed: int
    device: torch.device
    progress: Progress
    processes: Processes = Processes()
    unfinished: Unfinished | None = None  # None: no checkpoints
    propensities: RunPropensities | None = None  # of the run's stage propensity


class Learned(NamedTuple):
    """A trained model, and the course of its training; None if it is not trained by gradient."""

    scorer: Scorer
    fit: Fit | None
    held_out: float | None = None  # of the best epoch: the metric, or a loss that other trials can be compared by


def learn(model: Model, ground: Ground) -> Learned:
    """Trains one model."""
    logged = logged_of(ground.data, ground.positive)
    if isinstance(model, Baseline):
        bar = ground.progress.add_task(f"train {model.name}", total=1.0, note="")

        def report_share(done: float) -> None:
            ground.progress.update(bar, completed=done)

        threads = torch.get_num_threads()
        return Learned(make_baseline(model, ground.data, logged, ground.seed, report_share, threads), None)
    if isinstance(model, Ensemble):
        base = _by_gradient(model.base.model_copy(update={"name": model.name}), logged, ground)
        low = _by_gradient(
            model.base.model_copy(update={"name": low_name(model.name)}), low_only(logged, model.low_share), ground
        )
        assert isinstance(base.scorer, DeviceScorer)
        assert isinstance(low.scorer, DeviceScorer)
        whole = EnsembleScorer(base.scorer, low.scorer, model.delta)
        parts = HeldOutParts(*_parts(model.base, logged, ground), low_items(logged, model.low_share))
        return Learned(whole, base.fit, held_out_result(model, base.scorer, whole, parts))
    return _by_gradient(model, logged, ground)


def low_name(ensemble: str) -> str:
    """The name of an ensemble's second model."""
    return f"{ensemble}.low"


def _by_gradient(model: Backbone, logged: Logged, ground: Ground) -> Learned:
    """Trains a gradient model with the config's loss and sampler."""
    task = _task(model, logged, ground)
    bar = ground.progress.add_task(f"train {model.name}", total=schedule_of(model, task.training).epochs, note="")

    def report(step: Step) -> None:
        ground.progress.update(
            bar, completed=step.done, note=f"epoch {step.epoch}  loss {step.loss:.4f}  {step.rate:,.0f} rows/s"
        )

    result = fit(
        task,
        model,
        ground.seed,
        report,
        ground.unfinished.of(model.name) if ground.unfinished else None,
        ground.processes,
    )
    ground.progress.update(bar, total=result.epochs, completed=result.epochs)
    return Learned(task.backbone.scorer(), result, _held_out(model, task, result, logged, ground))


def _held_out(model: Backbone, task: Task, result: Fit, logged: Logged, ground: Ground) -> float | None:
    """The held-out result of the weights that were kept, None without held-out pairs."""
    if not result.held_out:
        return None
    if task.metric:
        return -min(result.held_out)
    return plain_loss(
        model, task.backbone, _parts(model, logged, ground)[1], logged, generator_of(ground.seed, "held-out")
    )


def _parts(model: Backbone, logged: Logged, ground: Ground) -> tuple[Logged, Logged]:
    """The pairs to train on, and those held out."""
    users, items = id_keys(ground.data.user_ids)[logged.users], id_keys(ground.data.item_ids)[logged.items]
    held = held_out_mask(ground.seed, users, items, model.validation_share)
    return logged.where(~held), logged.where(held)


def _task(model: Backbone, logged: Logged, ground: Ground) -> Task:
    """Backbone, loss and samplers, ready to train."""
    seed = ground.seed
    seen, kept_back = _parts(model, logged, ground)
    training = make_sampler(model.sampler, seen, seen)
    base = _base(model, training, seen, seed)
    backbone = make_backbone(model, seen, base, generator_of(seed, "init")).to(ground.device)
    held_out = make_sampler(held_out_sampler(model.sampler), kept_back, logged)
    has_held_out = len(held_out.epoch(generator_of(seed, "held-out"))) > 0
    metric: HeldOutMetric | RandomAuc | None = None
    if isinstance(model.loss, AutoDebias) and model.stop_on == RANDOM_AUC:
        metric = RandomAuc(model.name, _random_set(model.loss, ground)[1])
    elif model.stop_on != "loss" and has_held_out:
        metric = HeldOutMetric(model.name, model.stop_on, seen, kept_back)
    return Task(
        backbone,
        _loss(model, seen, ground, schedule_of(model, training).batch_size).to(ground.device),
        training,
        held_out if has_held_out else None,
        metric,
    )


def _loss(model: Backbone, seen: Logged, ground: Ground, rows: int) -> TrainingLoss:
    """The loss, with the weights that the training pairs give it."""
    if isinstance(model.loss, AutoDebias):
        return AutoDebiasLoss(model.loss, seen, _random_set(model.loss, ground)[0], rows)
    spec = model.loss.propensity
    p = logged_propensity(spec, ground.data, ground.propensities)
    given = None
    if spec is not None and p is not None:
        given = Given(ground.data.users, ground.data.items, p, spec.floor)
    return make_loss(model.loss, seen, generator_of(ground.seed, "loss"), given)


def _random_set(loss: AutoDebias, ground: Ground) -> tuple[Logged, Logged]:
    """The random pairs to learn weights from, and those that judge when to stop."""
    random = logged_of(read_random_set(loss.random, ground.data), ground.positive)
    users, items = id_keys(ground.data.user_ids)[random.users], id_keys(ground.data.item_ids)[random.items]
    held = held_out_mask(ground.seed, users, items, loss.held_out)
    if not held.size or held.all():
        raise DataError(
            f"{loss.random.path}: of {len(held):,} random pairs all are held out, so that AutoDebias has none to learn "
            "its weights from. Give more random pairs, or lower loss.held_out."
        )
    return random.where(~held), random.where(held)


def _base(model: Backbone, training: Sampler, seen: Logged, seed: int) -> float:
    """The number (logit, value or 0) of the average label: the start value of the model's bias."""
    generator = generator_of(seed, "base")
    rows = training.epoch(generator)[:BASE_ROWS]
    batch = training.batch(rows, generator, lambda users, items: torch.zeros(items.shape))
    # items that all_pairs draws have no label
    weights = batch.weights * batch.logged if isinstance(model.sampler, AllPairs) else batch.weights
    drawn = batch.weights[:, 1:]
    if drawn.numel() and not drawn.any():
        raise DataError(
            f"model {model.name}: sampler {model.sampler.kind} can draw no negative: of {seen.n_items:,} items, those "
            "that can be drawn are positives of each user. Add items to the catalogue, check the rule `positive` "
            "against the values of the feedback, or use sampler observed."
        )
    share = float((batch.labels * weights).sum() / weights.sum()) if len(rows) else 0.0
    if not 0 < share < 1:
        raise DataError(
            f"model {model.name}: of {len(seen.users):,} training pairs, {int(seen.positive.sum()):,} are positive; "
            f"with sampler {model.sampler.kind} all labels are equal, and nothing can be learned. "
            "Check the rule `positive` against the values of the feedback, or lower validation_share."
        )
    if model.loss.kind in PAIRWISE:
        return 0.0
    if isinstance(model.loss, Mse) and model.loss.link == "identity":
        return share
    return float(np.log(share / (1 - share)))
