"""Secrets of a path are masked, however the path is spelled."""

import json

import pytest

from eval_engine.errors import ConfigError, known_error
from eval_engine.masked import masked


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("s3://AKIA1:hunter2@lake/ranks", "s3://***@lake/ranks"),
        ("s3a://AKIA1:hun/ter2+/hunter2@lake/ranks is gone", "s3a://***@lake/ranks is gone"),
        ("s3:/AKIA1:hunter2@lake", "s3:/***@lake"),  # as pathlib writes it
        ("s3://AKIA1%3Ahunter2@lake", "s3://***@lake"),
        ("https://h/x?token=hunter2&part=3", "https://h/x?token=***&part=3"),
        (
            "abfss://c@a.dfs.core.windows.net/x?sv=2024&sig=hunter2%3D",
            "abfss://c@a.dfs.core.windows.net/x?sv=2024&sig=***",
        ),
        (
            "s3://b/x?X-Amz-Credential=hunter2&X-Amz-Signature=hunter2",
            "s3://b/x?X-Amz-Credential=***&X-Amz-Signature=***",
        ),
        ("s3://b/x%3Ftoken%3Dhunter2%26part%3D3", "s3://b/x%3Ftoken%3D***%26part%3D3"),
        ("two: s3://k:hunter2@a and s3://k:hunter2@b", "two: s3://***@a and s3://***@b"),
        (
            "s3://b/x?secret_key=hunter2 and (hdfs://h/y?password=hunter2)",
            "s3://b/x?secret_key=*** and (hdfs://h/y?password=***",
        ),
    ],
)
def test_a_secret_in_a_path_is_masked(text: str, shown: str) -> None:
    assert masked(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        "abfss://container@account.dfs.core.windows.net/lake",
        "http://127.0.0.1:9000 does not answer",
        "exposures: 2 rows break the rule duplicate_key (first: user_id=100, item_id=1018, value=4.0)",
        "/data/lake and s3://bucket/lake/run_id=a@b",
    ],
)
def test_other_text_stays_as_it_is(text: str) -> None:
    assert masked(text) == text


def test_masked_json_is_json_still() -> None:
    config = {"lake": "s3://k:hunter2@b/lake", "inputs": {"a": "https://h/x?sig=hunter2", "b": "u@v"}}
    assert json.loads(masked(json.dumps(config))) == {
        "lake": "s3://***@b/lake",
        "inputs": {"a": "https://h/x?sig=***", "b": "u@v"},
    }


def test_an_error_shows_no_secret() -> None:
    assert str(ConfigError("lake: s3://k:hunter2@b/x is gone")) == "lake: s3://***@b/x is gone"
    known = known_error(
        RuntimeError("FAILED_READ_FILE.X while reading file s3a://k:hunter2@b/x.parquet. \nCaused by: a")
    )
    assert "hunter2" not in str(known)
    assert "s3a://***@b/x.parquet" in str(known)
