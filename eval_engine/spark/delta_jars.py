"""The Delta jars that fit the installed Spark, resolved once by package name and kept among Spark's jars.

    io.delta:delta-spark_<Spark>_<Scala>:<delta-spark>

The version of Delta is that of the Python package delta-spark, a dependency of this one. The versions of Spark and
Scala are those of Spark's own jars. Among them Delta's jars serve every start from this environment, embedded, spark-
submit, local-cluster and Connect alike, and need no network. The excludes leave the two jars that reading and writing
by path or catalog name needs, 9 MB instead of 87. Jars of another version, which an older environment left, are
replaced. A Spark that SPARK_HOME names keeps the Delta that it has.
"""

import os
import re
import shutil
import subprocess
import tempfile
from importlib.metadata import version
from pathlib import Path

import pyspark

from eval_engine.errors import PlumblineError
from eval_engine.spark.java import java_home

EXCLUDES = "org.*:*,com.*:*,javax.*:*,io.unitycatalog:*,io.delta:delta-kernel*"
DELTA_JAR = re.compile(r"(?:io\.delta_)?delta-(?:spark_.*|storage)-\d.*\.jar")


def spark_home() -> Path:
    """The Spark that this interpreter would start."""
    return Path(os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent)


def delta_package() -> str:
    """The Maven coordinates of Delta for this Spark."""
    core = re.compile(r"spark-core_(?P<scala>[\d.]+)-(?P<spark>\d+\.\d+)")
    for jar in sorted(spark_home().glob("jars/spark-core_*.jar")):
        if match := core.match(jar.name):
            return f"io.delta:delta-spark_{match['spark']}_{match['scala']}:{version('delta-spark')}"
    raise PlumblineError(
        f"{spark_home() / 'jars'} holds no spark-core jar, so there is no Spark to find Delta's jars for. "
        "Set SPARK_HOME to a Spark, or leave it unset for that of the package pyspark."
    )


def have_delta() -> bool:
    """Whether Spark's jars hold the Delta that is wanted; in a Spark that SPARK_HOME names, any Delta."""
    stored = _delta_jars()
    _, artifact, wanted = delta_package().split(":")
    return any(jar.name.endswith(f"{artifact}-{wanted}.jar") for jar in stored) or bool(
        stored and os.environ.get("SPARK_HOME")
    )


def fetch_delta() -> None:
    """Put the Delta jars among Spark's jars, unless they are there."""
    if have_delta():
        return
    package, home = delta_package(), spark_home()
    with tempfile.TemporaryDirectory() as folder:
        nothing = Path(folder, "nothing.py")
        nothing.write_text("")
        command = [str(home / "bin" / "spark-submit"), "--master", "local[1]", "--packages", package]
        command += ["--conf", f"spark.jars.excludes={EXCLUDES}", "--conf", f"spark.jars.ivy={folder}/ivy", str(nothing)]
        done = subprocess.run(
            command, env=os.environ | {"JAVA_HOME": java_home()}, capture_output=True, text=True, check=False
        )
        jars = sorted(Path(folder, "ivy", "jars").glob("*.jar"))
        if done.returncode or not jars:
            raise PlumblineError(
                f"The Delta package {package} could not be resolved: {done.stderr.strip()[-600:]}\n"
                f"Check that Maven Central can be reached, or put its jars into {home / 'jars'} by hand."
            )
        try:
            for jar in jars:  # rename within one folder is atomic: two set-ups at once leave whole jars
                temporary = home / "jars" / f".{jar.name}.{os.getpid()}"
                shutil.copyfile(jar, temporary)
                temporary.replace(home / "jars" / jar.name)
            for old in _delta_jars():
                if old.name not in {jar.name for jar in jars}:
                    old.unlink(missing_ok=True)
        except OSError as error:
            raise PlumblineError(
                f"{home / 'jars'} cannot be written ({error.strerror}), so Delta cannot be kept there: "
                f"pass --packages {package}."
            ) from None


def _delta_jars() -> list[Path]:
    """The jars of Delta among Spark's."""
    return [jar for jar in spark_home().glob("jars/*.jar") if DELTA_JAR.fullmatch(jar.name)]


if __name__ == "__main__":
    fetch_delta()
