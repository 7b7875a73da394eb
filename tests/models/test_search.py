"""Searches: every point of a grid, or some points, which stay if `trials` grows."""

from pathlib import Path

import pytest
import yaml
from pydantic import ValidationError

from models.spec.train import Train


def panel(search: dict[str, object], seed: int = 0) -> dict[str, object]:
    return {
        model.name: model for model in Train.model_validate({"scores": "s", "seed": seed, "search": [search]}).panel
    }


def test_a_grid_is_every_combination_in_order() -> None:
    trials = panel({"model": "bpr_pd", "fixed": {"epochs": 3}, "grid": {"loss.gamma": [0.1, 0.2], "dims": [4, 8]}})
    assert [(name, model.loss.gamma, model.dims, model.epochs) for name, model in trials.items()] == [
        ("bpr_pd-000", 0.1, 4, 3),
        ("bpr_pd-001", 0.1, 8, 3),
        ("bpr_pd-002", 0.2, 4, 3),
        ("bpr_pd-003", 0.2, 8, 3),
    ]


def test_more_trials_keep_the_earlier_ones_and_another_seed_draws_others() -> None:
    few, many = panel({"model": "lightgcn", "trials": 5}), panel({"model": "lightgcn", "trials": 20})
    assert len(few) == 5
    assert len(many) == 20
    assert few.items() <= many.items()
    assert panel({"model": "lightgcn", "trials": 5}, seed=1).keys() != few.keys()


@pytest.mark.parametrize(
    ("search", "message"),
    [
        ({"model": "nope"}, "model 'nope' is not in the registry"),
        ({"model": "mf", "grid": {"dims": []}}, "dims has no values"),
        (
            {"model": "mf", "grid": {"dims": [4, 0]}},
            r"search: mf-001 \(dims\): Input should be greater than or equal to 1",
        ),
        ({"model": "mf", "grid": {"loss.gamma": [1]}}, r"search: mf-000 .*Extra inputs"),
        ({"model": "mf", "trials": 0}, "greater than or equal to 1"),
    ],
)
def test_errors_name_trial_and_key(search: dict[str, object], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        panel(search)


def test_models_in_without_are_not_in_the_panel() -> None:
    spec = Train.model_validate(
        {"scores": "s", "search": [{"model": "mf", "grid": {"dims": [4, 8]}}], "without": ["mf-000"]}
    )
    assert [model.name for model in spec.panel] == ["mf-001"]
    assert set(spec.trials) == {"mf-000", "mf-001"}
    assert Train.model_validate(spec.model_dump()) == spec


def test_the_panel_config_is_valid() -> None:
    config = yaml.safe_load((Path(__file__).parents[2] / "conf" / "panel.yaml").read_text())
    assert len(Train.model_validate(config["train"]).panel) == 28
