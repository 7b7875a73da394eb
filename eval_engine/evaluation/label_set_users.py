"""How many users have labelled pairs in which label sets, from the ranks of one model.

Estimators from different label sets rest on different users where the sets do: the agreement of two estimators says how
many users are on each side, and how many on both.
"""

from collections.abc import Iterable, Iterator, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F

from eval_engine.evaluation.model_ranks import ModelRanks
from eval_engine.evaluation.spec import EvaluationSpec
from eval_engine.spark.worker_process import prepare_worker

UsersBySets = Mapping[frozenset[str], int]  # number of users by the label sets in which they have pairs
SCHEMA = pa.schema([("sets", pa.int64()), ("n", pa.int64())])  # bits of the label sets


def users_by_sets(ranks: ModelRanks, spec: EvaluationSpec) -> dict[frozenset[str], int]:
    """Of every user of a model; at most one Spark job, and none with one label set."""
    names = spec.label_sets()
    if len(names) < 2:
        return {}

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        prepare_worker()
        counts = np.zeros(1 << len(names), np.int64)
        for rows in batches:
            sets = np.zeros(rows.num_rows, np.int64)
            for bit, name in enumerate(names):
                lengths = pc.list_value_length(rows.column(f"{name}_above")).fill_null(0)
                sets |= (lengths.to_numpy(zero_copy_only=False) > 0).astype(np.int64) << bit
            counts += np.bincount(sets, minlength=counts.size)
        yield pa.RecordBatch.from_arrays([pa.array(np.arange(counts.size)), pa.array(counts)], schema=SCHEMA)

    if ranks.in_process:
        rows = ranks.here(run, spec, SCHEMA).to_pylist()
    else:
        summed = ranks.by_tasks(run, spec, SCHEMA).groupBy("sets").agg(F.sum("n").alias("n"))
        rows = [row.asDict() for row in summed.collect()]
    return {
        frozenset(name for bit, name in enumerate(names) if row["sets"] >> bit & 1): int(row["n"])
        for row in rows
        if row["n"]
    }


def users_with(users: UsersBySets, sets: Iterable[str]) -> int | None:
    """The number of users with pairs in all of these label sets; None if it was not counted.

    >>> users_with({frozenset({"random"}): 3, frozenset({"random", "heldout"}): 5}, {"random"})
    8
    """
    wanted = frozenset(sets)
    return sum(n for own, n in users.items() if wanted <= own) if users else None
