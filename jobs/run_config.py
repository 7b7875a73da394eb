"""A run's YAML file as a whole: what is evaluated, and, where the run makes its own data and models, the world and the
training.
"""

from typing import Self

from pydantic import Field, model_validator

from eval_engine.config import Evaluation, RunId, Scores, Strict
from eval_engine.datasets.world import World
from eval_engine.evaluation.bqs_settings import Bqs, BqsRule
from eval_engine.evaluation.days import Window
from eval_engine.exposure_design.settings import Collect, Design
from eval_engine.inputs.split_settings import Random, Split
from eval_engine.popularity.settings import Popularity
from eval_engine.propensity.settings import Propensity
from eval_engine.quality.gate_rules import APPROVED, Bounded, ChangeGate, Gates
from eval_engine.storage.stored_file import full_path
from eval_engine.studies.settings import BqsStudy, DesignStudy, SimpsonStudy, Study, WtdStudy
from eval_engine.test_sets.settings import TestSets
from models.spec.debiased import debiased_pairs
from models.spec.train import Train


class SimulatedStudy(Strict):
    """The file of a study that simulates all it needs: it has no inputs, no models and no other stage."""

    run_id: RunId
    lake: str = Field(description="folder, URI or catalog.schema that holds the written tables")
    report: str = Field("reports", description="folder for the picture and the page of the study")
    study: DesignStudy

    @model_validator(mode="after")
    def _writable(self) -> Self:
        check_report(self.report)
        return self


def check_report(folder: str) -> None:
    """An error if pictures and pages cannot be written there."""
    if "://" in folder:
        raise ValueError(
            f"report: {folder} is not a folder of this machine, where picture and page are written. "
            "Give one, and copy them from there"
        )


class RunConfig(Evaluation):
    """One file, one run; every job takes the same file."""

    scores: tuple[Scores, ...] = Field((), description="left out: the tables that `train` writes")
    report: str = Field("reports", description="folder for the picture and the page of the run")
    world: World | None = Field(None, description="jobs/simulate.py writes this world to the paths of `inputs`")
    split: Split | None = Field(None, description="jobs/split.py makes inputs.feedback and inputs.heldout of this log")
    propensity: Propensity | None = Field(
        None, description="jobs/propensity.py makes the propensities of logged pairs in this way"
    )
    popularity: Popularity | None = Field(
        None, description="jobs/popularity.py puts the items into classes of popularity in this way"
    )
    bqs: Bqs | None = Field(None, description="jobs/evaluate.py scores debiased models against their baselines")
    test_sets: TestSets | None = Field(
        None, description="jobs/test_sets.py draws these test sets from the held-out pairs"
    )
    train: Train | None = Field(None, description="jobs/train.py writes the scores of these models")
    design: Design | None = Field(None, description="jobs/design.py plans random exposures in this way")
    collect: Collect | None = Field(
        None, description="jobs/collect.py makes inputs.designed and inputs.exposures of what was shown by a plan"
    )
    window: Window | None = Field(None, description="jobs/merge.py adds up these days")
    gates: Gates | None = Field(None, description="jobs/gate.py holds the answers of the run against these rules")
    study: Study | None = Field(None, description="jobs/study.py makes this study of the run's models")

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if not self.scores and not self.train:
            raise ValueError("scores: give at least one score table, or a train section that makes them")
        check_report(self.report)
        if not self.inputs.labelled and self.design is None:
            raise ValueError(
                "inputs: no labels to judge models by: give at least one of exposures (random feedback), designed "
                "(exposures of a plan), heldout (logged feedback kept from training) and truth (complete labels); or a "
                "section design, which needs the models' top lists only"
            )
        if isinstance(self.study, SimpsonStudy):
            self._ready_for(self.study)
        elif isinstance(self.study, WtdStudy):
            self._ready_for_runs(self.study)
        elif isinstance(self.study, BqsStudy):
            self._ready_for_scores(self.study)
        elif self.study and self.inputs.truth is None:
            raise ValueError(
                "study holds schemes against the truth, so inputs.truth is needed: complete labels of some users "
                "at least"
            )
        if self.frame == "unseen" and self.inputs.feedback is None:
            raise ValueError(
                "frame: unseen leaves out logged pairs, so inputs.feedback is needed; or use frame: all_items"
            )
        if self.world and self.world.frame != self.frame:
            raise ValueError(
                f"world.frame is {self.world.frame} but frame is {self.frame}: exposures must be drawn from the frame "
                "that is ranked"
            )
        if self.propensity and self.inputs.heldout is None:
            raise ValueError("propensity is of held-out pairs, so inputs.heldout is needed")
        if self.propensity and self.propensity.method == "naive_bayes" and self.inputs.exposures is None:
            raise ValueError(
                "propensity: naive_bayes needs P(value) from a random sample, so inputs.exposures is needed"
            )
        names = [name for table in (*self.slices.items, *self.slices.users) for name in table.by]
        if self.popularity and "popularity" in names:
            raise ValueError("slices: popularity is the slicing by class. Map that column to another name")
        if self.popularity and self.inputs.feedback is None:
            raise ValueError("popularity counts training pairs, so inputs.feedback is needed")
        if self.test_sets and self.inputs.heldout is None:
            raise ValueError("test_sets are drawn from held-out pairs, so inputs.heldout is needed")
        self._seeds_apart()
        if self.test_sets and self.inputs.exposures is None:
            for one in self.test_sets:
                if one.strategy == "WTD":
                    raise ValueError(
                        f"test_sets: {one.name} (WTD) takes the marginals of random exposures, so inputs.exposures is "
                        "needed; or use strategy: WTD_H"
                    )
        self._places_for_a_split()
        self._places_for_what_was_shown()
        needed = max(metric.k for metric in self.evaluate.metrics)
        if self.top < needed:
            raise ValueError(f"top: {self.top} is shorter than the largest cutoff of evaluate.metrics, {needed}")
        if twice := sorted({table.model for table in self.scores if table.model} & set(self.fused_models())):
            raise ValueError(
                f"scores: model {twice[0]} has a score table here and output: ranks in train. "
                "Give one of them another name"
            )
        self._one_table_per_model()
        self._gates_can_be_judged()
        self._bqs_can_be_made()
        return self

    def _bqs_can_be_made(self) -> None:
        """Scores are of metrics that are estimated, and of pairs."""
        if self.bqs is None:
            return
        if unknown := [metric for metric in self.bqs.metrics if metric not in self.evaluate.metrics]:
            raise ValueError(f"bqs.metrics: {unknown[0]} is not among evaluate.metrics, so that it has no estimates")
        if self.popularity is None and any(part.startswith("popularity=") for part in self.bqs.slices):
            raise ValueError(
                "bqs.slices: classes of popularity need the section popularity, such as popularity: {method: elbow}"
            )
        rule = self.bqs_rule()
        if rule is not None and not rule.pairs:
            raise ValueError("bqs.pairs: no model of `train` is known to be a debiased one of another: name the pairs")

    def bqs_rule(self) -> BqsRule | None:
        """The balanced quality scores that are asked for."""
        if self.bqs is None:
            return None
        train = self.train
        names = [model.name for model in (*train.models, *train.trials.values())] if train else []  # left out or not
        return self.bqs.rule(debiased_pairs(names))

    def _gates_can_be_judged(self) -> None:
        """Gates of a window have one, and intervals that hold at every look are of a sample that grows; neither gates
        nor windows are of a lake that only Spark reads.
        """
        if self.window or self.gates:
            from eval_engine.lake.lake import CATALOG_NAME  # imports Spark, which commands without these do not

            if CATALOG_NAME.fullmatch(self.lake):
                raise ValueError(
                    f"{'window' if self.window else 'gates'}: the lake {self.lake} is a schema of a catalog, which "
                    "only Spark reads, and runs are merged and gated without. Give a folder or URI as `lake`, or leave "
                    "the sections window and gates out"
                )
        for rule in self.gates.rules if self.gates else ():
            if not isinstance(rule, Bounded):
                continue
            if rule.of == "window" and self.window is None:
                raise ValueError(
                    f"gates: {rule.name} is of a window, so the section window is needed, such as window: 7"
                )
            if self.evaluate.anytime is None:
                continue
            if rule.of == "window" and self.window and self.window.days:
                raise ValueError(
                    f"gates: {rule.name} is of a window of {self.window.days} days, which moves, and evaluate.anytime "
                    "holds for samples that only grow. Give window: {since: DAY}, or leave evaluate.anytime out"
                )
            if isinstance(rule, ChangeGate) and rule.baseline == APPROVED and rule.fails != "beyond":
                raise ValueError(
                    f"gates: {rule.name} is held against the last approved run, which changes, and evaluate.anytime "
                    "holds for one baseline. Give baseline: RUN_ID, or leave evaluate.anytime out"
                )

    def _seeds_apart(self) -> None:
        """An error if test sets are drawn with the seed by which pairs were held out."""
        if self.split is None or not isinstance(self.split.how, Random):
            return
        for one in self.test_sets or ():
            last = one.first_seed + one.n_draws - 1
            if one.strategy != "FULL" and one.first_seed <= self.split.how.seed <= last:
                raise ValueError(
                    f"test_sets: {one.name} is drawn with seeds {one.first_seed} to {last}, and split.how.seed is "
                    f"{self.split.how.seed}: both hash the same pairs, so that with one seed the draw would follow the "
                    "split, not its weights. Give test sets other seeds"
                )

    def _ready_for(self, study: SimpsonStudy) -> None:
        """What a study of logged feedback needs is there."""
        if self.propensity is None:
            raise ValueError("study weighs held-out pairs, so the section propensity is needed")
        if self.inputs.truth is None and self.inputs.exposures is None:
            raise ValueError("study compares estimates with a reference: inputs.truth or inputs.exposures is needed")
        if study.propensities and self.fused_models():
            raise ValueError(
                f"study.propensities are runs of their own over the scores, and {self.fused_models()[0]} writes ranks "
                "only: use output: scores"
            )
        if study.show not in self.evaluate.strata:
            shown = f"{{kind: {study.show.kind}, n: {study.show.n}}}"
            raise ValueError(f"study.show: {shown} is not among evaluate.strata, so that it has no estimates")

    def _ready_for_scores(self, study: BqsStudy) -> None:
        """What a study of debiased models needs is there."""
        if self.bqs is None:
            raise ValueError("study compares debiased models with their baselines, so the section bqs is needed")
        known = {(metric.base, metric.k) for metric in self.bqs.metrics}
        if missing := [f"{name}@{k}" for name in study.qualities for k in study.k if (name, k) not in known]:
            raise ValueError(f"study: {missing[0]} is not among bqs.metrics")
        asked = {(metric.base, metric.k) for metric in self.evaluate.metrics}
        lists = ("arp", "aplt", "p_reo", "exposure_share")
        needed = [(name, k) for name in lists for k in study.k] + [("recall", study.show), ("raw_recall", study.show)]
        if missing := [f"{name}@{k}" for name, k in needed if (name, k) not in asked]:
            raise ValueError(f"study: {missing[0]} is not among evaluate.metrics")

    @property
    def has_runs_of_its_own(self) -> bool:
        """Whether the study makes several runs itself, each with its own split, training and evaluation."""
        return isinstance(self.study, WtdStudy)

    def _ready_for_runs(self, study: WtdStudy) -> None:
        """What a study of test sets needs is there."""
        if self.split is None or not isinstance(self.split.how, Random):
            raise ValueError("study splits the log anew in each run: a split section with strategy: random is needed")
        if self.inputs.exposures is None:
            raise ValueError("study compares test sets with random data, so inputs.exposures is needed")
        if self.test_sets is None:
            raise ValueError("study compares test sets, so the section test_sets is needed")
        if self.train is None or self.scores:
            raise ValueError("study trains models on each split: a train section is needed, and no scores")
        if self.fused_models():
            raise ValueError(
                f"study ranks the same scores twice, and {self.fused_models()[0]} writes ranks only: use output: scores"
            )
        names = {model.name for model in self.train.models} | {search.model for search in self.train.search}
        if unknown := sorted(set(study.without) - names):
            raise ValueError(f"study.without: {unknown[0]} is none of the compared models: {', '.join(sorted(names))}")

    def _places_for_a_split(self) -> None:
        """Feedback and heldout have a place of their own each, which can be written."""
        if self.split is None:
            return
        log = self.split.log
        for name in ("feedback", "heldout"):
            where = getattr(self.inputs, name)
            if where is None:
                raise ValueError(f"split writes inputs.{name}, so its path is needed")
            if where.format == "csv" or where.csv or where.path.lower().endswith(".csv"):
                raise ValueError(f"split writes inputs.{name} as Delta or Parquet, but {where.path} is CSV")
            if full_path(where.path) == full_path(log.path):
                raise ValueError(f"split reads {log.path} and would write inputs.{name} over it: give another path")
        if len({full_path(where.path) for where in (self.inputs.feedback, self.inputs.heldout) if where}) == 1:
            raise ValueError("split writes inputs.feedback and inputs.heldout: give each a path of its own")
        if self.world and self.split.timed:
            raise ValueError(
                f"split.how is {self.split.how.strategy}, but the simulated world has no times: use strategy: random"
            )

    def _places_for_what_was_shown(self) -> None:
        """Designed exposures and those of arm U have a place of their own each, which can be written."""
        if self.collect is None:
            return
        places = {"shown": self.collect.shown.path}
        for name in ("designed", "exposures"):
            where = getattr(self.inputs, name)
            if where is None:
                raise ValueError(f"collect writes inputs.{name}, so its path is needed")
            if where.format == "csv" or where.csv or where.path.lower().endswith(".csv"):
                raise ValueError(f"collect writes inputs.{name} as Delta or Parquet, but {where.path} is CSV")
            places[name] = where.path
        if len({full_path(path) for path in places.values()}) < len(places):
            raise ValueError(
                f"collect reads {places['shown']}, writes inputs.designed and inputs.exposures: give each a path of "
                "its own"
            )

    def _one_table_per_model(self) -> None:
        """Each declared score table has a name of its own, and no name of a model that is trained to another place."""
        seen: dict[str, str] = {}
        for table in self.scores:
            name = table.model or table.path
            if name in seen:
                what = (
                    f"model {name} has two score tables, {seen[name]} and {table.path}"
                    if table.model
                    else f"{name} is listed twice"
                )
                raise ValueError(f"scores: {what}. Give one of the models another name, or take one table out")
            seen[name] = table.path
        if self.scores and self.train:
            for model in self.train.panel:
                trained = f"{self.train.scores}/{model.name}"
                if (path := seen.get(model.name)) and full_path(path) != full_path(trained):
                    raise ValueError(
                        f"scores: model {model.name} has a score table here, {path}, and is trained to {trained}. "
                        "Give one of them another name"
                    )

    def score_tables(self) -> tuple[Scores, ...]:
        """The declared score tables, else those that training writes; none for fused models."""
        if self.scores or not self.train:
            return self.scores
        names = [model.name for model in self.train.panel if model.name not in self.fused_models()]
        return tuple(Scores(model=name, path=f"{self.train.scores}/{name}", format="parquet") for name in names)

    def fused_models(self) -> tuple[str, ...]:
        """The models that training ranks itself (output: ranks): they have rows in `ranks`, and no score table."""
        return self.train.fused_models() if self.train else ()

    def without(self, models: tuple[str, ...]) -> Self:
        """The same run, less some models of its training."""
        if not models or self.train is None:
            return self
        train = self.train.model_copy(update={"without": (*self.train.without, *models)})
        return type(self).model_validate({**self.model_dump(), "train": train.model_dump()})


AnyConfig = RunConfig | SimulatedStudy
