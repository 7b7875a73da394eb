"""What every Python worker of ours does before a task.

- Spark collects garbage after each task, and looking through the imported libraries takes it 40 ms each time, while the next task waits: they are taken out of the collection,
  those that come with the first task as well as those that a later one needs.
- When an embedded Spark stops, it closes the sockets of idle workers. Over Unix sockets PySpark prints that as a BrokenPipeError with its traceback, once per worker; nothing
  is broken, so it is not printed. The workers of a cluster are left as they are: other programs may run in them.
"""

import gc
import os
import sys
import traceback
from typing import Any

FEW_OBJECTS = 5_000  # looked through in a millisecond
_print_exc = traceback.print_exc


def prepare_worker() -> None:
    """Prepares this process."""
    if "PLUMBLINE_EMBEDDED" in os.environ:
        traceback.print_exc = _print_unless_closed
    if len(gc.get_objects()) > FEW_OBJECTS:  # those taken out do not count
        gc.collect()
        gc.freeze()


def _print_unless_closed(*args: Any, **kwargs: Any) -> None:
    if not isinstance(sys.exception(), BrokenPipeError):
        _print_exc(*args, **kwargs)
