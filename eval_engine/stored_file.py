"""A stored file as Arrow opens it, in a Python worker as on the driver; and whether Arrow can open it at all."""

import re
from typing import Any
from urllib.parse import unquote, urlsplit

import pyarrow as pa
from pyarrow import fs

SCHEME = re.compile(r"[a-z][a-z0-9+.-]*:/")


def located(uri: str) -> tuple[fs.FileSystem, str]:
    """The file system behind a URI as Spark writes it (file:/x, s3a://b/x), or behind a plain path, and the path in it."""
    if not SCHEME.match(uri):
        return fs.LocalFileSystem(), uri
    if uri.startswith("file:/"):
        return fs.LocalFileSystem(), unquote(urlsplit(re.sub(r"^file:/+", "file:///", uri)).path)
    system, path = fs.FileSystem.from_uri(re.sub(r"^s3[an]://", "s3://", uri))
    return system, path


def open_file(uri: str) -> Any:
    """The file, for reading."""
    system, path = located(uri)
    return system.open_input_file(path)


def unreachable(uri: str) -> str | None:
    """Why Arrow cannot get at the file; None if it can."""
    try:
        system, path = located(uri)
        found = system.get_file_info(path).type
    except (OSError, pa.ArrowException) as error:
        return str(error).splitlines()[0][:200]
    return None if found != fs.FileType.NotFound else "Arrow finds no such file"
