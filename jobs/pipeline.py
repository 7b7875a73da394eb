"""The stages of a run, as data: what each does, reads and writes, and what must be done before it.

The command line (jobs/cli.py), the spark-submit scripts, the `runs` rows and the checks before a stage
(jobs/stage.py), the check of output folders (jobs/outputs.py) and the table of docs/stages.md all read STAGES. A stage
is one entry here and one file jobs/NAME.py with a function `run`; no stage is imported before it runs.

    python -m jobs.pipeline          prints the table of docs/stages.md

In `reads` and `writes` a Table is a table of the lake; a name is an input of the config (inputs.feedback, scores, the
log of `split`), at the path that the config gives it.
"""

from collections.abc import Iterator
from importlib import import_module
from types import ModuleType
from typing import Literal, NamedTuple

from eval_engine import tables
from eval_engine.config import Input
from eval_engine.errors import ConfigError
from eval_engine.propensity.settings import Logistic
from eval_engine.tables import Table
from jobs.run_config import AnyConfig, SimulatedStudy


class Stage(NamedTuple):
    """One stage of a run."""

    about: str
    reads: tuple[Table | str, ...]
    writes: tuple[Table | str, ...]
    after: tuple[str, ...]  # stages that must be done before this one, of those that the config has
    section: str | None = None  # of the config, without which the stage has nothing to do; None: every run has it
    folders: tuple[str, ...] = ()  # keys of the config: folders that the stage writes to, besides the lake
    publishes: Table | None = None  # the written table whose content later stages rest on
    spark: Literal["always", "when needed", "never"] = "always"  # see jobs/cli.py: what `run` is given
    judges: bool = False  # needs labels; a run without any is ranked for its top lists only
    once: bool = False  # also in a config whose study makes the other stages of several runs itself

    def is_asked(self, config: AnyConfig) -> bool:
        """Whether the config has what the stage works on."""
        if isinstance(config, SimulatedStudy):
            return self.section == "study"
        if (config.has_runs_of_its_own and not self.once) or (self.judges and not config.inputs.labelled):
            return False
        return self.section is None or getattr(config, self.section) is not None

    @property
    def lake_tables(self) -> tuple[Table, ...]:
        """The tables of the lake that the stage writes."""
        return tuple(table for table in self.writes if isinstance(table, Table))


LABELS = ("catalogue", "exposures", "feedback", "heldout", "truth", "designed")

STAGES: dict[str, Stage] = {  # in the order in which `plumbline run` runs them
    "simulate": Stage(
        about="Write a synthetic world, whose truth is known, to the paths of the inputs.",
        reads=(),
        writes=("catalogue", "feedback", "exposures", "truth"),
        after=(),
        section="world",
        spark="when needed",
        once=True,
    ),
    "split": Stage(
        about="Split one log into feedback, which models are trained on, and heldout, which is kept from training.",
        reads=("log",),
        writes=("feedback", "heldout", tables.QUALITY, tables.QUARANTINE),
        after=("simulate",),
        section="split",
        spark="when needed",
    ),
    "collect": Stage(
        about="Join what was shown with the plan of an earlier run (exposure_plan), and say what differs.",
        reads=("shown",),
        writes=("designed", "exposures"),
        after=("simulate",),
        section="collect",
    ),
    "propensity": Stage(
        about="Estimate how likely each pair was to be logged, and hold that against random exposure.",
        reads=("catalogue", "feedback", "heldout", "exposures", "features"),
        writes=(
            tables.PROPENSITIES,
            tables.PROPENSITY_USERS,
            tables.PROPENSITY_FITS,
            tables.PROPENSITY_CALIBRATION,
        ),
        after=("simulate", "split"),
        section="propensity",
        publishes=tables.PROPENSITY_FITS,
    ),
    "popularity": Stage(
        about="Count how often each item was trained on, and put the items into classes of popularity.",
        reads=("catalogue", "feedback"),
        writes=(tables.POPULARITY, tables.POPULARITY_CLASSES),
        after=("simulate", "split"),
        section="popularity",
        publishes=tables.POPULARITY_CLASSES,
    ),
    "test_sets": Stage(
        about="Draw test sets from the held-out pairs whose users and items are more alike a random sample.",
        reads=("catalogue", "feedback", "heldout", "exposures"),
        writes=(tables.TEST_SETS, tables.TEST_SET_USERS, tables.TEST_SET_ITEMS, tables.TEST_SET_PAIRS),
        after=("simulate", "split"),
        section="test_sets",
        folders=("staging",),
    ),
    "train": Stage(
        about="Train the models of a run and write their scores, or their ranks.",
        reads=("catalogue", "feedback", "exposures"),  # with output: ranks also the labels that rank reads
        writes=("scores", tables.TRIALS, tables.RANKS),
        after=("simulate", "split", "propensity", "popularity"),
        section="train",
        spark="never",
    ),
    "rank": Stage(
        about="Rank every labelled pair of a run in the full score lists of its models.",
        reads=(*LABELS, "scores"),
        writes=(tables.RANKS, tables.CATALOGUE, tables.QUALITY, tables.QUARANTINE),
        after=("simulate", "split", "collect", "train"),
        folders=("staging",),
        publishes=tables.RANKS,
    ),
    "evaluate": Stage(
        about="Estimate every metric of a run from its ranks, and compare its models.",
        reads=(
            tables.RANKS,
            "slices",
            tables.PROPENSITIES,
            tables.PROPENSITY_USERS,
            tables.PROPENSITY_FITS,
            tables.TEST_SETS,
            tables.TEST_SET_USERS,
            tables.TEST_SET_ITEMS,
            tables.POPULARITY,
            tables.POPULARITY_CLASSES,
            "training pairs",
        ),
        writes=(
            tables.ESTIMATES,
            tables.COMPARISONS,
            tables.REVERSALS,
            tables.ESTIMATOR_AGREEMENT,
            tables.BQS,
            tables.STATISTICS,
            tables.STRATA,
            tables.USER_METRICS,
        ),
        after=("rank", "propensity", "popularity", "test_sets"),
        judges=True,
    ),
    "design": Stage(
        about="Plan random exposures by which close models can be told apart: which items, with what probability.",
        reads=(tables.RANKS, tables.CATALOGUE, "feedback"),
        writes=(tables.EXPOSURE_PLAN,),
        after=("rank",),
        section="design",
    ),
    "merge": Stage(
        about="Add the statistics of several days into estimates of their own, without ranking anything again.",
        reads=(tables.STATISTICS, tables.ESTIMATES),
        writes=(
            tables.STATISTICS,
            tables.ESTIMATES,
            tables.COMPARISONS,
            tables.REVERSALS,
            tables.ESTIMATOR_AGREEMENT,
            tables.BQS,
            tables.MERGES,
        ),
        after=("evaluate",),
        section="window",
        spark="never",
    ),
    "report": Stage(
        about="Print the answers of a run, and write its picture and its page.",
        reads=(
            tables.ESTIMATES,
            tables.COMPARISONS,
            tables.REVERSALS,
            tables.ESTIMATOR_AGREEMENT,
            tables.BQS,
            tables.POPULARITY_CLASSES,
            tables.QUALITY,
        ),
        writes=(),
        after=("evaluate",),
        folders=("report",),
        judges=True,
    ),
    "gate": Stage(
        about="Hold the answers of a run against the rules of its config, and approve it or end with exit code 5.",
        reads=(tables.ESTIMATES, tables.COMPARISONS, tables.REVERSALS, tables.QUALITY, tables.STATISTICS),
        writes=(tables.GATES,),
        after=("evaluate", "merge"),
        section="gates",
        spark="never",
    ),
    "study": Stage(
        about="Study how well each scheme agrees with the truth over the models of a run (docs/study.md, "
        "docs/simpson.md, docs/wtd.md), or what designed exposures are worth (docs/design.md).",
        reads=(tables.RANKS,),
        writes=(tables.STUDY_ESTIMATES, tables.AGREEMENT, tables.DESIGN_STUDY),
        after=("rank",),
        section="study",
        folders=("report",),
        once=True,
    ),
}


def module_of(name: str) -> ModuleType:
    """The file of a stage, imported now."""
    return import_module(f"jobs.{name}")


def stages_of(config: AnyConfig) -> tuple[str, ...]:
    """The stages that the config has something to do for, in order."""
    return tuple(name for name, stage in STAGES.items() if stage.is_asked(config))


def check_asked(config: AnyConfig, name: str) -> None:
    """An error if the config has nothing for the stage to do."""
    stage = STAGES[name]
    if isinstance(config, SimulatedStudy):
        if not stage.is_asked(config):
            raise ConfigError(
                f"A study of kind {config.study.kind} simulates all it needs, so there is no stage {name}."
            )
        return
    if config.has_runs_of_its_own and not stage.once:
        raise ConfigError(
            f"A study of kind wtd makes the stage {name} of its runs itself: use `plumbline run`, or `plumbline study`."
        )
    if stage.judges and not config.inputs.labelled:
        raise ConfigError(
            f"The inputs have no labels to judge models by, so there is nothing for the stage {name} to do: such a run "
            "is ranked for its top lists, which design needs."
        )
    if not stage.is_asked(config):
        raise ConfigError(
            f"This config has no {stage.section} section, so there is nothing for the stage {name} to do. "
            "docs/stages.md has the section of each stage."
        )


def inputs_of(config: AnyConfig, name: str) -> Iterator[tuple[str, Input]]:
    """The inputs that the stage reads, those that the config has, by what errors call them."""
    if isinstance(config, SimulatedStudy):
        return
    fused = LABELS if name == "train" and config.fused_models() else ()
    for read in dict.fromkeys((*STAGES[name].reads, *fused)):
        if read == "log" and config.split:
            yield "log", config.split.log
        elif read == "shown" and config.collect:
            yield "shown", config.collect.shown
        elif read == "scores":
            yield from ((f"scores of {table.model or table.path}", table) for table in config.score_tables())
        elif read == "training pairs" and config.popularity and config.inputs.feedback:
            yield "feedback", config.inputs.feedback
        elif read == "slices":
            sliced = (*config.slices.items, *config.slices.users)
            yield from ((f"slices by {', '.join(table.by)}", table) for table in sliced)
        elif read == "features" and isinstance(config.propensity, Logistic):
            for of in ("items", "users"):
                given = enumerate(getattr(config.propensity, of))
                yield from ((f"propensity.{of}[{n}]", table) for n, table in given)
        elif isinstance(read, str) and (where := getattr(config.inputs, read, None)):
            yield read, where


def stages_table() -> str:
    """The stages as the table of docs/stages.md."""
    head = ("stage", "what it does", "section of the config", "after", "reads", "writes", "Spark")
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for name, stage in STAGES.items():
        section = f"`{stage.section}`" if stage.section else "none"
        cells = (name, stage.about, section, ", ".join(stage.after) or "none")
        written = (*stage.writes, *(f"folder `{folder}`" for folder in stage.folders))
        lines.append("| " + " | ".join((*cells, _names(stage.reads), _names(written), stage.spark)) + " |")
    return "\n".join(lines)


def _names(parts: tuple[Table | str, ...]) -> str:
    return ", ".join(f"`{part.name}`" if isinstance(part, Table) else part for part in parts) or "none"


if __name__ == "__main__":
    print(stages_table())
