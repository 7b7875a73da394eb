"""The lake's ranks table as training meets it, without Spark: made as eval_engine/lake.py makes it, and asked what it holds."""

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from eval_engine.delta_commit import delta_uri
from eval_engine.delta_table import create_table, fields_of, partitions_of, schema_of
from eval_engine.errors import DataError, LakeError
from eval_engine.tables import RANKS


def make_ranks_table(uri: str, id_type: pa.DataType) -> None:
    """The table, if it is not there yet; an error if one is there that these rows do not fit."""
    ids = "BIGINT" if pa.types.is_integer(id_type) else "STRING"
    try:
        if not DeltaTable.is_deltatable(delta_uri(uri)):
            create_table(uri, RANKS, ids)
        have = schema_of(uri)
    except (DeltaError, OSError) as error:
        raise LakeError(
            f"The lake's table {uri} cannot be made or read: {str(error).splitlines()[0]} Give a writable `lake` in the config."
        ) from None
    if set(fields_of(have)) != set(RANKS.fields):
        raise LakeError(
            f"{uri} has the columns {', '.join(sorted(fields_of(have)))}, not {', '.join(sorted(RANKS.fields))}: another version made it. Give another `lake`."
        )
    if pa.types.is_integer(have.field("user_id").type) != pa.types.is_integer(id_type):
        raise DataError(
            f"ranks.user_id is {id_type} in this run but {have.field('user_id').type} in the lake: ids are of one type in a lake. "
            "Give another `lake`, or cast the input."
        )


def ranked_from(uri: str, run_id: str, model: str) -> set[str]:
    """The fingerprints of what the model's rows in the table were made from; empty: there are none."""
    return {partition["inputs"] for partition in partitions_of(uri, {"run_id": run_id, "model": model})}
