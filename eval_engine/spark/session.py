"""The one place that makes a SparkSession: embedded by default, the cluster's under spark-submit or Spark Connect.

Embedded (python, the command line, tests): local[*] with every setting below. Under spark-submit the cluster's settings
have precedence; a setting below is applied only if it is not set there. Under Spark Connect (SPARK_REMOTE) nothing is
set. With a log file, the output of Java and the workers goes to it instead of the terminal; under spark-submit only if
Spark's logging is not configured.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from threading import Thread

from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from eval_engine.errors import PlumblineError
from eval_engine.spark.class_archive import empty_conf, usable_archive
from eval_engine.spark.delta_jars import delta_package, fetch_delta
from eval_engine.spark.java import java_home
from eval_engine.spark.object_store import s3_settings

DELTA = {  # Delta's two hooks into Spark
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}
EVERYWHERE = {
    "spark.sql.session.timeZone": "UTC",  # timestamps in the tables do not depend on the machine
    "spark.sql.parquet.columnarReaderBatchSize": "1024",  # rows may hold long lists: 4,096 of them fill a small JVM
    "spark.ui.showConsoleProgress": "false",  # jobs/progress.py shows the progress
    # Else every method of a DataFrame or Column sends its call site to Java, in some ten calls: almost half of all.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    # Arrow's allocator keeps memory that a worker frees: the next block needs as much, and new pages from the kernel
    # take some 7 % of a worker's CPU time.
    "spark.executorEnv.MIMALLOC_PURGE_DELAY": "-1",
}
EMBEDDED = {
    "spark.databricks.delta.snapshotPartitions": "2",  # with the default 50, small machines are three times slower
    # Over TCP a task waits 70 ms for delayed acknowledgements between Java and Python.
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.shuffle.compress": "false",  # most shuffled bytes are blobs, already compressed; all stay on the machine
    "spark.sql.inMemoryColumnarStorage.compressed": "false",
    "spark.ui.enabled": "false",  # not needed, and its port may be in use
    "spark.driver.host": "127.0.0.1",  # a laptop's host name may not resolve
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.log.level": "ERROR",
    "spark.executorEnv.PLUMBLINE_EMBEDDED": "1",  # worker_process.py
}


QUIET = Path(__file__).with_name("log4j2.properties")  # for a Java that this process starts
TO_FILE = Path(__file__).with_name("log4j2_file.properties")  # for a Java that is already running
# Java makes plans and moves blobs, and ends before its optimising compiler would pay off; the workers need the cores.
# The quick compiler has room for 48 MB of code by default. Spark ML fills it, and Java then compiles nothing any more.
QUICK_START = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=128m"


def spark_session(app: str, java_options: str = QUICK_START, log: Path | None = None) -> SparkSession:
    """The running session if there is one, else a new one; java_options: of an embedded session; log: its log file."""
    active = SparkSession.getActiveSession()
    if active is not None:
        return active
    if os.environ.get("SPARK_REMOTE"):
        return SparkSession.builder.getOrCreate()
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ  # spark-submit started the JVM, which started this process
    given = SparkConf() if submitted else None
    settings = DELTA | EVERYWHERE | s3_settings()
    if not submitted:
        os.environ["JAVA_HOME"] = java_home()
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        fetch_delta()
        cores = os.cpu_count() or 2
        settings |= EMBEDDED | {
            "spark.master": os.environ.get("PLUMBLINE_MASTER", "local[*]"),
            "spark.sql.shuffle.partitions": str(max(2, cores)),  # the default 200 is meant for clusters
            "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={QUIET.as_uri()} {java_options}",
            "spark.driver.memory": f"{_quarter_of_memory_gb()}g",
        }
    master = given.get("spark.master", "") if given else settings["spark.master"]
    if master is not None and master.startswith("local"):
        # Workers on this machine must run this interpreter, or they import other packages. A cluster sets its own.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if given is None and log:
        _start_java(settings, log)
    quiet = given is not None and not _log_is_configured(given)
    if quiet:
        settings["spark.log.level"] = "ERROR"
    builder = SparkSession.builder.appName(app)
    for key, value in settings.items():
        if given is None or not given.contains(key):
            builder = builder.config(key, value)
        elif key == "spark.sql.extensions" and value not in (given.get(key) or ""):
            builder = builder.config(key, f"{given.get(key)},{value}")
    session = builder.getOrCreate()
    if quiet and log and given and given.get("spark.submit.deployMode", "client") == "client":
        _log_to(log)  # after the context, whose start configures the log; in cluster mode the cluster collects stderr
    try:
        session.sql("SELECT 1").schema  # noqa: B018  analysis loads the catalog class, without a job
    except Exception as error:
        if "delta" in str(error).lower():
            raise PlumblineError(
                f"This Spark has no Delta. Add `--packages {delta_package()}` to spark-submit, "
                "or run `plumbline setup` once in its environment."
            ) from None
        raise
    return session


def _start_java(settings: dict[str, str], log: Path) -> None:
    """Starts the Java of an embedded session, if none runs; it and its Python workers print to the log file."""
    if SparkContext._gateway:
        return
    with log.open("a") as file, ExitStack() as while_it_starts:
        if archive := usable_archive():
            options = f'{settings["spark.driver.extraJavaOptions"]} "-XX:SharedArchiveFile={archive}"'
            settings = settings | {"spark.driver.extraJavaOptions": options}
            while_it_starts.enter_context(empty_conf())
        conf = SparkConf(loadDefaults=False).setAll(list(settings.items()))
        gateway = launch_gateway(conf, {"stdout": file, "stderr": file})
        SparkContext._ensure_initialized(gateway=gateway)


def _log_is_configured(given: SparkConf) -> bool:
    """Whether the caller of spark-submit has configured Spark's logging."""
    options = " ".join(os.environ.get(name, "") for name in ("SPARK_SUBMIT_OPTS", "JAVA_TOOL_OPTIONS"))
    options += given.get("spark.driver.extraJavaOptions", "") or ""
    folder = os.environ.get("SPARK_CONF_DIR")
    return (
        given.contains("spark.log.level")
        or "log4j" in options
        or bool(os.environ.get("LOG4J_CONFIGURATION_FILE"))
        or bool(folder and list(Path(folder).glob("log4j2*.*")))
    )


def _log_to(log: Path) -> None:
    """Redirects the log of a running Java to a file."""
    SparkContext.setSystemProperty("plumbline.log", str(log))
    assert SparkContext._jvm is not None
    java = SparkContext._jvm
    java.org.apache.logging.log4j.core.config.Configurator.reconfigure(java.java.net.URI(TO_FILE.as_uri()))


def cancel_work(within_seconds: float = 5.0) -> None:
    """Cancels the Spark jobs of this process; may be called in a signal handler.

    The thread's connection to Java may be waiting for an answer, so it is closed, and another one is used.
    """
    context, gateway = SparkContext._active_spark_context, SparkContext._gateway
    if context is None or gateway is None:  # no session yet, or Spark Connect, whose server cancels a client's jobs
        return
    connection = gateway._gateway_client.get_thread_connection()
    if connection is not None:
        connection.close()
    thread = Thread(target=_cancel_jobs, args=(context,), daemon=True)  # py4j gives each thread its own connection
    thread.start()
    thread.join(within_seconds)  # a Java that does not answer must not block the clean-up


def _cancel_jobs(context: SparkContext) -> None:
    with suppress(Py4JError, OSError):  # Java has ended, and so have its jobs
        context.cancelAllJobs()


@contextmanager
def planned_once(spark: SparkSession) -> Iterator[None]:
    """Switches adaptive execution off for the queries inside.

    Adaptive execution makes one job per shuffle. The plans here have a known shape and gain nothing from it.
    """
    with _set(spark, "spark.sql.adaptive.enabled", "false"):
        yield


@contextmanager
def few_scan_tasks(spark: SparkSession) -> Iterator[None]:
    """Makes fewer scan tasks, for scans of one narrow column of large files.

    Spark splits files by their size with all columns, which makes thousands of tasks of a few milliseconds.
    """
    with _set(spark, "spark.sql.files.maxPartitionBytes", str(4 * 2**30)):
        yield


@contextmanager
def _set(spark: SparkSession, key: str, value: str) -> Iterator[None]:
    """Sets a setting of the session inside the block."""
    before = str(spark.conf.get(key))
    spark.conf.set(key, value)
    try:
        yield
    finally:
        spark.conf.set(key, before)


@contextmanager
def batches_by_bytes(spark: SparkSession) -> Iterator[None]:
    """Bounds the batches that go to Python inside the block by bytes: a row may take a few bytes or megabytes."""
    with (
        _set(spark, "spark.sql.execution.arrow.maxRecordsPerBatch", "100000"),
        _set(spark, "spark.sql.execution.arrow.maxBytesPerBatch", str(32 * 2**20)),
    ):
        yield


def _quarter_of_memory_gb() -> int:
    """A quarter of the machine's memory for the JVM, 1 to 8 GB: Python workers and page cache need the rest."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return max(1, min(8, total // 4 // 2**30))
