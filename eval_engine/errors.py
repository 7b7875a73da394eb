"""Errors that an operator can fix: one class per thing to fix, each with the exit code that a scheduler gets.

A message names the table, the key and the value, says why it is an error, and what to do next.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from eval_engine.masked import masked


class PlumblineError(Exception):
    """A run failed for a reason that has a remedy (exit code 4). Secrets in paths are masked in its text."""

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
    """There is no Java that Spark can run on."""


class LakeError(PlumblineError):
    """The lake cannot be read or written."""


class StageError(PlumblineError):
    """A stage whose tables this one reads is not done, or was run again in the meantime."""


class MergeError(PlumblineError):
    """Runs cannot be added up: their sums are of different quantities (exit code 3)."""

    exit_code = 3


class GateError(PlumblineError):
    """The gate said no: answers of the run break rules of its config. The tables are complete (exit code 5)."""

    exit_code = 5


class OutputError(PlumblineError):
    """A folder for results or for staged copies cannot be written."""


class ClusterError(PlumblineError):
    """Spark or its Python workers cannot run the code, or ended while they ran it."""


class DiskFullError(PlumblineError):
    """A disk is full, or the user's quota on it is used up."""


class Terminated(SystemExit):
    """The process received SIGTERM. `except Exception` does not catch it. Exit code 143 is 128 + 15, as of a shell."""

    def __init__(self) -> None:
        super().__init__(143)

    def __str__(self) -> str:
        return "the process received SIGTERM"


KINDS = {
    kind.__name__: kind
    for kind in (
        PlumblineError,
        ConfigError,
        DataError,
        JavaError,
        LakeError,
        StageError,
        MergeError,
        GateError,
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
    """The error that an operator can fix, parsed from the message of a failed Spark job; None for any other error."""
    message = str(error)
    if isinstance(error, PermissionError):
        return DataError(
            f"{error.filename or message} cannot be opened: permission denied. "
            "Give the user that runs this the right to read it, or name another path in the config."
        )
    # Raised by our own code in a Python worker: Spark's message contains the traceback.
    raised = re.findall(
        r"eval_engine\.errors\.(\w+): (.*?)(?=\n\s*\n|\n\s+at |\nDriver stacktrace|\Z)", message, re.DOTALL
    )
    for name, text in raised:
        if name in KINDS:
            return KINDS[name](text.strip())
    if match := re.search(r"FAILED_READ_FILE\S* .*?file (\S+?)\.?\s", message):
        causes = re.findall(r"Caused by: (?:[\w.$]+: )?(.*)", message)
        return DataError(
            f"{match[1]} cannot be read ({causes[-1].strip()[:200] if causes else 'see the log'}). "
            "Is it whole, and still there? Make the table again."
        )
    if known := _environment_error(message):
        return known
    return None


def _environment_error(message: str) -> PlumblineError | None:
    """The error for what machine, disk or cluster lack, recognised by messages of Spark, Python, Arrow and delta-rs."""
    if match := re.search(r".*(?:No space left on device|Disk quota exceeded|File too large).*", message):
        return DiskFullError(
            f"A disk is full: {_cut(match[0])}. It is the lake's disk, or that of Spark's temporary files "
            "(spark.local.dir, SPARK_LOCAL_DIRS). Make room there, or name a larger disk; then run it again: "
            "nothing half-written is in the tables."
        )
    if "Python worker exited unexpectedly" in message or "Python worker process terminated" in message:
        return ClusterError(
            "A Python worker of Spark ended without a message, as when the kernel kills it for want of memory (see "
            "`dmesg`). Give it more memory (on a cluster spark.executor.memoryOverhead), or run fewer tasks at a time: "
            "PLUMBLINE_MASTER=local[1], on a cluster fewer spark.executor.cores."
        )
    if re.search(r"stopped SparkContext|SparkContext was shut ?down|Answer from Java side is empty", message):
        return ClusterError(
            "Spark was stopped while it worked for this run: its Java got a signal, or ran out of memory "
            "(spark.driver.memory). The log of the cluster or the scheduler names the cause. Run it again."
        )
    if match := re.search(r"PYTHON_VERSION_MISMATCH\] (.*?)\.? PySpark", message, re.DOTALL):
        return ClusterError(f"{_cut(match[1])}. {PYTHON_OF_WORKERS}")
    if match := re.search(r"Cannot run program \"([^\"]+)\".*", message):
        return ClusterError(f"Spark's workers cannot start their Python: {_cut(match[0])}. {PYTHON_OF_WORKERS}")
    by_worker = "PYTHON_EXCEPTION" in message or "org.apache.spark" in message
    if by_worker and (match := re.search(r"ModuleNotFoundError: (No module named '[\w.]+')", message)):
        return ClusterError(f"The Python of Spark's workers lacks a package: {match[1]}. {PYTHON_OF_WORKERS}")
    return None


def _cut(text: str) -> str:
    """The text on one line of at most 300 characters."""
    line = " ".join(text.split())
    return line if len(line) <= 300 else f"{line[:297]}..."


@contextmanager
def as_operator_error() -> Iterator[None]:
    """Raises an error that an operator can fix in place of Spark's error about it."""
    try:
        yield
    except PlumblineError:
        raise
    except Exception as error:
        known = known_error(error)
        if known:
            raise known from None
        raise
