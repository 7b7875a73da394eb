"""Whether the folders that a run writes to can be written: asked before the work, which may take hours. Of URIs and catalogs, the stage that writes to them tells."""

import tempfile
from pathlib import Path

from eval_engine.errors import LakeError, OutputError, PlumblineError
from eval_engine.lake.lake import CATALOG_NAME
from jobs.run_config import RunConfig


def check_outputs(config: RunConfig, *names: str) -> None:
    """Raises if one of these folders of the config (lake, staging, report) cannot be written; makes them."""
    for name in names:
        folder = getattr(config, name)
        if folder is None or "://" in folder or (name == "lake" and CATALOG_NAME.fullmatch(folder)):
            continue
        try:
            Path(folder).mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=folder):
                pass
        except OSError as error:
            kind: type[PlumblineError] = LakeError if name == "lake" else OutputError
            what = "lake" if name == "lake" else f"folder `{name}`,"
            raise kind(
                f"The {what} {folder} cannot be written: {error.strerror}. Give a writable `{name}` in the config."
            ) from None
