"""A checkpoint of unfinished training: a file for one model, config and data, which is complete or absent.

It has the parameters, Adam's moments, the row reached in the epoch and the generator's state: training that resumes
from it gives the same weights as training that was never stopped. It is removed when the model's scores or ranks are
written.
"""

import time
from pathlib import Path
from typing import Any

import torch

from eval_engine.storage.atomic_file import replace_atomically
from models.errors import TrainingError


class Checkpoint:
    """The file of one model's training."""

    def __init__(self, path: Path, model: str, made_from: str, minutes: float) -> None:
        self.path, self.model, self.made_from, self.seconds = path, model, made_from, minutes * 60
        self.saved = time.monotonic()

    def load(self) -> dict[str, Any] | None:
        """The saved state; None if there is none."""
        if not self.path.exists():
            return None
        try:
            content = torch.load(self.path, weights_only=True, map_location="cpu")
            made_from, state = content["made_from"], content["state"]
        except Exception as error:  # torch passes on any error of pickle, zipfile and its own reader
            raise TrainingError(
                f"{self.path}: not a checkpoint of training ({type(error).__name__}: {error}). "
                "Remove it to train from the start."
            ) from None
        if made_from != self.made_from:
            raise TrainingError(
                f"{self.path}: this checkpoint of model {self.model} is of another config, seed or data "
                f"({made_from[:12]}, now {self.made_from[:12]}). "
                "Restore that config, seed and data to finish it, or remove the file to train from the start."
            )
        return dict(state)

    def due(self) -> bool:
        """Whether it is time to save again."""
        return time.monotonic() - self.saved >= self.seconds

    def save(self, state: dict[str, Any]) -> None:
        """Replaces the saved state by this one."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        replace_atomically(self.path, lambda path: torch.save({"made_from": self.made_from, "state": state}, path))
        self.saved = time.monotonic()

    def remove(self) -> None:
        """Removes the file: the model is finished."""
        self.path.unlink(missing_ok=True)
