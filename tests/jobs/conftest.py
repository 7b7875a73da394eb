"""spark-submit as users run it: a process of its own, with its own Java."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from eval_engine.spark.delta_jars import spark_home
from eval_engine.spark.java import java_home
from eval_engine.spark.session import QUICK_START

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture
def submit() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs a script of the tree on a master, with arguments."""

    def run(script: str, master: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        settings = {
            "spark.ui.enabled": "false",
            "spark.sql.shuffle.partitions": "3",
            "spark.databricks.delta.snapshotPartitions": "2",
            "spark.driver.extraJavaOptions": QUICK_START,
            "spark.executor.extraJavaOptions": QUICK_START,
        }
        command = [str(spark_home() / "bin" / "spark-submit"), "--master", master]
        command += [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
        environment = os.environ | {
            "JAVA_HOME": java_home(),
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": "127.0.0.1",
        }
        for name in ("PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET", "SPARK_REMOTE"):
            environment.pop(name, None)
        return subprocess.run(
            [*command, str(ROOT / script), *arguments],
            env=environment,
            capture_output=True,
            text=True,
            cwd=ROOT,
            check=False,
        )

    return run
