"""Train the models of a run and write their score tables, or, with output: ranks, their ranks: torch and Arrow, no Spark.

    python jobs/train.py --config conf/demo.yaml --run-id 2026-11-15

Reads feedback and catalogue, and the other labels if there is something to rank. Writes a folder of Parquet files per model, or the model's rows of
the lake's ranks table (replaces those of this run_id and model only: safe to retry); what is there already for the same inputs is kept.
"""

import argparse
from typing import TYPE_CHECKING

from rich.console import Console

from eval_engine.errors import ConfigError
from eval_engine.tables import RANKS
from jobs.run_config import RunConfig

if TYPE_CHECKING:
    from models.fused import Run


def run(config: RunConfig, console: Console) -> None:
    """Train and write."""
    inputs, fused = config.inputs, config.fused_models()
    if config.train is None or inputs.feedback is None:
        raise ConfigError("This config has no train section or no inputs.feedback, so there is nothing to train. See conf/demo.yaml.")
    try:
        from models.progress import training_progress
        from models.train import train_all
    except ModuleNotFoundError as error:
        raise ConfigError(f"Training needs {error.name}, which is not installed here: pip install 'plumbline[models]'.") from None
    with training_progress(console) as progress:
        train_all(config.train, inputs.feedback, inputs.catalogue, inputs.exposures, config.positive, progress, _run(config) if fused else None)
    scored = [model.name for model in config.train.models if model.name not in fused]
    done = [f"{work} {', '.join(names)}" for work, names in (("scored", scored), ("ranked", fused)) if names]
    console.print(f"[green]✓[/] Trained and {', '.join(done)}")


def _run(config: RunConfig) -> "Run":
    """Where and how the run's ranks are written."""
    from eval_engine.lake import CATALOG_NAME, full_path
    from models.fused import Run

    if CATALOG_NAME.fullmatch(config.lake):
        raise ConfigError(
            f"train: output: ranks writes to the lake without Spark, but the lake {config.lake} is a catalog's. Give a folder or URI as `lake`, or output: scores."
        )
    return Run(f"{full_path(config.lake)}/{RANKS.name}", config.run_id, config.inputs, config.frame, config.top, config.on_bad_rows)


if __name__ == "__main__":
    from jobs.cli import load, told

    parser = argparse.ArgumentParser(prog="jobs/train.py", description="Train the models of a run.")
    parser.add_argument("--config", required=True, help="the run's YAML file")
    parser.add_argument("--run-id", help="use this run_id instead of the config's")
    given = parser.parse_args()
    told(lambda: run(load(given.config, given.run_id), Console(stderr=True)))
