"""Errors an operator can fix: one class per thing to fix, each with the exit code a scheduler sees.

A message names the table, the key and the value, says why it cannot be, and what to do next.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from eval_engine.masked import masked


class PlumblineError(Exception):
    """A run that failed for a reason that has a remedy (exit code 4). Its text shows no secret of a path."""

    exit_code = 4

    def __str__(self) -> str:
        return masked(super().__str__())


class ConfigError(PlumblineError):
    """The config or the command line is wrong: nothing was read (exit code 2)."""

    exit_code = 2


class DataError(PlumblineError):
    """An input breaks its contract: nothing was written (exit code 3)."""

    exit_code = 3


class JavaError(PlumblineError):
    """No Java that Spark can run on."""


class LakeError(PlumblineError):
    """The lake cannot be read or written."""


class StageError(PlumblineError):
    """A stage that this one rests on is not done, or was done again since."""


class OutputError(PlumblineError):
    """A folder for results or for copies cannot be written."""


class ClusterError(PlumblineError):
    """Spark or its Python workers cannot run the code, or ended while they did."""


class DiskFullError(PlumblineError):
    """A disk, or what this user may write to it, is full."""


class Terminated(SystemExit):
    """SIGTERM: the process was told to end. No `except Exception` takes it; 143 is what a shell gives for it."""

    def __init__(self) -> None:
        super().__init__(143)

    def __str__(self) -> str:
        return "SIGTERM: the process was told to end"


KINDS = {
    kind.__name__: kind
    for kind in (
        PlumblineError,
        ConfigError,
        DataError,
        JavaError,
        LakeError,
        StageError,
        OutputError,
        ClusterError,
        DiskFullError,
    )
}
PYTHON_OF_WORKERS = (
    "Set PYSPARK_PYTHON (or --conf spark.pyspark.python) to a Python that has the packages of this one, at a path "
    "that every machine of the cluster has (docs/cluster.md)."
)


def known_error(error: BaseException) -> PlumblineError | None:
    """What an operator can fix, taken from the long account that Spark gives of a failed job; None if it is something else."""
    told = str(error)
    if isinstance(error, PermissionError):
        return DataError(
            f"{error.filename or told} cannot be opened: permission denied. Give the user that runs this the right to read it, "
            "or name another path in the config."
        )
    # raised by our own code in a Python worker: Spark wraps the traceback
    found = re.findall(r"eval_engine\.errors\.(\w+): (.*?)(?=\n\s*\n|\n\s+at |\nDriver stacktrace|\Z)", told, re.DOTALL)
    for name, text in found:
        if name in KINDS:
            return KINDS[name](text.strip())
    if match := re.search(r"FAILED_READ_FILE\S* .*?file (\S+?)\.?\s", told):
        causes = re.findall(r"Caused by: (?:[\w.$]+: )?(.*)", told)
        return DataError(
            f"{match[1]} cannot be read ({causes[-1].strip()[:200] if causes else 'see the log'}). Is it whole, and still there? Make the table again."
        )
    if known := _environment_error(told):
        return known
    return None


def _environment_error(told: str) -> PlumblineError | None:
    """What the machine, the disk or the cluster lacks, by the words of Spark, Python, Arrow and delta-rs."""
    if match := re.search(r".*(?:No space left on device|Disk quota exceeded|File too large).*", told):
        return DiskFullError(
            f"A disk is full: {_cut(match[0])}. It is the lake's, or that of Spark's temporary files (spark.local.dir, SPARK_LOCAL_DIRS). "
            "Make room there, or name a larger disk; then run it again: nothing half-written is in the tables."
        )
    if "Python worker exited unexpectedly" in told or "Python worker process terminated" in told:
        return ClusterError(
            "A Python worker of Spark ended without a word, as it does when the kernel kills it for want of memory (`dmesg` tells). "
            "Give it more (on a cluster spark.executor.memoryOverhead), or run fewer tasks at a time: PLUMBLINE_MASTER=local[1], "
            "on a cluster fewer spark.executor.cores."
        )
    if re.search(r"stopped SparkContext|SparkContext was shut ?down|Answer from Java side is empty", told):
        return ClusterError(
            "Spark was stopped while it worked for this run: its Java got a signal, or ran out of memory (spark.driver.memory). "
            "The cluster's or the scheduler's log tells who ended it. Run it again."
        )
    if match := re.search(r"PYTHON_VERSION_MISMATCH\] (.*?)\.? PySpark", told, re.DOTALL):
        return ClusterError(f"{_cut(match[1])}. {PYTHON_OF_WORKERS}")
    if match := re.search(r"Cannot run program \"([^\"]+)\".*", told):
        return ClusterError(f"Spark's workers cannot start their Python: {_cut(match[0])}. {PYTHON_OF_WORKERS}")
    by_worker = "PYTHON_EXCEPTION" in told or "org.apache.spark" in told
    if by_worker and (match := re.search(r"ModuleNotFoundError: (No module named '[\w.]+')", told)):
        return ClusterError(f"The Python of Spark's workers lacks a package: {match[1]}. {PYTHON_OF_WORKERS}")
    return None


def _cut(text: str) -> str:
    """A line of bounded length."""
    line = " ".join(text.split())
    return line if len(line) <= 300 else f"{line[:297]}..."


@contextmanager
def as_operator_error() -> Iterator[None]:
    """An error that an operator can fix is raised as such, not as Spark's account of it."""
    try:
        yield
    except PlumblineError:
        raise
    except Exception as error:
        known = known_error(error)
        if known:
            raise known from None
        raise
