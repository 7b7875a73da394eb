"""A score table and its files, as the workers that read them know them; travels to every task."""

from typing import NamedTuple

from eval_engine.inputs.file_stamp import Stamp, Stamped


class Source(NamedTuple):
    """One score table, as its files have it."""

    number: int  # among the run's score tables
    name: str  # what errors call it
    model: str | None  # None: a column of that name tells
    user: str
    item: str | None  # None: dense, a row holds all scores of a user
    score: str  # the column of vectors, or of single scores
    dtype: str = "float32"  # of the numbers in a BINARY vector, or of single scores
    partial: bool = False  # only the best items of each user are scored


class ScoreFile(NamedTuple):
    """A file of a score table."""

    path: str
    source: Source
    stamp: Stamp | None = None  # of the file that was planned on

    @property
    def stamped(self) -> Stamped:
        """The file as errors call it."""
        return Stamped(self.source.name, self.path, self.stamp)


Files = tuple[ScoreFile, ...]  # a plan tells a file by its number in them
