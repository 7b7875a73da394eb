"""The section `gates` of a config: rules that a run's answers must keep, or it is not approved. docs/gates.md

A rule of kind estimate, change or comparison observes a number and holds it against a bound:

    estimate      the value, in units of the metric
    change        the value over that of a baseline run, less 1: -0.01 is one per cent worse
    comparison    the value over that of another model of the same run, less 1

`fails` says how sure one must be; each bound of the number has the confidence of the section on its own side.

    beyond                  the number is beyond the bound
    surely_beyond           so is the whole interval: the run is worse beyond doubt
    unless_surely_within    some of the interval is beyond it: the run is not shown to be good enough
"""

from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from eval_engine.config import MetricText, Strict, check_run_id

Fails = Literal["beyond", "surely_beyond", "unless_surely_within"]
OnFail = Literal["stop", "warn"]
APPROVED = "approved"  # the newest run before this one whose gates all passed


class Gate(Strict):
    """What every rule has."""

    name: str = Field(min_length=1, max_length=100, description="its row of the table gates")
    on_fail: OnFail = Field("stop", description="stop: exit code 5; warn: it is told, and the run is not approved")


class Bounded(Gate):
    """A rule about a number of a model."""

    model: str
    estimator: str = Field(description="as in the table estimates: docs/estimators.md")
    metric: MetricText
    slice: str = "all"
    of: Literal["run", "window"] = Field("run", description="window: the days that section `window` adds up")
    at_least: float | None = Field(None, allow_inf_nan=False)
    at_most: float | None = Field(None, allow_inf_nan=False)
    fails: Fails = "beyond"

    @model_validator(mode="after")
    def _one_bound(self) -> Self:
        if (self.at_least is None) == (self.at_most is None):
            raise ValueError(f"gate {self.name}: give either at_least or at_most")
        return self

    @property
    def bound(self) -> float:
        """The one that is given."""
        return self.at_least if self.at_least is not None else float(self.at_most or 0.0)


class EstimateGate(Bounded):
    """The value of an estimate, in units of the metric."""

    kind: Literal["estimate"]


class ChangeGate(Bounded):
    """The change of an estimate since another run, a share of its value there: at_least: -0.01 is no worse than 1 %."""

    kind: Literal["change"]
    baseline: Annotated[str, AfterValidator(check_run_id)] = Field(
        APPROVED, description="a run_id; approved: the newest run before this one whose gates all passed"
    )


class ComparisonGate(Bounded):
    """How far a model is ahead of another one, a share of the other's value, paired over users."""

    kind: Literal["comparison"]
    than: str = Field(description="the other model")


class QualityGate(Gate):
    """The verdict of a check of the random exposures, or the number of rows that broke a rule: table quality."""

    kind: Literal["quality"]
    table: str = "exposures"
    rule: str
    verdicts: tuple[Literal["pass", "warn", "fail", "not applicable"], ...] = Field(
        ("pass", "not applicable"), min_length=1, description="those of a check that pass"
    )
    at_most: int = Field(0, ge=0, description="rows that may break a rule, for rules without a verdict")


class ReversalGate(Gate):
    """The number of pairs of models whose order in slices contradicts the whole: table reversals."""

    kind: Literal["reversal"]
    estimator: str
    metric: MetricText
    slicing: str
    flags: tuple[Literal["reversed", "vanishes", "weak"], ...] = Field(("reversed",), min_length=1)
    at_most: int = Field(0, ge=0, description="pairs of models")


BoundedRule = EstimateGate | ChangeGate | ComparisonGate
GateRule = Annotated[BoundedRule | QualityGate | ReversalGate, Field(discriminator="kind")]


class Gates(Strict):
    """Rules that a run's answers must keep."""

    rules: tuple[GateRule, ...] = Field(min_length=1)
    confidence: float = Field(
        0.95, gt=0.5, lt=1, description="of each bound of an interval: 0.95 fails at most 5 % of good runs"
    )

    @model_validator(mode="after")
    def _distinct(self) -> Self:
        names = [rule.name for rule in self.rules]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"rules: {twice[0]} is the name of two gates. Give one of them another name")
        return self
