"""What lets the spark-submit and spark-sql of this environment run by their full path, with the environment not active: written once, by set-up.

    conf/spark-env.sh         the Python of the environment, and its Java, unless PYSPARK_PYTHON and JAVA_HOME name others
    conf/spark-defaults.conf  Delta's two hooks into Spark: SELECT ... FROM delta.`path` runs in spark-sql
    bin/spark-distribution    where find-spark-home looks for Spark, whatever python3 the path has

Only of a Spark that pip has installed into the environment; a file that is there already stays as it is.
"""

import shlex
import sys
from pathlib import Path

from eval_engine.spark.delta_jars import spark_home
from eval_engine.spark.java import java_home
from eval_engine.spark.session import DELTA

MARK = "# Written by `plumbline setup`; change it as you like, it is not written again."


def write_spark_environment() -> list[Path]:
    """Writes the files that are missing; which."""
    home = spark_home().resolve()
    if not home.is_relative_to(Path(sys.prefix).resolve()):  # somebody else's Spark
        return []
    python, java = shlex.quote(sys.executable), shlex.quote(java_home())
    contents = {
        "spark-env.sh": f"PYSPARK_PYTHON=${{PYSPARK_PYTHON:-{python}}}\nJAVA_HOME=${{JAVA_HOME:-{java}}}\n",
        "spark-defaults.conf": "".join(f"{key} {value}\n" for key, value in DELTA.items()),
    }
    written = []
    for name, content in contents.items():
        path = home / "conf" / name
        if not path.exists():
            path.parent.mkdir(exist_ok=True)
            path.write_text(f"{MARK}\n{content}")
            written.append(path)
    link = Path(sys.prefix) / "bin" / "spark-distribution"
    if (link.parent / "find_spark_home.py").exists() and not link.is_symlink():
        link.symlink_to(home)
        written.append(link)
    return written


if __name__ == "__main__":
    write_spark_environment()
