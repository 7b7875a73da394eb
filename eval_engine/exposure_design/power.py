"""How many users it takes to tell two models apart, under uniform exposure and under a design, before anybody is shown
anything: from a pilot of random exposures.

    z_i  = q_a - q_b                     precision: q the chance that item i is in the top K of model a, of b
    z_i  = q_a - q_b - D                 pooled recall; D the difference that is to be detected
    S    = mean over users of sum_i p_i z_i^2 / pi_i          p_i: the chance that i is a positive, pi_i: that it is
    shown SE^2 = S / n / scale^2               scale: K (precision), mean number of positives of a user (pooled recall)
    users = (z_{(1 + confidence) / 2} + z_power)^2 S / (scale D)^2

S needs no model of p: over the positives of the pilot, z^2 / (pi pi_pilot) has that sum as its mean. An error of the
pilot is carried over to the number of users, by the delta method on its logarithm: of S, and of the value that D is a
share of. The draw's fixed size makes the true error slightly smaller than that of independent exposures.
"""

import math
from collections.abc import Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri

from eval_engine.errors import ConfigError, DataError
from eval_engine.exposure_design.design import Arms, check_arms, design_chances
from eval_engine.kernels.arrays import Bools, Ints
from eval_engine.kernels.ragged import Lists, flatten
from eval_engine.kernels.rank_facts import RankFacts
from eval_engine.metric import Metric

Doubles = npt.NDArray[np.float64]
DESIGNS = ("uniform", "two arms", "pair")
FEW_POSITIVES = 30  # of the pilot that the models rank differently: below it no number of users is given


class Power(NamedTuple):
    """What it takes to tell two models apart in one way."""

    first: int  # their numbers
    second: int
    design: str  # uniform, two arms, pair
    exposures: int  # per user
    value: float  # of the second model, from the pilot
    difference: float  # that is to be detected: detect times the value
    standard_error: float  # of the difference, with the pilot's number of users
    users: float  # needed
    low: float  # users at the lower end of the pilot's uncertainty
    high: float
    detectable: float  # the smallest difference, as a share of the value, with the pilot's number of users
    n_positives: int  # of the pilot, that the two models rank differently
    gain: float  # users under uniform exposure over users


class Pilot(NamedTuple):
    """Random exposures of some users, and their models' top lists."""

    top_lists: Ints  # (models, users, length), positions, -1 after the end
    n_items: int
    items: Ints  # of each exposure, its position
    facts: Sequence[RankFacts]  # of each model, with the same exposures
    positive: Bools
    cutoffs: tuple[int, ...]  # of the design


def power(
    facts: Sequence[RankFacts],
    items: Lists,
    top_lists: npt.ArrayLike,
    n_items: int,
    metric: str = "recall@20",
    detect: float = 0.02,
    exposures: Sequence[int] = (10,),
    uniform: float = 0.5,
    *,
    cutoffs: Sequence[int] = (),
    positive: Bools | None = None,
    chance: float = 0.8,
    confidence: float = 0.95,
) -> list[Power]:
    """What every pair of models needs. facts: of each model, of the same exposures (the pilot), items: their positions,
    a list per user; detect: a share of the value; uniform: share of arm U; cutoffs: of the design, by default the
    metric's; chance: of detection, the power.
    """
    lists = np.asarray(top_lists)
    liked = facts[0].value == 1 if positive is None else np.asarray(positive, np.bool_)
    own = Metric.parse(metric)
    pilot = Pilot(lists, n_items, flatten(items, facts[0].n_users)[1], facts, liked, tuple(cutoffs) or (own.k,))
    return planned(pilot, own, detect, exposures, uniform, chance, confidence)


def planned(
    pilot: Pilot,
    metric: Metric,
    detect: float,
    exposures: Sequence[int],
    uniform: float,
    chance: float,
    confidence: float,
) -> list[Power]:
    """The same of a pilot."""
    check_asked(pilot, metric, detect, exposures, uniform, chance)
    effect = float(ndtri((1 + confidence) / 2) + ndtri(chance))
    spread = float(ndtri((1 + confidence) / 2))
    found = []
    for first, second in combinations(range(len(pilot.facts)), 2):
        for e in exposures:
            rows = [_row(pilot, metric, (first, second), e, uniform, one, detect, effect, spread) for one in DESIGNS]
            needed = rows[0].users
            found += [row._replace(gain=needed / row.users if row.users > 0 else math.nan) for row in rows]
    return found


def check_asked(
    pilot: Pilot, metric: Metric, detect: float, exposures: Sequence[int], uniform: float, chance: float
) -> None:
    """An error if nothing can be planned."""
    if metric.base not in ("recall", "precision"):
        raise ConfigError(f"metric {metric}: exposures are planned for recall@K (pooled) and precision@K.")
    if not 0 < detect < 1:
        raise ConfigError(
            f"detect {detect:g} is a share of the metric's value, above 0 and below 1, such as 0.02 or 2%."
        )
    if not 0.5 < chance < 1:
        raise ConfigError(f"power {chance:g} is a chance above 0.5 and below 1.")
    if not 0 < uniform <= 1:
        raise ConfigError(f"uniform {uniform:g} is the share of arm U, above 0 and at most 1.")
    if len(pilot.facts) < 2:
        raise ConfigError(f"{len(pilot.facts)} model: power is of telling two models apart. Name two or more.")
    for e in exposures:
        check_arms(Arms(e, arm_u(e, uniform), pilot.cutoffs), len(pilot.facts), pilot.top_lists.shape[2], pilot.n_items)
    if pilot.top_lists.shape[0] < len(pilot.facts):
        raise ValueError(f"each of the {len(pilot.facts)} models needs its top lists, found {pilot.top_lists.shape[0]}")
    sizes = {own.value.size for own in pilot.facts}
    if len(sizes) > 1 or pilot.items.size not in sizes:
        raise ValueError(f"all models must have the same exposures, found {sorted(sizes)} and {pilot.items.size} items")
    if not pilot.positive.any():
        raise DataError("exposures: none of the pilot's exposures is a positive, so nothing can be planned from it.")


def arm_u(exposures: int, share: float) -> int:
    """The exposures of arm U."""
    return max(1, min(exposures, math.ceil(exposures * share - 1e-9)))


def _row(
    pilot: Pilot,
    metric: Metric,
    pair: tuple[int, int],
    exposures: int,
    uniform: float,
    design: str,
    detect: float,
    effect: float,
    spread: float,
) -> Power:
    k, facts = metric.k, [pilot.facts[m] for m in pair]
    frame, n = facts[0].candidates.astype(np.int64), facts[0].n_users
    q = [np.clip((k - own.above) / (own.tied + 1.0), 0.0, 1.0) for own in facts]
    some = np.flatnonzero(pilot.positive)
    user = facts[0].user[some]
    probability = facts[0].probability
    shown = (facts[0].n_labels / frame)[user] if probability is None else probability[some]
    weight = 1 / shown
    scale = float(k) if metric.base == "precision" else float(weight.sum()) / n
    hits = np.bincount(user, weight * q[1][some], minlength=n)
    value = float(hits.sum()) / n / scale
    difference = detect * value
    z = q[0][some] - q[1][some]
    differ = int((z != 0).sum())
    if metric.base == "recall":
        z = z - difference
    pi = _chances(pilot, pair, exposures, uniform, design, frame, facts[0].offsets)[some]
    each = np.bincount(user, z**2 / pi * weight, minlength=n)
    total = float(each.mean())
    row = Power(*pair, design, exposures, value, difference, *(math.nan,) * 5, differ, math.nan)
    if differ < FEW_POSITIVES or not value > 0:
        return row
    error = math.sqrt(total / n) / scale
    users = effect**2 * total / (scale * difference) ** 2
    of_sum, of_value = (float(x.std(ddof=1)) / math.sqrt(n) / float(x.mean()) for x in (each, hits))
    width = spread * math.sqrt(of_sum**2 + (2 * of_value) ** 2)
    return row._replace(
        standard_error=error, users=users, low=users * math.exp(-width), high=users * math.exp(width),
        detectable=effect * error / value,
    )  # fmt: skip


def _chances(
    pilot: Pilot, pair: tuple[int, int], exposures: int, uniform: float, design: str, frame: Ints, offsets: Ints
) -> Doubles:
    """The probability of each exposure of the pilot to be shown under a way to expose."""
    if design == "uniform":
        return np.repeat(np.minimum(exposures / frame, 1.0), np.diff(offsets))
    lists = pilot.top_lists[:, :, : max(pilot.cutoffs)]
    if design == "pair":
        lists = lists[list(pair)]
        arms = Arms(exposures, arm_u(exposures, min(uniform, 0.2)), pilot.cutoffs, "differences")
    else:
        arms = Arms(exposures, arm_u(exposures, uniform), pilot.cutoffs)
    return design_chances(lists, arms, pilot.n_items, frame, offsets, pilot.items)
