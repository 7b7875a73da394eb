"""Typed pieces of a run's YAML file; an unknown key, a wrong type or a bad value is an error that names file and key.

The file as a whole is jobs/run_config.py: it adds the sections of the synthetic world and of training.
"""

import re
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeVar

import yaml
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    ValidationError,
    field_validator,
    model_validator,
)

from eval_engine.errors import ConfigError
from eval_engine.metric import Metric
from eval_engine.positive import Positive

RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:+-]{0,99}")  # as Airflow makes them: manual__2026-11-17T00:00:00+00:00


class Strict(BaseModel):
    """Frozen, and no key that is not declared."""

    model_config = ConfigDict(frozen=True, extra="forbid")


def check_run_id(run_id: str) -> str:
    """The run_id itself, if it can stand in a SQL literal and a file name."""
    if not RUN_ID.fullmatch(run_id):
        raise ValueError(
            f"run_id {run_id!r} is not usable: letters, digits, '.', '_', '-', ':' and '+' only, starting with a "
            "letter or digit, at most 100 of them"
        )
    return run_id


def folder_name(run_id: str) -> str:
    """A run_id as the name of a folder that Spark can read: Hadoop takes what is before a colon for a scheme.

    >>> folder_name("day-1"), folder_name("manual__2026-11-17T00:00:00+00:00")
    ('day-1', 'manual__2026-11-17T00_00_00_00_00-1479f5d1')
    """
    plain = re.sub(r"[:+]", "_", run_id)
    return plain if plain == run_id else f"{plain}-{sha256(run_id.encode()).hexdigest()[:8]}"


def _metric(text: Any) -> Any:
    return Metric.parse(text) if isinstance(text, str) else text


def _positive(text: Any) -> Any:
    return Positive.parse(text) if isinstance(text, str) else text


MetricText = Annotated[Metric, BeforeValidator(_metric), PlainSerializer(str)]
PositiveText = Annotated[Positive, BeforeValidator(_positive), PlainSerializer(str)]
RunId = Annotated[str, AfterValidator(check_run_id)]


def _character(text: str | None) -> str | None:
    if text is not None and (len(text) != 1 or not text.isascii() or text in "\r\n"):
        raise ValueError(
            f'one ASCII character is needed, as in ";"; a tab is written "\\t", in double quotes; found {text!r}'
        )
    return text


def _header(names: Any) -> Any:
    if names is False or names == []:
        raise ValueError(
            "of files without a header line, list the names of all their columns, as in header: [uid, iid, rating]"
        )
    return names


Character = Annotated[str, AfterValidator(_character)]


class Csv(Strict):
    """The dialect of a CSV table, the same for every stage; left out: RFC 4180. The text is UTF-8. docs/csv.md"""

    delimiter: Character = Field(",", description="between two fields")
    quote: Character | None = Field(
        '"', description="around a field; doubled where it is part of it. null: there is none"
    )
    escape: Character | None = Field(
        None,
        description="before a character that is meant as it is, such as a quote; as a backslash is in many exports",
    )
    header: Annotated[Literal[True] | tuple[str, ...], BeforeValidator(_header)] = Field(
        True, description="the first line of each file names the columns; or, if it does not, their names in order"
    )

    @model_validator(mode="after")
    def _distinct(self) -> Self:
        given = [character for character in (self.delimiter, self.quote, self.escape) if character is not None]
        if len(set(given)) < len(given):
            raise ValueError(f"delimiter, quote and escape must differ, found {given}; doubled quotes need no escape")
        return self


class Input(Strict):
    """A table as its owner keeps it: a path (Parquet, Delta or CSV) or a catalog name, and how its columns are called
    there.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)
    path: str = Field(description="folder, file or URI; or a catalog name like catalog.schema.table")
    format: Literal["parquet", "delta", "csv", "table"] | None = Field(
        None, description="guessed from the path when left out"
    )
    columns: dict[str, str] = Field(default_factory=dict, description="our column name: the table's own name for it")
    csv: Csv | None = Field(None, description="dialect of a CSV table; left out: RFC 4180")

    @model_validator(mode="after")
    def _csv_of_csv(self) -> Self:
        if self.csv is not None and self.format not in (None, "csv"):
            raise ValueError(
                f"csv tells how a CSV table is written, but format is {self.format}: leave one of them out"
            )
        return self


class Scores(Input):
    """Scores of one model, or of many if the table has a model column."""

    model: str | None = Field(None, description="the model's name; leave out if the table has a model column")
    dtype: Literal["float16", "float32", "float64"] | None = Field(
        None,
        description="of the numbers in BINARY vectors; left out: the table's property plumbline.dtype, else float32",
    )
    partial: bool = Field(
        False, description="a long table that holds only the best items of each user; the others stand below them"
    )


class Inputs(Strict):
    """What is joined: the catalogue, the training pairs, and the label sets that models are judged by."""

    catalogue: Input
    exposures: Input | None = Field(None, description="random feedback: pairs that were shown at random")
    feedback: Input | None = Field(
        None, description="logged feedback that models are trained on; needed for frame: unseen and for heldout"
    )
    heldout: Input | None = Field(None, description="logged feedback that was kept from training")
    designed: Input | None = Field(
        None, description="designed exposures of both arms, with their exposure_probability: docs/design.md"
    )
    truth: Input | None = Field(None, description="complete labels, as in a simulation or a fully exposed data set")

    @property
    def labelled(self) -> bool:
        """Whether there are labels to judge models by."""
        return any(own is not None for own in (self.exposures, self.designed, self.heldout, self.truth))

    @model_validator(mode="after")
    def _trained(self) -> Self:
        if self.heldout is not None and self.feedback is None:
            raise ValueError(
                "heldout pairs are ranked among all items but the training pairs, so feedback, the training pairs, is "
                "needed"
            )
        return self


SLICING = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}")


class SliceTable(Input):
    """A table of items or users, one row each, and the columns that are used of it."""

    by: tuple[str, ...] = Field(min_length=1, description="columns, each a slicing of its own")

    @model_validator(mode="after")
    def _usable(self) -> Self:
        for name in self.by:
            if not SLICING.fullmatch(name) or name in ("item_id", "user_id"):
                raise ValueError(
                    f"by: {name!r} cannot name a slicing: letters, digits and '_', a letter first, and no id. Map the "
                    "column "
                    "to such a name in columns"
                )
        return self


class Slices(Strict):
    """By what estimates and comparisons are made too, beside those of everything: docs/estimators.md."""

    items: tuple[SliceTable, ...] = Field((), description="item_id and columns such as category: which positives count")
    users: tuple[SliceTable, ...] = Field((), description="user_id and columns such as country: which users count")

    @model_validator(mode="after")
    def _distinct(self) -> Self:
        names = [name for table in (*self.items, *self.users) for name in table.by]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"by: {twice[0]} is the name of two slicings. Map one of the columns to another name")
        return self


def _imported(names: tuple[str, ...]) -> tuple[str, ...]:
    for name in names:
        try:
            import_module(name)
        except ImportError as error:
            raise ValueError(
                f"module {name} cannot be imported: {error}. Put it on PYTHONPATH of driver and workers"
            ) from None
    return names


class StrataSettings(Strict):
    """Strata of the propensity of held-out pairs: docs/propensities.md"""

    kind: Literal["equal_width", "equal_count"]
    n: int = Field(ge=1, le=10)


class Anytime(Strict):
    """Intervals that hold at every look at a sample that grows: docs/estimators.md"""

    tightest_at: int = Field(
        10_000, ge=1, description="number of users at which they are tightest; fixed before the first look"
    )


class Evaluate(Strict):
    """What is estimated; a change here never reads scores again."""

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)
    modules: Annotated[tuple[str, ...], AfterValidator(_imported)] = Field(
        (), description="Python modules that register further metrics and estimators: docs/extending.md"
    )
    metrics: tuple[MetricText, ...] = Field(
        (Metric("recall", 10),), min_length=1, description="over the full candidate list"
    )
    traditional: tuple[MetricText, ...] = Field(
        (Metric("recall", 5),), description="among the exposed items only, as everybody reports it"
    )
    ties: Literal["expected", "strict"] = "expected"
    confidence: float = Field(0.95, gt=0.5, lt=1)
    anytime: Anytime | None = Field(None, description="also make intervals that hold at every look, used by gates")
    margin: float = Field(
        0.01, ge=0, lt=1, description="two models are equivalent if neither is worse by more than this share"
    )
    power: float = Field(0.8, gt=0.5, lt=1, description="chance to tell two models apart that users_needed is for")
    replicates: int = Field(1000, ge=0, le=100_000, description="of the Poisson bootstrap; 0: none")
    seed: int = Field(0, ge=0, lt=2**63, description="of the Poisson bootstrap")
    strata: tuple[StrataSettings, ...] = Field(
        (StrataSettings(kind="equal_width", n=2), StrataSettings(kind="equal_count", n=2)),
        description="of propensity, if the config has a section propensity",
    )
    least_effective_pairs: float = Field(
        100.0, ge=0, description="a weighted estimate with a smaller effective sample size is marked unreliable"
    )
    known_sizes: bool = Field(
        False, description="also estimate precision and DCG with known sizes from uniform exposures: docs/estimators.md"
    )
    user_metrics: bool = Field(False, description="write the terms of every user to the table user_metrics")

    @field_validator("strata")
    @classmethod
    def _each_once(cls, strata: tuple[StrataSettings, ...]) -> tuple[StrataSettings, ...]:
        for one in strata:
            if strata.count(one) > 1:
                raise ValueError(f"{{kind: {one.kind}, n: {one.n}}} is given twice. Give each once")
        return strata


class Checks(Strict):
    """Whether the random exposures are random: what counts as a failure, and if it stops the run. docs/checks.md"""

    level: float = Field(
        0.001,
        gt=0,
        lt=0.5,
        description="chance that a test of good data fails; 0.001: of a daily run, once in three years",
    )
    stop_on: Literal["nothing", "fail", "warn"] = Field(
        "nothing", description="verdicts that stop a run before it ranks; warn: those and failures"
    )


class Evaluation(Strict):
    """Everything that ranking and evaluating need."""

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)
    run_id: RunId
    lake: str = Field(description="folder, URI or catalog.schema that holds the written tables")
    inputs: Inputs
    scores: tuple[Scores, ...] = Field(min_length=1)
    positive: PositiveText = Field(Positive(">", 3.0), description="the rule that makes a value a positive")
    frame: Literal["all_items", "unseen"] = Field(
        "all_items",
        description="what random exposures were drawn from: all items, or those without logged feedback of the user",
    )
    on_bad_rows: Literal["error", "quarantine"] = "error"
    staging: str | None = Field(
        None,
        description="folder for copies of score tables that only Spark can read, removed after ranking; "
        "left out: <lake>/_staging",
    )
    top: int = Field(100, ge=1, description="length of the stored top lists; one more is kept, for thresholds")
    checks: Checks = Field(Checks(), description="of the random exposures, before anything is ranked")
    evaluate: Evaluate = Evaluate()
    slices: Slices = Slices()
    item_values: tuple[SliceTable, ...] = Field(
        (), description="item_id and columns of numbers, such as propensity, that estimators weigh items by"
    )


T = TypeVar("T", bound=BaseModel)


def yaml_content(path: str | Path) -> dict[str, Any]:
    """The keys of a YAML file, or a ConfigError that names file and reason."""
    file = Path(path)
    try:
        content = yaml.safe_load(file.read_text())
    except OSError as error:
        raise ConfigError(
            f"{file}: cannot be read ({error.strerror}). Give the path of a run's YAML file, such as conf/demo.yaml."
        ) from None
    except yaml.YAMLError as error:
        raise ConfigError(f"{file}: not valid YAML: {error}") from None
    if not isinstance(content, dict):
        raise ConfigError(
            f"{file}: a mapping of keys is expected, as in conf/demo.yaml, found {type(content).__name__}."
        )
    return content


def read_yaml(path: str | Path, kind: type[T], overrides: dict[str, Any] | None = None) -> T:
    """The file as a typed config, or a ConfigError that names file, key and reason."""
    file, content = Path(path), yaml_content(path)
    try:
        return kind.model_validate(content | (overrides or {}))
    except ValidationError as error:
        lines = [
            f"{file}: {'.'.join(map(str, e['loc']))}: {e['msg'].removeprefix('Value error, ')} (found: "
            f"{e['input']!r:.80})"
            for e in error.errors()
        ]
        raise ConfigError("\n".join(lines)) from None
