"""Specs of models trained by gradient: `kind` is the backbone; loss, sampler and schedule are fields. No torch here.

{kind: mf, name: bpr, biases: false, loss: {kind: bpr}, sampler: {kind: uniform_negatives, per_positive: 1}}
"""

import re
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from eval_engine.config import Strict
from models.spec.losses import AutoDebias, Bce, DoublyRobust, Loss, Mse
from models.spec.samplers import AllPairs, Observed, Sampler, UniformNegatives

PAIRWISE = ("bpr", "hinge", "pd")
GRAPH_DECAY = "as for all models, but less: the papers take 1e-4 and 1e-5; the mean over layers shrinks vectors already"
GRAPH_BATCH = "as for all models, but more: every step propagates along the whole graph, whatever the batch"
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
HELD_OUT_METRIC = re.compile(r"(recall|ndcg)@([1-9]\d*)")
RANDOM_AUC = "random_auc"


def _check_name(name: str) -> str:
    """Returns the name if a folder can have it."""
    if not NAME.fullmatch(name):
        raise ValueError(
            f"model name {name!r} is not usable: letters, digits, '.', '_' and '-' only, starting with a letter or "
            "digit, at most 100 of them"
        )
    return name


def _check_metric(metric: str) -> str:
    """Returns the metric's name if training can stop on it."""
    if metric not in ("loss", RANDOM_AUC) and not HELD_OUT_METRIC.fullmatch(metric):
        raise ValueError(f"stop_on {metric!r} is neither loss nor recall@K nor ndcg@K nor {RANDOM_AUC}")
    return metric


Name = Annotated[
    str,
    AfterValidator(_check_name),
    Field(description="the model's name: its folder under scores, and its name in every table"),
]
Output = Literal["scores", "ranks"]
OwnOutput = Annotated[Output | None, Field(description="train.output for this model only")]
Dims = Annotated[int, Field(ge=1, description="length of user and item vectors")]


class Gradient(Strict):
    """The fields of every model trained by gradient."""

    name: Name
    output: OwnOutput = None
    epochs: int | None = Field(
        None,
        ge=1,
        description="at most; left out: 60, or as many as 3,000 steps take. Early stopping may end it earlier",
    )
    batch_size: int | None = Field(
        None,
        ge=1,
        description="rows of the sampler: a row is a logged pair and the items drawn for it; left out: a power of two "
        "from 128 to largest_batch with which an epoch has at least 10 steps",
    )
    largest_batch: int = Field(2048, ge=1, description="of a batch_size that is left out")
    learning_rate: float = Field(0.005, gt=0)
    weight_decay: float | None = Field(
        None,
        ge=0,
        description="L2 penalty of the rows that an example uses: the mean of |u|^2 / 2 over users, and of |v|^2 / 2 "
        "over items, against the mean loss of the examples; left out: 4.5 / sqrt(training positives), at most 0.1; "
        "with label: value 2 x users or items per pair, and a quarter of that with link: sigmoid",
    )
    patience: int = Field(3, ge=1, description="epochs without a better held-out result before training stops")
    patience_steps: int = Field(300, ge=0, description="steps without a better held-out result: both have to pass")
    validation_share: float = Field(
        0.1, ge=0, lt=1, description="share of logged pairs held out; 0: no early stopping, but by random_auc"
    )
    stop_on: Annotated[str, AfterValidator(_check_metric)] = Field(
        "loss",
        description="metric of the held-out pairs: loss, recall@K or ndcg@K; of autodebias also random_auc, the AUC of "
        "that part of its random set which is held out",
    )
    precision: Literal["float32", "bfloat16", "auto"] = Field(
        "float32", description="of the forward pass; auto: bfloat16 if the device is a GPU that supports it"
    )
    loss: Loss = Bce()
    sampler: Sampler = UniformNegatives()

    @property
    def by_pair(self) -> bool:
        """Whether the loss is a mean over pairs, and not over comparisons or over rows of the sampler."""
        return isinstance(self.loss, Bce | Mse)

    @model_validator(mode="after")
    def _compose(self) -> Self:
        loss, sampler = self.loss, self.sampler
        if loss.kind in PAIRWISE and isinstance(sampler, Observed | AllPairs):
            raise ValueError(
                f"loss {loss.kind} compares a positive with a negative, but sampler {sampler.kind} draws no negatives: "
                "use uniform_negatives"
            )
        if isinstance(loss, DoublyRobust | AutoDebias) != isinstance(sampler, AllPairs):
            raise ValueError(
                "losses dr and autodebias need sampler all_pairs, and it needs one of them; "
                f"found {loss.kind} with {sampler.kind}"
            )
        if self.stop_on == RANDOM_AUC and (not isinstance(loss, AutoDebias) or not loss.held_out):
            raise ValueError(f"stop_on {RANDOM_AUC} needs loss autodebias with a held_out above 0, not {loss.kind}")
        if isinstance(sampler, Observed) and sampler.label == "value" and not isinstance(loss, Mse):
            raise ValueError(f"sampler observed with label: value needs loss mse, not {loss.kind}")
        return self


class MF(Gradient):
    """Matrix factorisation with or without biases."""

    kind: Literal["mf"] = "mf"
    dims: Dims = 32
    biases: bool = Field(True, description="adds b + b_u + b_i to u . v")


class NMF(Gradient):
    """Non-negative matrix factorisation: u . v, no entry below zero."""

    kind: Literal["nmf"] = "nmf"
    dims: Dims = 32
    loss: Loss = Mse()
    sampler: Sampler = Observed(label="value")


class SVDpp(Gradient):
    """SVD++: vectors of the items in the user's history are added to the user's vector."""

    kind: Literal["svdpp"] = "svdpp"
    dims: Dims = 32
    loss: Loss = Mse()
    sampler: Sampler = Observed(label="value")


class LightGCN(Gradient):
    """Vectors averaged over the layers of the graph of positives."""

    kind: Literal["lightgcn"] = "lightgcn"
    dims: Dims = 32
    layers: int = Field(3, ge=0, description="0: matrix factorisation without biases")
    largest_batch: int = Field(8192, ge=1, description=GRAPH_BATCH)
    weight_decay: float | None = Field(1e-4, ge=0, description=GRAPH_DECAY)


class SimGCL(Gradient):
    """LightGCN with a contrastive loss between two noisy views."""

    kind: Literal["simgcl"] = "simgcl"
    dims: Dims = 32
    layers: int = Field(3, ge=1)
    noise: float = Field(0.1, ge=0, description="norm of the noise added to each layer")
    contrast: float = Field(
        0.5,
        ge=0,
        description="weight of the contrastive loss; the paper's grid is 0.01 to 1. "
        "With a larger weight a model needs more epochs to learn to rank",
    )
    temperature: float = Field(0.2, gt=0)
    largest_batch: int = Field(8192, ge=1, description=GRAPH_BATCH)
    weight_decay: float | None = Field(1e-4, ge=0, description=GRAPH_DECAY)


class RVAE(Gradient):
    """Mult-VAE's network with a pairwise loss."""

    kind: Literal["rvae"] = "rvae"
    hidden: int = Field(600, ge=1, description="width of the layer between items and code")
    dims: Dims = 200
    dropout: float = Field(0.5, ge=0, lt=1, description="of the history, in training")
    kl: float = Field(
        0.2,
        ge=0,
        description="weight of each user's Kullback-Leibler term; eq. 18 has 1, "
        "Mult-VAE and the authors' code anneal to 0.2",
    )
    learning_rate: float = Field(0.001, gt=0, description="that of Mult-VAE; the authors take 3e-4")


class GMF(Gradient):
    """NCF: h . (u * v)."""

    kind: Literal["gmf"] = "gmf"
    dims: Dims = 32


class MLP(Gradient):
    """NCF: a tower of ReLU layers over [u, v], each half as wide as the one before."""

    kind: Literal["mlp"] = "mlp"
    dims: Dims = 32
    layers: int = Field(3, ge=1)


class NeuMF(Gradient):
    """NCF: the sum of GMF and MLP, each with its own vectors."""

    kind: Literal["neumf"] = "neumf"
    dims: Dims = 32
    layers: int = Field(3, ge=1)


Backbone = MF | NMF | SVDpp | LightGCN | SimGCL | RVAE | GMF | MLP | NeuMF
