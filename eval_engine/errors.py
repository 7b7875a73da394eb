"""Errors an operator can fix: one class per thing to fix, each with the exit code a scheduler sees.

A message names the table, the key and the value, says why it cannot be, and what to do next.
"""

import re


class PlumblineError(Exception):
    """A run that failed for a reason that has a remedy (exit code 4)."""

    exit_code = 4


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


def worker_error(error: BaseException) -> PlumblineError | None:
    """The error that a Python worker of Spark raised, taken from the traceback text in which Spark wraps it."""
    found = re.findall(r"eval_engine\.errors\.(\w+): (.*?)(?=\n\s*\n|\n\s+at |\nDriver stacktrace|\Z)", str(error), re.DOTALL)
    kinds = {kind.__name__: kind for kind in (PlumblineError, ConfigError, DataError, JavaError, LakeError)}
    return next((kinds[name](text.strip()) for name, text in found if name in kinds), None)
