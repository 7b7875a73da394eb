"""splitmix64's finaliser, a bijection of 64 bits [Steele, Lea, Flood 2014]: what randomness keyed by numbers is made of."""

import numpy as np
import numpy.typing as npt

Keys = npt.NDArray[np.uint64]
GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def mix(keys: Keys) -> Keys:
    """Well-spread bits, one to one."""
    x = keys + GOLDEN  # a fresh array: the rest may be in place
    x ^= x >> np.uint64(30)
    x *= np.uint64(0xBF58476D1CE4E5B9)
    x ^= x >> np.uint64(27)
    x *= np.uint64(0x94D049BB133111EB)
    x ^= x >> np.uint64(31)
    return x
