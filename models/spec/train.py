"""The spec of training: a list of models, each a tagged type or a name of the registry; an unknown key is an error.

    models:
      - {kind: popularity, name: popularity}
      - {model: bpr_mf, name: bpr_64, dims: 64}                  a composition of models/registry.py, with changes
      - {kind: mf, name: mf_ips, dims: 16, sampler: {kind: observed},
         loss: {kind: bce, propensity: {kind: popularity, power: 0.25}}}

A model writes its scores, or, with output: ranks, its rows of the ranks table and no scores (models/fused.py).
This module does not import torch: a config can be checked on a machine without it.
"""

from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, TypeAdapter, ValidationError, model_validator

from eval_engine.config import Strict
from models.registry import composed
from models.spec.baselines import Baseline
from models.spec.ensemble import Ensemble
from models.spec.gradient import Backbone, Output
from models.spec.search import Search


def _check_local(folder: str) -> str:
    """Returns the folder if it is a path: a shard is written and then renamed, which object stores cannot do."""
    if "://" in folder:
        raise ValueError(
            f"{folder!r} is a URI: score tables and checkpoints are written to a mounted folder, give its path"
        )
    return folder


Folder = Annotated[str, AfterValidator(_check_local)]
Model = Annotated[Baseline | Backbone | Ensemble, Field(discriminator="kind"), BeforeValidator(composed)]

MODEL: TypeAdapter[Model] = TypeAdapter(Model)


def _repeated(model: Model, number: int) -> Model:
    """The model under the name of a repeat."""
    named: Model = model.model_copy(update={"name": f"{model.name}#{number}"})
    return named


class Train(Strict):
    """The models of one run, and where their scores or ranks are written."""

    seed: int = Field(0, ge=0, lt=2**63)
    device: Literal["cpu", "cuda", "auto"] = Field("cpu", description="auto: cuda if the machine has one")
    threads: int = Field(
        1,
        ge=1,
        description="CPU threads of training, scoring and ranking; "
        "more speed up mini-batches little, and slow them down much if the cores are shared",
    )
    output: Output = Field(
        "scores",
        description="scores: each model writes a score table; ranks: each model's ranks are written to the lake, "
        "and no scores",
    )
    scores: Folder | None = Field(
        None, description="folder; each model writes its score table to a folder of its name in it"
    )
    checkpoints: Folder | None = Field(
        None,
        description="folder for checkpoints of unfinished training, a file per model; "
        "left out: in the folder of scores, if there is one",
    )
    checkpoint_minutes: float = Field(
        5.0, ge=0, description="minutes between checkpoints: about as much training as is lost when it is killed"
    )
    block_mb: int = Field(
        64,
        ge=1,
        le=128,
        description="cap of a Parquet row group, which is also scored and kept in memory at once",
    )
    shard_mb: int = Field(
        256, ge=1, description="about the size of one file: the unit of resuming, and of work in ranking"
    )
    models: tuple[Model, ...] = ()
    search: tuple[Search, ...] = Field(
        (), description="more models, from grids; a trial that fails is noted and left out"
    )

    repeats: int = Field(
        1, ge=1, le=100, description="seeds that each model is trained with: name#1, name#2 ... have seed, seed + 1 ..."
    )
    without: tuple[str, ...] = Field((), description="names of models and trials to leave out")

    @model_validator(mode="after")
    def _names_differ(self) -> Self:
        names = [model.name for model in self.panel]
        if not names:
            raise ValueError("models: nothing to train; give models, or a search")
        if repeated := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"model names must differ, found twice: {', '.join(repeated)}")
        return self

    @model_validator(mode="after")
    def _has_a_place(self) -> Self:
        if self.scores is None and (
            scored := [model.name for model in self.panel if model.name not in self.fused_models()]
        ):
            raise ValueError(
                f"scores: {scored[0]} writes a score table, so a folder is needed; "
                "or set output: ranks, which needs none"
            )
        return self

    def fused_models(self) -> tuple[str, ...]:
        """The models that write ranks and no scores."""
        return tuple(model.name for model in self.panel if (model.output or self.output) == "ranks")

    @property
    def panel(self) -> tuple[Model, ...]:
        """The listed models and those of the searches."""
        models = (*self.models, *self.trials.values())
        if self.repeats > 1:
            models = tuple(_repeated(model, n) for model in models for n in range(1, self.repeats + 1))
        return tuple(model for model in models if model.name not in self.without)

    def seed_of(self, model: Model) -> int:
        """The seed of a model: that of the config, or of its repeat."""
        number = model.name.rpartition("#")[2]
        return self.seed + (int(number) - 1 if self.repeats > 1 and number.isdigit() else 0)

    @property
    def trials(self) -> dict[str, Model]:
        """The models of the searches by name."""
        trials: dict[str, Model] = {}
        for search in self.search:
            for entry in search.entries(self.seed):
                try:
                    trials[entry["name"]] = MODEL.validate_python(entry)
                except ValidationError as error:
                    first = error.errors()[0]
                    where = ".".join(str(part) for part in first["loc"][1:])
                    raise ValueError(f"search: {entry['name']} ({where}): {first['msg']}") from None
        return trials
