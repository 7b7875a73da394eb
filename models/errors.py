"""Errors of training that another setting can fix."""

from eval_engine.errors import PlumblineError


class TrainingError(PlumblineError):
    """Training failed: another learning rate, loss or floor is needed."""


class DivergedError(TrainingError):
    """The loss or a score is NaN or infinite; a search notes such a trial and goes on."""


class SingularError(TrainingError):
    """A least-squares solution is not unique; a search notes such a trial and goes on."""
