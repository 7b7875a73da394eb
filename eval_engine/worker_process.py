"""What every Python worker of ours does once in its life, before its first task.

- Spark collects garbage after each task, and looking through the imported libraries takes it 40 ms each time: they are taken out of the collection.
- When Spark stops, it closes the sockets of idle workers. Over Unix sockets PySpark prints that as a BrokenPipeError with its traceback, once per worker; nothing
  is broken, so it is not printed.
"""

import gc
import sys
import traceback
from functools import lru_cache
from typing import Any

_print_exc = traceback.print_exc


@lru_cache(maxsize=1)
def settle() -> None:
    """Prepares this process; the second call does nothing."""
    gc.freeze()
    traceback.print_exc = _print_unless_closed


def _print_unless_closed(*args: Any, **kwargs: Any) -> None:
    if not isinstance(sys.exception(), BrokenPipeError):
        _print_exc(*args, **kwargs)
