"""Train the models of a run and write their score tables: torch and Arrow, no Spark.

    python jobs/train.py --config conf/demo.yaml

Reads feedback and catalogue. Writes a folder of Parquet files per model; what is there already for the same inputs is kept.
"""

import argparse

from rich.console import Console

from eval_engine.errors import ConfigError
from jobs.run_config import RunConfig


def run(config: RunConfig, console: Console) -> None:
    """Train and write."""
    if config.train is None or config.inputs.feedback is None:
        raise ConfigError("This config has no train section or no inputs.feedback, so there is nothing to train. See conf/demo.yaml.")
    try:
        from models.progress import training_progress
        from models.train import train_all
    except ModuleNotFoundError as error:
        raise ConfigError(f"Training needs {error.name}, which is not installed here: pip install 'plumbline[models]'.") from None
    with training_progress(console) as progress:
        tables = train_all(config.train, config.inputs.feedback, config.inputs.catalogue, config.inputs.exposures, config.positive, progress)
    console.print(f"[green]✓[/] Trained and scored {', '.join(name for name, _ in tables)}")


if __name__ == "__main__":
    from jobs.cli import load, told

    parser = argparse.ArgumentParser(prog="jobs/train.py", description="Train the models of a run.")
    parser.add_argument("--config", required=True, help="the run's YAML file")
    given = parser.parse_args()
    told(lambda: run(load(given.config), Console(stderr=True)))
