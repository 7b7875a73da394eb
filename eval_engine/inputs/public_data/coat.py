"""Coat Shopping [Schnabel et al. 2016]: 290 users x 300 coats; 24 ratings each of coats they chose, 16 of random ones.

    train.ascii, test.ascii                    a line per user, a rating of 1 to 5 per coat, 0: not rated; logged,
    random user_item_features/*_features.ascii        a line per user or coat, 0 or 1 per feature, named in
    *_features_map.txt
                                               as NAME:VALUE (optional)

user_id and item_id are the numbers of line and column, from 0. Positive: rating > 3. Random coats were drawn from all
of them, also those that the user had chosen: frame all_items.
"""

from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa

from eval_engine.errors import DataError
from eval_engine.inputs.public_data.destination import Destination
from eval_engine.inputs.public_data.logged_and_random import Division
from eval_engine.inputs.public_data.run_settings import Imported
from eval_engine.inputs.public_data.source_files import DataSet, Progress, Sources
from eval_engine.inputs.public_data.user_buckets import Pairs

COAT = DataSet("Coat", "https://www.cs.cornell.edu/~schnabts/mnar/ (coat.zip)")
HIGHEST = 5


def convert(sources: Sources, division: Division, destination: Destination, progress: Progress) -> Imported:
    """Writes the tables."""
    train, test = (sources.one(name) for name in ("train.ascii", "test.ascii"))
    logged, random = (_matrix(sources, file, HIGHEST, progress) for file in (train, test))
    if logged.shape != random.shape:
        raise DataError(
            f"{test} has {random.shape[0]:,} users x {random.shape[1]:,} items, but {train} has {logged.shape[0]:,} x "
            f"{logged.shape[1]:,}. Both are of the same users and items. {sources.origin}"
        )
    n_users, n_items = logged.shape
    counts: Counter[str] = Counter()
    division.write(_pairs(logged), _pairs(random), destination, counts)
    items = _features(sources, "item", n_items)
    destination.add_catalogue(np.arange(n_items), items)
    users = _features(sources, "user", n_users)
    if users:
        destination.add("users", pa.record_batch([pa.array(np.arange(n_users)), *users.values()], ["user_id", *users]))
    remarks = tuple(f"{n:,} {what}" for what, n in counts.items() if n)
    return Imported("value > 3", division.frame, remarks, item_columns=tuple(items), user_columns=tuple(users))


def _matrix(sources: Sources, file: Path, highest: int, progress: Progress) -> np.ndarray:
    """The whole numbers of a file, 0 to highest, (lines, fields)."""
    rows: list[list[int]] = []
    with file.open(encoding="ascii", errors="replace") as lines:
        for number, line in enumerate(lines, 1):
            fields = line.split()
            if not fields:
                continue
            if rows and len(fields) != len(rows[0]):
                raise DataError(
                    f"{file}: line {number} has {len(fields)} fields, but the lines before it have {len(rows[0])}. "
                    f"{sources.data_set.name} is a matrix: is the download whole? {sources.origin}"
                )
            for column, field in enumerate(fields, 1):
                if not (field.isdecimal() and int(field) <= highest):
                    raise DataError(
                        f"{file}: line {number}, field {column} is {field[:20]!r}, but a whole number from 0 to "
                        f"{highest} is needed. Is it the owner's file, unchanged? {sources.origin}"
                    )
            rows.append([int(field) for field in fields])
    if not rows:
        raise DataError(f"{file} has no rows. Is the download whole? {sources.origin}")
    progress(file, size := file.stat().st_size, size)
    return np.array(rows, np.int64)


def _pairs(ratings: np.ndarray) -> Pairs:
    """The rated pairs of a matrix, by user and item."""
    users, items = np.nonzero(ratings)
    return Pairs(users, items, ratings[users, items].astype(np.float64))


def _features(sources: Sources, of: str, n_rows: int) -> dict[str, pa.Array]:
    """The features of users or items as columns of text; none if a file is missing."""
    files = sources.optional(f"{of}_features.ascii"), sources.optional(f"{of}_features_map.txt")
    if files[0] is None or files[1] is None:
        return {}
    values = _matrix(sources, files[0], 1, lambda *_: None)
    names = [line.strip() for line in files[1].read_text(errors="replace").splitlines() if line.strip()]
    if values.shape != (n_rows, len(names)):
        raise DataError(
            f"{files[0]} has {values.shape[0]:,} rows x {values.shape[1]:,} features, but {n_rows:,} {of}s are rated "
            f"and {files[1].name} names {len(names)} features. {sources.origin}"
        )
    columns: dict[str, list[int]] = {}
    for at, name in enumerate(names):
        columns.setdefault(name.partition(":")[0].strip(), []).append(at)
    texts = np.array([name.partition(":")[2].strip() or "yes" for name in names])
    decoded = {}
    for column, places in columns.items():
        chosen = values[:, places]
        text = np.where(chosen.any(axis=1), texts[places][chosen.argmax(axis=1)], "unknown")
        decoded[column] = pa.array(text.tolist(), pa.string())
    return decoded
