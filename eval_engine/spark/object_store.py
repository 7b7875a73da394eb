"""Object stores (S3, Azure, Google, HDFS ...): Spark's settings for them, and a check that Spark reaches a path there.

Spark reads inputs and lake through Hadoop's file systems. If Arrow and delta-rs reach the store, Python workers read
and write files through Arrow, and delta-rs commits them; otherwise Spark does both. So a store that Spark does not
reach is an error, raised before any work, and a store that only Spark reaches is not. All three take endpoint, region
and credentials of S3 from the environment: AWS_ENDPOINT_URL, AWS_REGION, AWS_ACCESS_KEY_ID ... docs/object-stores.md
"""

import os
import re
from pathlib import Path
from urllib.parse import urlsplit

import pyarrow as pa
from py4j.protocol import Py4JError
from pyarrow import fs
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from eval_engine.errors import ConfigError, PlumblineError
from eval_engine.spark.delta_jars import spark_home
from eval_engine.storage.stored_file import full_path, located

STORE = re.compile(r"(?!file:)[a-z][a-z0-9+.-]*://", re.IGNORECASE)
PACKAGES = {  # scheme: the Hadoop module that has its file system
    "s3a": "hadoop-aws",
    "abfs": "hadoop-azure",
    "abfss": "hadoop-azure",
    "gs": "hadoop-gcp",
    "oss": "hadoop-aliyun",
}
NO_FILE_SYSTEM = re.compile(
    r"No FileSystem for scheme|ClassNotFoundException: Class \S*(?:FileSystem|\.fs\.)\S* not found"
)
NO_BUCKET = re.compile(r"NoSuchBucket|UnknownStore|Bucket '.*' not found|The specified (?:bucket|container) does not")
REFUSED = re.compile(
    r"ACCESS_DENIED|AccessDenied|INVALID_ACCESS_KEY|INVALID_SIGNATURE|EXPIRED_TOKEN|SignatureDoesNotMatch|"
    r"FORBIDDEN|Forbidden|\b40[13]\b|NoAuth|[Cc]redentials"
)
NO_ANSWER = re.compile(
    r"NETWORK_CONNECTION|ConnectException|UnknownHost|NoRouteToHost|"
    r"Could not (?:resolve|connect)|Connection refused|[Tt]imed out|Timeout"
)
ONE_ATTEMPT = {  # the check uses a Hadoop file system of its own without retries; that of the run keeps its retries
    "fs.s3a.impl.disable.cache": "true",
    "fs.s3a.attempts.maximum": "1",
    "fs.s3a.retry.limit": "1",
}
_reached: set[tuple[str, str]] = set()  # (application, bucket) that Spark has reached


def s3_settings() -> dict[str, str]:
    """Settings of Spark and its workers for S3, from the environment. Spark reads the credentials itself."""
    endpoint = os.environ.get("AWS_ENDPOINT_URL")
    region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    settings = {}
    if endpoint:
        settings["spark.hadoop.fs.s3a.endpoint"] = endpoint
        settings["spark.hadoop.fs.s3a.path.style.access"] = "true"  # host names like bucket.host exist only at AWS
        settings["spark.executorEnv.AWS_ENDPOINT_URL"] = endpoint
    if region:
        settings["spark.hadoop.fs.s3a.endpoint.region"] = region
        settings["spark.executorEnv.AWS_REGION"] = region
    return settings


def check_store(spark: SparkSession | None, uri: str, name: str) -> None:
    """Raises an error that says what is missing if Spark does not reach the URI; `name` is its name in errors.

    Paths without a scheme and catalog names are not checked: reading them raises its own errors. The same holds for the
    store of a job that has no Spark.
    """
    if not STORE.match(uri):
        return
    place, store = full_path(uri), urlsplit(full_path(uri))
    if store.scheme == "s3a" and store.password is not None:
        raise ConfigError(
            f"{name}: {uri} holds credentials, which Spark and delta-rs do not take from a path. "
            "Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in the environment, and give the path without them."
        )
    if spark is None:
        return
    seen = (spark.conf.get("spark.app.id", "") or "", f"{store.scheme}://{store.netloc}")
    by_arrow = _by_arrow(place)
    if seen in _reached and by_arrow is None:
        return
    by_spark = _by_spark(spark, place)
    if by_spark is None:
        _reached.add(seen)
        return
    missing = _package(store.scheme) if NO_FILE_SYSTEM.search(by_spark) else None
    known = _known_problem(by_arrow, store.scheme, store.netloc) or (
        None if missing else _known_problem(by_spark, store.scheme, store.netloc)
    )
    if known is None:
        known = (missing or f"Spark does not reach it: {by_spark} See docs/object-stores.md.", ConfigError)
    elif missing:
        known = (f"{known[0]} Besides, {missing[0].lower()}{missing[1:]}", known[1])
    raise known[1](f"{name}: {uri}: {known[0]}")


def _by_arrow(place: str) -> str | None:
    """Why Arrow does not reach the path, or its bucket if the path does not exist yet; None if it does."""
    try:
        system, path = located(place)
        if system.get_file_info(path).type != fs.FileType.NotFound:
            return None
        bucket = path.split("/", 1)[0]
        if isinstance(system, fs.S3FileSystem) and system.get_file_info(bucket).type == fs.FileType.NotFound:
            return f"NoSuchBucket: {bucket}"
    except (OSError, pa.ArrowException) as error:
        return str(error).splitlines()[0]
    return None


def _by_spark(spark: SparkSession, place: str) -> str | None:
    """Why Spark does not reach the path; None if it does.

    Spark looks for a path beside it that does not exist: of the path itself it would list all files.
    """
    scheme, path = place.split("://", 1)
    neighbour = f"{scheme}://{path.rsplit('/', 1)[0]}/_no-such-path"
    try:
        rows = spark.read.options(**ONE_ATTEMPT).schema("nothing INT").parquet(neighbour)
        rows.schema  # noqa: B018  makes Spark Connect look for the path too
    except (PySparkException, Py4JError) as error:
        if "PATH_NOT_FOUND" in str(error):
            return None
        lines = [line.strip(": ") for line in str(error).splitlines() if line.strip()]
        return next((line for line in lines if not line.startswith("An error occurred while calling")), lines[0])[:300]
    return None


def _known_problem(problem: str | None, scheme: str, bucket: str) -> tuple[str, type[PlumblineError]] | None:
    """What is wrong with the store and the remedy, with the class of the error; None for an unknown problem."""
    s3 = scheme == "s3a"
    server = (os.environ.get("AWS_ENDPOINT_URL") if s3 else None) or ("AWS" if s3 else bucket)
    if problem is None:
        return None
    if NO_BUCKET.search(problem):
        return f"there is no bucket {bucket} at {server}. Make it, or correct the path.", ConfigError
    if NO_ANSWER.search(problem):  # it may answer later, so the exit code lets a scheduler try again
        check = "Check AWS_ENDPOINT_URL and AWS_REGION" if s3 else "Check the host in the path"
        return f"{server} does not answer ({problem[:160]}). {check}, and that the server runs.", PlumblineError
    if REFUSED.search(problem):
        names = "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (of a role AWS_SESSION_TOKEN too)"
        remedy = f"Set {names} of" if s3 else "docs/object-stores.md says where they are set; give those of"
        return (
            f"{server} refuses the credentials ({problem[:160]}). {remedy} a user who may use this path.",
            ConfigError,
        )
    return None


def _package(scheme: str) -> str:
    """The remedy for a Spark without a file system for this scheme."""
    if scheme not in PACKAGES:
        return (
            f"This Spark has no file system for {scheme}://. "
            f"Put the jar that has it on Spark's class path and set spark.hadoop.fs.{scheme}.impl."
        )
    package = f"org.apache.hadoop:{PACKAGES[scheme]}:{hadoop_version() or 'VERSION'}"
    which = "" if hadoop_version() else " (VERSION: that of Spark's Hadoop)"
    return (
        f"This Spark has no file system for {scheme}://. Add `--packages {package}`{which} to spark-submit, "
        f"or for the plumbline command set PYSPARK_SUBMIT_ARGS='--packages {package} pyspark-shell'."
    )


def hadoop_version() -> str | None:
    """The version of Spark's Hadoop; None if its jars are not in Spark's folder."""
    jars = sorted(Path(spark_home()).glob("jars/hadoop-client-api-*.jar"))
    return jars[0].stem.removeprefix("hadoop-client-api-") if jars else None
