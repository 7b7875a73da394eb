"""The command `import`, and runs on the configs that it writes: made files in the owners' formats."""

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from rich.console import Console
from typer.testing import CliRunner

from eval_engine.errors import ConfigError
from eval_engine.inputs.public_data.pair_hash import held_out
from eval_engine.lake.lake import Lake
from eval_engine.tables import ESTIMATES
from jobs import evaluate, rank, train
from jobs.cli import app, load

QUIET = Console(quiet=True)
USERS, ITEMS = 60, 40


def write_coat(folder: Path) -> None:
    """Logged and random ratings; a user likes the items of one half, and is shown more of them."""
    rng = np.random.default_rng(2)
    liked = (np.arange(USERS)[:, None] % 2) == (np.arange(ITEMS)[None, :] < ITEMS / 2)
    rating = np.where(liked, rng.integers(3, 6, liked.shape), rng.integers(1, 4, liked.shape))
    folder.mkdir()
    for name, share in (("train", np.where(liked, 0.5, 0.2)), ("test", 0.3)):
        shown = rating * (rng.random(rating.shape) < share)
        (folder / f"{name}.ascii").write_text("\n".join(" ".join(map(str, row)) for row in shown))


def write_kuairec(folder: Path) -> None:
    rng = np.random.default_rng(3)
    names = "user_id,video_id,play_duration,video_duration,time,date,timestamp,watch_ratio"
    ratios = rng.exponential(1.5, (USERS, ITEMS)).round(3)
    rows = [
        f"{user},{item},5000,{1000 + 10 * item},,,,{ratios[user, item]}"
        for user in range(USERS)
        for item in range(ITEMS)
    ]
    folder.mkdir()
    (folder / "small_matrix.csv").write_text("\n".join([names, *rows]))


def imported(*arguments: str | Path) -> str:
    """What the command prints."""
    done = CliRunner().invoke(app, ["import", *map(str, arguments)], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


def estimates(spark: SparkSession, config_file: Path) -> dict[tuple[str, str, str], float]:
    """Runs the config: estimates by (model, estimator, metric@k)."""
    config = load(config_file)
    train.run(config, QUIET)
    for stage in (rank.run, evaluate.run):
        stage(spark, config, QUIET)
    rows = Lake(spark, config.lake).read(ESTIMATES, config.run_id).collect()
    return {(row.model, row.estimator, f"{row.metric}@{row.k}"): row.value for row in rows}


def test_coat_from_files_to_estimates(tmp_path: Path, spark: SparkSession) -> None:
    write_coat(tmp_path / "coat")
    out = tmp_path / "out"
    said = imported("coat", tmp_path / "coat", "--to", out, "--random-split", "15/15/70", "--seed", "3")
    assert said.splitlines()[-1] == f"Next: plumbline run {out / 'run.yaml'}"
    values = estimates(spark, out / "run.yaml")
    models = {model for model, *_ in values}
    assert models == {"random", "popularity", "average_rating", "item_knn", "mf", "mf_ips", "mf_autodebias"}
    assert {"ure_macro", "traditional", "holdout"} <= {estimator for _, estimator, _ in values}
    assert values["mf", "ure_macro", "recall@10"] > values["random", "ure_macro", "recall@10"] + 0.1
    # Pairs are held out as by the stage `split`, strategy random, with the same share and seed.
    hashed = F.shiftrightunsigned(F.xxhash64(F.lit(3).cast("bigint"), "user_id", "item_id"), 11).cast("double")
    pairs = spark.read.parquet(str(out / "feedback.parquet"), str(out / "heldout.parquet"))
    rows = pairs.select("user_id", "item_id", (hashed * F.lit(2.0**-53) < F.lit(0.2)).alias("held")).collect()
    users, items, held = (np.array(column) for column in zip(*rows, strict=True))
    np.testing.assert_array_equal(held_out(3, 0.2, users, items), held)


def test_kuairec_from_files_to_estimates(tmp_path: Path, spark: SparkSession) -> None:
    write_kuairec(tmp_path / "kuairec")
    out = tmp_path / "out"
    said = imported("kuairec", tmp_path / "kuairec", "--to", out, "--exposures", "10", "--lambda", "20")
    assert "Positive: value > 2   Frame: unseen" in said
    values = estimates(spark, out / "run.yaml")
    for model in ("random", "popularity", "mf"):
        assert values[model, "full_macro", "recall@10"] == pytest.approx(
            values[model, "ure_balanced", "recall@10"], abs=0.2
        )
    durations = pq.read_table(out / "catalogue.parquet").column("duration_ms").to_numpy()
    feedback = pq.read_table(out / "feedback.parquet").column("item_id").to_numpy()
    assert durations[feedback].mean() < durations.mean() - 30


def test_bad_options_are_named(tmp_path: Path) -> None:
    write_coat(tmp_path / "coat")
    with pytest.raises(ConfigError, match="--random-split 5/5/80: three percentages that add up to 100"):
        imported("coat", tmp_path / "coat", "--to", tmp_path / "out", "--random-split", "5/5/80")
    assert not (tmp_path / "out").exists()
    with pytest.raises(ConfigError, match="no import wrote"):
        imported("coat", tmp_path / "coat", "--to", tmp_path / "coat")
