"""The neighbourhood of a threshold: a range of keys that holds the m-th largest, from a histogram of some pairs' keys.

A key is negative. Its magnitude, the bits of -key as a whole number, rises as the key falls; the m pairs with the
smallest magnitudes are drawn. Bins are the first bits of the magnitude: 128 bins for each power of 2.

The histogram is of the pairs whose hash is 0 modulo n, about 1 of n. Among them about m / n are drawn, with a standard
deviation of at most sqrt(m / n). The window reaches `DEVIATIONS` of these to both sides; if the threshold is outside
all the same, which the counts of all pairs show, the window is made wider.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from eval_engine.kernels.arrays import Ints

Doubles = npt.NDArray[np.float64]
BITS = 45  # of a magnitude that a bin does not tell
LAST = 0x7FEF_FFFF_FFFF_FFFF  # the magnitude of the largest finite number
FINE = 4096  # bins of a window, at most twice as many
DEVIATIONS = 7.0


class Window(NamedTuple):
    """A range of magnitudes, both ends inside."""

    low: int
    high: int

    @property
    def shift(self) -> int:
        """The bits of a magnitude that a fine bin of the window does not tell."""
        return max(0, (self.high - self.low).bit_length() - FINE.bit_length())


def magnitudes(keys: Doubles) -> Ints:
    """The magnitude of each key; -inf is beyond LAST."""
    return np.negative(keys).view(np.int64)


def key_of(magnitude: int) -> float:
    """The key of a magnitude."""
    return -float(np.array([magnitude], np.int64).view(np.float64)[0])


def bins_of(keys: Doubles) -> tuple[Ints, Ints]:
    """The bins of finite keys that are not empty, in rising order of magnitude, and the number of keys in each."""
    own = magnitudes(keys)
    bins, counts = np.unique(own[own <= LAST] >> BITS, return_counts=True)
    return bins, counts


def window_of(bins: Ints, counts: Ints, size: int, one_of: int, deviations: float = DEVIATIONS) -> Window:
    """The window of the size-th smallest magnitude, from the bins of one of `one_of` pairs."""
    order = np.argsort(bins, kind="stable")
    bins, ends = bins[order], np.cumsum(counts[order])
    expected = size / one_of
    apart = 0.0 if one_of == 1 else deviations * np.sqrt(expected) + deviations
    first, last = (int(np.searchsorted(ends, expected + sign * apart, side="left")) for sign in (-1, 1))
    low = 0 if expected - apart < 1 and one_of > 1 else int(bins[min(first, bins.size - 1)]) << BITS
    high = LAST if last >= bins.size else (int(bins[last]) << BITS) | ((1 << BITS) - 1)
    return Window(low, min(high, LAST))
