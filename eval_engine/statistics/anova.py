"""Analysis of variance of treatments in blocks, one value each: do techniques differ, seeds being the blocks?

x_bt = mean + block_b + treatment_t + error        F = MS(treatments) / MS(error),  df T - 1 and (T - 1)(B - 1)
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import fdtrc


class Anova(NamedTuple):
    """The F of treatments, and its p-value; NaN where there are fewer than two blocks or treatments."""

    f: float
    p: float


def anova_in_blocks(x: npt.ArrayLike) -> Anova:
    """Of values (n_blocks, n_treatments).

    >>> anova_in_blocks([[1.0, 2.0, 3.0], [2.0, 3.0, 4.5], [3.0, 4.0, 4.5]]).p < 0.05
    True
    """
    values = np.asarray(x, np.float64)
    if values.ndim != 2:
        raise ValueError(f"values of shape (n_blocks, n_treatments) are expected, found shape {values.shape}")
    n_blocks, n_treatments = values.shape
    if n_blocks < 2 or n_treatments < 2 or np.isnan(values).any():
        return Anova(np.nan, np.nan)
    blocks, treatments = values.mean(axis=1, keepdims=True), values.mean(axis=0, keepdims=True)
    rest = values - blocks - treatments + values.mean()
    between = n_blocks * float(((treatments - values.mean()) ** 2).sum()) / (n_treatments - 1)
    df = (n_treatments - 1) * (n_blocks - 1)
    within = float((rest**2).sum()) / df
    noise = 1e-24 * float((values**2).sum())
    if within <= noise:
        return Anova(np.inf, 0.0) if between > noise else Anova(np.nan, np.nan)
    f = between / within
    return Anova(f, float(fdtrc(n_treatments - 1, df, f)))
