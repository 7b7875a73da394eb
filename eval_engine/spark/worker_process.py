"""What a Python worker does before each of our tasks.

- PySpark collects garbage after each task. Scanning the objects of the imported libraries takes 40 ms each time, while
  the next task waits. So these objects are taken out of the collection (gc.freeze), also those of libraries that a
  later task imports.
- When an embedded Spark stops, it closes the sockets of idle workers. Over Unix sockets PySpark prints that as a
  BrokenPipeError with its traceback, once per worker. It is no error, so it is not printed. Workers of a cluster are
  not changed: other programs may run in them.
"""

import gc
import os
import sys
import traceback
from typing import Any

FEW_OBJECTS = 5_000  # scanned in a millisecond
_print_exc = traceback.print_exc


def prepare_worker() -> None:
    """Prepares this process for a task."""
    if "PLUMBLINE_EMBEDDED" in os.environ:
        traceback.print_exc = _print_unless_closed
    if len(gc.get_objects()) > FEW_OBJECTS:  # without the frozen ones
        gc.collect()
        gc.freeze()


def _print_unless_closed(*args: Any, **kwargs: Any) -> None:
    if not isinstance(sys.exception(), BrokenPipeError):
        _print_exc(*args, **kwargs)
