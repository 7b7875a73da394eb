"""What every Python worker of ours does once: Spark collects garbage after each task, and looking through the imported libraries takes it 40 ms each time."""

import gc
from functools import lru_cache


@lru_cache(maxsize=1)
def settle() -> None:
    """Takes all that is imported by now out of garbage collection; the second call does nothing."""
    gc.freeze()
