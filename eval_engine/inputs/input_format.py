"""The format of an input table, from the config or from its path; the same for every stage, with and without Spark.

declared            `format`; or csv if the config has `csv`, which only a CSV table has
x.csv, x.CSV.gz     csv; also .bz2 and .zst, and folders with such a name
a.b, a.b.c          a name in Spark's catalog, if there is no such file or folder
a folder            delta if it has a _delta_log; csv or parquet by the names of the files in it, or in its partitions
anything else       parquet, also a path that does not exist: reading it raises the error
"""

import re
from pathlib import Path
from typing import Literal

import pyarrow as pa
from pyarrow import fs

from eval_engine.config import Input
from eval_engine.errors import ConfigError, DataError
from eval_engine.storage.stored_file import full_path, located

Format = Literal["parquet", "delta", "csv", "table"]
CATALOG_NAME = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*){1,2}")
CSV_NAME = re.compile(r".*\.csv(\.gz|\.bz2|\.zst)?", re.IGNORECASE | re.DOTALL)


def input_format(where: Input) -> Format:
    """parquet, delta, csv, or table (a catalog name)."""
    path = where.path.rstrip("/")
    if where.format is not None:
        return where.format
    if where.csv is not None or CSV_NAME.fullmatch(path):
        return "csv"
    if CATALOG_NAME.fullmatch(path) and not Path(path).exists() and not path.endswith(".parquet"):
        return "table"
    try:
        return _stored_format(where.path, *located(full_path(where.path)))
    except PermissionError:
        raise DataError(
            f"{where.path} cannot be opened: permission denied. Give the user that runs this the right to read it, "
            "or name another path in the config."
        ) from None
    except (OSError, pa.ArrowException) as error:
        reason = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
        raise ConfigError(
            f"{where.path}: its format cannot be guessed, since Arrow does not reach it ({reason}). "
            "Give `format` of this input: parquet, delta or csv."
        ) from None


def _stored_format(path: str, system: fs.FileSystem, place: str) -> Format:
    """The format of a file or folder, by the names of its files."""
    if system.get_file_info(place).type != fs.FileType.Directory:
        return "parquet"
    if system.get_file_info(f"{place}/_delta_log").type == fs.FileType.Directory:
        return "delta"
    folder: str | None = place
    while folder is not None:
        seen = [
            entry
            for entry in system.get_file_info(fs.FileSelector(folder))
            if not entry.base_name.startswith(("_", "."))
        ]
        as_csv = [bool(CSV_NAME.fullmatch(entry.base_name)) for entry in seen if entry.is_file]
        if any(as_csv) and not all(as_csv):
            raise ConfigError(
                f"{path}: it holds CSV files and others. Give `format` of this input, or clear the folder."
            )
        if as_csv:
            return "csv" if all(as_csv) else "parquet"
        folder = min((entry.path for entry in seen if not entry.is_file), default=None)
    return "parquet"
