"""The `study` section of a run's config."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import Discriminator, Field, Tag, model_validator

from eval_engine.config import MetricText, StrataSettings, Strict
from eval_engine.metric import Metric
from eval_engine.propensity.settings import Propensity

Numbers = Annotated[tuple[Annotated[int, Field(ge=1)], ...], Field(min_length=1)]


class Shown(Strict):
    """The one comparison that the picture and the table of models show."""

    exposures: int
    traditional: int = Field(description="cutoff among the exposed")
    ure: int = Field(description="cutoff among all candidates, of URE and of the truth")


class UreStudy(Strict):
    """How well the traditional scheme and URE agree with the truth over a panel of models [ure]:
    eval_engine/studies/ure.py.
    """

    kind: Literal["ure"] = "ure"
    exposures: Numbers = Field(
        description="e: random exposures drawn of each user's candidates, nested: "
        "a smaller e has the first of a larger one"
    )
    traditional: Numbers = Field(description="Kbar: cutoffs among the exposed")
    ure: Numbers = Field(description="K: cutoffs among all candidates, of URE")
    truth: Numbers = Field(description="K': cutoffs at which true recall is held against both")
    show: Shown = Field(description="what the picture and the table of models show")
    seed: int = Field(0, ge=0, lt=2**63, description="of the draws")

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        for name in ("exposures", "traditional", "ure", "truth"):
            values = getattr(self, name)
            if list(values) != sorted(set(values)):
                raise ValueError(f"{name}: {list(values)} must rise, each once")
        for name, cutoff in self.show:
            if cutoff not in getattr(self, name):
                raise ValueError(f"show.{name}: {cutoff} is not among {name}: {list(getattr(self, name))}")
        if self.show.ure not in self.truth:
            raise ValueError(
                f"show.ure: {self.show.ure} is not among truth: {list(self.truth)}, so there is nothing to hold it "
                "against"
            )
        return self


class SimpsonStudy(Strict):
    """How well estimates from logged feedback agree with the reference over a panel of models [simpson]:
    eval_engine/studies/simpson.py.
    """

    kind: Literal["simpson"]
    own: str = Field("own", description="name of the propensities of the section `propensity`")
    propensities: dict[Annotated[str, Field(pattern=r"^[A-Za-z0-9_]+$", max_length=40)], Propensity] = Field(
        {},
        description="others, by name: each is a run of its own over the same scores, with the run_id RUN_ID-NAME",
    )
    show: StrataSettings = Field(
        StrataSettings(kind="equal_width", n=2),
        description="the strata that the pictures and the table of two models show",
    )

    @model_validator(mode="after")
    def _distinct(self) -> Self:
        if self.own in self.propensities:
            raise ValueError(f"propensities: {self.own} is the name of the run's own. Give one of them another name")
        return self


class RandomParts(Strict):
    """How the random data of a run is divided: for tuning, for the weights of WTD, and the rest as the truth."""

    path: str = Field(description="of the tables that are written: PATH_tuning_1, PATH_weights_1, PATH_truth_1 ...")
    tuning: float = Field(0.15, gt=0, lt=1, description="share that hyper-parameters are chosen by")
    weights: float = Field(0.15, gt=0, lt=1, description="share that WTD takes its marginals from")
    seed: int = Field(0, ge=0, lt=2**62, description="of the division in the first run")

    @model_validator(mode="after")
    def _leaves_a_truth(self) -> Self:
        if self.tuning + self.weights >= 1:
            raise ValueError(f"tuning {self.tuning:g} and weights {self.weights:g} leave no share for the truth")
        return self


class WtdStudy(Strict):
    """How near test sets that are drawn from held-out pairs come to a random one [wtd]: eval_engine/studies/wtd.py."""

    kind: Literal["wtd"]
    runs: int = Field(10, ge=1, le=1000, description="splits; run number n is the run RUN_ID-n")
    random: RandomParts
    tune_on: MetricText = Field(
        Metric("recall", 10), description="metric by which the trials of each search are compared"
    )
    without: tuple[str, ...] = Field((), description="models that the second table of Kendall's tau leaves out")


class BqsStudy(Strict):
    """What measures of debiasing say of the same models, and which of them the truth bears out [bqs]:
    eval_engine/studies/bqs.py.
    """

    kind: Literal["bqs"]
    k: Numbers = Field((1, 5, 10), description="cutoffs of the tables")
    qualities: Annotated[tuple[str, ...], Field(min_length=1)] = Field(
        ("sampled_hit_rate", "ndcg"), description="quality measures of the tables, of the section bqs"
    )
    show: int = Field(10, ge=1, description="cutoff of the picture, of the agreement and of random exposure")

    @model_validator(mode="after")
    def _shown(self) -> Self:
        if self.show not in self.k:
            raise ValueError(f"show: {self.show} is not among k: {list(self.k)}")
        return self


class DesignCase(Strict):
    """What one comparison of ways to expose is made with."""

    items: int = Field(2000, ge=10, le=100_000, description="N: the frame")
    models: int = Field(
        4, ge=2, le=20, description="M: models whose lists the plan is made of; the first two are close"
    )
    apart: float = Field(0.35, ge=0, le=10, description="standard deviation of each close model's own noise")
    exposures: int = Field(10, ge=2, description="e: items shown to each user")
    k: int = Field(20, ge=1, description="K: cutoff of the metrics, and of the plan")


class Varied(Strict):
    """Other values, one at a time; the rest is that of the base."""

    items: tuple[int, ...] = ()
    models: tuple[int, ...] = ()
    apart: tuple[float, ...] = ()
    exposures: tuple[int, ...] = ()
    k: tuple[int, ...] = ()


class DesignStudy(Strict):
    """How much smaller errors are under designed exposures than under uniform ones: eval_engine/studies/design.py."""

    kind: Literal["design"]
    population: int = Field(2500, ge=10, description="simulated users, whose likes of all items are known")
    users: int = Field(1500, ge=10, description="users of one draw, with replacement from the population")
    draws: int = Field(300, ge=2, description="draws of users and exposures, of each case and way to expose")
    base: DesignCase = DesignCase()
    vary: Varied = Varied()
    seed: int = Field(0, ge=0, lt=2**32, description="of the world, and of the draws")

    @model_validator(mode="after")
    def _possible(self) -> Self:
        for name, values in (("base", None), *self.vary):
            for value in values if values is not None else (None,):
                case = DesignCase.model_validate(self.base.model_dump() | ({} if value is None else {name: value}))
                for what, size in (("exposures", case.exposures), ("k", case.k)):
                    if size >= case.items:
                        raise ValueError(
                            f"{name if value is None else f'vary.{name}: {value}'}: {what} {size} of {case.items} "
                            "items leave nothing to choose. Give fewer, or more items"
                        )
        return self


def _kind(section: Any) -> str:
    """The kind of a study; a section without one is that of [ure]."""
    return str(section.get("kind", "ure") if isinstance(section, Mapping) else getattr(section, "kind", None))


Study = Annotated[
    Annotated[UreStudy, Tag("ure")]
    | Annotated[SimpsonStudy, Tag("simpson")]
    | Annotated[WtdStudy, Tag("wtd")]
    | Annotated[BqsStudy, Tag("bqs")],
    Discriminator(
        _kind,
        custom_error_type="study_kind",
        custom_error_message="kind is ure, simpson, wtd or bqs; a config of kind design has run_id, lake, report and "
        "study only",
    ),
]
