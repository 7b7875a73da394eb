"""The study of [ure]: over a panel of models, how well do the traditional scheme and URE agree with the truth, and at
which cutoff best?

For each user e candidates are drawn uniformly (even_draw.py) and treated as random exposures. Their rank facts are
already in the ranks table, since the truth labels all candidates. So nothing is ranked again, and one pass gives, for
every e and model,

    traditional   recall@Kbar among the e drawn          mean over users with a drawn positive
    ure_macro     recall@K over all N candidates, from the e drawn: m_u / n_u, mean over the same users
    ure_micro     the same, sum of m_u N/e over sum of n_u N/e
    full          recall@K' over all candidates: the truth, mean over users with a positive

Each scheme is then compared with the truth at every K': Pearson and Kendall over the models (statistics/agreement.py).
By theorem 1, for random rankings recall@Kbar among e drawn items equals on average recall@K' among all N for K' = Kbar
N / e, so agreement should be highest there. N is the mean over users: their numbers of candidates differ where logged
items are not candidates. For URE agreement should be highest at K' = K.

Users without truth are left out. A user whose truth labels only some candidates, or who has at most e candidates, is an
error: exposures are drawn from all candidates.
"""

import math
from collections.abc import Iterable, Iterator
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from eval_engine.errors import DataError
from eval_engine.estimators.estimator import Terms
from eval_engine.estimators.registry import formula
from eval_engine.estimators.user_batch import LabelSet, UserBatch
from eval_engine.evaluation.statistics_plan import FACTS, rank_facts_of
from eval_engine.kernels.rank_facts import RankFacts
from eval_engine.positive import Positive
from eval_engine.spark.worker_process import prepare_worker
from eval_engine.statistics.agreement import agreement
from eval_engine.statistics.ratio import NO_USERS, RatioSums, estimate, merge, ratio_sums
from eval_engine.studies.even_draw import places_drawn, some_pairs
from eval_engine.studies.settings import UreStudy

FULL, CANDIDATES = "full", "candidates"
SCHEMES = ("traditional", "ure_macro", "ure_micro")
FORMULAS = {name: formula("full_macro" if name == FULL else name, "recall") for name in (FULL, *SCHEMES)}
SUM = pa.decimal128(38, 0)  # in units of 1e-12, as in RatioSums
SUMS = "model STRING, cell INT, " + ", ".join(f"{name} DECIMAL(38, 0)" for name in RatioSums._fields)
SUMS_ARROW = pa.schema([("model", pa.string()), ("cell", pa.int32()), *((name, SUM) for name in RatioSums._fields)])


class EvaluationSpec(NamedTuple):
    """The quantities that are computed for every model."""

    study: UreStudy
    positive: Positive
    ties: str


class Cell(NamedTuple):
    """One number of a model."""

    scheme: str
    exposures: int | None  # None: all candidates
    k: int


class StudyEstimate(NamedTuple):
    """A row of the table study_estimates, without run_id."""

    model: str
    scheme: str
    exposures: int | None
    k: int
    value: float | None
    standard_error: float | None
    low: float | None
    high: float | None
    confidence: float
    n_users: int
    n_left_out: int
    n_unknown: int


class AgreementRow(NamedTuple):
    """A row of the table agreement, without run_id."""

    scheme: str
    exposures: int
    k: int
    truth_k: int
    predicted_k: float
    n_models: int
    n_flipped: int
    pearson: float | None
    kendall: float | None
    pearson_max: bool
    kendall_max: bool
    reason: str | None


class Found(NamedTuple):
    """The result of the study."""

    candidates: float  # N, mean over users
    estimates: list[StudyEstimate]
    agreement: list[AgreementRow]


def cells(study: UreStudy) -> list[Cell]:
    """Every number of a model; the first is the mean number of candidates."""
    full = [Cell(FULL, None, k) for k in study.truth]
    of_draws = [Cell(scheme, e, k) for e in study.exposures for scheme in SCHEMES for k in _cutoffs(study, scheme)]
    return [Cell(CANDIDATES, None, 0), *full, *of_draws]


def _cutoffs(study: UreStudy, scheme: str) -> tuple[int, ...]:
    return study.traditional if scheme == "traditional" else study.ure


def found_in(ranks: DataFrame, question: EvaluationSpec, confidence: float) -> Found:
    """The study from rows of the ranks table: one Spark job."""
    own = [F.coalesce(F.col(f"truth.{name}"), F.col(name)).alias(name) for name in ("candidates", "scored")]
    wanted = ranks.select("model", "user_id", *own, "truth")
    added = (
        wanted.mapInArrow(_summed(question), SUMS)
        .groupBy("model", "cell")
        .agg(*(F.sum(name).alias(name) for name in RatioSums._fields))
    )
    asked = cells(question.study)
    sums: dict[str, dict[Cell, RatioSums]] = {}
    for row in added.collect():
        sums.setdefault(row["model"], {})[asked[row["cell"]]] = RatioSums(
            *(int(row[name]) for name in RatioSums._fields)
        )
    return found_of(sums, question.study, confidence)


def found_of(sums: dict[str, dict[Cell, RatioSums]], study: UreStudy, confidence: float) -> Found:
    """The study from every model's sums."""
    models = sorted(sums)
    n_users = sum(sums[model][Cell(CANDIDATES, None, 0)].n_users for model in models[:1])
    if not n_users:
        raise DataError(
            "ranks: no user of the run has truth, and the study draws from it. Give the complete labels of some users "
            "as inputs.truth, and run jobs/rank.py again."
        )
    candidates = estimate(sums[models[0]][Cell(CANDIDATES, None, 0)], confidence).value
    estimates = [
        _estimate_row(model, cell, sums[model][cell], confidence)
        for model in models
        for cell in cells(study)
        if cell.scheme != CANDIDATES
    ]
    return Found(candidates, estimates, list(agreement_rows(estimates, study, candidates)))


def _estimate_row(model: str, cell: Cell, sums: RatioSums, confidence: float) -> StudyEstimate:
    found = estimate(sums, confidence)
    value, error, low, high = map(_known, found[:4])
    return StudyEstimate(
        model, *cell, value, error, low, high, confidence, found.n_users, found.n_left_out, sums.n_unknown
    )


def _known(x: float) -> float | None:
    return None if math.isnan(x) else x


def agreement_rows(estimates: Iterable[StudyEstimate], study: UreStudy, candidates: float) -> Iterator[AgreementRow]:
    """Every curve of the study, point by point."""
    by_shard: dict[Cell, dict[str, float]] = {}
    for row in estimates:
        by_shard.setdefault(Cell(*row[1:4]), {})[row.model] = math.nan if row.value is None else row.value
    models = sorted({model for values in by_shard.values() for model in values})
    values = {cell: np.array([of[model] for model in models]) for cell, of in by_shard.items()}
    for cell in cells(study):
        if cell.exposures is None:
            continue
        points = [agreement(values[cell], values[Cell(FULL, None, k)]) for k in study.truth]
        predicted = cell.k * candidates / cell.exposures if cell.scheme == "traditional" else float(cell.k)
        defined = [p for p in points if p.reason is None]
        pearson, kendall = (
            max((p.pearson for p in defined), default=math.nan),
            max((p.kendall for p in defined), default=math.nan),
        )
        for k, p in zip(study.truth, points, strict=True):
            highest = p.pearson == pearson, p.kendall == kendall
            yield AgreementRow(
                cell.scheme, cell.exposures, cell.k, k, predicted, p.n_models, p.n_flipped,
                _known(p.pearson), _known(p.kendall), *highest, p.reason
            )  # fmt: skip


def _summed(question: EvaluationSpec) -> Any:
    """The function that adds up the users of a task: rows of ranks in, SUMS out."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        prepare_worker()
        totals: dict[str, list[RatioSums]] = {}
        for batch in batches:
            for model in pc.unique(batch.column("model")).to_pylist():
                found = sums_of(batch.filter(pc.equal(batch.column("model"), model)), question)
                totals[model] = [
                    merge(*both) for both in zip(totals.get(model, [NO_USERS] * len(found)), found, strict=True)
                ]
        for model, sums in totals.items():
            columns = [pa.array([Decimal(x) for x in column], SUM) for column in zip(*sums, strict=True)]
            yield pa.RecordBatch.from_arrays(
                [pa.array([model] * len(sums)), pa.array(range(len(sums)), pa.int32()), *columns], schema=SUMS_ARROW
            )

    return run


def sums_of(rows: pa.RecordBatch, question: EvaluationSpec) -> list[RatioSums]:
    """The sums of every cell over some users of one model."""
    study, truth = question.study, rows.column("truth")
    facts = rank_facts_of({name: truth.field(name) for name in FACTS}, rows.column("candidates"), rows.column("scored"))
    _refuse(facts, rows.column("user_id"), study)
    place = places_drawn(study.seed, rows.column("user_id"), facts.offsets, truth.field("items").flatten())
    draws: dict[int | None, RankFacts] = {None: facts} | {e: some_pairs(facts, place < e) for e in study.exposures}
    batches = {e: _batch(drawn, question.positive, "truth" if e is None else "random") for e, drawn in draws.items()}
    return [ratio_sums(_terms(cell, batches[cell.exposures], question.ties)) for cell in cells(study)]


def _batch(facts: RankFacts, positive: Positive, name: str) -> UserBatch:
    """Users whose labelled pairs are one label set."""
    return UserBatch({name: LabelSet(facts, positive.of(facts.value))})


def _terms(cell: Cell, batch: UserBatch, ties: str) -> Terms:
    if cell.scheme == CANDIDATES:
        labelled = batch.complete("truth")
        return Terms(labelled.candidates, (labelled.n_labelled > 0).astype(np.float64))
    own = FORMULAS[cell.scheme]
    return own.terms(own.estimator.view(batch), cell.k, ties)


def _refuse(facts: RankFacts, users: Any, study: UreStudy) -> None:
    """An error for truth from which exposures cannot be drawn."""
    some, most = facts.n_labels > 0, study.exposures[-1]
    for u in np.flatnonzero(some & (facts.n_labels < facts.candidates))[:1]:
        raise DataError(
            f"truth: user_id={users[u].as_py()} has labels of {facts.n_labels[u]:,} of {facts.candidates[u]:,} "
            "candidates, but exposures are drawn from all of them. Label the "
            "others, with a value that is no positive if that is what they are, or take the user out of the truth."
        )
    for u in np.flatnonzero(some & (facts.candidates <= most))[:1]:
        raise DataError(
            f"study.exposures: {most} cannot be drawn of the {facts.candidates[u]:,} candidates of "
            f"user_id={users[u].as_py()} and leave any. Lower it, or take the user out of the truth."
        )
