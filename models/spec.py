"""What to train: a model is a backbone, a loss and a sampler, each a tagged type; an unknown key is an error.

    models:
      - {kind: popularity, name: popularity}
      - {kind: mf, name: mf, output: ranks}
      - {kind: mf, name: mf_ips, dims: 16, loss: {kind: ips_bce, propensity: {kind: popularity, power: 0.25, floor: 0.1}}, sampler: {kind: observed}}

A model writes its scores, or, with output: ranks, its rows of the ranks table and no score (models/fused.py).
No torch here: a config can be checked on a machine that has none.
"""

from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from eval_engine.config import Strict, check_run_id


def _check_name(name: str) -> str:
    """The name itself, if it can be a folder's name."""
    try:
        return check_run_id(name)
    except ValueError as error:
        raise ValueError(str(error).replace("run_id", "model name", 1)) from None


def _check_local(folder: str) -> str:
    """The folder itself, if it is a path: shards are made whole by a rename, which object stores do not have."""
    if "://" in folder:
        raise ValueError(f"scores {folder!r} is a URI: score tables are written to a mounted folder, give its path")
    return folder


Name = Annotated[str, AfterValidator(_check_name), Field(description="the model's name: its folder under scores, and its name in every table")]
Output = Literal["scores", "ranks"]
OwnOutput = Annotated[Output | None, Field(description="as train.output has it, but for this model")]


class PopularityPropensity(Strict):
    """p_i = max(floor, (n_i / max n) ** power), n_i the item's logged pairs."""

    kind: Literal["popularity"] = "popularity"
    power: float = Field(default=0.25, ge=0, description="0: every propensity is 1; 1: exposure in proportion to the count")
    floor: float = Field(default=0.1, gt=0, le=1, description="the least propensity; caps the weight of a pair at 1 / floor")


class Bce(Strict):
    """Binary cross-entropy, every pair with weight 1."""

    kind: Literal["bce"] = "bce"


class IpsBce(Strict):
    """Binary cross-entropy, logged pairs with weight 1 / propensity, scaled to mean 1."""

    kind: Literal["ips_bce"] = "ips_bce"
    propensity: PopularityPropensity = PopularityPropensity()


class Observed(Strict):
    """The logged pairs as they are; the label is 1 for a positive, else 0."""

    kind: Literal["observed"] = "observed"


class UniformNegatives(Strict):
    """The logged positives, and for each some items drawn evenly from those that are no positive of the user."""

    kind: Literal["uniform_negatives"] = "uniform_negatives"
    per_positive: int = Field(default=4, ge=1, description="negatives drawn for each positive, anew in each epoch")


Loss = Annotated[Bce | IpsBce, Field(discriminator="kind")]
Sampler = Annotated[Observed | UniformNegatives, Field(discriminator="kind")]


class Gradient(Strict):
    """What every model trained by gradient has: the schedule of the one training loop, a loss and a sampler."""

    name: Name
    output: OwnOutput = None
    epochs: int = Field(60, ge=1, description="at most; early stopping may end before")
    batch_size: int = Field(2048, ge=1)
    learning_rate: float = Field(0.005, gt=0)
    weight_decay: float = Field(2e-5, ge=0, description="L2 penalty of all parameters, as Adam applies it")
    patience: int = Field(3, ge=1, description="epochs without a better held-out loss before training stops")
    validation_share: float = Field(0.1, ge=0, lt=1, description="share of logged pairs held out; 0: no early stopping")
    loss: Loss = Bce()
    sampler: Sampler = UniformNegatives()


class MF(Gradient):
    """Matrix factorisation with biases."""

    kind: Literal["mf"] = "mf"
    dims: int = Field(32, ge=1, description="length of user and item vectors")


class Random(Strict):
    """Scores drawn by hash(seed, user, item): the floor under every comparison."""

    kind: Literal["random"] = "random"
    name: Name
    output: OwnOutput = None


class Popularity(Strict):
    """The item's number of logged positives, the same for every user."""

    kind: Literal["popularity"] = "popularity"
    name: Name
    output: OwnOutput = None


Model = Annotated[Random | Popularity | MF, Field(discriminator="kind")]


class Train(Strict):
    """The models of one run, and what becomes of their scores."""

    seed: int = Field(0, ge=0, lt=2**63)
    device: Literal["cpu", "cuda", "auto"] = Field("cpu", description="auto: cuda where there is one")
    threads: int = Field(
        1, ge=1, description="CPU threads of training, scoring and ranking; mini-batches gain little from more, and lose much where cores are shared"
    )
    output: Output = Field(
        "scores", description="scores: a score table each; ranks: each model's ranks go straight to the lake, and no score is written"
    )
    scores: Annotated[str, AfterValidator(_check_local)] | None = Field(
        None, description="folder; each model writes its score table to a folder of its name in it"
    )
    block_mb: int = Field(64, ge=1, le=128, description="cap of a Parquet row group, which is also what is scored and held in memory at once")
    shard_mb: int = Field(256, ge=1, description="about the size of one file: the unit of resuming, and of work in ranking")
    models: tuple[Model, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _names_differ(self) -> Self:
        names = [model.name for model in self.models]
        if repeated := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"model names must differ, found twice: {', '.join(repeated)}")
        return self

    @model_validator(mode="after")
    def _has_a_place(self) -> Self:
        if self.scores is None and (scored := [model.name for model in self.models if model.name not in self.fused_models()]):
            raise ValueError(f"scores: {scored[0]} writes a score table, so a folder is needed; or set output: ranks, which needs none")
        return self

    def fused_models(self) -> tuple[str, ...]:
        """The models that write ranks and no scores."""
        return tuple(model.name for model in self.models if (model.output or self.output) == "ranks")
