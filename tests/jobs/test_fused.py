"""Fused ranking beside the Spark job: the same rows, whichever of the two made the table, and runs with no score table at all."""

from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession
from rich.console import Console

from eval_engine.errors import ConfigError, DataError
from eval_engine.lake.lake import Lake
from eval_engine.metric import Metric
from eval_engine.tables import RANKS
from jobs import evaluate, rank, train
from jobs.cli import load

MODELS = [
    {"kind": "random", "name": "random"},
    {"kind": "popularity", "name": "popularity"},  # nothing but ties
    {"kind": "mf", "name": "mf", "dims": 4, "epochs": 3, "batch_size": 64},
]
QUIET = Console(quiet=True)


def as_trained(run: Any, run_id: str, **section: Any) -> None:
    """A run that trains its models instead of finding their scores."""
    run.config.pop("scores", None)
    run.config |= {
        "run_id": run_id,
        "train": {"seed": 3, "scores": str(run.folder / "scores"), "models": MODELS} | section,
    }


def ranks(run: Any, spark: SparkSession) -> list[Any]:
    """The run's ranks, but for run_id and inputs."""
    return [(row[1], *row[3:]) for row in run.rows(spark, "ranks")]


@pytest.fixture(scope="module")
def scored(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Any:
    """A run through score tables; Spark made its lake."""
    from tests.conftest import SmallRun

    run = SmallRun(tmp_path_factory.mktemp("scored"))
    as_trained(run, "scored")
    config = load(run.write())
    assert [table.model for table in config.score_tables()] == ["random", "popularity", "mf"]
    train.run(config, QUIET)
    rank.run(spark, config, QUIET)
    evaluate.run(spark, config, QUIET)
    return run


def test_the_same_rows_as_through_score_tables_in_a_table_that_spark_made(
    scored: Any, small_run: Any, spark: SparkSession
) -> None:
    as_trained(small_run, "fused", output="ranks", scores=None)
    small_run.config["lake"] = scored.config["lake"]
    config = load(small_run.write())
    assert (config.score_tables(), config.fused_models()) == ((), ("random", "popularity", "mf"))
    train.run(config, QUIET)
    assert not (small_run.folder / "scores").exists()
    found = ranks(small_run, spark)
    assert len(found) == 3 * len(small_run.users)
    assert found == ranks(scored, spark)
    assert any(max(row[4]["tied"]) > 0 for row in found if row[0] == "popularity")


def test_all_fused_from_training_to_estimates_in_a_table_that_torch_made(
    scored: Any, small_run: Any, spark: SparkSession
) -> None:
    as_trained(small_run, "fused", output="ranks", scores=None)
    config = load(small_run.write())
    with pytest.raises(DataError, match="model random has output: ranks, but the lake has no ranks of it"):
        rank.run(spark, config, QUIET)
    train.run(config, QUIET)
    made = DeltaTable(f"{config.lake}/ranks").version()
    rank.run(spark, config, QUIET)
    evaluate.run(spark, config, QUIET)
    assert ranks(small_run, spark) == ranks(scored, spark)
    assert [row[1:] for row in small_run.rows(spark, "estimates")] == [
        row[1:] for row in scored.rows(spark, "estimates")
    ]
    train.run(config, QUIET)
    assert DeltaTable(f"{config.lake}/ranks").version() == made  # neither Spark nor a second training touched it


def test_spark_takes_the_table_that_torch_made_and_holds_its_rules(
    scored: Any, small_run: Any, spark: SparkSession
) -> None:
    mixed = [model | ({"output": "ranks"} if model["name"] == "popularity" else {}) for model in MODELS]
    as_trained(small_run, "mixed", models=mixed)
    config = load(small_run.write())
    assert ([table.model for table in config.score_tables()], config.fused_models()) == (
        ["random", "mf"],
        ("popularity",),
    )
    train.run(config, QUIET)
    rank.run(spark, config, QUIET)
    assert ranks(small_run, spark) == ranks(scored, spark)
    lake, other = Lake(spark, config.lake), Lake(spark, scored.config["lake"])
    assert spark.table(lake.name(RANKS)).schema == spark.table(other.name(RANKS)).schema
    bad = lake.read(RANKS, "mixed").where("model = 'mf'").selectExpr("* EXCEPT (candidates)", "0 AS candidates")
    with pytest.raises(Exception, match=r"DELTA_VIOLATE_CONSTRAINT|CHECK constraint"):
        lake.replace(RANKS, bad, {"run_id": "mixed", "model": "mf"})
    assert ranks(small_run, spark) == ranks(scored, spark)


def test_probabilities_are_those_of_the_exposures_now(small_run: Any, spark: SparkSession) -> None:
    as_trained(small_run, "r", output="ranks", scores=None, models=MODELS[1:2])
    without = small_run.tables["exposures"]
    with_them = without.append_column("exposure_probability", pa.array([0.5] * without.num_rows))
    small_run.tables["exposures"] = with_them
    config = load(small_run.write())
    train.run(config, QUIET)
    rank.run(spark, config, QUIET)
    assert all(row[4]["probabilities"] == [0.5] * len(row[4]["items"]) for row in ranks(small_run, spark))
    for other in (
        without,
        with_them.set_column(3, "exposure_probability", pa.array([0.25] + [0.5] * (without.num_rows - 1))),
    ):
        small_run.tables["exposures"] = other
        with pytest.raises(DataError, match=r"ranks of model popularity, user_id=.*the torch job ranked other labels"):
            rank.run(spark, load(small_run.write()), QUIET)
    train.run(config, QUIET)  # other probabilities are other labels: ranked again
    rank.run(spark, config, QUIET)
    assert {p for row in ranks(small_run, spark) for p in row[4]["probabilities"]} == {0.25, 0.5}


def test_held_out_pairs_in_two_frames_are_ranked_alike_and_others_are_stale(
    small_run: Any, spark: SparkSession
) -> None:
    small_run.hold_out()
    small_run.config["frame"] = "all_items"
    for run_id, section in (("scored", {}), ("fused", {"output": "ranks", "scores": None})):
        as_trained(small_run, run_id, models=MODELS[1:2], **section)
        config = load(small_run.write())
        train.run(config, QUIET)
        rank.run(spark, config, QUIET)
    lake = Lake(spark, config.lake)
    names = [name for name in RANKS.names if name not in ("run_id", "inputs")]
    both = [lake.read(RANKS, run_id).select(*names).orderBy("user_id").collect() for run_id in ("scored", "fused")]
    assert both[0] == both[1]
    assert {(row["heldout"]["candidates"], row["random"]["candidates"]) for row in both[1]} == {(25, 30)}
    for changed in (
        config.model_copy(update={"inputs": config.inputs.model_copy(update={"heldout": None})}),
        config.model_copy(update={"inputs": config.inputs.model_copy(update={"heldout": config.inputs.exposures})}),
        config.model_copy(update={"evaluate": config.evaluate.model_copy(update={"metrics": (Metric("recall", 4),)})}),
        config.model_copy(update={"frame": "unseen"}),
    ):
        with pytest.raises(DataError, match=r"ranks of model popularity, user_id=.*the torch job ranked other labels"):
            rank.run(spark, changed, QUIET)


def test_what_a_config_may_not_say(small_run: Any) -> None:
    scores = small_run.config["scores"]
    as_trained(small_run, "r", output="ranks", models=[{"kind": "random", "name": "a"}])
    small_run.config["scores"] = scores
    with pytest.raises(ConfigError, match="scores: model a has a score table here and output: ranks in train"):
        load(small_run.write())
    as_trained(small_run, "r", output="ranks")
    small_run.config["lake"] = "catalog.lake"
    with pytest.raises(ConfigError, match=r"the lake catalog\.lake is a catalog's"):
        train.run(load(small_run.write()), QUIET)


def test_bad_labels_stop_training_before_anything_is_written(small_run: Any) -> None:
    as_trained(small_run, "r", output="ranks", scores=None)
    old = small_run.tables["truth"]
    small_run.tables["truth"] = pa.concat_tables([old, old.slice(0, 1)])
    with pytest.raises(DataError, match="truth: 2 rows break the rule duplicate_key"):
        train.run(load(small_run.write()), QUIET)
    assert [path.name for path in (small_run.folder / "lake").iterdir()] == ["runs"]  # which says that it failed
