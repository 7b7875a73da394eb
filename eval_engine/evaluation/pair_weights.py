"""How the weight of an estimate is spread over pairs: what effective sample size, largest share and clipped share are
computed from; and the test pairs of each stratum of propensity.

    w: each positive's weight in the estimate (Estimator.share), up to a common factor
    n, sum w, sum w^2, largest w, clipped positives          of all users, and of each slice
    pairs, sum 1/p                                           of all test pairs of a stratum, by coarse bucket of users

Sums are integers in units of 1e-12, so neither partitioning nor order matters. They are the same for every model that
ranked the same users. A task sends them as JSON in one row of PACKED per model.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from eval_engine.estimators.estimator import Estimator
from eval_engine.estimators.user_batch import UserBatch
from eval_engine.evaluation.packed_rows import EVERYTHING
from eval_engine.evaluation.slice_codes import SliceCodes
from eval_engine.evaluation.spec import EvaluationSpec
from eval_engine.kernels.arrays import Ints
from eval_engine.kernels.compiled import compiled
from eval_engine.statistics.bucket_sums import LIMB, N_COARSE
from eval_engine.statistics.ratio import SCALE

Doubles = npt.NDArray[np.float64]
WEIGHT, PAIRS = "(weight)", "(pairs)"  # metrics of the rows in the statistics table: not names that a metric can have
CARRY = np.int64(2**62)  # of a rest: no sum of rests comes near the end of an int64
HELDOUT = "heldout"  # estimator of the rows of test pairs


class Spread(NamedTuple):
    """Of some pairs; sums in units of 1e-12."""

    n: int
    clipped: int
    w: int
    ww: int
    largest: float

    def merged(self, other: "Spread") -> "Spread":
        """Of both together."""
        largest = max(self.largest, other.largest)
        return Spread(self.n + other.n, self.clipped + other.clipped, self.w + other.w, self.ww + other.ww, largest)

    @property
    def effective(self) -> float:
        """Effective sample size (sum w)^2 / sum w^2, in pairs; NaN without pairs."""
        return self.w * self.w / (self.ww * SCALE) if self.ww else float("nan")

    @property
    def largest_share(self) -> float:
        """Share of the largest weight."""
        return self.largest * SCALE / self.w if self.w else float("nan")

    @property
    def clipped_share(self) -> float:
        """Share of the pairs whose weight was clipped."""
        return self.clipped / self.n if self.n else float("nan")


NO_PAIRS = Spread(0, 0, 0, 0, 0.0)
Key = tuple[str, str, int, int]  # estimator, WEIGHT or PAIRS, slice, coarse bucket


class PairWeights:
    """The running sums of one model in a task."""

    def __init__(self, spec: EvaluationSpec) -> None:
        by_name: dict[str, Estimator] = {formula.estimator.name: formula.estimator for formula, _ in spec.asked()}
        self._estimators = [one for one in by_name.values() if one.share is not None]
        self._n_slices = len(spec.slice_names())
        self._by_pair = {one.name: spec.slicings_of_pairs(one) for one in self._estimators}
        self._sums: dict[tuple[str, str], tuple[npt.NDArray[np.int64], Doubles]] = {}  # by estimator and metric

    def add(self, batch: UserBatch, slices: SliceCodes, coarse: Ints) -> None:
        """Add users. coarse: coarse bucket of each user."""
        for estimator in self._estimators:
            view = estimator.view(batch)
            assert estimator.share is not None
            weight = estimator.share(batch, view)
            cut = np.zeros(weight.size, np.bool_)
            if estimator.clipped is not None:
                cut = estimator.clipped(batch)[view.positive]
            counts = np.diff(view.offsets)
            everything = np.full(weight.size, EVERYTHING)
            self._add(estimator.name, WEIGHT, everything, weight, cut)
            for codes in slices.users:
                self._add(estimator.name, WEIGHT, np.repeat(codes, counts), weight, cut)
            of_positives = slices.of(view.label_set, self._by_pair[estimator.name])
            if len(of_positives):
                sliced, _, code = view.sliced(of_positives)
                own = estimator.share(batch, sliced)
                self._add(estimator.name, WEIGHT, np.repeat(code, np.diff(sliced.offsets)), own, cut[sliced.index])
        if slices.pairs is not None:
            facts = batch.labels[HELDOUT].facts
            inverse, bucket = 1 / batch.propensity(HELDOUT), np.repeat(coarse, facts.n_labels)
            nothing = np.zeros(inverse.size, np.bool_)
            for codes in slices.pairs:
                self._add(HELDOUT, PAIRS, codes, inverse, nothing, bucket)

    def _add(
        self, name: str, metric: str, code: Ints, w: Doubles, cut: npt.NDArray[np.bool_], bucket: Ints | None = None
    ) -> None:
        n_buckets = 1 if bucket is None else N_COARSE
        if (name, metric) not in self._sums:
            size = (self._n_slices + 1) * n_buckets
            self._sums[name, metric] = np.zeros((size, 6), np.int64), np.zeros(size)
        place = code - EVERYTHING if bucket is None else (code - EVERYTHING) * n_buckets + bucket
        _add_pairs(place, w, cut, *self._sums[name, metric])

    def packed(self) -> bytes:
        """All sums as JSON."""
        rows = []
        for (name, metric), (sums, largest) in self._sums.items():
            n_buckets = len(largest) // (self._n_slices + 1)
            for place in np.flatnonzero(sums[:, 0]).tolist():
                n, clipped, w, w_part, ww, ww_part = sums[place].tolist()
                code, bucket = divmod(place, n_buckets)
                spread = (n, clipped, w * SCALE + w_part, ww * SCALE + ww_part, float(largest[place]))
                rows.append((name, metric, code + EVERYTHING, bucket, *spread))
        return json.dumps(rows).encode()


@compiled
def _add_pairs(place, w, cut, sums, largest):  # type: ignore[no-untyped-def]
    """Add pairs to the sums of their places: pairs, clipped pairs, w, w^2 (each whole part and rest)."""
    for i in range(w.size):
        r, x = place[i], w[i]
        square = x * x
        whole, other = np.floor(x), np.floor(square)
        sums[r, 0] += 1
        sums[r, 1] += cut[i]
        sums[r, 2] += np.int64(whole)
        sums[r, 3] += np.int64(np.rint((x - whole) * 1e12))
        sums[r, 4] += np.int64(other)
        sums[r, 5] += np.int64(np.rint((square - other) * 1e12))
        largest[r] = max(largest[r], x)
        for n in (3, 5):
            if sums[r, n] >= CARRY:
                sums[r, n - 1] += sums[r, n] // LIMB
                sums[r, n] %= LIMB


def merged(parts: Iterable[bytes]) -> dict[Key, Spread]:
    """The sums of all tasks."""
    found: dict[Key, Spread] = {}
    for part in parts:
        for row in json.loads(part):
            key, spread = tuple(row[:4]), Spread(*row[4:])
            found[key] = found[key].merged(spread) if key in found else spread
    return dict(sorted(found.items()))


def statistics_of_weights(parts: Iterable[bytes], slices: list[str], model: str) -> list[dict[str, Any]]:
    """Rows of the statistics table of one model; a: sum of weights (of PAIRS: of 1/p), aa: of their squares, a_high:
    the largest, n_users: pairs, n_unknown: clipped pairs.
    """
    return [
        {
            "model": model,
            "estimator": name,
            "metric": metric,
            "k": 0,
            "slice": slices[code + 1],
            "bucket": bucket,
            "n_users": spread.n,
            "n_left_out": 0,
            "n_unknown": spread.clipped,
            "a": spread.w,
            "aa": spread.ww,
            "a_high": round(spread.largest * SCALE),
        }
        for (name, metric, code, bucket), spread in merged(parts).items()
    ]


def spreads_of(rows: Iterable[Mapping[str, Any]]) -> dict[tuple[str, str, str, str, int], Spread]:
    """The sums by (model, estimator, metric, slice, bucket), from rows of the statistics table."""
    return {
        (row["model"], row["estimator"], row["metric"], row["slice"], row["bucket"]): Spread(
            row["n_users"],
            row["n_unknown"],
            int(row["a"] * SCALE),
            int(row["aa"] * SCALE),
            float(row["a_high"]),
        )
        for row in rows
    }
