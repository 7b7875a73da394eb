"""Propensities of logged pairs: by value, from tables and of the run's stage; gaps and bad values are named errors."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
from deltalake import write_deltalake
from rich.progress import Progress

from eval_engine.config import Input
from eval_engine.errors import ConfigError, DataError
from eval_engine.positive import Positive
from jobs.train import _propensities
from models.interactions import Interactions
from models.logged import logged_of
from models.logged_propensity import logged_propensity, read_run_propensities
from models.propensity import Given, LoggedWeights
from models.spec.propensities import NaiveBayesPropensity, RunPropensity, TablePropensity
from models.spec.train import Train
from models.train import train_all

LIKED = Positive(">", 3.0)
DATA = Interactions(
    pa.array([10, 20, 30]),
    pa.array(["a", "b", "c", "d"]),
    np.array([0, 0, 1, 1, 2]),
    np.array([0, 2, 0, 1, 3]),
    np.array([5.0, 1.0, 5.0, 3.0, 1.0]),
)


def by_hand(kind: str, run_id: str, lake: Path) -> None:
    """Tables of the stage, with another run's rows beside."""

    def write(name: str, columns: dict[str, Any]) -> None:
        n = len(next(iter(columns.values())))
        write_deltalake(
            lake / name,
            pa.table({"run_id": pa.array([run_id] * n, pa.string())} | columns),
            partition_by=["run_id"],
            mode="append",
        )

    p = {"power": [0.1, 0.2, None, 0.4], "logistic": [None] * 4}.get(kind, [None] * 4)
    logits = [-1.0, 0.0, 1.0, 2.0] if kind == "logistic" else [None] * 4
    values = pa.array(
        [list({1.0: 0.1, 3.0: 0.2, 5.0: 0.4}.items()) if kind == "naive_bayes" else None],
        pa.map_(pa.float64(), pa.float64()),
    )
    write("propensity_fits", {"method": [kind], "by_value": values})
    write(
        "propensities",
        {
            "item_id": ["a", "b", "c", "d"],
            "propensity": pa.array(p, pa.float64()),
            "logit": pa.array(logits, pa.float64()),
        },
    )
    users = [10, 20, 30] if kind == "logistic" else []
    write(
        "propensity_users",
        {"user_id": pa.array(users, pa.int64()), "logit": pa.array([0.5, -0.5, 0.0][: len(users)], pa.float64())},
    )


def test_naive_bayes_is_the_formula(save: Callable[..., Input]) -> None:
    random = save("random", {"value": [1.0, 1.0, 1.0, 3.0, 5.0]})
    p = logged_propensity(NaiveBayesPropensity(random=random), DATA, None)
    density = 5 / (3 * 4)
    expected = [2 / 5 * density / (1 / 5), 2 / 5 * density / (3 / 5)]
    np.testing.assert_allclose(p, [expected[0], expected[1], expected[0], 1 / 5 * density / (1 / 5), expected[1]])
    uneven = save("uneven", {"value": [1.0, 3.0, 5.0], "exposure_probability": [0.5, 0.25, 1.0]})  # 2, 4 and 1 of 7
    p = logged_propensity(NaiveBayesPropensity(random=uneven), DATA, None)
    np.testing.assert_allclose(p[[1, 3]], [2 / 5 * density / (2 / 7), 1 / 5 * density / (4 / 7)])  # type: ignore[index]


def test_naive_bayes_refuses_what_is_no_scale_and_values_that_are_never_random(save: Callable[..., Input]) -> None:
    many, few = save("many", {"value": np.linspace(0, 1, 200)}), save("few", {"value": [1.0, 5.0]})
    uneven = save("uneven", {"value": [1.0, 3.0, 5.0], "exposure_probability": [0.5, 0.0, 1.0]})
    for random, message in (
        (many, r"many: naive_bayes needs a rating scale, but .* 202 different values"),
        (few, r"1 logged pairs have the value 3, but no random exposure has it"),
        (uneven, r"exposure_probability is not above 0 and at most 1 in 1 of 3 rows \(first: row 1"),
    ):
        with pytest.raises(DataError, match=message):
            logged_propensity(NaiveBayesPropensity(random=random), DATA, None)


def test_a_table_of_items_or_of_pairs(save: Callable[..., Input]) -> None:
    items = save("items", {"item_id": ["d", "c", "b", "a", "unknown"], "propensity": [0.4, 0.3, 0.2, 0.1, 1.0]})
    p = logged_propensity(TablePropensity(table=items), DATA, None)
    np.testing.assert_array_equal(p, [0.1, 0.3, 0.1, 0.2, 0.4])
    pairs = {
        "user_id": [30, 20, 20, 10, 10, 30],
        "item_id": list("dbacaa"),
        "propensity": [0.5, 0.4, 0.3, 0.2, 0.1, 0.9],
    }
    p = logged_propensity(TablePropensity(table=save("pairs", pairs)), DATA, None)
    np.testing.assert_array_equal(p, [0.1, 0.2, 0.3, 0.4, 0.5])


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (
            {"item_id": ["a", "b", "d"], "propensity": [0.1, 0.2, 0.3]},
            r"table: 1 of 5 logged pairs have no propensity above 0 \(first: user_id=10, item_id=c\).*Add them to the table",
        ),
        (
            {"user_id": [10, 10, 20, 20], "item_id": list("acab"), "propensity": [0.1] * 4},
            r"table: 1 of 5 logged pairs have no propensity .*user_id=30, item_id=d",
        ),
        (
            {"item_id": list("abcd"), "propensity": [0.1, 1.5, 0.0, 0.2]},
            r"table: propensity is not above 0 and at most 1 in 2 of 4 rows \(first: item_id=b, propensity=1.5\)",
        ),
        ({"item_id": list("abcda"), "propensity": [0.1] * 5}, r"table: item_id=a comes 2 times.*Remove the others"),
        ({"item_id": list("abcd"), "propensity": [0.1, None, 0.1, 0.1]}, r"propensity is NULL in 1 of 4 rows"),
        ({"item_id": [1, 2, 3, 4], "propensity": [0.1] * 4}, r"item_id is int64, but string in the catalogue"),
        ({"item_id": list("abcd"), "p": [0.1] * 4}, r"no column 'propensity'"),
    ],
)
def test_a_table_with_gaps_or_wrong_values_is_a_named_error(
    columns: dict[str, Any], message: str, save: Callable[..., Input]
) -> None:
    with pytest.raises(DataError, match=message):
        logged_propensity(TablePropensity(table=save("table", columns)), DATA, None)


def test_those_of_the_run_by_every_method(tmp_path: Path) -> None:
    expected = {
        "power": None,
        "naive_bayes": [0.4, 0.1, 0.4, 0.2, 0.1],
        "logistic": 1 / (1 + np.exp(-(np.array([-0.5, 1.5, -1.5, -0.5, 2.0])))),
    }
    for kind, p in expected.items():
        by_hand(kind, "a", tmp_path / kind)
        by_hand("power", "b", tmp_path / kind)
        run = read_run_propensities(str(tmp_path / kind), "a")
        if p is None:
            with pytest.raises(DataError, match=r"propensities: 1 of 5 logged pairs have no propensity .*item_id=c"):
                logged_propensity(RunPropensity(), DATA, run)
            kept = DATA._replace(items=np.array([0, 1, 0, 1, 3]))
            np.testing.assert_array_equal(logged_propensity(RunPropensity(), kept, run), [0.1, 0.2, 0.1, 0.2, 0.4])
        else:
            np.testing.assert_allclose(logged_propensity(RunPropensity(), DATA, run), p)
    with pytest.raises(DataError, match=r"no row of run c, .*Run the stage\s+propensity first"):
        read_run_propensities(str(tmp_path / "power"), "c")
    with pytest.raises(DataError, match=r"no row of run a"):
        read_run_propensities(str(tmp_path / "nowhere"), "a")
    by_hand("logged", "a", tmp_path / "logged")
    with pytest.raises(DataError, match=r"logged ones of held-out pairs.*kind: table"):
        read_run_propensities(str(tmp_path / "logged"), "a")


def test_a_run_is_asked_only_if_a_model_needs_it(tmp_path: Path) -> None:
    by_hand("naive_bayes", "a", tmp_path)

    def found(lake: Path | str, model: str, section: object) -> Any:
        models = [{"model": model} | ({"loss": {"propensity": {"kind": "run"}}} if model == "mf_ips" else {})]
        train = Train.model_validate({"scores": "s", "models": models})
        return _propensities(SimpleNamespace(lake=str(lake), run_id="a", train=train, propensity=section))  # type: ignore[arg-type]

    assert found(tmp_path, "bpr_mf", None) is None
    assert found(tmp_path, "mf_ips", {}).by_value == {1.0: 0.1, 3.0: 0.2, 5.0: 0.4}
    with pytest.raises(ConfigError, match=r"no section `propensity`. Add it"):
        found(tmp_path, "mf_ips", None)
    with pytest.raises(ConfigError, match=r"mf_ips uses the propensities of the run.*a catalog's"):
        found("spark_catalog.plumbline", "mf_ips", {})
    with pytest.raises(DataError, match="needs a run with a section `propensity`"):
        logged_propensity(RunPropensity(), DATA, None)


def test_weights_are_inverse_with_mean_one_over_training_pairs_and_a_floor() -> None:
    p = np.array([0.5, 0.001, 0.25, 0.1, 0.9])
    train = logged_of(DATA, LIKED).where(np.array([True, True, True, True, False]))  # the last pair is held out
    weights = LoggedWeights(train, RunPropensity(floor=0.1), Given(DATA.users, DATA.items, p, 0.1))
    expected = 1 / np.clip(p / 0.5, 0.1, 1)
    expected /= expected[:4].mean()
    users, items = torch.from_numpy(DATA.users), torch.from_numpy(DATA.items)[:, None]
    np.testing.assert_allclose(weights(users, items)[:, 0], expected, rtol=1e-6)


def test_propensities_of_values_change_what_is_learned_and_other_ones_train_again(
    tmp_path: Path, platform: tuple[Input, Input], save: Callable[..., Input]
) -> None:
    feedback, catalogue = platform
    items = 500 - np.arange(20)

    def trained(p: list[float]) -> bool:
        table = save(f"p-{p[0]}", {"item_id": items, "propensity": p})
        loss = {"propensity": {"kind": "table", "table": {"path": table.path}}}
        models = [
            {"model": "mf_ips", "epochs": 2, "dims": 4, "loss": loss},
            {"model": "bpr_mf", "name": "b", "epochs": 1},
        ]
        spec = Train.model_validate({"scores": str(tmp_path / "s"), "models": models})
        trials = train_all(spec, feedback, catalogue, None, LIKED, Progress(disable=True))
        return trials[0].fit is not None

    assert trained([0.1] * 20)
    assert trained([0.2] + [0.1] * 19)
