"""What can go wrong in training that another setting cures."""

from eval_engine.errors import PlumblineError


class TrainingError(PlumblineError):
    """Training went astray: another learning rate, loss or floor is needed."""


class DivergedError(TrainingError):
    """The loss, or a score, is no longer a number: what trials of a search may come to."""
