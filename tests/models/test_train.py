"""Training as a whole: every model to its score table, and a second run that does nothing."""

import io
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow.dataset as ds
import pytest
from rich.console import Console
from rich.progress import Progress

from eval_engine.config import Input
from eval_engine.errors import ConfigError, DataError
from eval_engine.positive import Positive
from models import train as module
from models.progress import training_progress
from models.spec import MF, IpsBce, Observed, Popularity, Random, Train
from models.train import device_of, train_all

LIKED = Positive(">", 3.0)
MODELS = (
    Random(name="random"),
    Popularity(name="popularity"),
    MF(name="mf", dims=4, epochs=4, batch_size=64),
    MF(name="mf_ips", dims=4, epochs=40, batch_size=64, learning_rate=0.05, patience=40, loss=IpsBce(), sampler=Observed()),
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
    return {str(path.relative_to(folder)): (path.stat().st_mtime_ns, path.read_bytes()) for path in sorted(folder.rglob("*")) if path.is_file()}


def test_writes_every_model_for_all_users(tmp_path: Path, platform: tuple[Input, Input], save: Callable[..., Input]) -> None:
    feedback, catalogue = platform
    users = save("exposures", {"user_id": [3, 1000]})
    tables = train_all(spec_of(tmp_path / "s"), feedback, catalogue, users, LIKED, quiet())
    assert tables == [(model.name, tmp_path / "s" / model.name) for model in MODELS]
    for _, folder in tables:
        ids, scores = scores_of(folder)
        assert ids == sorted({3, *(1000 + 7 * np.arange(30)).tolist()})
        assert scores.shape == (31, 20)
        assert np.isfinite(scores).all()
    liked = (np.arange(30)[:, None] + np.arange(20)) % 2 == 0
    learned = scores_of(tmp_path / "s" / "mf_ips")[1][1:]
    assert learned[liked].mean() > learned[~liked].mean() + 1  # user 3, first, has no feedback
    popular = scores_of(tmp_path / "s" / "popularity")[1]
    assert (popular == popular[0]).all()
    assert 0 < popular.sum() < 31 * 300


def test_a_second_run_changes_nothing_and_another_folder_gets_the_same_bytes(tmp_path: Path, platform: tuple[Input, Input]) -> None:
    feedback, catalogue = platform
    train_all(spec_of(tmp_path / "s"), feedback, catalogue, None, LIKED, quiet())
    before = everything(tmp_path / "s")
    train_all(spec_of(tmp_path / "s"), feedback, catalogue, None, LIKED, quiet())
    assert everything(tmp_path / "s") == before
    train_all(spec_of(tmp_path / "t"), feedback, catalogue, None, LIKED, quiet())
    assert {name: content for name, (_, content) in everything(tmp_path / "t").items()} == {name: content for name, (_, content) in before.items()}


def test_a_deleted_shard_is_made_again_and_no_other(tmp_path: Path, platform: tuple[Input, Input], monkeypatch: pytest.MonkeyPatch) -> None:
    feedback, catalogue = platform
    monkeypatch.setattr(module, "layout_of", lambda *parts: module.Layout(8, 8))
    train_all(spec_of(tmp_path), feedback, catalogue, None, LIKED, quiet())
    before = everything(tmp_path)
    (tmp_path / "mf" / "shard-00002.parquet").unlink()
    train_all(spec_of(tmp_path), feedback, catalogue, None, LIKED, quiet())
    after = everything(tmp_path)
    assert {name for name in before if before[name][0] != after[name][0]} == {"mf/shard-00002.parquet", "mf/_plumbline.json"}
    assert {name: content for name, (_, content) in after.items()} == {name: content for name, (_, content) in before.items()}


def test_what_changes_the_scores_is_made_again(tmp_path: Path, platform: tuple[Input, Input], save: Callable[..., Input]) -> None:
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


def test_cuda_where_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert device_of("auto").type == device_of("cpu").type == "cpu"
    with pytest.raises(ConfigError, match="auto"):
        device_of("cuda")


@pytest.mark.parametrize(("terminal", "shown"), [(True, True), (False, False)])
def test_progress_shows_on_a_terminal_only(tmp_path: Path, platform: tuple[Input, Input], terminal: bool, shown: bool) -> None:
    out = io.StringIO()
    with training_progress(Console(file=out, force_terminal=terminal, width=150)) as progress:
        train_all(spec_of(tmp_path, (MODELS[2],)), *platform, None, LIKED, progress)
    assert ("loss 0." in out.getvalue() and "pairs/s" in out.getvalue()) == shown
    assert bool(out.getvalue()) == shown
