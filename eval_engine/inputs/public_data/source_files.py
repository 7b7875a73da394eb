"""Finds the files of a public data set as its owner distributes them: by their own names, in the given folder or up to
two folders below it, as archives unpack.

A missing file is an error that says which name is expected, where the owner distributes it, and what the folder has.
"""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from eval_engine.errors import ConfigError, DataError

DEPTH = 2  # folders below the given one
SHOWN = 8  # files of a folder that a message lists
Progress = Callable[[Path, int, int], None]  # a file, the bytes read of it, its size


class DataSet(NamedTuple):
    """A public data set: what messages call it, and where its owner distributes it."""

    name: str
    owner: str  # the page to get it from, and how the archive is called there


class Sources(NamedTuple):
    """The folder that holds a data set."""

    data_set: DataSet
    folder: Path

    def one(self, *names: str) -> Path:
        """The one file that has any of these names (patterns such as log_random_*.csv)."""
        files = self.all(*names)
        if len(files) > 1:
            listed = ", ".join(str(file.relative_to(self.folder)) for file in files)
            raise ConfigError(
                f"{self.folder} has more than one file of {self.data_set.name} for {' or '.join(names)}: {listed}. "
                "Give the folder of one version of the data set."
            )
        return files[0]

    def all(self, *names: str) -> list[Path]:
        """All files that have any of these names, sorted; at least one."""
        files = self._matching(names)
        if files:
            return files
        if not self.folder.is_dir():
            raise DataError(
                f"{self.folder} is not a folder. Give the folder that holds {' or '.join(names)} of "
                f"{self.data_set.name}. {self.origin}"
            )
        seen = sorted(path.name for path in self.folder.iterdir())
        listed = ", ".join(seen[:SHOWN]) + (", ..." if len(seen) > SHOWN else "") if seen else "nothing"
        raise DataError(
            f"{self.folder}: no file {' or '.join(names)} of {self.data_set.name}, here or up to {DEPTH} folders "
            f"below; the folder has {listed}. {self.origin}"
        )

    def optional(self, *names: str) -> Path | None:
        """The file that has one of these names; None if there is none, or more than one."""
        files = self._matching(names)
        return files[0] if len(files) == 1 else None

    @property
    def origin(self) -> str:
        """Where to get the files, as the last sentence of a message."""
        return f"The owner distributes it at {self.data_set.owner}; keep the names of the unpacked files."

    def _matching(self, names: tuple[str, ...]) -> list[Path]:
        patterns = ["/".join(["*"] * depth + [name]) for depth in range(DEPTH + 1) for name in names]
        return sorted({path for pattern in patterns for path in self.folder.glob(pattern) if path.is_file()})
