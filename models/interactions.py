"""Logged feedback as index arrays: users sorted by id, items by catalogue position, pairs sorted by (user, item).

    read_interactions(feedback, catalogue, users)
        ->  users (n_pairs,), items (n_pairs,), values (n_pairs,), user_ids, item_ids

Users are those of the feedback and, if given, of a second table (exposures, or all users): a user without feedback is
scored too. The order of rows in the files does not matter. An item that is not in the catalogue, a pair or item that
occurs twice, and positions that are not 0..N-1 are DataErrors.
"""

import hashlib
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from eval_engine.config import Input
from eval_engine.errors import DataError
from models.inputs import read_columns
from models.keyed import id_keys

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


class Interactions(NamedTuple):
    """Pairs as indices into user_ids and item_ids."""

    user_ids: pa.Array  # (n_users,), sorted
    item_ids: pa.Array  # (n_items,), in catalogue order
    users: Ints  # (n_pairs,)
    items: Ints  # (n_pairs,)
    values: Floats  # (n_pairs,)

    @property
    def n_users(self) -> int:
        return len(self.user_ids)

    @property
    def n_items(self) -> int:
        return len(self.item_ids)

    def digest(self) -> str:
        """A hash of all ids, pairs and values."""
        sha = hashlib.sha256(f"{self.user_ids.type} {self.item_ids.type} {self.n_users} {self.n_items}".encode())
        for array in (id_keys(self.user_ids), id_keys(self.item_ids), self.users, self.items, self.values):
            sha.update(array.data)
        return sha.hexdigest()


def read_interactions(feedback: Input, catalogue: Input, users: Input | None = None) -> Interactions:
    """The feedback's pairs, as indices into its users (and those of `users`) and the catalogue's items."""
    item_ids = read_catalogue(catalogue)
    pairs = read_columns(feedback, ("user_id", "item_id", "value"))
    same_type(feedback.path, "item_id", pairs.column("item_id").type, catalogue.path, item_ids.type)
    user_ids = pc.unique(pairs.column("user_id"))
    if users is not None:
        more = pc.unique(read_columns(users, ("user_id",)).column("user_id"))
        same_type(users.path, "user_id", more.type, feedback.path, user_ids.type)
        user_ids = pc.unique(pa.chunked_array([user_ids, more]))
    user_ids = user_ids.take(pc.sort_indices(user_ids))
    items = pc.index_in(pairs.column("item_id"), value_set=item_ids)
    if items.null_count:
        row = pc.index(pc.is_null(items), True).as_py()
        raise DataError(
            f"{feedback.path}: {items.null_count:,} of {len(items):,} rows have an item_id that the catalogue "
            f"{catalogue.path} lacks (first: {_pair(pairs, row)}). "
            "Add the items to the catalogue, or remove the rows."
        )
    return _sorted_pairs(feedback.path, pairs, user_ids, item_ids, items)


def read_random_set(source: Input, data: Interactions) -> Interactions:
    """Pairs of a second table, as indices into the users and items of the first; an unknown id is a DataError."""
    pairs = read_columns(source, ("user_id", "item_id", "value"))
    same_type(source.path, "user_id", pairs.column("user_id").type, "the feedback", data.user_ids.type)
    same_type(source.path, "item_id", pairs.column("item_id").type, "the catalogue", data.item_ids.type)
    items = pc.index_in(pairs.column("item_id"), value_set=data.item_ids)
    for column, indices in (
        ("item_id", items),
        ("user_id", pc.index_in(pairs.column("user_id"), value_set=data.user_ids)),
    ):
        if indices.null_count:
            row = pc.index(pc.is_null(indices), True).as_py()
            raise DataError(
                f"{source.path}: {indices.null_count:,} of {len(indices):,} rows have a {column} that training does "
                f"not know (first: {_pair(pairs, row)}). Remove the rows: nothing can be learned from them."
            )
    return _sorted_pairs(source.path, pairs, data.user_ids, data.item_ids, items)


def read_catalogue(catalogue: Input) -> pa.Array:
    """The item ids in the order of their positions."""
    table = read_columns(catalogue, ("item_id", "position")).combine_chunks()
    position = table.column("position").to_numpy()
    order = np.argsort(position, kind="stable")
    wrong = np.flatnonzero(position[order] != np.arange(len(order)))
    if len(wrong):
        wrong_position, item_id = position[order[wrong[0]]], table.column("item_id")[int(order[wrong[0]])].as_py()
        raise DataError(
            f"{catalogue.path}: positions must be 0..{len(order) - 1}, each once, because they index score vectors; "
            f"found {wrong_position} where {wrong[0]} is due (item_id={item_id}). Number the items again."
        )
    item_ids = table.column("item_id").combine_chunks().take(pa.array(order))
    counts = pc.value_counts(item_ids)
    if len(counts) < len(item_ids):
        twice = counts.filter(pc.greater(counts.field("counts"), 1))[0].as_py()
        raise DataError(
            f"{catalogue.path}: item_id={twice['values']} comes {twice['counts']} times; an item has one position. "
            "Remove the others."
        )
    return item_ids


def _sorted_pairs(
    path: str, pairs: pa.Table, user_ids: pa.Array, item_ids: pa.Array, items: pa.ChunkedArray
) -> Interactions:
    """The pairs sorted by (user, item); a pair that occurs twice is a DataError."""
    key = (
        pc.index_in(pairs.column("user_id"), value_set=user_ids).to_numpy().astype(np.int64) * len(item_ids)
        + items.to_numpy()
    )
    order = np.argsort(key, kind="stable")
    key = key[order]
    twice = np.flatnonzero(key[1:] == key[:-1])
    if len(twice):
        raise DataError(
            f"{path}: {len(twice):,} rows repeat a pair that is there already "
            f"(first: {_pair(pairs, int(order[twice[0]]))}); a pair has one value. "
            "Keep one row of each, such as the last."
        )
    users, columns = np.divmod(key, len(item_ids))
    return Interactions(user_ids, item_ids, users, columns, pairs.column("value").to_numpy()[order])


def _pair(pairs: pa.Table, row: int) -> str:
    """The key of a row, for a message."""
    return f"user_id={pairs.column('user_id')[row].as_py()}, item_id={pairs.column('item_id')[row].as_py()}"


def same_type(path: str, column: str, stored: pa.DataType, other: str, wanted: pa.DataType) -> None:
    """Raises an error if an id has different types in two tables: no pair would match."""
    if stored != wanted:
        raise DataError(
            f"{path}: {column} is {stored}, but {wanted} in {other}. "
            "Ids have one type in every table of a run: cast one of them."
        )
