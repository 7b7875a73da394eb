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


KINDS = {kind.__name__: kind for kind in (PlumblineError, ConfigError, DataError, JavaError, LakeError, StageError)}


def known_error(error: BaseException) -> PlumblineError | None:
    """What an operator can fix, taken from the long account that Spark gives of a failed job; None if it is something else."""
    told = str(error)
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
    return None


@contextmanager
def told_plainly() -> Iterator[None]:
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
