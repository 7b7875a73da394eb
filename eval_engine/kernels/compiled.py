"""The one decorator for compiled functions: numba compiles them, caches the code on disk, and runs it without the GIL.

numba stores the code beside the source, or in the user's cache folder if the package is read-only (NUMBA_CACHE_DIR sets
another folder). If no folder can be written, as in a container that runs under an unknown user, numba with a cache
raises a RuntimeError when the function is defined. The function is then compiled without a cache, in each process,
which takes seconds.

The cache compares the modification time of a function's own file only. After a change to a compiled function that
another file calls, delete the *.nbi files.
"""

from collections.abc import Callable
from typing import Any

from numba import njit


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function as machine code, compiled at its first call."""
    try:
        return njit(nogil=True, cache=True)(function)
    except RuntimeError:
        return njit(nogil=True)(function)
