"""Train every model of a config and write its score table, or rank it as it is scored (output: ranks) and write its ranks.

    train_all(spec, feedback, catalogue, users, positive, progress, run)  ->  [("mf", Path("scores/mf")), ("mf_ips", "lake/ranks"), ...]

The hash of the model's spec, the seed, the rule of positives and the data, and of the layout or the labels, says what is made from what: where a
finished table, or the run's ranks in the lake, has the same, the model is skipped. If training was done but not all shards were written, the
model is trained again, and shards of the same weights are kept.
"""

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from rich.progress import Progress
from torch import nn

from eval_engine.config import Input
from eval_engine.errors import ConfigError, DataError
from eval_engine.positive import Positive
from models.baselines import PopularityScorer, RandomScorer
from models.fused import Ranked, Run, write_fused
from models.interactions import Interactions, read_interactions
from models.keyed import id_keys
from models.label_lists import LabelLists, read_label_lists
from models.losses import make_loss
from models.mf import MatrixFactorisation
from models.ranks_table import make_ranks_table, ranked_from
from models.samplers import Logged, make_sampler
from models.score_table import Content, Layout, finished, layout_of, write_scores
from models.scorer import Scorer
from models.spec import MF, Model, Popularity, Random, Train
from models.training import Step, Task, fit, generator_of, held_out_mask

REVISION = 1  # raise it when a change of this package changes scores: tables made before are then made again


def train_all(
    spec: Train, feedback: Input, catalogue: Input, users: Input | None, positive: Positive, progress: Progress, run: Run | None = None
) -> list[tuple[str, Path | str]]:
    """Train and write every model that is not there yet; name and place of each. `run` is needed by models that write ranks."""
    device = device_of(spec.device)
    data = read_interactions(feedback, catalogue, users)
    layout = layout_of(data.user_ids, data.n_items, spec.block_mb, spec.shard_mb)
    ranking = _ranking(spec, run, data)
    digest = data.digest()
    places: list[tuple[str, Path | str]] = []
    for model in spec.models:
        trained_from = (REVISION, model.model_dump(exclude={"output"}), spec.seed, device.type, str(positive), digest)
        if ranking and model.name in spec.fused_models():
            inputs = _hash(*trained_from, ranking.digest, ranking.run.frame, ranking.run.top)
            if ranked_from(ranking.run.table, ranking.run.run_id, model.name) != {inputs}:
                with _threads(spec.threads):
                    scorer = train(model, data, positive, spec.seed, device, progress)
                _rank(Ranked(model.name, inputs, scorer), ranking, spec.threads, progress)
            places.append((model.name, ranking.run.table))
            continue
        folder = Path(spec.scores or "") / model.name
        inputs = _hash(*trained_from, layout)
        if not finished(folder, inputs):
            with _threads(spec.threads):
                scorer = train(model, data, positive, spec.seed, device, progress)
                content = Content(model.name, data.user_ids, data.n_items, inputs, _hash(inputs, _weights_digest(scorer), spec.threads))
                _write(folder, content, scorer, layout, progress)
        places.append((model.name, folder))
    return places


class _Ranking(NamedTuple):
    """What the models that write ranks share."""

    run: Run
    labels: LabelLists
    digest: str


def _ranking(spec: Train, run: Run | None, data: Interactions) -> _Ranking | None:
    """The labels, read and judged, and a table to write to: what is wrong with either is told before any training."""
    if not spec.fused_models():
        return None
    if run is None:
        raise ConfigError(f"train: {spec.fused_models()[0]} has output: ranks, which needs a run with a lake to write to. Train it by jobs/train.py.")
    labels = read_label_lists(run.inputs, data.user_ids, data.item_ids, run.frame, run.on_bad_rows)
    make_ranks_table(run.table, data.user_ids.type)
    return _Ranking(run, labels, labels.digest())


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
            return _train_mf(model, data, logged, seed, device, progress).scorer()


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


def _rank(ranked: Ranked, ranking: _Ranking, threads: int, progress: Progress) -> None:
    """The model's ranks, with a bar of their own; torch on one thread, since each block has a thread to itself."""
    n_users = ranking.labels.rows.num_rows
    bar = progress.add_task(f"rank {ranked.model}", total=n_users, note=f"{n_users:,} users x {len(ranking.labels.item_ids):,} items")
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


def _hash(*parts: object) -> str:
    """A hash of values that JSON can hold."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()
