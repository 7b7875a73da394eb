"""The lake's ranks table as training meets it, without Spark: made as eval_engine/lake/lake.py makes it, and asked what
it holds."""

import pyarrow as pa
from deltalake.exceptions import DeltaError

from eval_engine.errors import LakeError
from eval_engine.lake.delta_table import damaged, files_of, make_table
from eval_engine.tables import RANKS


def make_ranks_table(uri: str, id_type: pa.DataType) -> None:
    """The table, if it is not there yet; an error if one is there that these rows do not fit."""
    try:
        make_table(uri, RANKS, "BIGINT" if pa.types.is_integer(id_type) else "STRING")
    except (DeltaError, OSError) as error:
        raise LakeError(
            f"The lake's table {uri} cannot be made or read: {str(error).splitlines()[0]} "
            "Give a writable `lake` in the config."
        ) from None


def ranked_from(uri: str, run_id: str, model: str) -> set[str]:
    """The fingerprints of what the model's rows in the table were made from; empty: there are none, or a file of them
    is gone or cut."""
    files = files_of(uri, {"run_id": run_id, "model": model})
    return set() if damaged(files) else {file.partition["inputs"] or "" for file in files}
