"""Propensities that follow from an item's count: power and power_legacy, behind one interface.

An item without a counted pair has no propensity (NaN). It cannot be in heldout, whose pairs count too; with counts:
train it can, and then it is an error, or, with unseen: once, counts as logged once.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from eval_engine.errors import DataError
from eval_engine.propensity.item_counts import Histogram
from eval_engine.propensity.power_law import Doubles, fit_power_law, power
from eval_engine.propensity.power_legacy import power_legacy
from eval_engine.propensity.settings import Power, PowerLegacy


class FromCounts(NamedTuple):
    """Propensities as a function of counts."""

    of_count: Callable[[npt.NDArray[np.int64]], Doubles]
    parameters: dict[str, Any]  # alpha, xmin, ks, n_tail, gamma

    def propensity(self, counts: npt.NDArray[np.int64], heldout: npt.NDArray[np.int64]) -> Doubles:
        """Of items with these counts and held-out pairs; NaN for items without any."""
        return self.of_count(np.where((counts == 0) & (heldout > 0), 1, counts))

    def weights(self, items: Histogram) -> tuple[Doubles, Doubles]:
        """The sums of 1/propensity and of its square over the held-out positives of each row of items."""
        p = np.where(items.positives > 0, self.propensity(items.counts, items.heldout), 1.0)
        return items.positives / p, items.positives / p / p


def fit_counts(items: Histogram, settings: Power | PowerLegacy) -> FromCounts:
    """The method's function of counts, fitted where the settings do not give its parameters."""
    _refuse_unseen(items, settings)
    largest = int(items.counts.max())
    if largest == 0:
        raise DataError("feedback: no pair of it is counted, so there is nothing to make propensities of.")
    given = settings.gamma is not None if isinstance(settings, Power) else settings.alpha is not None
    parameters: dict[str, Any] = dict.fromkeys(("alpha", "xmin", "ks", "n_tail", "gamma"))
    if not given:
        values, place = np.unique(items.counts, return_inverse=True)
        numbers = np.bincount(place, weights=items.n_items).astype(np.int64)
        law = fit_power_law(values, numbers, settings.fit)
        parameters |= {"alpha": law.alpha, "xmin": law.xmin, "ks": law.ks, "n_tail": law.n_tail}
    if isinstance(settings, Power):
        gamma = parameters["gamma"] = float(parameters["alpha"] if settings.gamma is None else settings.gamma)
        return FromCounts(lambda n: power(n, gamma, largest), parameters)
    if settings.alpha is not None:
        parameters |= {"alpha": settings.alpha, "xmin": settings.xmin}
    alpha, xmin = float(parameters["alpha"]), int(parameters["xmin"])
    return FromCounts(lambda n: power_legacy(n, alpha, xmin, largest), parameters)


def _refuse_unseen(items: Histogram, settings: Power | PowerLegacy) -> None:
    """An error if held-out pairs have items that were not counted, unless the settings say what these count as."""
    unseen = (items.counts == 0) & (items.tested > 0)
    if settings.unseen == "error" and unseen.any():
        first = items.example[int(np.argmax(unseen))]
        raise DataError(
            f"propensity: {items.tested[unseen].sum():,} items with {items.heldout[unseen].sum():,} held-out pairs "
            f"have no training pair (first: item_id={first}), so with counts: train their propensity is not known. Use "
            "counts: logged, or unseen: once to count them as logged once."
        )
