"""The spec of a search, many models from one entry: every point of a grid, or some drawn by hash. No torch here.

    search:
      - {model: bpr_mf, grid: {dims: [16, 32, 64], learning_rate: [0.001, 0.01]}}
      - {model: lightgcn, trials: 10}

The first entry gives 6 models, bpr_mf-000 to bpr_mf-005; the second 10 points of the grid in models/registry.py. A
dotted key sets a field of a part: loss.gamma, sampler.drawn. With a larger `trials` the points drawn before stay among
the trials.
"""

import itertools
import json
from collections.abc import Mapping
from typing import Any

from pydantic import Field, field_validator

from eval_engine.config import Strict
from models.keyed import stream_seed
from models.registry import REGISTRY, composed, merged


class Search(Strict):
    """A model of the registry, its fixed settings, and the grid of those that vary."""

    model: str = Field(description="a name of models/registry.py")
    fixed: dict[str, Any] = Field({}, description="settings of all trials, as in an entry of `models`")
    grid: dict[str, tuple[Any, ...]] | None = Field(None, description="values of each key; left out: the registry's")
    trials: int | None = Field(
        None, ge=1, description="number of points of the grid, drawn by hash; left out: all of them"
    )

    @field_validator("model")
    @classmethod
    def _known(cls, model: str) -> str:
        composed({"model": model})
        return model

    @field_validator("grid")
    @classmethod
    def _not_empty(cls, grid: dict[str, tuple[Any, ...]] | None) -> dict[str, tuple[Any, ...]] | None:
        for key, values in (grid or {}).items():
            if not values:
                raise ValueError(f"grid: {key} has no values, so there is nothing to try")
        return grid

    def entries(self, seed: int) -> list[dict[str, Any]]:
        """The trials as entries of `models`, named MODEL-000, MODEL-001 ... by their index in the grid."""
        return [self._entry(name, point) for name, point in self.points(seed).items()]

    def points(self, seed: int) -> dict[str, dict[str, Any]]:
        """The settings that vary, by dotted key, of each trial."""
        grid = REGISTRY[self.model].grid if self.grid is None else self.grid
        points = [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]
        numbers = list(range(len(points)))
        if self.trials is not None:
            numbers = sorted(
                numbers,
                key=lambda number: stream_seed(seed, "trial", self.model, json.dumps(points[number], sort_keys=True)),
            )[: self.trials]
        width = max(3, len(str(len(points) - 1)))
        return {f"{self.model}-{number:0{width}d}": points[number] for number in sorted(numbers)}

    def _entry(self, name: str, point: Mapping[str, Any]) -> dict[str, Any]:
        """The entry of one trial."""
        entry: dict[str, Any] = {"model": self.model, **self.fixed, "name": name}
        for key, value in point.items():
            for part in reversed(key.split(".")):
                value = {part: value}
            entry = merged(entry, value)
        return entry
