"""What a task makes of its users, one model at a time: sums by bucket for every estimator, metric and cutoff, and the few numbers per user that models are compared on.

Sums are exact (statistics/bucket_sums.py), so neither partitioning nor the order of users matters. Those of ure_macro recall are kept by stratum too: by how many exposures,
candidates and exposed positives a user has, which balanced URE is made of.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eval_engine.estimators.estimator import Estimator, Terms
from eval_engine.estimators.labelled import Labelled
from eval_engine.evaluation.spec import EvaluationSpec
from eval_engine.kernels.arrays import Ints
from eval_engine.metric import Metric
from eval_engine.statistics.balanced import lump_of, two_digits
from eval_engine.statistics.bucket_sums import N_BUCKETS, Sums, add, bucket_of, no_sums

PACKED = "bucket INT, model STRING, sums BINARY, users BINARY, values BINARY"
PACKED_ARROW = pa.schema(
    [
        ("bucket", pa.int32()),
        ("model", pa.string()),
        ("sums", pa.binary()),
        ("users", pa.binary()),
        ("values", pa.binary()),
    ]
)
ROW = np.dtype(
    [
        ("bucket", "<i4"),
        ("cell", "<i4"),
        ("stratum", "<i4", 3),
        ("counts", "<i8", 3),
        ("whole", "<i8", 7),
        ("part", "<i8", 7),
    ]
)
NO_STRATUM = (-1, -1, -1)
STRATIFIED = ("ure_macro", "recall")


class UserSums:
    """The sums of one model's users, as far as a task has come."""

    def __init__(self, model: str, question: EvaluationSpec) -> None:
        self._model, self._question = model, question
        self._asked = question.asked()
        self._compared = {
            (estimator, metric): n
            for n, metric in enumerate(question.compared())
            if (estimator := question.compared_by(metric))
        }
        self._by_stratum = [
            cell for cell, (estimator, _) in enumerate(self._asked) if (estimator.name, estimator.metric) == STRATIFIED
        ]
        self._sums = no_sums(len(self._asked), N_BUCKETS)  # of the others
        self._strata = _Strata()
        self._stratum_sums = no_sums(len(self._by_stratum), 0)

    def add(self, hashes: npt.NDArray[np.int64], labelled: dict[str, Labelled]) -> pa.RecordBatch:
        """Add users; what models are compared on, a row of PACKED per bucket, with the users who have it."""
        bucket = bucket_of(hashes)
        if self._by_stratum:
            row = self._strata.rows(labelled["random"], bucket)
            more = no_sums(len(self._by_stratum), self._strata.n_rows - self._stratum_sums.counts.shape[1])
            self._stratum_sums = Sums(
                *(np.concatenate(both, axis=1) for both in zip(self._stratum_sums, more, strict=True))
            )
        tied = {source: _tied_users(one) for source, one in labelled.items()}
        values = np.empty((len(self._compared), hashes.size), np.float32)
        for cell, (estimator, metric) in enumerate(self._asked):
            terms = _terms(estimator, metric, labelled, self._question.ties)
            users = tied["truth" if estimator.source == "both" else estimator.source]
            low, high = (_bound(estimator, metric, labelled, users, terms, ties) for ties in ("strict", "optimistic"))
            if cell in self._by_stratum:
                add(_of_cell(self._stratum_sums, self._by_stratum.index(cell)), terms, low, high, row)
            else:
                add(_of_cell(self._sums, cell), terms, low, high, bucket)
            if (estimator, metric) in self._compared:
                values[self._compared[estimator, metric]] = _value(terms)
        for estimator, metric in set(self._compared) - set(self._asked):
            values[self._compared[estimator, metric]] = _value(_terms(estimator, metric, labelled, self._question.ties))
        return self._packed_values(hashes, bucket, values, labelled)

    def _packed_values(
        self,
        hashes: npt.NDArray[np.int64],
        bucket: Ints,
        values: npt.NDArray[np.float32],
        labelled: dict[str, Labelled],
    ) -> pa.RecordBatch:
        some = np.flatnonzero(labelled["random"].n_positive > 0) if self._compared else np.empty(0, np.int64)
        some = some[np.argsort(bucket[some].astype(np.uint8), kind="stable")]
        values, hashes = values[:, some], hashes[some]
        buckets, starts = np.unique(bucket[some], return_index=True)
        slices = [slice(*ends) for ends in pairwise([*starts, some.size])]
        nothing = [None] * buckets.size
        return _batch(
            buckets,
            self._model,
            nothing,
            [hashes[s].tobytes() for s in slices],
            [values[:, s].tobytes() for s in slices],
        )

    def packed(self) -> pa.RecordBatch:
        """The sums of all users, a row of PACKED per bucket."""
        rows = np.concatenate(list(self._rows()))
        rows = rows[np.argsort(rows["bucket"].astype(np.uint8), kind="stable")]
        buckets, starts = np.unique(rows["bucket"], return_index=True)
        parts = [part.tobytes() for part in np.split(rows, starts[1:])][: buckets.size]
        nothing = [None] * len(parts)
        return _batch(buckets, self._model, parts, nothing, nothing)

    def _rows(self) -> Iterator[npt.NDArray[Any]]:
        for sums, cells, buckets, strata in (
            (self._sums, np.arange(len(self._asked)), np.arange(N_BUCKETS), np.tile(NO_STRATUM, (N_BUCKETS, 1))),
            (self._stratum_sums, np.array(self._by_stratum, np.int64), *self._strata.known()),
        ):
            cell, row = np.nonzero(sums.counts.any(axis=2))
            found = np.empty(cell.size, ROW)
            found["bucket"], found["cell"], found["stratum"] = buckets[row], cells[cell], strata[row]
            for name, values in zip(("counts", "whole", "part"), sums, strict=True):
                found[name] = values[cell, row]
            yield found


class _Strata:
    """A number for each stratum and bucket, as they turn up."""

    def __init__(self) -> None:
        self._strata: dict[tuple[int, ...], int] = {}
        self._row_of = np.empty(0, np.int64)  # by N_BUCKETS stratum + bucket; -1: not seen yet
        self._seen = np.empty(0, np.int64)  # the same, by row

    @property
    def n_rows(self) -> int:
        return self._seen.size

    def rows(self, random: Labelled, bucket: Ints) -> Ints:
        """The number of each user's stratum and bucket."""
        kinds, which = _kinds(random)
        numbers = np.array(
            [self._strata.setdefault(tuple(kind), len(self._strata)) for kind in kinds.tolist()], np.int64
        )
        code = numbers[which] * N_BUCKETS + bucket
        self._row_of = np.concatenate([self._row_of, np.full(len(self._strata) * N_BUCKETS - self._row_of.size, -1)])
        new = np.unique(code[self._row_of[code] < 0])
        self._row_of[new] = np.arange(self.n_rows, self.n_rows + new.size)
        self._seen = np.concatenate([self._seen, new])
        found: Ints = self._row_of[code]
        return found

    def known(self) -> tuple[Ints, Ints]:
        """Bucket and stratum of each number."""
        return self._seen % N_BUCKETS, np.array(list(self._strata), np.int64).reshape(-1, 3)[self._seen // N_BUCKETS]


def _kinds(random: Labelled) -> tuple[Ints, Ints]:
    """The kinds of users, as (exposures, candidates, exposed positives), each coarse, and the number of each user's; none with uneven exposure."""
    n_users = random.facts.n_users
    if random.weight is not None:
        return np.array([NO_STRATUM][: n_users or 0], np.int64), np.zeros(n_users, np.int64)
    kind = np.stack([two_digits(random.n_labelled), two_digits(random.candidates), lump_of(random.n_positive)])
    code = (
        (kind[0] << 42) + (kind[1] << 21) + kind[2]
        if kind.max(initial=0) < 1 << 21
        else np.unique(kind, axis=1, return_inverse=True)[1].reshape(-1)
    )
    _, first, which = np.unique(code, return_index=True, return_inverse=True)
    return kind[:, first].T, which.reshape(-1)


def _of_cell(sums: Sums, cell: int) -> Sums:
    return Sums(*(x[cell] for x in sums))


def _terms(estimator: Estimator, metric: Metric, labelled: dict[str, Labelled], ties: str) -> Terms:
    if estimator.source == "both":
        return estimator.terms(labelled["truth"], metric.k, ties, labelled["random"].facts.n_labels)
    return estimator.terms(labelled[estimator.source], metric.k, ties)


def _tied_users(labelled: Labelled) -> Ints:
    """The users with a positive that is level with another candidate: only they have bounds beside their value."""
    ends = np.concatenate([[0], np.cumsum(labelled.tied > 0)])[labelled.offsets]
    return np.flatnonzero(np.diff(ends))


def _bound(
    estimator: Estimator, metric: Metric, labelled: dict[str, Labelled], users: Ints, terms: Terms, ties: str
) -> npt.NDArray[np.float64]:
    """Numerators with every tie broken against (strict) or for (optimistic) the model."""
    if not users.size:
        return terms.numerator
    numerators = terms.numerator.copy()
    numerators[users] = _terms(
        estimator, metric, {source: one.of(users) for source, one in labelled.items()}, ties
    ).numerator
    return numerators


def _value(terms: Terms) -> npt.NDArray[np.float64]:
    return np.where(terms.denominator > 0, terms.numerator, np.nan)


def _batch(buckets: Ints, model: str, *columns: Sequence[bytes | None]) -> pa.RecordBatch:
    binary = [pa.array(column, pa.binary()) for column in columns]
    return pa.RecordBatch.from_arrays(
        [pa.array(buckets, pa.int32()), pa.array([model] * len(buckets), pa.string()), *binary], schema=PACKED_ARROW
    )
