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
from eval_engine.inputs.labels import SOURCES, Violation
from eval_engine.ranking.ranks_batch import catalogue_ids
from eval_engine.ranking.settings import Ranking
from eval_engine.spark.binary_lists import unpack

Ints = npt.NDArray[np.integer[Any]]
Bools = npt.NDArray[np.bool_]


class Uncovered(NamedTuple):
    """Which users break a rule."""

    twice: Bools  # (n_users,) a model scored the user more than once
    missing: Ints  # (n_users,) number of the first model that did not score the labelled user, -1: all did
    models: tuple[str, ...]

    def violations(self, users: pa.Array, nobody: bool) -> dict[str, Violation]:
        """What is told of each rule that is broken; nobody: there are scores without a user_id."""
        found = {"null_key": Violation(1, "user_id=NULL")} if nobody else {}
        if self.twice.any():
            found["duplicate_key"] = _first(users, self.twice, lambda user: "")
        if (not_scored := (self.missing >= 0) & ~self.twice).any():
            found["not_scored"] = _first(users, not_scored, lambda user: f", model={self.models[self.missing[user]]}")
        return found


def uncovered(user: Ints, model: Ints, labelled: Bools, models: tuple[str, ...]) -> Uncovered:
    """Users and models (numbers; user -1: has no id) of lists that there are, sorted; which users have labels that are ranked."""
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
    "not_scored": "a user with labels needs scores of every model, or the models are compared on different users. Score these users",
}


def refuse(rule: str, n_rows: int, example: str) -> DataError:
    """The error of a rule that the score tables break."""
    hint = ", or set on_bad_rows: quarantine to leave them out" if rule == "not_scored" else ""
    return DataError(
        f"scores: {n_rows:,} {'user breaks' if n_rows == 1 else 'users break'} the rule {rule} (first: {example}): {REMEDY[rule]}{hint}."
    )


def refuse_stale(fused: DataFrame, labels: DataFrame, ranking: Ranking) -> None:
    """Raises if rows of the ranks table, as the torch job wrote them, are of other labels, another frame or another length of the top list than asked."""
    now = labels.select("user_id", *[F.col(source).alias(f"{source}_now") for source in SOURCES], "excluded")
    ranked = [F.col(f"{source}.{name}").alias(f"{source}_{name}") for source in SOURCES for name in ("items", "values")]
    ranked.append(F.col("random.probabilities").alias("random_probabilities"))
    rows = fused.select("model", "user_id", "candidates", F.size("top.items").alias("n_top"), *ranked).join(
        now, "user_id", "left"
    )
    kind = dict(fused.dtypes)["user_id"]
    other = rows.mapInArrow(_stale(ranking), f"model STRING, user_id {kind}").first()
    if other:
        raise DataError(
            f"ranks of model {other['model']}, user_id={other['user_id']}: the torch job ranked other labels, another frame or another `top` than this run has. "
            "Run jobs/train.py with this config again."
        )


def _stale(ranking: Ranking) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        items = catalogue_ids(ranking.catalogue)
        for batch in batches:
            candidates = ranking.n_items - np.diff(unpack(batch.column("excluded"), np.int32)[0])
            other = batch.column("candidates").to_numpy(zero_copy_only=False) != candidates
            other |= batch.column("n_top").to_numpy(zero_copy_only=False) != np.minimum(candidates, ranking.top)
            for source in SOURCES:
                offsets, positions = unpack(batch.column(f"{source}_now").field("positions"), np.int32)
                lists = {"items": items.take(pa.array(positions))}
                numbers = ("values", "probabilities") if source == "random" and ranking.probabilities else ("values",)
                lists |= {
                    name: pa.array(unpack(batch.column(f"{source}_now").field(name), np.float64)[1]) for name in numbers
                }
                for name, flat in lists.items():
                    wanted = pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), flat)
                    found = batch.column(f"{source}_{name}")
                    other |= np.array(
                        [a != b for a, b in zip(found.to_pylist(), wanted.to_pylist(), strict=True)], np.bool_
                    )
            if not ranking.probabilities:
                other |= batch.column("random_probabilities").is_valid().to_numpy(zero_copy_only=False)
            yield pa.RecordBatch.from_pydict({name: batch.column(name) for name in ("model", "user_id")}).filter(
                pa.array(other)
            )

    return run
