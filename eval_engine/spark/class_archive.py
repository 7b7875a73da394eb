"""The Java classes that Spark loads, archived once per environment (class data sharing): an embedded Spark starts from
them.

    python -m eval_engine.spark.class_archive        makes the archive; set-up does so

Java takes classes from the archive as they are, instead of reading, checking and linking some 15,000 of them from 300
jars: Spark starts in 60 % of the time, and the first jobs of a session take four fifths (docs/decisions.md). The
archive takes 170 MB of disk. Java starts without it if it was made of other jars, or by another Java.

Java archives no classes if a folder with files in it is on the class path, and Spark's conf is on it. So a Spark that
uses the archive gets an empty folder as conf, and no archive is used if conf holds more than set-up wrote there.
"""

import hashlib
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from eval_engine.spark.delta_jars import spark_home
from eval_engine.spark.java import java_home

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WRITTEN = re.compile(  # a line of conf that an embedded session needs not: it sets the same itself
    r"(#.*|PYSPARK_PYTHON=.*|JAVA_HOME=.*|spark\.sql\.(extensions|catalog\.spark_catalog) \S+\.delta\.\S+)?"
)


def archive() -> Path:
    """Where the archive of this Java and this Spark is, or would be."""
    home, jars = java_home(), sorted(spark_home().glob("jars/*.jar"))
    parts = [home, str(Path(home, "bin", "java").stat().st_mtime_ns)]
    parts += [f"{jar.name} {jar.stat().st_size}" for jar in jars]
    key = hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]
    return Path(sys.prefix) / "share" / "plumbline" / f"spark-{key}.jsa"


def usable_archive() -> Path | None:
    """The archive, if it is there and Spark's conf can be left out for it."""
    path = archive()
    return path if path.exists() and conf_is_ours() else None


def conf_is_ours() -> bool:
    """Whether Spark's conf holds nothing but what set-up wrote, and nobody has named another one."""
    if "SPARK_CONF_DIR" in os.environ:
        return False
    folder = spark_home() / "conf"
    files = sorted(folder.iterdir()) if folder.is_dir() else []
    return all(
        file.name in ("spark-env.sh", "spark-defaults.conf")
        and all(WRITTEN.fullmatch(line.strip()) for line in file.read_text().splitlines())
        for file in files
    )


@contextmanager
def empty_conf() -> Iterator[None]:
    """A Java that is started in this block has an empty folder as conf."""
    folder = Path(sys.prefix) / "share" / "plumbline" / "conf"
    folder.mkdir(parents=True, exist_ok=True)
    os.environ["SPARK_CONF_DIR"] = str(folder)
    try:
        yield
    finally:
        del os.environ["SPARK_CONF_DIR"]


def make_archive() -> str:
    """Makes the archive, unless it is there; what was done, for the operator. It takes some 20 s."""
    path = archive()
    if path.exists():
        return f"is in {path}"
    if not conf_is_ours():
        return f"none is made: {os.environ.get('SPARK_CONF_DIR') or spark_home() / 'conf'} has settings of its own"
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(f".{os.getpid()}.part")
    with tempfile.TemporaryDirectory() as folder:
        _run_and_archive(part, Path(folder))
    if not part.exists():
        return "none is made: this Java does not archive classes"
    for old in path.parent.glob("spark-*.jsa"):  # of a Java or of jars that are no longer here
        old.unlink()
    part.replace(path)
    return f"written to {path}"


def _run_and_archive(part: Path, folder: Path) -> None:
    """Runs a Spark that loads what a run loads; when its Java ends, it writes the archive."""
    from pyspark import SparkContext

    from eval_engine.spark.session import QUICK_START, spark_session

    with empty_conf():
        spark = spark_session("classes", f'{QUICK_START} "-XX:ArchiveClassesAtExit={part}"', folder / "log")
    _use(spark, folder)
    gateway = SparkContext._gateway
    assert gateway is not None
    java = gateway.proc
    spark.stop()
    gateway.shutdown()
    java.stdin.close()
    java.wait(timeout=300)


def _use(spark: "SparkSession", folder: Path) -> None:
    """Python tasks, a shuffle, a Delta table written and read, Parquet files."""
    rows = spark.range(0, 1000, 1, 2).mapInArrow(lambda batches: batches, "id BIGINT")
    rows = rows.selectExpr("id", "xxhash64(id) AS hashed", "'r' AS run_id").repartition(2, "id")
    table = f"{folder}/table"
    rows.sortWithinPartitions("id").write.format("delta").partitionBy("run_id").save(table)
    stored = spark.read.format("delta").load(table)
    stored.groupBy("run_id").count().collect()
    stored.mapInArrow(lambda batches: batches, "id BIGINT, hashed BIGINT, run_id STRING").collect()
    spark.read.parquet(*stored.inputFiles()).join(stored, "id", "left_anti").collect()
    spark.sql(f"DESCRIBE HISTORY delta.`{table}`").collect()


if __name__ == "__main__":
    print(f"Archive of Spark's classes: {make_archive()}")
