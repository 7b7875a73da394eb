"""The one decorator for compiled functions: machine code, kept in a cache, and free of the interpreter's lock.

numba keeps the code beside the source, or in the user's cache folder where the package is read-only (NUMBA_CACHE_DIR names another). Where
there is no folder to write to, as in a container that runs under an unknown user, numba refuses to define the function at all; it is then
compiled in each process, which takes seconds.

The cache looks at a function's own file only. After a change to a compiled function that another file calls, delete the *.nbi files.
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
