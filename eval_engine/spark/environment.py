"""Files that let spark-submit and spark-sql of this environment run by their full path while it is not active.

    conf/spark-env.sh         sets Python and Java of the environment, unless PYSPARK_PYTHON and JAVA_HOME are set
    conf/spark-defaults.conf  sets Delta's two hooks into Spark, so that spark-sql runs SELECT ... FROM delta.`path`
    bin/spark-distribution    a link to Spark, which find-spark-home follows instead of asking the python3 on the path

`plumbline setup` writes them once, and only for a Spark that pip installed into the environment. A file that exists is
not changed.
"""

import shlex
import sys
from pathlib import Path

from eval_engine.spark.delta_jars import spark_home
from eval_engine.spark.java import java_home
from eval_engine.spark.session import DELTA

MARK = "# Written by `plumbline setup`; change it as you like, it is not written again."


def write_spark_environment() -> list[Path]:
    """Writes the files that are missing; returns their paths."""
    home = spark_home().resolve()
    if not home.is_relative_to(Path(sys.prefix).resolve()):  # a Spark that is not part of this environment
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
