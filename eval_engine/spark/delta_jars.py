"""The Delta jars that fit the installed Spark, resolved once by package name and kept among the environment's Spark jars.

There they serve every start from this environment, embedded, spark-submit, local-cluster and Connect alike, and need no network.
The excludes leave the two jars that reading and writing by path or catalog name needs, 9 MB instead of 87.
"""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pyspark

from eval_engine.errors import PlumblineError
from eval_engine.spark.java import java_home

PACKAGE = "io.delta:delta-spark_4.2_2.13:4.4.0"
EXCLUDES = "org.*:*,com.*:*,javax.*:*,io.unitycatalog:*,io.delta:delta-kernel*"


def spark_home() -> Path:
    """The Spark that this interpreter would start."""
    return Path(os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent)


def have_delta() -> bool:
    """Whether Spark's own jars hold Delta."""
    return any(spark_home().glob("jars/*delta-spark_*.jar"))


def fetch_delta() -> None:
    """Put the Delta jars among Spark's jars, unless they are there."""
    if have_delta():
        return
    home = spark_home()
    with tempfile.TemporaryDirectory() as folder:
        nothing = Path(folder, "nothing.py")
        nothing.write_text("")
        command = [str(home / "bin" / "spark-submit"), "--master", "local[1]", "--packages", PACKAGE]
        command += ["--conf", f"spark.jars.excludes={EXCLUDES}", "--conf", f"spark.jars.ivy={folder}/ivy", str(nothing)]
        done = subprocess.run(
            command, env=os.environ | {"JAVA_HOME": java_home()}, capture_output=True, text=True, check=False
        )
        jars = sorted(Path(folder, "ivy", "jars").glob("*.jar"))
        if done.returncode or not jars:
            raise PlumblineError(
                f"The Delta package {PACKAGE} could not be resolved: {done.stderr.strip()[-600:]}\n"
                f"Check that Maven Central can be reached, or put its jars into {home / 'jars'} by hand."
            )
        for jar in jars:  # rename within one folder is atomic: two set-ups at once leave whole jars
            temporary = home / "jars" / f".{jar.name}.{os.getpid()}"
            try:
                shutil.copyfile(jar, temporary)
                temporary.replace(home / "jars" / jar.name)
            except OSError as error:
                raise PlumblineError(
                    f"{home / 'jars'} cannot be written ({error.strerror}), so Delta cannot be kept there: pass --packages {PACKAGE}."
                ) from None


if __name__ == "__main__":
    fetch_delta()
