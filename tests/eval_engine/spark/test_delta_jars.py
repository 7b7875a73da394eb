"""Which Delta jars are wanted, and what happens to those that are there."""

import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest

from eval_engine.errors import PlumblineError
from eval_engine.spark import delta_jars
from eval_engine.spark.delta_jars import delta_package, fetch_delta, have_delta, spark_home


def a_spark(folder: Path, *jars: str) -> Path:
    """A folder like Spark's, whose spark-submit resolves packages to empty jars, as Ivy names them."""
    for name in ("spark-core_2.13-9.8.7.jar", "spark-sql_2.13-9.8.7.jar", *jars):
        (folder / "jars" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "jars" / name).write_text("there before")
    submit = folder / "bin" / "spark-submit"
    submit.parent.mkdir()
    submit.write_text(
        "#!/usr/bin/env bash\n"
        "IFS=: read -r group artifact version <<< $4\n"  # --master M --packages P
        "for word; do [[ $word == spark.jars.ivy=* ]] && ivy=${word#*=}; done\n"
        "mkdir -p $ivy/jars && cd $ivy/jars\n"
        "touch ${group}_$artifact-$version.jar ${group}_delta-storage-$version.jar\n"
    )
    submit.chmod(0o755)
    return folder


def names(spark: Path) -> list[str]:
    return sorted(path.name for path in (spark / "jars").iterdir() if "delta" in path.name)


def ours(spark: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if this were the Spark of the installed pyspark."""
    monkeypatch.delenv("SPARK_HOME", raising=False)
    monkeypatch.setattr(delta_jars.pyspark, "__file__", str(spark / "__init__.py"))


def test_the_jar_of_this_environment_is_that_of_the_installed_delta_spark() -> None:
    package = delta_package().replace("io.delta:", "").replace(":", "-")
    assert package.endswith(f"-{version('delta-spark')}")
    assert have_delta()
    assert [jar.name for jar in spark_home().glob("jars/*delta-spark_*")] == [f"io.delta_{package}.jar"]
    declared = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]["dependencies"]
    assert f"delta-spark=={version('delta-spark')}" in declared


def test_jars_of_another_version_are_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = ("io.delta_delta-spark_9.8_2.13-1.0.0.jar", "io.delta_delta-storage-1.0.0.jar", "my-delta-tools-1.0.jar")
    spark = a_spark(tmp_path, *old)
    ours(spark, monkeypatch)
    wanted = version("delta-spark")
    for _ in range(2):
        fetch_delta()
        assert names(spark) == [
            f"io.delta_delta-spark_9.8_2.13-{wanted}.jar",
            f"io.delta_delta-storage-{wanted}.jar",
            "my-delta-tools-1.0.jar",
        ]


def test_a_spark_of_somebody_else_keeps_its_delta(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spark = a_spark(tmp_path, "delta-spark_9.8_2.13-1.0.0.jar")
    monkeypatch.setenv("SPARK_HOME", str(spark))
    fetch_delta()
    assert names(spark) == ["delta-spark_9.8_2.13-1.0.0.jar"]


def test_what_cannot_be_resolved_names_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spark = a_spark(tmp_path)
    ours(spark, monkeypatch)
    (spark / "bin" / "spark-submit").write_text("#!/usr/bin/env bash\necho no network >&2\nexit 1\n")
    with pytest.raises(PlumblineError, match=r"io\.delta:delta-spark_9\.8_2\.13:.* could not be resolved: no network"):
        fetch_delta()
    for jar in (spark / "jars").iterdir():
        jar.unlink()
    with pytest.raises(PlumblineError, match="holds no spark-core jar"):
        fetch_delta()
