"""The runs of a study of [wtd]: what each is made of, which trial is chosen, and what a config of it needs."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from eval_engine.errors import ConfigError, DataError
from eval_engine.studies.settings import WtdStudy
from eval_engine.tables import ESTIMATES
from jobs.pipeline import check_asked, stages_of
from jobs.run_config import RunConfig
from jobs.runner import load
from jobs.stage import lake_without_spark
from jobs.wtd_study import (
    chosen_trials,
    final_config,
    parts_of,
    split_config,
    tuning_config,
)

CONFIG = Path(__file__).parents[2] / "conf" / "studies" / "wtd.yaml"


def studied(tmp_path: Path, **changes: Any) -> RunConfig:
    content = yaml.safe_load(CONFIG.read_text()) | {"lake": str(tmp_path / "lake")} | changes
    path = tmp_path / "run.yaml"
    path.write_text(yaml.safe_dump({name: own for name, own in content.items() if own is not None}))
    return load(path)


def settings_of(config: RunConfig) -> WtdStudy:
    assert isinstance(config.study, WtdStudy)
    return config.study


def estimate(config: RunConfig, model: str, value: float | None, **others: Any) -> dict[str, Any]:
    known = {"model": model, "estimator": "open_loop", "metric": "recall", "k": 10, "slice": "all", "value": value}
    counts = {"n_users": 9, "n_left_out": 0, "n_unknown": 0, "left_out": "x", "estimand": "x", "confidence": 0.95}
    row = dict.fromkeys(name for name in ESTIMATES.names if name != "run_id") | counts | known
    return row | others


def test_a_study_with_runs_of_its_own_has_two_stages(tmp_path: Path) -> None:
    config = studied(tmp_path)
    assert stages_of(config) == ("simulate", "study")
    for name in ("split", "train", "rank", "evaluate", "report", "test_sets"):
        with pytest.raises(ConfigError, match=f"makes the stage {name} of its runs itself: use `plumbline run`"):
            check_asked(config, name)
    check_asked(config, "study")


def test_runs_share_nothing_that_is_split_or_drawn(tmp_path: Path) -> None:
    """Each pair is hashed with a seed of its own for the split, the parts and each draw: equal seeds would tie them."""
    config, seeds, places = studied(tmp_path), [], []
    settings = settings_of(config)
    chosen = {"user_knn": "user_knn-001", "item_knn": "item_knn-000", "wmf": "wmf-002"}
    for number in range(1, settings.runs + 1):
        split, final = split_config(config, number), final_config(config, settings, number, chosen)
        assert split.run_id == final.run_id == f"wtd-{number}"
        assert split.split is not None
        seeds.append(split.split.how.model_dump()["seed"])
        assert final.test_sets is not None
        seeds += sorted({one.first_seed + draw for one in final.test_sets for draw in range(one.n_draws)} - {0})
        assert split.inputs.heldout is not None
        places += [split.inputs.heldout.path, *(where.path for where in parts_of(settings, number).values())]
        assert split.train is not None
        places.append(str(split.train.scores))
    assert len(set(seeds)) == len(seeds)
    assert len(set(places)) == len(places)


def test_a_run_has_the_chosen_trials_under_the_names_of_their_models(tmp_path: Path) -> None:
    config = studied(tmp_path)
    settings = settings_of(config)
    final = final_config(
        config, settings, 3, {"user_knn": "user_knn-001", "item_knn": "item_knn-000", "wmf": "wmf-002"}
    )
    assert {one.model: one.path for one in final.score_tables()} == {
        "pos_pop": "studies/wtd/scores/3/pos_pop",
        "avg_rating": "studies/wtd/scores/3/avg_rating",
        "user_knn": "studies/wtd/scores/3/user_knn-001",
        "item_knn": "studies/wtd/scores/3/item_knn-000",
        "wmf": "studies/wtd/scores/3/wmf-002",
    }
    assert final.inputs.exposures == parts_of(settings, 3)["truth"]
    tuned = tuning_config(config, settings, 3)
    assert tuned.inputs.exposures == parts_of(settings, 3)["tuning"]
    assert (tuned.run_id, tuned.test_sets, final.train) == ("wtd-3-tuning", None, None)
    assert {one.frame for one in (final, tuned, split_config(config, 3))} == {"unseen"}
    assert config.frame == "all_items"


def test_the_trial_with_the_largest_value_is_chosen_the_first_of_equal_ones(tmp_path: Path) -> None:
    config = studied(tmp_path)
    settings, lake = settings_of(config), lake_without_spark(config.lake)
    assert lake is not None
    values = {"user_knn-000": 0.1, "user_knn-001": 0.3, "user_knn-002": 0.3, "item_knn-000": 0.2, "item_knn-001": None}
    rows = [estimate(config, name, value) for name, value in (values | {"wmf-002": 0.5, "wmf-003": 0.4}).items()]
    rows.append(estimate(config, "wmf-003", 0.9, estimator="ure_macro"))
    rows.append(estimate(config, "wmf-003", 0.8, slice="genre=toys"))
    lake.put(ESTIMATES, rows, {"run_id": "wtd-1-tuning"})
    assert chosen_trials(lake, config, settings, 1) == {
        "user_knn": "user_knn-001",
        "item_knn": "item_knn-000",
        "wmf": "wmf-002",
    }
    lake.put(ESTIMATES, rows[:3], {"run_id": "wtd-2-tuning"})
    with pytest.raises(DataError, match=r"no trial of item_knn has recall@10 in run wtd-2-tuning.*random\.tuning"):
        chosen_trials(lake, config, settings, 2)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"test_sets": None}, "the section test_sets is needed"),
        ({"split": None, "world": None}, "a split section with strategy: random is needed"),
        ({"train": {"output": "ranks", "models": [{"model": "popularity"}]}}, "popularity writes ranks only"),
    ],
)
def test_a_study_of_test_sets_needs_what_its_runs_are_made_of(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        studied(tmp_path, **changes)


def test_a_model_that_is_left_out_must_be_compared(tmp_path: Path) -> None:
    study = yaml.safe_load(CONFIG.read_text())["study"] | {"without": ["mf"]}
    with pytest.raises(ConfigError, match=r"study.without: mf is none of the compared models: avg_rating, item_knn"):
        studied(tmp_path, study=study)
