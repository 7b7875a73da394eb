"""The sums of a task over its users, one model at a time: by bucket for every estimator, metric and cutoff, over all
users and over slices; and the per-user values on which models are compared.

Sums are exact (statistics/bucket_sums.py), so neither partitioning nor the order of users matters. At most cutoffs most
users have no positive in the top k, so that their numerator is 0: denominators are summed once for all cutoffs of a
metric, and each cutoff visits only the other users.

    slice of users   the same terms, added up by the user's slice
    slice of items   a user counts once in each slice that a positive of theirs is in, with the positives of that slice
                     only; in every other slice as a user without a positive. The latter are added up once for all
                     slices (slice ZERO), and each user is subtracted again in the slices of its positives.
    stratum          of an estimator that combines strata: the sums are kept by stratum too
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eval_engine.errors import DataError
from eval_engine.estimators.balanced_ure import NO_STRATUM
from eval_engine.estimators.estimator import MetricTerms, Terms
from eval_engine.estimators.labelled import Labelled
from eval_engine.estimators.user_batch import UserBatch
from eval_engine.evaluation.list_counts import ListCounts
from eval_engine.evaluation.packed_rows import COARSE, EVERYTHING, ROW, WEIGHTS, ZERO, packed, packed_batch
from eval_engine.evaluation.pair_weights import PairWeights
from eval_engine.evaluation.slice_codes import SliceCodes
from eval_engine.evaluation.spec import POPULARITY, EvaluationSpec, Group
from eval_engine.kernels.arrays import Ints
from eval_engine.metric import Metric
from eval_engine.statistics.bucket_sums import (
    N_BUCKETS,
    N_COARSE,
    NOTHING_KEPT,
    Factors,
    Sums,
    TooLargeError,
    accumulated,
    add,
    add_cutoffs,
    add_denominators,
    add_numerators,
    add_scaled,
    add_unknown,
    bucket_of,
    exchange,
    exchange_denominators,
    no_sums,
)

NO_FACTOR = np.empty(0)
WORDS = ROW.itemsize // 8  # rows are copied as whole numbers: structs are slow to copy
DENSE = 1 << 20  # combinations of the three numbers of a stratum that are looked up in a table


class UserSums:
    """The running sums over one model's users in a task."""

    def __init__(self, model: str, spec: EvaluationSpec) -> None:
        self._model, self._spec = model, spec
        self._groups = [_GroupSums(number, group, spec) for number, group in enumerate(spec.groups())]
        self._compared = {(str(formula), metric): n for n, (formula, metric) in enumerate(spec.compared())}
        self._not_asked = [
            cell
            for cell in spec.compared()
            if (str(cell.formula), cell.metric) not in {(str(f), m) for f, m in spec.asked()}
        ]
        self._lists = ListCounts(model, spec) if spec.lists() else None
        self._weights = PairWeights(spec) if spec.with_weights() else None

    def add(self, hashes: npt.NDArray[np.int64], batch: UserBatch, codes: SliceCodes) -> pa.RecordBatch:
        """Add users; returns the values on which models are compared, a row of PACKED per bucket, with the users who
        have them.
        """
        bucket = bucket_of(hashes)
        values = np.empty((len(self._compared), hashes.size), np.float32)
        places: dict[int, Ints] = {}
        for group in self._groups:
            try:
                group.add(batch, bucket, codes, places, self._compared, values)
            except TooLargeError as error:
                raise _too_large(group._formula, error) from None
        for formula, metric in self._not_asked:
            terms = formula.of(
                batch, formula.estimator.view(batch), slice(None), metric.k, self._spec.ties, **metric.parameters
            )
            values[self._compared[str(formula), metric]] = np.where(terms.denominator > 0, terms.numerator, np.nan)
        if self._lists is not None and batch.top is not None:
            self._lists.add(bucket, batch.top)
        if self._weights is not None:
            self._weights.add(batch, codes, bucket % N_COARSE)
        return self._packed_values(hashes, bucket, values, batch)

    def _packed_values(
        self, hashes: npt.NDArray[np.int64], bucket: Ints, values: npt.NDArray[np.float32], batch: UserBatch
    ) -> pa.RecordBatch:
        some = np.flatnonzero(batch.sample("random").n_positive > 0) if self._compared else np.empty(0, np.int64)
        some = some[np.argsort(bucket[some].astype(np.uint8), kind="stable")]
        values, hashes = values[:, some], hashes[some]
        buckets, starts = np.unique(bucket[some], return_index=True)
        slices = [slice(*ends) for ends in pairwise([*starts, some.size])]
        nothing = [None] * buckets.size
        return packed_batch(
            buckets,
            self._model,
            nothing,
            [hashes[s].tobytes() for s in slices],
            [values[:, s].tobytes() for s in slices],
        )

    def packed(self) -> Iterator[pa.RecordBatch]:
        """The sums of all users, a row of PACKED per bucket."""
        parts = [rows for group in self._groups for rows in group.rows()]
        if self._lists is not None:
            parts.append(self._lists.rows(len(self._groups)))
        keys = np.concatenate([np.empty(0, np.int32), *(part["bucket"] for part in parts)]).astype(np.uint16)
        words = [part.view(np.int64).reshape(part.size, WORDS) for part in parts]
        flat = np.concatenate([np.empty((0, WORDS), np.int64), *words])
        rows = flat.take(np.argsort(keys, kind="stable"), axis=0).view(ROW).ravel()
        buckets, starts = np.unique(rows["bucket"], return_index=True)
        blobs = [packed(part) for part in np.split(rows, starts[1:])][: buckets.size]
        nothing = [None] * len(blobs)
        yield packed_batch(buckets, self._model, blobs, nothing, nothing)
        if self._lists is not None:
            yield packed_batch(*self._lists.packed())
        if self._weights is not None:
            yield packed_batch(np.array([WEIGHTS]), self._model, [None], [self._weights.packed()], [None])


class _GroupSums:
    """The sums of an estimator and a metric at its cutoffs."""

    def __init__(self, number: int, group: Group, spec: EvaluationSpec) -> None:
        self._number, self._group, self._spec = number, group, spec
        self._formula, self._estimator = group.formula, group.formula.estimator
        stratified = self._estimator.stratum is not None
        n_cells, n_slices = len(group.cells), len(spec.slice_names())
        whole = (N_COARSE, COARSE) if stratified else (N_BUCKETS, 0)
        self._whole = _Rows(n_cells, 1, *whole, EVERYTHING, stratified)
        changes = self._formula.scaled is not None
        self._slices = _Rows(n_cells, n_slices, N_COARSE, COARSE, 0, stratified, changes) if n_slices else None
        self._by_pair = () if self._formula.by_class else spec.slicings_of_pairs(self._estimator)
        self._classes = spec.first_class() if self._formula.by_class else {}
        self._zero = _Rows(n_cells, 1, N_COARSE, COARSE, ZERO, stratified) if self._by_pair else None

    def add(
        self,
        batch: UserBatch,
        bucket: Ints,
        codes: SliceCodes,
        places_of: dict[int, Ints],
        compared: Mapping[tuple[str, Metric], int],
        values: npt.NDArray[np.float32],
    ) -> None:
        """Add users, and fill in the values on which models are compared. places_of: by id of the codes, and of each
        order of positives by slice: the place of each user; filled in.
        """
        view, coarse = self._estimator.view(batch), bucket % N_COARSE
        if self._formula.by_class is not None:
            self._add_classes(batch, view, coarse, codes)
            return
        kinds = self._kinds(batch, view)
        places = [(self._whole, self._whole.of(coarse if kinds is not None else bucket, kinds), True)]
        if self._slices is not None and len(codes.users):
            if id(codes) not in places_of:  # the same for every group
                places_of[id(codes)] = codes.users * N_COARSE + coarse
            places.append((self._slices, self._slices.of(places_of[id(codes)], kinds), False))
        self._add(batch, view, slice(None), places, compared, values)
        if self._slices is None or self._zero is None:
            return
        nobody = view.no_positives
        empty = self._empty(batch, nobody)
        kinds0 = self._kinds(batch, nobody)
        rows = self._zero.of(coarse, kinds0)  # must come first: it may add rows to the sums
        if self._formula.is_unknown(batch):
            add_unknown(self._zero.base, nobody.n_positive > 0, rows)
        elif self._formula.denominator is None:
            add(self._zero.base, empty, None, rows)
        else:
            add_denominators(self._zero.base, empty.denominator, rows)
        order = codes.order(view, self._by_pair)
        sliced, users = view.sliced(order), order.users
        if id(order) not in places_of:  # the same for every view of the label set
            places_of[id(order)] = order.slices * N_COARSE + coarse[users]
        place = places_of[id(order)]
        if kinds0 is None and self._formula.denominator and not self._formula.is_unknown(batch):
            self._add(batch, sliced, users, [(self._slices, place, False)], {}, values, empty.denominator[users])
            return
        alone = kinds0 is None and len(self._group.cells) == 1 and not self._formula.is_unknown(batch)
        if alone and not empty.numerator.any():  # nor NaN
            terms = self._terms(batch, sliced, users, self._group.metrics[0])
            exchange(self._slices.base, empty.denominator[users], terms, place)
            return
        gone = self._slices.of(place, None if kinds0 is None else kinds0[users])
        if self._formula.is_unknown(batch):
            add_unknown(self._slices.base, nobody.n_positive[users] > 0, gone, sign=-1)
        else:
            add(self._slices.base, Terms(*(x[users] for x in empty)), None, gone, sign=-1)
        row = self._slices.of(place, self._kinds(batch, sliced))
        self._add(batch, sliced, users, [(self._slices, row, False)], {}, values)

    def _add_classes(self, batch: UserBatch, view: Labelled, coarse: Ints, codes: SliceCodes) -> None:
        """Add users to the slices of classes of popularity, each with terms of its own."""
        assert self._slices is not None
        assert self._formula.by_class is not None
        number = self._slices_number

        def class_of(name: str) -> Ints:
            return codes.classes(name, number, self._classes)

        for n, metric in enumerate(self._group.metrics):
            terms = self._formula.by_class(batch, view, class_of, metric.k, self._spec.ties, **metric.parameters)
            for code, g in self._classes.items():
                add(
                    self._slices.cell(n),
                    Terms(terms.numerator[g], terms.denominator[g]),
                    None,
                    code * N_COARSE + coarse,
                )

    @property
    def _slices_number(self) -> int:
        return next(n for n, one in enumerate(self._spec.slicings) if one.name == POPULARITY and one.of == "item")

    def _add(
        self,
        batch: UserBatch,
        view: Labelled,
        users: "Ints | slice",
        places: "list[tuple[_Rows, Ints, bool]]",
        compared: Mapping[tuple[str, Metric], int],
        values: npt.NDArray[np.float32],
        replaced: npt.NDArray[np.float64] | None = None,
    ) -> None:
        """Add the users of a view to the rows of each place (True: with bounds). A place has one row of each user, or
        several, (n, n_users). replaced: denominators already in the sums, which the users' denominators replace.
        """
        metrics = self._group.metrics
        if self._formula.is_unknown(batch):  # at every cutoff alike
            for sums, rows, _ in places:
                add_unknown(sums.base, view.n_positive > 0, rows)
            return
        if self._formula.denominator is None:
            first = self._terms(batch, view, users, metrics[0])
            for sums, rows, bounded in places:
                bounds = self._bounds(batch, view, users, first, metrics[0]) if bounded else None
                for row in np.atleast_2d(rows):
                    add(sums.cell(0), first, bounds, row)
            self._keep(first.numerator, first.denominator, None, metrics[0], compared, values)
            return
        denominator = self._formula.denominators(batch, view, users)
        for sums, rows, _ in places:
            if replaced is None:
                add_denominators(sums.base, denominator, rows)
            else:
                exchange_denominators(sums.base, replaced, denominator, rows)
        if self._formula.scaled is not None:
            self._add_scaled(batch, view, users, places, denominator, compared, values)
            return
        for n, metric in enumerate(metrics):
            active = view.active(metric.k)
            everyone = active.size == view.n_users
            some, chosen = (view, slice(None)) if everyone else (view.of(active), active)
            named = users if everyone else active if isinstance(users, slice) else users[active]
            terms = self._terms(batch, some, named, metric)
            if not np.array_equal(terms.denominator, denominator[chosen]):
                raise ValueError(
                    f"{self._formula}: the denominators of its terms at {metric} are not those that it declares"
                )
            for sums, rows, bounded in places:
                bounds = self._bounds(batch, some, named, terms, metric) if bounded else None
                add_numerators(sums.cell(n), terms, bounds, rows[..., chosen])
            self._keep(terms.numerator, denominator, active, metric, compared, values)

    def _add_scaled(
        self,
        batch: UserBatch,
        view: Labelled,
        users: "Ints | slice",
        places: "list[tuple[_Rows, Ints, bool]]",
        denominator: npt.NDArray[np.float64],
        compared: Mapping[tuple[str, Metric], int],
        values: npt.NDArray[np.float32],
    ) -> None:
        """Add the numerators of the users of a view, where they are scaled sums."""
        assert self._formula.scaled is not None
        ties, unbounded = self._spec.ties, [(sums, rows) for sums, rows, bounded in places if not bounded]
        if unbounded:
            last = max(metric.k for metric in self._group.metrics)
            active, some = view.active(last), view.active_view(last)
            named = active if isinstance(users, slice) else users[active]
            scaled = [self._formula.scaled(some, metric.k, **metric.parameters) for metric in self._group.metrics]
            weight = self._formula.weights(batch, some, named)
            ks = tuple(metric.k for metric in self._group.metrics)
            totals = some.table(scaled[0].what, ks, ties)
            factors = Factors(*map(_by_cutoff, *((*one[1:], weight) for one in scaled)))
            for sums, rows in unbounded:
                add_cutoffs(sums.cells, totals, factors, denominator[active], rows[..., active])
        for sums, rows, bounded in places:
            if bounded:
                self._add_bounded(batch, view, sums, rows, denominator, compared, values)

    def _add_bounded(
        self,
        batch: UserBatch,
        view: Labelled,
        sums: "_Rows",
        rows: Ints,
        denominator: npt.NDArray[np.float64],
        compared: Mapping[tuple[str, Metric], int],
        values: npt.NDArray[np.float32],
    ) -> None:
        """Add the numerators of all users, with bounds over ties."""
        assert self._formula.scaled is not None
        weight, ties = self._formula.weights(batch, view, slice(None)), self._spec.ties
        for n, metric in enumerate(self._group.metrics):
            what, *given = self._formula.scaled(view, metric.k, **metric.parameters)
            factors = Factors(*(NO_FACTOR if one is None else one for one in (*given, weight)))
            total, active = view.summed(what, metric.k, ties), view.active(metric.k)
            number = compared.get((str(self._formula), metric))
            kept = NOTHING_KEPT if number is None else values[number]
            kept[:] = 0.0
            tied = view.tied_view[1]
            low, high = (tied.broken(after).summed(what, metric.k, "expected") for after in (True, False))
            bounds = view.tied_number, low, high
            add_scaled(sums.cell(n), total, factors, denominator, active, rows, bounds, kept)
            kept[denominator == 0 if kept.size else slice(0)] = np.nan

    def _keep(
        self,
        numerator: npt.NDArray[np.float64],
        denominator: npt.NDArray[np.float64],
        active: Ints | None,
        metric: Metric,
        compared: Mapping[tuple[str, Metric], int],
        values: npt.NDArray[np.float32],
    ) -> None:
        """Fill in the values on which models are compared, if this metric is one of them."""
        number = compared.get((str(self._formula), metric))
        if number is None:
            return
        if active is None:
            values[number] = numerator
        else:
            values[number] = 0.0
            values[number][active] = numerator
        values[number][denominator == 0] = np.nan

    def _terms(self, batch: UserBatch, view: Labelled, users: "Ints | slice", metric: Metric, ties: str = "") -> Terms:
        return self._formula.of(batch, view, users, metric.k, ties or self._spec.ties, **metric.parameters)

    def _empty(self, batch: UserBatch, nobody: Labelled) -> Terms:
        """The terms of users without a positive."""
        if self._formula.denominator is None:
            return self._terms(batch, nobody, slice(None), self._group.metrics[0])
        denominator = self._formula.denominators(batch, nobody, slice(None))
        return Terms(np.zeros(denominator.size), denominator)

    def _kinds(self, batch: UserBatch, view: Labelled) -> Ints | None:
        return None if self._estimator.stratum is None else self._estimator.stratum(batch, view)

    def _bounds(
        self, batch: UserBatch, view: Labelled, users: "Ints | slice", terms: Terms, metric: Metric
    ) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Numerators with all of a user's ties broken against and for the model."""
        some, tied = view.tied_view
        if not some.size:
            return terms.numerator, terms.numerator
        named = some if isinstance(users, slice) else users[some]
        bounds = []
        for after, ties in (
            (True, "strict"),
            (False, "optimistic"),
        ):  # the policy: of pairs of a positive and a negative
            numerators = terms.numerator.copy()
            numerators[some] = self._terms(batch, tied.broken(after), named, metric, ties).numerator
            bounds.append(numerators)
        return bounds[0], bounds[1]

    def rows(self) -> Iterator[npt.NDArray[Any]]:
        """The sums, as rows of ROW."""
        for part in (self._whole, self._slices, self._zero):
            if part is not None:
                yield from part.rows(self._number, self._group.cells)


class _Rows:
    """Sums of one group of cells by slice, bucket and stratum; strata are numbered in order of appearance."""

    def __init__(
        self,
        n_cells: int,
        n_slices: int,
        n_buckets: int,
        first_bucket: int,
        first_slice: int,
        stratified: bool,
        changes: bool = False,
    ) -> None:
        """changes: the sums of a cell are what changed since the cell before."""
        self._changes = changes
        self._n_buckets, self._first_bucket, self._first_slice = n_buckets, first_bucket, first_slice
        self._n_places = n_slices * n_buckets
        self._strata: dict[tuple[int, ...], int] = {} if stratified else {NO_STRATUM: 0}
        self._row_of = np.full(0, -1, np.int64)  # by n_places stratum + place; -1: not seen yet
        self._seen = np.empty(0, np.int64) if stratified else np.arange(self._n_places)  # the same, by row
        self.base = no_sums(self._seen.size)
        self.cells = no_sums(n_cells, self._seen.size)

    def cell(self, n: int) -> Sums:
        """The sums of one cell."""
        return Sums(*(x[n] for x in self.cells))

    def of(self, place: Ints, kinds: Ints | None) -> Ints:
        """The row of each user, by place (slice and bucket; one of each user, or several, (n, n_users)) and stratum
        (n_users, 3).
        """
        if kinds is None:
            return place
        distinct, which = _distinct(kinds)
        numbers = np.array(
            [self._strata.setdefault(tuple(kind), len(self._strata)) for kind in distinct.tolist()], np.int64
        )
        code = numbers[which] * self._n_places + place if place.size else place
        more = len(self._strata) * self._n_places - self._row_of.size
        self._row_of = np.concatenate([self._row_of, np.full(more, -1)])
        new = np.unique(code[self._row_of[code] < 0])
        if new.size:
            self._row_of[new] = np.arange(self._seen.size, self._seen.size + new.size)
            self._seen = np.concatenate([self._seen, new])
            self.base = Sums(*(np.concatenate(both) for both in zip(self.base, no_sums(new.size), strict=True)))
            n_cells = self.cells.counts.shape[0]
            self.cells = Sums(
                *(np.concatenate(both, axis=1) for both in zip(self.cells, no_sums(n_cells, new.size), strict=True))
            )
        rows: Ints = self._row_of[code]
        return rows

    def rows(self, group: int, cells: Sequence[int]) -> Iterator[npt.NDArray[Any]]:
        """As rows of ROW: those of the group, and of each cell."""
        strata = np.array(list(self._strata), np.int64).reshape(-1, 3)
        place = self._seen % self._n_places
        of_cells = accumulated(self.cells) if self._changes else self.cells
        each = (Sums(*(x[n] for x in of_cells)) for n in range(len(cells)))
        for sums, number in ((self.base, -1 - group), *zip(each, cells, strict=True)):
            some = np.flatnonzero(sums.counts.any(axis=1) | sums.whole.any(axis=1) | sums.part.any(axis=1))
            found = np.empty(some.size, ROW)
            found["cell"] = number
            found["bucket"] = place[some] % self._n_buckets + self._first_bucket
            found["slice"] = place[some] // self._n_buckets + self._first_slice
            found["stratum"] = strata[self._seen[some] // self._n_places]
            for name, values in zip(("counts", "whole", "part"), sums, strict=True):
                found[name] = values[some]
            yield found


def _too_large(formula: MetricTerms, error: TooLargeError) -> DataError:
    if formula.estimator.weight is None:
        return DataError(f"{formula}: {error}.")
    return DataError(
        f"{formula}: {error}. The weight of a pair is 1 / its propensity, and the least propensity of the run is too "
        "small (table propensity_fits: least, gamma). Give propensity.gamma, such as 1.0, or another method; of logged "
        "propensities, correct the column where heldout is made."
    )


def _by_cutoff(*arrays: npt.NDArray[np.float64] | None) -> npt.NDArray[np.float64]:
    """A factor at each cutoff: (n_cutoffs, n_users), or one row where it is always the same, or none."""
    first = arrays[0]
    if first is None:
        return np.empty((0, 0))
    return first[None] if all(one is first for one in arrays) else np.stack(arrays)  # type: ignore[arg-type]


def _distinct(kinds: Ints) -> tuple[Ints, Ints]:
    """The different strata, and the number of each user's."""
    if not kinds.size:
        return kinds.reshape(0, 3), np.empty(0, np.int64)
    least, largest = (np.array([getattr(kinds[:, n], end)() for n in range(3)]) for end in ("min", "max"))
    sizes = largest - least + 1
    if np.prod(sizes.astype(np.float64)) <= DENSE:  # mostly users with the same numbers of exposures and candidates
        code = ((kinds[:, 0] - least[0]) * sizes[1] + kinds[:, 1] - least[1]) * sizes[2] + kinds[:, 2] - least[2]
        seen = np.zeros(int(np.prod(sizes)), np.int64)
        seen[code] = 1
        some = np.flatnonzero(seen)
        seen[some] = np.arange(some.size)
        rest, last = np.divmod(some, sizes[2])
        return np.stack([*np.divmod(rest, sizes[1]), last], axis=1) + least, seen[code]
    distinct, which = np.unique(kinds, axis=0, return_inverse=True)
    return distinct, which.reshape(-1)


def terms_of_users(formula: MetricTerms, metric: Metric, batch: UserBatch, ties: str) -> Terms:
    """The terms of every user of a batch."""
    return formula.of(batch, formula.estimator.view(batch), slice(None), metric.k, ties, **metric.parameters)
