"""Training and scoring on a GPU, checked without one: torch's fake tensors on cuda have shapes and devices, no data.

There `.item()`, boolean masks, nonzero, unique and all else whose shape depends on data raise an error, because on a
GPU the step would wait for the device; and so does an operation on tensors of two devices. A backward pass does not run
on them. Examples are drawn on the CPU, by design. A step that still waits is listed in WAITS, with the operation.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import DynamicOutputShapeException, FakeTensorMode

from models import adam, validation
from models.adam import Adam, Rows
from models.autodebias import AutoDebiasLoss
from models.backbones.backbone import Backbone, Noise
from models.backbones.make_backbone import make_backbone
from models.batch import Batch
from models.device_scorer import DeviceScorer
from models.ensemble import EnsembleScorer
from models.logged import Logged
from models.losses import make_loss
from models.registry import REGISTRY
from models.samplers import Sampler, make_sampler
from models.spec import gradient
from models.spec.baselines import Baseline
from models.spec.ensemble import Ensemble
from models.spec.losses import AutoDebias
from models.spec.train import MODEL
from models.training import TrainingLoss
from models.used_rows import Used, compact, even_factors, penalised, rows_of_past, tables_of, used_rows

CUDA = torch.device("cuda")
N_USERS, N_ITEMS, ROWS = 40, 30, 64
UNIQUE, REPEAT, NONZERO = (f"aten.{name}" for name in ("_unique2", "repeat_interleave", "nonzero"))
WAITS = {  # (model, part): the operation that waits for the device; nonzero of weighted_bpr_mf is on the CPU
    ("weighted_bpr_mf", "draw"): NONZERO,
    ("svdpp", "step"): REPEAT,
    ("svdpp", "score"): REPEAT,
    ("rvae", "step"): UNIQUE,
    ("rvae", "score"): REPEAT,
    ("simgcl", "step"): UNIQUE,
}


class Mode(FakeTensorMode):
    """The mode, of which a copied tensor has no copy: PairScorer copies its network."""

    def __deepcopy__(self, memo: object) -> "Mode":
        return self


class Parts(NamedTuple):
    """What a model is trained with, on the CPU."""

    spec: gradient.Backbone
    logged: Logged
    sampler: Sampler
    backbone: Backbone
    loss: TrainingLoss
    generator: torch.Generator


@pytest.fixture
def fake() -> Iterator[FakeTensorMode]:
    """The mode, not yet entered; what was cached in it is forgotten."""
    adam._tails.cache_clear()
    yield Mode()
    adam._tails.cache_clear()


def entry(name: str) -> dict[str, Any]:
    return {"model": name} | ({"loss": {"random": {"path": "none"}}} if name == "mf_autodebias" else {})


MODELS = {name: MODEL.validate_python(entry(name)) for name in REGISTRY}
GRADIENT = [name for name, model in MODELS.items() if not isinstance(model, Baseline)]


def parts_of(name: str) -> Parts:
    model = MODELS[name]
    spec = model.base if isinstance(model, Ensemble) else model
    assert isinstance(spec, gradient.Backbone)
    rng, generator = np.random.default_rng(0), torch.Generator().manual_seed(1)
    users, items = np.divmod(np.unique(rng.integers(0, N_USERS * N_ITEMS, 400)), N_ITEMS)
    logged = Logged(users, items, rng.random(len(users)) < 0.6, rng.random(len(users)), N_USERS, N_ITEMS)
    if isinstance(spec.loss, AutoDebias):
        loss: TrainingLoss = AutoDebiasLoss(spec.loss, logged, logged, ROWS)
    else:
        loss = make_loss(spec.loss, logged, generator)
    backbone = make_backbone(spec, logged, 0.0, generator)
    return Parts(spec, logged, make_sampler(spec.sampler, logged, logged), backbone, loss, generator)


def move(module: nn.Module, mode: FakeTensorMode) -> None:
    """The module's tensors become fake ones on cuda, with its own registration of parameters and buffers."""
    for part in module.modules():
        for name, parameter in part.named_parameters(recurse=False):
            part._parameters[name] = nn.Parameter(mode.from_tensor(parameter).to(CUDA))
        for name, buffer in part.named_buffers(recurse=False):
            part._buffers[name] = mode.from_tensor(buffer).to(CUDA)


def move_draws(sampler: object, mode: FakeTensorMode) -> None:
    """The sampler's tensors become fake ones; they stay on the CPU."""
    for name, value in vars(sampler).items():
        if isinstance(value, Tensor):
            setattr(sampler, name, mode.from_tensor(value))
        elif name in ("draw", "candidates"):
            move_draws(value, mode)


def waits(name: str, part: str) -> AbstractContextManager[Any]:
    """An error is expected of a part that is listed, with its operation; of others none."""
    if (name, part) in WAITS:
        return pytest.raises(DynamicOutputShapeException, match=WAITS[name, part])
    return nullcontext()


def on_cuda(*tensors: Tensor) -> bool:
    return all(tensor.device.type == "cuda" for tensor in tensors)


def test_the_mode_finds_what_waits_and_what_mixes(fake: FakeTensorMode) -> None:
    with fake:
        numbers = torch.rand(3, device=CUDA)
        for waiting in (numbers.sum().item, numbers.nonzero, lambda: numbers[numbers > 0], numbers.unique):
            with pytest.raises(Exception, match="aten"):
                waiting()
        with pytest.raises(Exception, match="two devices, cuda:0 and cpu"):
            numbers + torch.rand(3)


@pytest.mark.parametrize("name", GRADIENT)
@pytest.mark.filterwarnings("ignore:Accessing the data pointer of FakeTensor")  # by copying
def test_draw_step_and_score(name: str, fake: FakeTensorMode) -> None:
    parts = parts_of(name)
    order = parts.sampler.epoch(parts.generator)[:ROWS]
    real = parts.sampler.batch(order, parts.generator, lambda users, items: torch.zeros(items.shape))
    uses = parts.sampler.uses()
    used = used_rows(real, parts.spec.by_pair, even_factors(uses)) | {"past": rows_of_past(uses["item"])}
    with fake:
        move(parts.backbone, fake)
        move(parts.loss, fake)
        batch = Batch(*(fake.from_tensor(tensor) for tensor in real)).to(CUDA)
        _draws(name, parts, fake, fake.from_tensor(order))
        _steps(name, parts, batch)
        _updates(parts, {side: Used(*(fake.from_tensor(tensor) for tensor in rows)) for side, rows in used.items()})
        _scores(name, parts)


def _draws(name: str, parts: Parts, fake: FakeTensorMode, order: Tensor) -> None:
    """The batch is drawn on the CPU, with scores from the device where the sampler asks for them."""
    asked = []

    def score(users: Tensor, items: Tensor) -> Tensor:
        asked.append(parts.backbone(users.to(CUDA), items.to(CUDA)))
        return asked[-1]

    move_draws(parts.sampler, fake)
    with waits(name, "draw"):
        batch = parts.sampler.batch(order, parts.generator, score)
        assert {tensor.device.type for tensor in batch} == {"cpu"}
        assert on_cuda(*batch.to(CUDA), *asked)
        assert len(asked) == (name in ("mf_negs", "lightgcn_negs"))


def _steps(name: str, parts: Parts, batch: Batch) -> None:
    """The forward pass and the loss of a step, and the held-out loss."""
    noise = Noise(parts.generator, ROWS, slice(0, ROWS), CUDA)
    with waits(name, "step"):
        numbers, own = parts.backbone.train_batch(batch.users, batch.items, noise)
        assert on_cuda(numbers, *(() if own is None else (own,)))
        assert numbers.shape == batch.items.shape
    assert on_cuda(parts.loss(torch.rand(batch.items.shape, device=CUDA), batch).mean())


def _updates(parts: Parts, on_host: dict[str, Used]) -> None:
    """The updates of lazy and of dense tables, from gradients that stand in for those of the backward pass."""
    used = {side: rows.to(CUDA) for side, rows in on_host.items()}
    tables = [table._replace(lazy=table.read_by_row) for table in tables_of([parts.backbone], True, True, 1)]
    assert tables
    lazy = [table.number for table in tables if table.lazy]
    optimizer = Adam(list(parts.backbone.parameters()), 0.01, lazy)
    gradients: list[Tensor | Rows] = [torch.zeros_like(parameter) for parameter in optimizer.parameters]
    for table in tables:
        rows, gradient = used[table.side], gradients[table.number]
        assert isinstance(gradient, Tensor)
        dense = penalised(gradient, table, rows, 0.1)
        assert isinstance(dense, Tensor)
        assert on_cuda(dense)
        if not table.lazy:
            continue
        optimizer.catch_up(table.number, rows.rows, hold=True)
        gradients[table.number] = penalised(Rows(rows.rows, compact(gradient, rows)), table, rows, 0.1)
    optimizer.step(gradients)
    optimizer.settle()
    parts.backbone.project()
    assert on_cuda(*optimizer.parameters, *optimizer.first, *optimizer.second)
    if isinstance(parts.loss, AutoDebiasLoss):
        for part in parts.loss.parts:
            part._replace(decay=0.1).step([torch.zeros_like(weight) for weight in part.optimizer.parameters])
            assert on_cuda(*part.optimizer.parameters, *part.optimizer.first, *part.optimizer.second)


def _scores(name: str, parts: Parts) -> None:
    """The scorer's vectors, and a block of scores, which stays on the device until it is complete."""
    model = MODELS[name]
    with waits(name, "score"), torch.no_grad():
        scorer: DeviceScorer = parts.backbone.scorer()
        if isinstance(model, Ensemble):
            scorer = EnsembleScorer(scorer, scorer, model.delta)
        scores = scorer.scores(scorer.index(np.arange(7)))
        assert on_cuda(scores)
        assert scores.shape == (7, N_ITEMS)
        assert scorer.device.type == "cuda"
        pairs = np.array([0, 0, 6]), np.array([3, 9, 9])
        lists = validation._lists_there(scorer, np.arange(7), pairs, 5)
        assert on_cuda(lists, validation._scores_there(scorer, np.arange(7), pairs))
        assert lists.shape == (7, 5)


def test_other_models_are_of_numpy_or_learn_on_the_cpu() -> None:
    others = set(MODELS) - set(GRADIENT)
    assert {MODELS[name].kind for name in others} >= {"random", "popularity", "item_knn", "wmf"}
    assert {name for name, _ in WAITS} <= set(GRADIENT)
