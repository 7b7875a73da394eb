"""The propensity of each logged pair, where it does not follow from item counts: by value, from a table, of the run.

    naive_bayes   p(value), from the log and a small random set          eval_engine/propensity/by_value.py
    table         the column `propensity` of the item, or of the pair
    run           of the stage `propensity`: p of the item (power, power_legacy) or of the value (naive_bayes),
                  1 / (1 + exp(-(logit_i + logit_u))) (logistic)

A logged pair without a propensity is a DataError, and so is a propensity that is not above 0 and at most 1. Rows of a
table that no logged pair needs are not used. No torch here.
"""

import hashlib
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError

from eval_engine.config import Input
from eval_engine.errors import DataError, LakeError
from eval_engine.lake.commits import delta_uri, native_files
from eval_engine.lake.delta_table import first_line, rows_of
from eval_engine.propensity.by_value import ValueCount, naive_bayes, of_values
from eval_engine.propensity.logits import of_logits
from eval_engine.tables import PROPENSITIES, PROPENSITY_FITS, PROPENSITY_USERS
from models.inputs import read_columns
from models.interactions import Interactions, same_type
from models.spec.losses import AutoDebias
from models.spec.propensities import NaiveBayesPropensity, PopularityPropensity, Propensity, TablePropensity
from models.spec.train import Model

Floats = npt.NDArray[np.float64]
MOST = 100  # values of a rating scale
Key = Callable[[int], str]  # of a row, for a message


class RunPropensities(NamedTuple):
    """What the stage `propensity` of a run has estimated."""

    place: str  # the table, for messages
    by_value: dict[float, float] | None  # naive_bayes
    items: pa.Table  # item_id, propensity, logit
    users: pa.Table  # user_id, logit; empty but for logistic


def propensity_of(model: Model) -> Propensity | None:
    """The propensities that a model is trained with; those of popularity follow from its training pairs."""
    loss = getattr(getattr(model, "base", model), "loss", None)
    return None if loss is None or isinstance(loss, AutoDebias) else loss.propensity


def read_run_propensities(lake: str, run_id: str) -> RunPropensities:
    """The tables of the stage, from the lake at this path or URI."""
    uri = f"{lake}/{PROPENSITIES.name}"
    try:
        fits = rows_of(f"{lake}/{PROPENSITY_FITS.name}", PROPENSITY_FITS, {"run_id": run_id})
        if not fits:
            raise TableNotFoundError
        items, users = (
            _rows(f"{lake}/{table.name}", run_id, columns)
            for table, columns in (
                (PROPENSITIES, ["item_id", "propensity", "logit"]),
                (PROPENSITY_USERS, ["user_id", "logit"]),
            )
        )
    except TableNotFoundError:
        raise DataError(
            f"{uri} has no row of run {run_id}, and a model of `train` has propensity: {{kind: run}}. Run the stage "
            "propensity first."
        ) from None
    except (DeltaError, OSError) as error:
        raise LakeError(f"The lake's table {uri} cannot be read: {first_line(error)} Check `lake`.") from None
    if fits[0]["method"] == "logged":
        raise DataError(
            f"{uri}: the propensities of run {run_id} are logged ones of held-out pairs, which say nothing of the "
            "training pairs. Name a table with the training pairs' propensities: "
            "propensity: {kind: table, table: {path: ...}}."
        )
    return RunPropensities(uri, fits[0]["by_value"], items, users)


def _rows(uri: str, run_id: str, columns: list[str]) -> pa.Table:
    """Some columns of a run's rows."""
    stored = DeltaTable(delta_uri(uri))
    return stored.to_pyarrow_table(
        columns=columns, filters=[("run_id", "=", run_id)], filesystem=native_files(uri)
    ).combine_chunks()


def logged_propensity(spec: Propensity | None, data: Interactions, run: RunPropensities | None) -> Floats | None:
    """The propensity of each pair of the data, shape (n_pairs,); None where it follows from item counts."""
    if spec is None or isinstance(spec, PopularityPropensity):
        return None
    if isinstance(spec, NaiveBayesPropensity):
        return of_values(_by_value(spec.random, data), data.values)
    if isinstance(spec, TablePropensity):
        return _from_table(spec.table, data)
    if run is None:
        raise DataError(
            "propensity: {kind: run} needs a run with a section `propensity`. Add the section, or give the "
            "propensities as {kind: table, table: {path: ...}}."
        )
    return _of_run(run, data)


def digest_of(spec: Propensity | None, data: Interactions, run: RunPropensities | None) -> str:
    """A hash of the pairs' propensities; empty where they follow from item counts."""
    p = logged_propensity(spec, data, run)
    return "" if p is None else hashlib.sha256(p.tobytes()).hexdigest()


def _by_value(random: Input, data: Interactions) -> dict[float, float]:
    """Naive Bayes of the log's values against those of the random set."""
    table = read_columns(random, ("value",), ("exposure_probability",))
    values = table.column("value").to_numpy()
    chance = np.ones(len(values))
    if "exposure_probability" in table.column_names:
        chance = table.column("exposure_probability").to_numpy()
        _refuse(random.path, "exposure_probability", chance, lambda row: f"row {row}")
    scale, place = np.unique(np.concatenate([data.values, values]), return_inverse=True)
    if len(scale) > MOST:
        raise DataError(
            f"{random.path}: naive_bayes needs a rating scale, but the feedback and this table have {len(scale):,} "
            f"different values, such as {scale[0]:g} and {scale[1]:g}. Round them, or use another kind of propensity."
        )
    n = len(data.values)
    of_log = np.bincount(place[:n], minlength=len(scale))
    of_random = np.bincount(place[n:], weights=1 / chance, minlength=len(scale))
    counts = {
        value: ValueCount(a, b) for value, a, b in zip(scale.tolist(), of_log.tolist(), of_random.tolist(), strict=True)
    }
    n_users = len(np.unique(data.users))
    return naive_bayes(counts, len(data.users) / (n_users * data.n_items))


def _from_table(source: Input, data: Interactions) -> Floats:
    """The propensities of a table, found by item or by pair."""
    table = read_columns(source, ("item_id", "propensity"), ("user_id",))
    p, place = table.column("propensity").to_numpy(), source.path
    same_type(place, "item_id", table.column("item_id").type, "the catalogue", data.item_ids.type)
    items = _positions(table.column("item_id"), data.item_ids)
    known, wanted = items, data.items
    if "user_id" in table.column_names:
        same_type(place, "user_id", table.column("user_id").type, "the feedback", data.user_ids.type)
        users = _positions(table.column("user_id"), data.user_ids)
        known = np.where((users >= 0) & (items >= 0), users * data.n_items + items, -1)
        wanted = data.users * data.n_items + data.items
    _refuse(place, "propensity", p, lambda row: _key(table, row))
    used = np.flatnonzero(known >= 0)
    keys, first, times = np.unique(known[used], return_index=True, return_counts=True)
    if (times > 1).any():
        row = int(used[first[times > 1][0]])
        raise DataError(
            f"{place}: {_key(table, row)} comes {times[times > 1][0]} times; it has one propensity. Remove the others."
        )
    return _looked_up(place, keys, p[used[first]], wanted, data)


def _of_run(run: RunPropensities, data: Interactions) -> Floats:
    """The stage's propensities of the pairs."""
    if run.by_value is not None:
        p = of_values(run.by_value, data.values)
        return _whole(run.place, p, data)
    of_logistic = bool(run.users.num_rows)
    name = "logit" if of_logistic else "propensity"
    p = _filled(run.items, "item_id", name, data.item_ids)[data.items]
    if of_logistic:
        p = of_logits(p, _filled(run.users, "user_id", "logit", data.user_ids)[data.users])
    return _whole(run.place, p, data)


def _filled(table: pa.Table, key: str, name: str, ids: pa.Array) -> Floats:
    """A column in the order of these ids; NaN where the table has none."""
    found = np.full(len(ids), np.nan)
    at = _positions(table.column(key), ids)
    values = table.column(name).to_numpy()
    found[at[at >= 0]] = values[at >= 0]
    return found


def _positions(values: pa.ChunkedArray, ids: pa.Array) -> npt.NDArray[np.int64]:
    """The place of each value among the ids; -1 for another one."""
    places: npt.NDArray[np.int64] = pc.fill_null(pc.index_in(values, value_set=ids), -1).to_numpy().astype(np.int64)
    return places


def _looked_up(
    place: str, keys: npt.NDArray[np.int64], p: Floats, wanted: npt.NDArray[np.int64], data: Interactions
) -> Floats:
    """The propensities of these keys, which are sorted; an error for a key that is not there."""
    at = np.searchsorted(keys, wanted)
    there = (at < len(keys)) & (np.append(keys, -1)[at] == wanted)
    return _whole(place, np.where(there, np.append(p, np.nan)[np.minimum(at, len(p))], np.nan), data)


def _whole(place: str, p: Floats, data: Interactions) -> Floats:
    """The propensities, if every logged pair has one."""
    gaps = np.flatnonzero(~(p > 0))
    if len(gaps):
        raise DataError(
            f"{place}: {len(gaps):,} of {len(p):,} logged pairs have no propensity above 0 "
            f"(first: {_pair(data, int(gaps[0]))}), so that 1/propensity is undefined. Add them to the table, or use "
            "propensity: {kind: popularity}."
        )
    return p


def _refuse(place: str, column: str, p: Floats, key: Key) -> None:
    """An error for a probability that is none."""
    wrong = np.flatnonzero(~((p > 0) & (p <= 1)))
    if len(wrong):
        row = int(wrong[0])
        raise DataError(
            f"{place}: {column} is not above 0 and at most 1 in {len(wrong):,} of {len(p):,} rows (first: {key(row)}, "
            f"{column}={p[row]:g}). Fix the job that makes the table."
        )


def _key(table: pa.Table, row: int) -> str:
    """The key of a row, for a message."""
    names = [name for name in ("user_id", "item_id") if name in table.column_names]
    return ", ".join(f"{name}={table.column(name)[row].as_py()}" for name in names)


def _pair(data: Interactions, pair: int) -> str:
    """A logged pair, for a message."""
    user, item = data.user_ids[int(data.users[pair])], data.item_ids[int(data.items[pair])]
    return f"user_id={user.as_py()}, item_id={item.as_py()}"
