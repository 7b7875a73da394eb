"""How users of scores and labels fit together: which break a rule, and what the error of it says."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from eval_engine.errors import DataError
from eval_engine.inputs.label_sets import LABEL_SETS
from eval_engine.inputs.labels import Violation
from eval_engine.ranking.ranks_batch import catalogue_ids
from eval_engine.ranking.settings import Ranking
from eval_engine.spark.binary_lists import unpack

Ints = npt.NDArray[np.integer[Any]]
Bools = npt.NDArray[np.bool_]
LISTS = ("items", "values", "probabilities")  # of a label set in the ranks table: what a ranking is made from


class Uncovered(NamedTuple):
    """Which users break a rule."""

    twice: Bools  # (n_users,) a model scored the user more than once
    missing: Ints  # (n_users,) number of the first model that did not score the labelled user, -1: all did
    models: tuple[str, ...]

    def violations(self, users: pa.Array, nobody: bool) -> dict[str, Violation]:
        """The violations of each rule that is broken; nobody: there are scores without a user_id."""
        found = {"null_key": Violation(1, "user_id=NULL")} if nobody else {}
        if self.twice.any():
            found["duplicate_key"] = _first(users, self.twice, lambda user: "")
        if (not_scored := (self.missing >= 0) & ~self.twice).any():
            found["not_scored"] = _first(users, not_scored, lambda user: f", model={self.models[self.missing[user]]}")
        return found


def uncovered(user: Ints, model: Ints, labelled: Bools, models: tuple[str, ...]) -> Uncovered:
    """Users and models (numbers; user -1: has no id) of lists that there are, sorted; which users have labels that are
    ranked."""
    known = user >= 0
    pair = user[known] * len(models) + model[known]
    twice, scored = np.zeros(labelled.size, np.bool_), np.zeros((labelled.size, len(models)), np.bool_)
    twice[user[known][1:][pair[1:] == pair[:-1]]] = True
    scored[user[known], model[known]] = True
    missing = (
        np.where(labelled & ~scored.all(axis=1), np.argmin(scored, axis=1), -1)
        if models
        else np.full(labelled.size, -1)
    )
    return Uncovered(twice, missing, models)


def left_out(found: Uncovered) -> Bools:
    """Users that are not ranked, for any model, or the models would be compared on different users."""
    return found.twice | (found.missing >= 0)


def _first(users: pa.Array, chosen: Bools, more: Callable[[int], str]) -> Violation:
    """How many, and the first as text, in alphabetical order."""
    numbers = np.flatnonzero(chosen)
    text = users.take(pa.array(numbers)).cast(pa.string())
    first = pc.index(text, pc.min(text)).as_py()
    return Violation(int(numbers.size), f"user_id={text[first].as_py()}{more(int(numbers[first]))}")


REMEDY = {
    "null_key": "a score row needs its user_id. Fix the job that writes the scores",
    "duplicate_key": "a model scores a user in one row. Remove the copies",
    "not_scored": "a user with labels needs scores of every model, or the models are compared on different users. "
    "Score these users",
}


def refuse(rule: str, n_rows: int, example: str) -> DataError:
    """The error of a rule that the score tables break."""
    hint = ", or set on_bad_rows: quarantine to leave them out" if rule == "not_scored" else ""
    return DataError(
        f"scores: {n_rows:,} {'user breaks' if n_rows == 1 else 'users break'} the rule {rule} (first: {example}): "
        f"{REMEDY[rule]}{hint}."
    )


def refuse_stale(fused: DataFrame, labels: DataFrame, ranking: Ranking) -> None:
    """Raises if rows of the ranks table, as the torch job wrote them, are of other labels, another frame, other cutoffs
    or another length of the top list than asked."""
    now = labels.select("user_id", *[F.col(name).alias(f"{name}_now") for name in ranking.label_sets], "excluded")
    ranked = [
        F.col(f"{name}.{field}").alias(f"{name}_{field}") for name in LABEL_SETS for field in (*LISTS, "candidates")
    ]
    ranked += [F.col("random.k").alias("cutoffs"), F.size("top.items").alias("n_top")]
    rows = fused.select("model", "user_id", "candidates", *ranked).join(now, "user_id", "left")
    kind = dict(fused.dtypes)["user_id"]
    other = rows.mapInArrow(_stale(ranking), f"model STRING, user_id {kind}").first()
    if other:
        raise DataError(
            f"ranks of model {other['model']}, user_id={other['user_id']}: the torch job ranked other labels, another "
            "frame, other cutoffs or another `top` than this run has. Run jobs/train.py with this config again."
        )


def _stale(ranking: Ranking) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """In: what was ranked, and the labels of now. Out: model, user_id of rows in which the two differ."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        items = catalogue_ids(ranking.catalogue)
        for batch in batches:
            left = ranking.n_items - np.diff(unpack(batch.column("excluded"), np.int32)[0])
            other = _numbers(batch, "candidates") != left
            other |= _numbers(batch, "n_top") != np.minimum(left, ranking.top)
            other |= _differ(batch.column("cutoffs"), [list(ranking.cutoffs)] * batch.num_rows)
            for name, label_set in LABEL_SETS.items():
                whole = label_set.whole(ranking.frame)
                other |= _numbers(batch, f"{name}_candidates") != (ranking.n_items if whole else left)
                for field, lists in _lists_now(batch, name, items, ranking).items():
                    other |= _differ(batch.column(f"{name}_{field}"), lists)
            yield pa.RecordBatch.from_pydict({name: batch.column(name) for name in ("model", "user_id")}).filter(
                pa.array(other)
            )

    return run


def _lists_now(batch: pa.RecordBatch, name: str, items: pa.Array, ranking: Ranking) -> dict[str, list[Any]]:
    """LISTS of the labels of one set as they are now."""
    empty: list[Any] = [[]] * batch.num_rows
    unknown: list[Any] = [None] * batch.num_rows
    if name not in ranking.label_sets:
        return dict(zip(LISTS, (empty, empty, unknown), strict=True))
    now = batch.column(f"{name}_now")
    offsets, positions = unpack(now.field("positions"), np.int32)

    def by_user(flat: pa.Array) -> list[Any]:
        return list(pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), flat).to_pylist())

    def numbers(field: str) -> list[Any]:
        return by_user(pa.array(unpack(now.field(field), np.float64)[1]))

    probabilities = numbers("probabilities") if name in ranking.probabilities else unknown
    return dict(zip(LISTS, (by_user(items.take(pa.array(positions))), numbers("values"), probabilities), strict=True))


def _numbers(batch: pa.RecordBatch, name: str) -> Ints:
    """A column of integers, -1 for NULL."""
    return np.asarray(batch.column(name).fill_null(-1).to_numpy(zero_copy_only=False))


def _differ(found: pa.Array, wanted: list[Any]) -> Bools:
    """Which of the found lists are not the wanted ones."""
    return np.array([a != b for a, b in zip(found.to_pylist(), wanted, strict=True)], np.bool_)
