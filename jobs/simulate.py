"""Write a synthetic world to the paths of the config's inputs.

    spark-submit jobs/simulate.py --config conf/demo.yaml

Reads nothing. Writes catalogue, feedback, exposures and truth, each replaced whole, or left alone if the same world
made it (Delta tables only: Parquet does not keep what made it). With a `split` section, logged feedback is written to
its log instead, and if the split is random, with the true propensity of each pair. Spark is started only if a table is
missing.
"""

from importlib.metadata import version

from rich.console import Console
from rich.text import Text

from eval_engine.config import Input
from eval_engine.inputs.made_table import made_from, make_table
from eval_engine.inputs.split_settings import Random
from eval_engine.lake.lake import Lake
from eval_engine.spark.object_store import check_store
from jobs.pipeline import check_asked
from jobs.run_config import RunConfig
from jobs.runner import Starter
from jobs.stage import lake_without_spark, stage


def run(start_spark: Starter, config: RunConfig, console: Console) -> None:
    """Simulate and write what is missing."""
    check_asked(config, "simulate")
    world = config.world
    assert world is not None
    size = f"{world.users:,} users x {world.items:,} items"
    made = {
        name: (where, f"plumbline {version('plumbline')} {name}{_split_text(config, name)} {world.model_dump_json()}")
        for name, where in world_tables(config).items()
    }
    lake = lake_without_spark(config.lake)
    if lake and all(made_from(where) == text for where, text in made.values()):
        with stage(lake, config, "simulate"):
            console.print(Text.assemble(("✓", "green"), f" The simulated world of {size} is there already"))
        return
    from eval_engine.datasets import simulate
    from jobs.progress import spark_progress

    spark = start_spark()
    for name, (where, _) in made.items():
        check_store(spark, where.path, name)
    with stage(Lake(spark, config.lake), config, "simulate"), spark_progress(spark, console, f"Simulating {size}"):
        for name, (where, text) in made.items():
            if made_from(where, spark) != text:
                share = _share(config) if name == "feedback" else None
                table = simulate.log_to_split(spark, world, share) if share else getattr(simulate, name)(spark, world)
                make_table(table, where, text)


def _share(config: RunConfig) -> float | None:
    """The chance of a logged pair to be held out; None: the log is not split at random."""
    return config.split.how.share if config.split and isinstance(config.split.how, Random) else None


def _split_text(config: RunConfig, name: str) -> str:
    """What the table of this name has to do with the split."""
    return f" to split {share}" if name == "feedback" and (share := _share(config)) else ""


def world_tables(config: RunConfig) -> dict[str, Input]:
    """The tables of the world that the config has a place for."""
    inputs = config.inputs
    feedback = config.split.log if config.split else inputs.feedback
    places = {
        "catalogue": inputs.catalogue,
        "feedback": feedback,
        "exposures": inputs.exposures,
        "truth": inputs.truth,
    }
    return {name: where for name, where in places.items() if where is not None}


if __name__ == "__main__":
    from jobs.runner import main

    main("simulate")
