"""Train every model of a config and write its score table, or rank it as it is scored (output: ranks) and write its
ranks.

    train_all(spec, feedback, catalogue, users, positive, progress, run)   ->   a Trial for each model

A hash of what each table is made from (models/made_from.py), and of its layout or labels, is kept with the table.
Where a finished table, or the run's ranks in the lake, has the same hash, the model is skipped; torch is imported
only if one is not. Training that was stopped goes on from its checkpoint, and scoring from the shards that are whole.
"""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from rich.progress import Progress

from eval_engine.config import Input
from eval_engine.errors import ConfigError
from eval_engine.positive import Positive
from models.interactions import Interactions, read_interactions
from models.item_classes import Bounds, with_classes
from models.logged import logged_of
from models.logged_propensity import RunPropensities
from models.made_from import hash_of, trained_from
from models.processes import Processes, joined
from models.ranks_table import make_ranks_table, ranked_from
from models.score_table import Layout, finished, layout_of
from models.spec.train import Model, Train
from models.trials_table import Trial

if TYPE_CHECKING:  # torch and numba
    from models.fused import Run
    from models.label_lists import LabelLists


class Ranking(NamedTuple):
    """What the models that write ranks share."""

    run: "Run"
    labels: "LabelLists"
    digest: str


class Job(NamedTuple):
    """One model to train, and where its scores or ranks go."""

    model: Model
    trained_from: str  # hash of what its weights follow from
    inputs: str  # hash of what its table is made from
    target: "Layout | Ranking"  # how its score table is laid out; or what it is ranked with


def train_all(
    spec: Train,
    feedback: Input,
    catalogue: Input,
    users: Input | None,
    positive: Positive,
    progress: Progress,
    run: "Run | None" = None,
    note: Callable[[Trial], None] = lambda trial: None,
    bounds: Bounds | None = None,
    propensities: RunPropensities | None = None,
) -> list[Trial]:
    """Train and write every model that is not there yet. `run` is needed by models that write ranks; `note` is called
    with each model's trial when it is done. bounds: of the run's popularity classes; propensities: of its stage
    propensity; None where it has none."""
    device = _device(spec.device)
    trials: list[Trial] = []
    with joined(device) as processes:
        if not processes.first:
            progress.disable = True
        data = read_interactions(feedback, catalogue, users)
        ranking, digest = _ranking(spec, run, data, processes), data.digest()
        layout = layout_of(data.user_ids, data.n_items, spec.block_mb, spec.shard_mb)
        fused = set(spec.fused_models())
        counts = logged_of(data, positive).positives().item_counts() if bounds else None
        for named in spec.panel:
            model = named if bounds is None or counts is None else with_classes(named, bounds, counts)
            made_from = trained_from(model, spec.seed_of(model), device, positive, data, digest, propensities)
            job = _job(model, made_from, layout, ranking if model.name in fused else None)
            there = _is_there(job, spec)
            processes.wait()  # all have looked before one of them changes it
            if there:
                trials.append(Trial(model, job.inputs, None, None))
            else:
                from models.train_model import train_model

                trials.append(train_model(job, spec, data, positive, progress, processes, propensities))
            if processes.first:
                note(trials[-1])
    return trials


def _job(model: Model, made_from: str, layout: Layout, ranking: Ranking | None) -> Job:
    """The model with the hash of its table; ranking: None if it writes scores."""
    if ranking is None:
        return Job(model, made_from, hash_of(made_from, layout), layout)
    inputs = hash_of(made_from, ranking.digest, ranking.run.frame, ranking.run.top)
    return Job(model, made_from, inputs, ranking)


def _is_there(job: Job, spec: Train) -> bool:
    """Whether the model's score table, or its ranks, are made from the same and whole."""
    if isinstance(job.target, Ranking):
        run = job.target.run
        return ranked_from(run.table, run.run_id, job.model.name) == {job.inputs}
    return finished(Path(spec.scores or "") / job.model.name, job.inputs)


def _device(name: str) -> str:
    """cpu or cuda: the kind of device that the config names. Torch is not asked for a CPU."""
    if name == "cpu":
        return "cpu"
    from models.train_model import device_of

    return str(device_of(name).type)


def _ranking(spec: Train, run: "Run | None", data: Interactions, processes: Processes) -> Ranking | None:
    """The labels, read and judged, and a table to write to: what is wrong with either is an error before training."""
    if not spec.fused_models():
        return None
    if run is None:
        raise ConfigError(
            f"train: {spec.fused_models()[0]} has output: ranks, which needs a run with a lake to write to. "
            "Train it by jobs/train.py."
        )
    from models.label_lists import read_label_lists

    labels = read_label_lists(run.inputs, data.user_ids, data.item_ids, run.frame, run.on_bad_rows)
    if processes.first:
        make_ranks_table(run.table, data.user_ids.type)
    processes.wait()
    return Ranking(run, labels, labels.digest())
