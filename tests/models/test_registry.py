"""The registry: every name is a valid model, a config's keys are merged in, and the docs have a row for each."""

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from models.registry import REGISTRY
from models.spec.gradient import MF
from models.spec.samplers import HardNegatives
from models.spec.train import Train

NEEDED: dict[str, dict[str, Any]] = {"mf_autodebias": {"loss": {"random": {"path": "random"}}}}


def made(**entry: object) -> Train:
    return Train.model_validate({"scores": "s", "models": [entry]})


@pytest.mark.parametrize("name", REGISTRY)
def test_every_name_is_a_model_and_every_point_of_its_grid_too(name: str) -> None:
    (model,) = made(model=name, **NEEDED.get(name, {})).panel
    assert model.name == name
    grid = REGISTRY[name].grid
    searches = [{"model": name, "fixed": NEEDED.get(name, {}), "grid": {key: values}} for key, values in grid.items()]
    for search in searches:
        trials = Train.model_validate({"scores": "s", "search": [search]}).panel
        assert len({trial.model_dump_json(exclude={"name"}) for trial in trials}) == len(search["grid"].popitem()[1])


def test_changes_are_merged_and_another_kind_replaces() -> None:
    (model,) = made(model="mf_negs", name="mine", dims=8, sampler={"drawn": 60}).panel
    assert isinstance(model, MF)
    assert (model.name, model.dims, model.sampler) == ("mine", 8, HardNegatives(hardest=4, drawn=60))
    (model,) = made(model="bpr_mf", sampler={"kind": "hard_negatives", "hardest": 2, "drawn": 9}).panel
    assert model.sampler == HardNegatives(hardest=2, drawn=9)


def test_the_error_for_an_unknown_name_lists_the_known_names() -> None:
    with pytest.raises(ValidationError, match=r"model 'bprmf' is not in the registry; it has random, .*bpr_mf"):
        made(model="bprmf")


def test_docs_have_a_row_for_each() -> None:
    text = (Path(__file__).parents[2] / "docs" / "models.md").read_text()
    for name in REGISTRY:
        assert text.count(f"| `{name}` |") == 1, name
    files = {
        cell.strip(" `")
        for line in text.splitlines()
        if line.startswith("| `")
        for cell in line.split("|")[4].split(",")
    }
    assert all((Path(__file__).parents[2] / file).is_file() for file in files), files
