"""One spelling of a URI per library, and the errors for a store that Spark does not reach.

tests/faults/object_store.py tests against a real S3 server.
"""

import os
import socket
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from eval_engine.config import Input
from eval_engine.errors import ConfigError, PlumblineError
from eval_engine.inputs.input_format import input_format
from eval_engine.lake.commits import delta_uri
from eval_engine.lake.lake import Lake
from eval_engine.spark.object_store import check_store, hadoop_version, s3_settings
from eval_engine.storage.stored_file import full_path, located, spelled
from jobs.cli import load


@pytest.mark.parametrize("written", ["s3://b/x", "s3a://b/x", "s3n://b/x"])
def test_each_library_gets_its_own_spelling_of_a_uri(written: str) -> None:
    assert [spelled(written, library) for library in ("spark", "arrow", "delta-rs")] == [
        "s3a://b/x",
        "s3://b/x",
        "s3://b/x",
    ]
    assert (full_path(f"{written}/"), delta_uri(written)) == ("s3a://b/x", "s3://b/x")


@pytest.mark.parametrize("written", ["/data/s3/x", "file:///data/x", "abfss://c@a.dfs.core.windows.net/x", "gs://b/x"])
def test_other_paths_are_spelled_alike(written: str) -> None:
    assert {spelled(written, library) for library in ("spark", "arrow", "delta-rs")} == {written}


def test_arrow_takes_either_spelling_for_the_same_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")  # else Arrow asks AWS for the bucket's region
    assert located("s3a://b/x")[1] == located("s3://b/x")[1] == "b/x"


def test_a_store_without_a_file_system_names_the_package(spark: SparkSession, tmp_path: Path) -> None:
    package = f"org.apache.hadoop:hadoop-aliyun:{hadoop_version()}"
    with pytest.raises(
        ConfigError, match=rf"^exposures: oss://b/x: This Spark has no file system for oss://.*--packages {package}"
    ):
        check_store(spark, "oss://b/x", "exposures")
    with pytest.raises(ConfigError, match=r"spark\.hadoop\.fs\.zzz\.impl"):
        Lake(spark, "zzz://b/lake")
    check_store(spark, str(tmp_path / "nothing"), "exposures")
    check_store(spark, (tmp_path / "nothing").as_uri(), "exposures")
    check_store(spark, "catalog.schema.table", "exposures")


def test_a_server_that_does_not_answer_is_named_with_what_is_missing(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as closed:  # bound, but not listening
        closed.bind(("127.0.0.1", 0))
        endpoint = f"http://127.0.0.1:{closed.getsockname()[1]}"
        monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "a")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "b")
        with pytest.raises(PlumblineError) as raised:
            Lake(spark, "s3://b/lake")
    assert raised.value.exit_code == 4  # a scheduler tries again: the server may answer later
    assert f"{endpoint} does not answer" in str(raised.value)
    assert f"--packages org.apache.hadoop:hadoop-aws:{hadoop_version()}" in str(raised.value)
    assert "\n" not in str(raised.value)


def test_credentials_in_a_path_are_refused_and_not_shown(spark: SparkSession) -> None:
    with pytest.raises(ConfigError) as raised:
        Lake(spark, "s3://AKIA1:hunter2@bucket/lake")
    assert "AWS_ACCESS_KEY_ID" in str(raised.value)
    assert "hunter2" not in str(raised.value)


def test_a_format_that_cannot_be_guessed_must_be_given() -> None:
    with pytest.raises(ConfigError, match=r"zzz://b/x: its format cannot be guessed.*Give `format`"):
        input_format(Input(path="zzz://b/x"))


def test_spark_gets_the_s3_settings_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ENDPOINT_URL", "AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    assert s3_settings() == {}
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://minio:9000")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
    given = s3_settings()
    assert given["spark.hadoop.fs.s3a.endpoint"] == given["spark.executorEnv.AWS_ENDPOINT_URL"] == "http://minio:9000"
    assert given["spark.hadoop.fs.s3a.path.style.access"] == "true"
    assert given["spark.hadoop.fs.s3a.endpoint.region"] == "eu-west-1"


def test_delta_rs_may_use_a_server_without_tls_that_the_environment_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ALLOW_HTTP", "")
    monkeypatch.delenv("AWS_ALLOW_HTTP")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "https://minio:9000")
    delta_uri("s3://b/x")
    assert "AWS_ALLOW_HTTP" not in os.environ
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://minio:9000")
    delta_uri("s3://b/x")
    assert os.environ["AWS_ALLOW_HTTP"] == "true"


def test_the_report_folder_must_be_on_this_machine(small_run: Any) -> None:
    small_run.config["report"] = "s3://b/report"
    with pytest.raises(ConfigError, match="report: s3://b/report is not a folder of this machine"):
        load(small_run.write())
