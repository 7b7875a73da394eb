"""Whether the folders that stages write to can be written: checked before the work, which may take hours.

URIs and catalogs are not checked here; the stage that writes to them names what is wrong.
"""

import tempfile
from collections.abc import Iterable
from pathlib import Path

from eval_engine.errors import LakeError, OutputError, PlumblineError
from jobs.pipeline import STAGES
from jobs.run_config import AnyConfig


def check_outputs(config: AnyConfig, stages: Iterable[str]) -> None:
    """Raises if the lake, which has a row of every stage, or a folder of these stages cannot be written; makes them."""
    from eval_engine.lake.lake import CATALOG_NAME  # not at the top: it imports Spark, and `plumbline --help` does not

    for name in dict.fromkeys(("lake", *(folder for stage in stages for folder in STAGES[stage].folders))):
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
