"""How far two runs rest on the same users: the correlation of an estimate's errors over buckets of users.

    rho = sum_g e_g f_g / sqrt(sum_g e_g^2 sum_g f_g^2)      e, f: errors of the two estimates by bucket
    (statistics/paired.py)

A user is in the same bucket in every run. Users of one run only have independent errors, so rho is 0 but for noise of
1 / sqrt(buckets); where the users are the same, rho is the correlation of the two models on them. So nobody has to know
which users the runs share.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from eval_engine.estimators.registry import ESTIMATORS
from eval_engine.lake.lake import Lake
from eval_engine.quality.gate_rules import BoundedRule
from eval_engine.quality.gates import Shared
from eval_engine.statistics.bucket_sums import N_BUCKETS
from eval_engine.statistics.paired import paired
from eval_engine.storage.stored_file import open_file
from eval_engine.tables import STATISTICS

COLUMNS = ["model", "estimator", "metric", "k", "slice", "bucket", "a", "b"]
Doubles = npt.NDArray[np.float64]


def shared(lake: Lake, runs: Sequence[str], rule: BoundedRule) -> Shared | None:
    """Of the estimate of a rule in two runs; None where it is no ratio of sums over users, or has too few buckets."""
    estimator = ESTIMATORS.get(rule.estimator)
    if estimator is None or estimator.combine is not None:
        return None
    sums = [_sums(lake, run_id, rule) for run_id in runs]
    return shared_of(*(np.stack(x) for x in zip(*sums, strict=True)))


def shared_of(a: Doubles, b: Doubles) -> Shared | None:
    """Of numerators and denominators by bucket, (2 runs, buckets); None where an error is unknown or 0."""
    both = paired(a, b)
    squares = (both.errors**2).sum(axis=1)
    if both.n_units < 3 or not (squares > 0).all():  # NaN too
        return None
    return Shared(float(both.errors.prod(axis=0).sum() / np.sqrt(squares.prod())), both.n_units)


def _sums(lake: Lake, run_id: str, rule: BoundedRule) -> tuple[Doubles, Doubles]:
    """The sums of numerators and denominators by bucket."""
    found = np.zeros((2, N_BUCKETS))
    for file in lake.files(STATISTICS, run_id):
        stored = pq.ParquetFile(open_file(file.path))
        rows = _of(stored.read(columns=[name for name in COLUMNS if name in stored.schema_arrow.names]), rule)
        bucket = rows.column("bucket").to_numpy()
        for sums, name in zip(found, ("a", "b"), strict=True):
            np.add.at(sums, bucket, rows.column(name).cast(pa.float64()).fill_null(0.0).to_numpy())
    return found[0], found[1]


def _of(rows: pa.Table, rule: BoundedRule) -> pa.Table:
    """The rows of a rule's model, estimator, metric, cutoff and slice; rows of older versions are of everything."""
    if "slice" not in rows.column_names:
        rows = rows.append_column("slice", pa.nulls(rows.num_rows, pa.string()))
    rows = rows.set_column(rows.column_names.index("slice"), "slice", rows.column("slice").fill_null("all"))
    wanted = dict(zip(COLUMNS, (rule.model, rule.estimator, rule.metric.name, rule.metric.k, rule.slice), strict=False))
    for name, value in wanted.items():
        rows = rows.filter(pc.equal(rows.column(name), value))
    return rows
