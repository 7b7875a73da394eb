"""The archive of Spark's classes: Java takes it, and it is used only where Spark's conf can be left out."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from eval_engine.spark import class_archive
from eval_engine.spark.class_archive import archive, conf_is_ours, empty_conf, usable_archive
from eval_engine.spark.environment import MARK
from eval_engine.spark.session import DELTA

# Makes an archive in a folder of its own, then starts Spark with it. -Xshare:on: Java ends if it cannot take it. Half
# of the time would go into classes of jobs, so only the start and one job are archived here; test_archived_jobs.py runs
# the others.
SCRIPT = """
import os, sys
from pathlib import Path
from pyspark import SparkContext
sys.prefix = sys.argv[1]
os.environ["PLUMBLINE_MASTER"] = "local[2]"
from eval_engine.spark import class_archive, session
if sys.argv[2] == "make":
    class_archive._use = lambda spark, folder: spark.range(3).count()
    print(class_archive.make_archive())
else:
    assert class_archive.usable_archive()
    spark = session.spark_session("t", session.QUICK_START + " -Xshare:on", Path(sys.argv[1], "log"))
    assert "SPARK_CONF_DIR" not in os.environ
    print(spark.range(3).count(), class_archive.make_archive())
"""


@pytest.fixture
def spark_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Spark of which only the folders are there, in an environment of its own."""
    monkeypatch.setattr(class_archive, "spark_home", lambda: tmp_path)
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    monkeypatch.delenv("SPARK_CONF_DIR", raising=False)
    (tmp_path / "jars").mkdir()
    (tmp_path / "conf").mkdir()
    return tmp_path


def test_java_starts_from_the_archive(tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "SPARK_CONF_DIR"}
    for step in ("make", "use"):
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT, str(tmp_path), step],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-2000:]
        if "does not archive" in done.stdout or "settings of its own" in done.stdout:
            pytest.skip(done.stdout)
    (made,) = tmp_path.rglob("*.jsa")
    assert done.stdout == f"3 is in {made}\n"


def test_other_jars_are_another_archive(spark_folder: Path) -> None:
    first = archive()
    assert usable_archive() is None
    first.parent.mkdir(parents=True)
    first.touch()
    assert usable_archive() == first
    (spark_folder / "jars" / "more.jar").write_bytes(b"x")
    assert archive() != first
    assert usable_archive() is None


@pytest.mark.parametrize(
    ("name", "line", "ours"),
    [
        ("spark-env.sh", "PYSPARK_PYTHON=${PYSPARK_PYTHON:-/x/python}", True),
        ("spark-env.sh", "export SPARK_LOCAL_DIRS=/big", False),
        ("spark-defaults.conf", "\n".join(f"{key} {value}" for key, value in DELTA.items()), True),
        ("spark-defaults.conf", "spark.local.dir /big", False),
        ("hive-site.xml", "", False),
    ],
)
def test_settings_of_an_owner_are_not_left_out(spark_folder: Path, name: str, line: str, ours: bool) -> None:
    (spark_folder / "conf" / name).write_text(f"{MARK}\n{line}\n")
    assert conf_is_ours() == ours


def test_a_named_conf_is_not_left_out(spark_folder: Path) -> None:
    assert conf_is_ours()
    with empty_conf():
        assert not conf_is_ours()
        assert list(Path(os.environ["SPARK_CONF_DIR"]).iterdir()) == []
    assert "SPARK_CONF_DIR" not in os.environ
