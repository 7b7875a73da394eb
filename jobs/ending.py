"""How a command ends: with an exit code, a message for the operator, and the trace in the log file that the message
names.

Exit codes: 0 fine, 2 bad config, 3 bad data, 4 failed run, 5 the gate said no, 130 interrupted, 143 ended by SIGTERM.
"""

import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import NoReturn

from rich.console import Console
from rich.text import Text

from eval_engine.errors import ConfigError, DataError, PlumblineError, Terminated, known_error
from eval_engine.masked import masked
from eval_engine.plain_text import plain, plain_lines
from eval_engine.spark.run_log import run_log


def run_and_exit(work: Callable[[], object]) -> NoReturn:
    """Runs the work and exits; what an operator can fix has a message and an exit code of its own."""
    signal.signal(signal.SIGTERM, _terminate)
    try:
        work()
    except KeyboardInterrupt:
        sys.exit(130)
    except Terminated as error:
        _print_error(error)
        raise
    except Exception as error:
        if signal.getsignal(signal.SIGTERM) is signal.SIG_IGN:  # a step of the clean-up failed: what ended it counts
            _keep_trace(error)
            sys.exit(Terminated().code)
        known = error if isinstance(error, PlumblineError) else _known_cause(error)
        _print_error(known or error)
        if _trace_helps(error, known) and (log := _keep_trace(error)) is not None:
            Console(stderr=True, soft_wrap=True).print(f"The trace is in {log}", highlight=False, markup=False)
        sys.exit(known.exit_code if known else PlumblineError.exit_code)
    sys.exit(0)


def _terminate(number: int, frame: FrameType | None) -> NoReturn:
    """The handler of SIGTERM: ends Spark's work, then raises, so that every `finally` and `except BaseException` cleans
    up. A second signal is ignored."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    session = sys.modules.get("eval_engine.spark.session")  # not imported here: the signal may come in the midst of it
    if cancel_work := getattr(session, "cancel_work", None):
        cancel_work()
    raise Terminated


def _known_cause(error: BaseException) -> PlumblineError | None:
    """The error that an operator can fix: this one, or one that was being handled when this one was raised."""
    raised: BaseException | None = error
    while raised is not None:
        known = raised if isinstance(raised, PlumblineError) else known_error(raised)
        if known is not None:
            return known
        raised = raised.__context__
    return None


def _trace_helps(error: BaseException, known: PlumblineError | None) -> bool:
    """Whether a trace helps: of an unknown error, and of one that Spark reported; not of a config or a folder."""
    if known is not error:
        return True
    return known.exit_code != ConfigError.exit_code and not isinstance(error.__context__, OSError | None)


def _print_error(error: BaseException) -> None:
    """The error's name and message, of an unknown one the first line."""
    known = isinstance(error, PlumblineError)
    text = str(error) if known else (str(error).strip().splitlines() or [""])[0][:500]
    shown = plain(text) if isinstance(error, DataError) else plain_lines(text)  # ids may hold line breaks
    Console(stderr=True, soft_wrap=True).print(Text.assemble((type(error).__name__, "bold red"), f": {masked(shown)}"))


def _keep_trace(error: BaseException) -> Path | None:
    """Writes the error's trace, and those of the errors it came from, to the log file, which is returned; without a
    log file, to the terminal."""
    shown: BaseException | None = error
    chain = []
    while shown is not None:  # `from None` would hide an error from Python's own trace
        chain.append("".join(traceback.format_exception(shown, chain=False)))
        shown = shown.__cause__ or shown.__context__
    text = plain_lines(masked("\nwhile this error was handled:\n\n".join(chain)))
    try:
        if log := run_log():
            with log.open("a") as file:
                file.write(text)
            return log
    except OSError:  # a full disk, most likely
        pass
    sys.stderr.write(text)
    return None
