"""The ranking job over Spark Connect: no RDD, no JVM object; dense and long tables give the ranks that a classic session gives."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
from pyspark.sql import SparkSession

from eval_engine.spark.java import java_home
from eval_engine.spark.session import DELTA, EMBEDDED, QUICK_START
from tests.eval_engine.ranking.test_layouts import long_files, rows
from tests.eval_engine.ranking.test_rank import check_ranks

ROOT = Path(__file__).parent.parent.parent
SCRIPT = """
import json, sys
from pyspark.sql import SparkSession
from rich.console import Console
from jobs import rank
from jobs.cli import load

builder = SparkSession.builder.remote("local[2]")
for key, value in json.loads(sys.argv[2]).items():
    builder = builder.config(key, value)
spark = builder.getOrCreate()
assert type(spark).__module__.startswith("pyspark.sql.connect"), type(spark)
rank.run(spark, load(sys.argv[1]), Console(stderr=True))
spark.stop()
"""


def test_the_same_ranks_over_connect(small_run: Any, spark: SparkSession) -> None:
    order = np.random.default_rng(2).permutation(small_run.scores["a"].size)
    small_run.config["scores"].append(
        {"model": "spread"} | long_files(small_run.folder / "spread", rows(small_run, order), 3, 200)
    )
    small_run.scores["spread"] = small_run.scores["a"]
    settings = DELTA | EMBEDDED | {"spark.sql.shuffle.partitions": "3", "spark.driver.extraJavaOptions": QUICK_START}
    environment = os.environ | {
        "JAVA_HOME": java_home(),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    for name in (
        "PYSPARK_GATEWAY_PORT",
        "PYSPARK_GATEWAY_SECRET",
        "SPARK_REMOTE",
        "SPARK_LOCAL_REMOTE",
        "SPARK_CONNECT_MODE_ENABLED",
    ):
        environment.pop(name, None)
    command = [sys.executable, "-c", SCRIPT, str(small_run.write()), json.dumps(settings)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    table = f"delta.`{small_run.config['lake']}/ranks`"
    check_ranks(small_run, spark.sql(f"SELECT * FROM {table}").collect())
