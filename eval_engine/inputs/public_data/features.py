"""A column of text of each item or user, from a feature file of the owner: to slice estimates by.

Lists of tags or genres become their first one: "[27, 9]" -> 27, "12,65" -> 12, "Comedy|Drama" -> Comedy. An id without
a row, or with an empty field, is `unknown`.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as arrow_csv

from eval_engine.errors import DataError
from eval_engine.inputs.public_data.source_files import Sources

UNKNOWN = "unknown"
FIRST = r"^[\[\s]*(?P<first>[^,|\[\]]*)"  # the text before the first separator


def text_column(sources: Sources, file: Path, key: str, column: str, ids: np.ndarray) -> pa.Array:
    """The first tag of each of these ids, which are in rising order, from columns of a CSV file with a header."""
    try:
        reader = arrow_csv.open_csv(
            file,
            read_options=arrow_csv.ReadOptions(use_threads=False),
            convert_options=arrow_csv.ConvertOptions(
                column_types={key: pa.int64(), column: pa.string()}, include_columns=[key, column]
            ),
        )
        return first_tags(ids, ((batch.column(0).to_numpy(), batch.column(1)) for batch in reader))
    except (pa.ArrowInvalid, pa.ArrowKeyError) as error:
        raise DataError(
            f"{file}: the columns {key} and {column} of {sources.data_set.name} cannot be read "
            f"({str(error)[:120]}). Is the download whole, and the file unchanged? Or take the file away: it is only "
            f"needed for slices. {sources.origin}"
        ) from None


def first_tags(ids: np.ndarray, rows: Iterable[tuple[np.ndarray, pa.Array]]) -> pa.Array:
    """The first tag of each of these ids, which are in rising order; rows: ids and texts in any order."""
    texts = np.full(len(ids), UNKNOWN, object)
    for found, text in _known(ids, rows):
        first = pc.utf8_trim_whitespace(pc.struct_field(pc.extract_regex(text, FIRST), "first"))
        texts[np.searchsorted(ids, found)] = pc.if_else(pc.equal(first, ""), UNKNOWN, first).fill_null(UNKNOWN)
    return pa.array(texts, pa.string())


def _known(ids: np.ndarray, rows: Iterable[tuple[np.ndarray, pa.Array]]) -> Iterator[tuple[np.ndarray, pa.Array]]:
    """The rows of these ids."""
    for found, text in rows:
        kept = np.isin(found, ids)
        yield found[kept], text.filter(pa.array(kept))
