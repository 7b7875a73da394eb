"""The finaliser of splitmix64, a bijection of 64 bits [Steele, Lea, Flood 2014]: random bits from numeric keys."""

import numpy as np
import numpy.typing as npt

Keys = npt.NDArray[np.uint64]
GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def mix(keys: Keys) -> Keys:
    """A random-looking uint64 for each key; different keys give different numbers."""
    x = keys + GOLDEN  # a new array, so the operations below can be in place
    x ^= x >> np.uint64(30)
    x *= np.uint64(0xBF58476D1CE4E5B9)
    x ^= x >> np.uint64(27)
    x *= np.uint64(0x94D049BB133111EB)
    x ^= x >> np.uint64(31)
    return x
