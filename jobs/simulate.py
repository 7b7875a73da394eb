"""Write a synthetic world to the paths of the config's inputs.

    spark-submit jobs/simulate.py --config conf/demo.yaml

Reads nothing. Writes catalogue, feedback, exposures and truth as Delta tables, each replaced whole, or left alone if the same world made it.
"""

from importlib.metadata import version

from pyspark.sql import SparkSession
from rich.console import Console

from eval_engine.datasets import simulate
from eval_engine.errors import ConfigError
from eval_engine.spark.object_store import check_store
from eval_engine.storage.stored_file import full_path
from jobs.progress import spark_progress
from jobs.run_config import RunConfig
from jobs.stage import last_commit


def run(spark: SparkSession, config: RunConfig, console: Console) -> None:
    """Simulate and write."""
    world = config.world
    if world is None:
        raise ConfigError("This config has no world section, so there is nothing to simulate. See conf/demo.yaml.")
    for name, where in config.inputs:
        if where is not None:
            check_store(spark, where.path, name)
    with spark_progress(spark, console, f"Simulating {world.users:,} users x {world.items:,} items"):
        for name in ("catalogue", "feedback", "exposures", "truth"):
            where = getattr(config.inputs, name)
            made_from = f"plumbline {version('plumbline')} {name} {world.model_dump_json()}"
            if where is not None and last_commit(spark, where.path).get("userMetadata") != made_from:
                table = getattr(simulate, name)(spark, world)
                table.write.format("delta").mode("overwrite").option("overwriteSchema", "true").option(
                    "userMetadata", made_from
                ).save(full_path(where.path))


if __name__ == "__main__":
    from jobs.cli import run_stage

    run_stage("simulate", run)
