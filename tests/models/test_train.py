"""Training as a whole: every model to its score table or its ranks, and a second run that does nothing."""

import io
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow.dataset as ds
import pytest
from deltalake import DeltaTable
from rich.console import Console
from rich.progress import Progress

from eval_engine.config import Input, Inputs
from eval_engine.errors import ConfigError, DataError
from eval_engine.positive import Positive
from models import train as module
from models.errors import SingularError, TrainingError
from models.fused import Run
from models.learning import learn
from models.progress import training_progress
from models.spec.baselines import PositivePopularity, Random
from models.spec.gradient import MF
from models.spec.losses import Bce
from models.spec.propensities import PopularityPropensity
from models.spec.samplers import Observed
from models.spec.train import Train
from models.train import train_all
from models.train_model import device_of
from models.trials_table import Trial

LIKED = Positive(">", 3.0)
MODELS = (
    Random(name="random"),
    PositivePopularity(name="popularity"),
    MF(name="mf", dims=4, epochs=4, batch_size=64),
    MF(
        name="mf_ips",
        dims=4,
        epochs=40,
        batch_size=64,
        learning_rate=0.05,
        patience=40,
        loss=Bce(propensity=PopularityPropensity()),
        sampler=Observed(),
    ),
)


def spec_of(folder: Path, models: tuple[object, ...] = MODELS, seed: int = 1) -> Train:
    return Train(scores=str(folder), seed=seed, models=models, block_mb=1, shard_mb=1)


def quiet() -> Progress:
    return Progress(disable=True)


def scores_of(folder: Path) -> tuple[list[object], np.ndarray]:
    table = ds.dataset(folder).to_table()
    values = np.frombuffer(b"".join(table.column("scores").to_pylist()), "<f4")
    return table.column("user_id").to_pylist(), values.reshape(table.num_rows, -1)


def everything(folder: Path) -> dict[str, tuple[int, bytes]]:
    return {
        str(path.relative_to(folder)): (path.stat().st_mtime_ns, path.read_bytes())
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_writes_every_model_for_all_users(
    tmp_path: Path, platform: tuple[Input, Input], save: Callable[..., Input]
) -> None:
    feedback, catalogue = platform
    users = save("exposures", {"user_id": [3, 1000]})
    noted: list[Trial] = []
    trials = train_all(spec_of(tmp_path / "s"), feedback, catalogue, users, LIKED, quiet(), note=noted.append)
    assert trials == noted
    assert [trial.model for trial in trials] == list(MODELS)
    assert [trial.fit is not None for trial in trials] == [False, False, True, True]
    for trial in trials:
        ids, scores = scores_of(tmp_path / "s" / trial.model.name)
        assert ids == sorted({3, *(1000 + 7 * np.arange(30)).tolist()})
        assert scores.shape == (31, 20)
        assert np.isfinite(scores).all()
    liked = (np.arange(30)[:, None] + np.arange(20)) % 2 == 0
    learned = scores_of(tmp_path / "s" / "mf_ips")[1][1:]
    assert learned[liked].mean() > learned[~liked].mean() + 1  # user 3, first, has no feedback
    popular = scores_of(tmp_path / "s" / "popularity")[1]
    assert (popular == popular[0]).all()
    assert 0 < popular.sum() < 31 * 300


def test_a_second_run_changes_nothing_and_another_folder_gets_the_same_bytes(
    tmp_path: Path, platform: tuple[Input, Input]
) -> None:
    feedback, catalogue = platform
    train_all(spec_of(tmp_path / "s"), feedback, catalogue, None, LIKED, quiet())
    before = everything(tmp_path / "s")
    train_all(spec_of(tmp_path / "s"), feedback, catalogue, None, LIKED, quiet())
    assert everything(tmp_path / "s") == before
    train_all(spec_of(tmp_path / "t"), feedback, catalogue, None, LIKED, quiet())
    assert {name: content for name, (_, content) in everything(tmp_path / "t").items()} == {
        name: content for name, (_, content) in before.items()
    }


def test_a_deleted_shard_is_made_again_and_no_other(
    tmp_path: Path, platform: tuple[Input, Input], monkeypatch: pytest.MonkeyPatch
) -> None:
    feedback, catalogue = platform
    monkeypatch.setattr(module, "layout_of", lambda *parts: module.Layout(8, 8))
    train_all(spec_of(tmp_path), feedback, catalogue, None, LIKED, quiet())
    before = everything(tmp_path)
    (tmp_path / "mf" / "shard-00002.parquet").unlink()
    train_all(spec_of(tmp_path), feedback, catalogue, None, LIKED, quiet())
    after = everything(tmp_path)
    assert {name for name in before if before[name][0] != after[name][0]} == {
        "mf/shard-00002.parquet",
        "mf/_plumbline.json",
    }
    assert {name: content for name, (_, content) in after.items()} == {
        name: content for name, (_, content) in before.items()
    }


def test_what_changes_the_scores_is_made_again(
    tmp_path: Path, platform: tuple[Input, Input], save: Callable[..., Input]
) -> None:
    feedback, catalogue = platform
    mf = (MODELS[2],)

    def made(spec: Train, source: Input, positive: Positive) -> str:
        train_all(spec, source, catalogue, None, positive, quiet())
        return (tmp_path / "mf" / "_plumbline.json").read_text()

    first = made(spec_of(tmp_path, mf), feedback, LIKED)
    assert made(spec_of(tmp_path, mf), feedback, LIKED) == first
    seen = {first}
    seen.add(made(spec_of(tmp_path, mf, seed=2), feedback, LIKED))
    seen.add(made(spec_of(tmp_path, (MODELS[2].model_copy(update={"dims": 5}),)), feedback, LIKED))
    seen.add(made(spec_of(tmp_path, mf), feedback, Positive("<", 3.0)))
    less = ds.dataset(feedback.path).to_table().slice(1)
    seen.add(made(spec_of(tmp_path, mf), save("less", less), LIKED))
    assert len(seen) == 5


def test_no_positive_is_an_error_that_names_the_rule(tmp_path: Path, platform: tuple[Input, Input]) -> None:
    feedback, catalogue = platform
    with pytest.raises(DataError, match=r"model mf: .* 0 are positive.*rule"):
        train_all(spec_of(tmp_path, (MODELS[2],)), feedback, catalogue, None, Positive(">", 9.0), quiet())
    assert not (tmp_path / "mf").exists()


@pytest.fixture
def run(tmp_path: Path, platform: tuple[Input, Input], save: Callable[..., Input]) -> Run:
    """Exposures of three users, of whom one has no feedback."""
    exposures = save(
        "exposures", {"user_id": [3, 1000, 1007, 1007], "item_id": [500, 490, 499, 481], "value": [1.0, 5.0, 4.0, 2.0]}
    )
    inputs = Inputs(catalogue=platform[1], exposures=exposures, feedback=platform[0])
    return Run(str(tmp_path / "lake" / "ranks"), "r1", inputs, "all_items", 5, "error", (3,))


def train_run(spec: Train, run: Run) -> list[Trial]:
    return train_all(spec, run.inputs.feedback, run.inputs.catalogue, run.inputs.exposures, LIKED, quiet(), run)


def ranks_of(run: Run) -> list[dict[str, object]]:
    return sorted(DeltaTable(run.table).to_pyarrow_table().to_pylist(), key=lambda row: (row["model"], row["user_id"]))


def test_ranks_are_those_of_the_score_table(tmp_path: Path, run: Run) -> None:
    train_run(spec_of(tmp_path / "s"), run)
    fused = spec_of(tmp_path / "none").model_copy(update={"output": "ranks"})
    assert [trial.model for trial in train_run(fused, run)] == list(MODELS)
    assert not list((tmp_path / "none").rglob("*.p*"))  # no score, and no checkpoint is left
    found = ranks_of(run)
    labelled = {3: [0], 1000: [10], 1007: [1, 19]}  # positions: item_id is 500 - position
    feedback = ds.dataset(run.inputs.feedback.path).to_table().to_pylist()
    for model in MODELS:
        ids, scores = scores_of(tmp_path / "s" / model.name)
        mine = [row for row in found if row["model"] == model.name]
        assert [row["user_id"] for row in mine] == ids
        for row, own in zip(mine, scores, strict=True):
            at = labelled.get(row["user_id"], [])
            trained = {500 - pair["item_id"] for pair in feedback if pair["user_id"] == row["user_id"]}
            first = sorted(set(range(20)) - trained, key=lambda i: (-own[i], i))[:6]
            assert row["random"]["items"] == [500 - i for i in at]
            assert row["random"]["scores"] == own[at].tolist()
            assert row["random"]["above"] == [int((own > own[i]).sum()) for i in at]
            assert row["random"]["tied"] == [int((own == own[i]).sum()) - 1 for i in at]
            assert row["top"] == {"items": [500 - i for i in first], "scores": own[first].tolist()}
            assert (row["candidates"], row["scored"]) == (20 - len(trained), 20 - len(trained))
            assert (row["random"]["candidates"], row["truth"]["items"], row["problem"]) == (20, [], None)
            assert row["random"]["thresholds"] == [sorted(own.tolist())[-4]]  # the fourth best of all items
    assert any(row["random"]["tied"] and max(row["random"]["tied"]) for row in found if row["model"] == "popularity")


def test_ranks_from_the_same_inputs_are_not_made_again(
    tmp_path: Path, run: Run, save: Callable[..., Input], monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = Train(output="ranks", seed=1, models=(MODELS[1], MODELS[2]))
    trained: list[str] = []
    monkeypatch.setattr(
        "models.train_model.learn", lambda model, ground: (trained.append(model.name), learn(model, ground))[1]
    )

    def made(spec: Train, run: Run) -> list[str]:
        trained.clear()
        train_run(spec, run)
        return list(trained)

    assert made(spec, run) == ["popularity", "mf"]
    before, version = ranks_of(run), DeltaTable(run.table).version()
    assert made(spec, run) == []
    assert (ranks_of(run), DeltaTable(run.table).version()) == (before, version)
    other = spec.model_copy(update={"models": (MODELS[1], MODELS[2].model_copy(update={"dims": 5}))})
    assert made(other, run) == ["mf"]
    assert made(spec, run) == ["mf"]
    assert ranks_of(run) == before
    assert made(spec, run._replace(top=4)) == ["popularity", "mf"]
    assert made(spec, run._replace(top=4, cutoffs=(2,))) == []  # thresholds alone are no reason to rank again
    shown = save("other_exposures", {"user_id": [1000], "item_id": [490], "value": [4.0]})
    assert made(spec, run._replace(inputs=run.inputs.model_copy(update={"truth": shown}))) == ["popularity", "mf"]
    assert made(spec, run._replace(run_id="r2")) == ["popularity", "mf"]
    assert len(ranks_of(run)) == 2 * len(before)


def test_what_stops_ranking_is_told_before_training(
    tmp_path: Path, run: Run, save: Callable[..., Input], monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = Train(output="ranks", models=(MODELS[2],))
    monkeypatch.setattr("models.train_model.learn", lambda *rest: pytest.fail("trained"))
    bad = save("bad", {"user_id": [3, 3], "item_id": [500, 7], "value": [1.0, 1.0]})
    broken = run._replace(inputs=run.inputs.model_copy(update={"exposures": bad}))
    with pytest.raises(
        DataError,
        match=r"exposures: 1 row breaks the rule outside_catalogue \(first: user_id=3, item_id=7, value=1.0\)",
    ):
        train_run(spec, broken)
    assert not Path(run.table).exists()
    with pytest.raises(ConfigError, match="mf has output: ranks, which needs a run"):
        train_all(spec, run.inputs.feedback, run.inputs.catalogue, None, LIKED, quiet())
    monkeypatch.undo()
    train_run(spec, broken._replace(on_bad_rows="quarantine"))
    assert ranks_of(run)[0]["random"]["items"] == [500]


def test_cuda_where_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert device_of("auto").type == device_of("cpu").type == "cpu"
    with pytest.raises(ConfigError, match="auto"):
        device_of("cuda")


@pytest.mark.parametrize(("terminal", "shown"), [(True, True), (False, False)])
def test_progress_shows_on_a_terminal_only(
    tmp_path: Path, platform: tuple[Input, Input], terminal: bool, shown: bool
) -> None:
    out = io.StringIO()
    with training_progress(Console(file=out, force_terminal=terminal, width=150)) as progress:
        train_all(spec_of(tmp_path, (MODELS[2],)), *platform, None, LIKED, progress)
    assert ("loss 0." in out.getvalue() and "rows/s" in out.getvalue()) == shown
    assert bool(out.getvalue()) == shown


def test_trials_that_cannot_be_trained_are_told_and_the_search_goes_on(
    tmp_path: Path, platform: tuple[Input, Input]
) -> None:
    searches = [
        {"model": "wmf", "grid": {"dims": [30, 2], "regularization": [0.0]}},  # 20 items do not span 30 dimensions
        {"model": "mf_ips", "fixed": {"epochs": 1}, "grid": {"validation_share": [0.999, 0.1]}},
    ]
    spec = Train.model_validate({"scores": str(tmp_path / "s"), "search": searches})
    trials = train_all(spec, *platform, None, LIKED, quiet())
    assert [bool(trial.error) for trial in trials] == [True, False, True, False]
    assert "model wmf-000: the least-squares systems are singular with regularization=0" in (trials[0].error or "")
    assert "model mf_ips-000: of 1 training pairs, 0 are positive" in (trials[2].error or "")
    alone = Train.model_validate(
        {"scores": str(tmp_path / "t"), "models": [{"model": "wmf", "dims": 30, "regularization": 0}]}
    )
    with pytest.raises(SingularError, match="model wmf: the least-squares systems are singular"):
        train_all(alone, *platform, None, LIKED, quiet())


def test_held_out_results_of_trials_do_not_have_their_own_weights(
    tmp_path: Path, platform: tuple[Input, Input]
) -> None:
    """A step size of almost 0 leaves the trials equal but for their weights, penalties and batches."""
    fixed = {"epochs": 1, "learning_rate": 1e-12}
    grid = {"loss.propensity.power": [0.0, 2.0], "loss.residual_correlation": [0.0, 5.0], "batch_size": [16, 64]}
    search = {"model": "mf_ips", "fixed": fixed, "grid": grid}
    spec = Train.model_validate({"scores": str(tmp_path / "s"), "search": [search]})
    trials = train_all(spec, *platform, None, LIKED, quiet())
    assert len({trial.fit.held_out[0] for trial in trials if trial.fit}) > 2
    assert len({round(trial.held_out or 0, 2) for trial in trials}) == 1
    metric = Train.model_validate({"scores": str(tmp_path / "t"), "models": [{"model": "mf", "epochs": 1}]})
    (trial,) = train_all(metric, *platform, None, LIKED, quiet())
    assert trial.fit is not None
    assert trial.held_out == -trial.fit.held_out[0] > 0


def test_a_trial_that_fails_is_told_and_a_model_that_fails_stops_the_run(
    tmp_path: Path, platform: tuple[Input, Input]
) -> None:
    feedback, catalogue = platform
    search = {"model": "mf", "fixed": {"epochs": 2, "batch_size": 16}, "grid": {"learning_rate": [1e30, 0.01]}}
    spec = Train.model_validate({"scores": str(tmp_path / "s"), "search": [search], "checkpoint_minutes": 0.0})
    bad, good = train_all(spec, feedback, catalogue, None, LIKED, quiet())
    assert "the loss is" in (bad.error or "")
    assert (bad.fit, good.error) == (None, None)
    assert (tmp_path / "s" / "mf-001" / "_plumbline.json").exists()
    assert not list((tmp_path / "s" / "_checkpoints").glob("*"))  # of the one that failed neither
    with pytest.raises(TrainingError, match="model wild: the loss is"):
        train_all(
            spec_of(tmp_path / "t", (MF(name="wild", learning_rate=1e30, epochs=2, batch_size=16),)),
            feedback,
            catalogue,
            None,
            LIKED,
            quiet(),
        )


def test_a_random_set_with_ids_that_training_does_not_know(
    tmp_path: Path, platform: tuple[Input, Input], save: Callable[..., Input]
) -> None:
    random = save("random", {"user_id": [1000, 5], "item_id": [500, 499], "value": [1.0, 5.0]})
    entry = {"model": "mf_autodebias", "loss": {"random": {"path": random.path}}, "epochs": 1}
    spec = Train.model_validate({"scores": str(tmp_path / "s"), "models": [entry]})
    with pytest.raises(
        DataError,
        match=r"random: 1 of 2 rows have a user_id that training does not know \(first: user_id=5, item_id=499\)",
    ):
        train_all(spec, *platform, None, LIKED, quiet())
