"""A score table and its files, as the workers that read them need them; sent to every task."""

from typing import NamedTuple

from eval_engine.inputs.file_stamp import Stamp, Stamped


class Source(NamedTuple):
    """One score table, with the column names of its files."""

    number: int  # among the run's score tables
    name: str  # in errors
    model: str | None  # None: the column `model` has it
    user: str
    item: str | None  # None: dense, a row has all scores of a user
    score: str  # the column of vectors, or of single scores
    dtype: str = "float32"  # of the numbers in a BINARY vector, or of single scores
    partial: bool = False  # only the best items of each user are scored


class ScoreFile(NamedTuple):
    """A file of a score table."""

    path: str
    source: Source
    stamp: Stamp | None = None  # when the run was planned

    @property
    def stamped(self) -> Stamped:
        """The file with the name of its table and its stamp."""
        return Stamped(self.source.name, self.path, self.stamp)


Files = tuple[ScoreFile, ...]  # a plan identifies a file by its index here
