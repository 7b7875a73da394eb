"""What to show at random, and with what probability, so that close models can be told apart from few exposures.

Of uniform exposures only K / N fall into a top K. Here each user is shown e1 items of the whole frame (arm U) and e2 of
the models' top lists (arm T), with known probabilities: two_arms.py. Estimates from both arms are unbiased for every
model and metric (docs/design.md), and their errors are small where the lists are.

    >>> import numpy as np
    >>> lists = np.array([[[0, 1, 2], [3, 4, 5]], [[0, 1, 3], [3, 4, 6]]])       # (models, users, length)
    >>> plan = design_exposures(lists, n_items=50, exposures=4, uniform=2, seed=1)
    >>> [int(arm.sum()) for arm in plan.in_uniform], [int(arm.sum()) for arm in plan.in_targeted]
    ([2, 2], [2, 2])
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from eval_engine.errors import ConfigError, DataError
from eval_engine.exposure_design.two_arms import BEYOND, FINE, OUTSIDE, SMALL, TWICE, chances, draw, nothing_seen
from eval_engine.kernels.arrays import Bools, Ints
from eval_engine.kernels.ragged import Lists, flatten, no_lists
from eval_engine.kernels.xxhash64 import xxhash64
from eval_engine.test_sets.draw import check_seed, id_array
from eval_engine.test_sets.keys import seed_hash

Doubles = npt.NDArray[np.float64]
Aim = Literal["models", "differences"]
EXTRA = {"models": 1, "differences": 0}


class Arms(NamedTuple):
    """What is drawn: how many items of each arm, for which cutoffs, and what for."""

    exposures: int  # e = e1 + e2, per user
    uniform: int  # e1
    cutoffs: tuple[int, ...]
    aim: Aim = "models"  # differences: of similar models only, not the value of each
    seed: int = 0


class FlatPlan(NamedTuple):
    """The exposures of some users, one after the other: user u's are offsets[u]:offsets[u + 1]."""

    offsets: Ints  # int64 (n_users + 1,)
    items: Ints  # int32, positions in the catalogue
    probabilities: Doubles  # of being shown, in (0, 1]
    in_uniform: Bools  # drawn by arm U
    in_targeted: Bools  # drawn by arm T; an item may be of both
    frame: Ints  # (n_users,) items of the user's frame
    union: Ints  # (n_users,) items in any of the user's lists
    in_lists: Doubles  # (n_users,) expected number of shown items that are in any list
    hits: Doubles  # (n_users,) sum over models and cutoffs of expected shown items in the top K, over K


class ExposurePlan(NamedTuple):
    """The exposures of users, one array per user each."""

    items: list[Ints]
    probabilities: list[Doubles]
    in_uniform: list[Bools]
    in_targeted: list[Bools]


def design_exposures(
    top_lists: npt.ArrayLike,
    n_items: int,
    exposures: int,
    uniform: int | None = None,
    seed: int = 0,
    *,
    cutoffs: Sequence[int] | None = None,
    aim: Aim = "models",
    excluded: Lists | None = None,
    users: npt.ArrayLike | None = None,
    items: npt.ArrayLike | None = None,
) -> ExposurePlan:
    """A plan for the users of top_lists (models, users, length): positions of items, best first, -1 after the end.

    uniform: of the exposures in arm U; by default half of them. cutoffs: the K of the metrics; by default the length of
    the lists. excluded: positions that are not in a user's frame. users, items: ids, by default the numbers of rows and
    positions; a plan depends on ids, so that the stage `design` makes the same.
    """
    lists = np.asarray(top_lists)
    plan = flat_plan(
        lists, n_items, exposures, uniform, seed, cutoffs=cutoffs, aim=aim, excluded=excluded, users=users, items=items
    )
    ends = plan.offsets.tolist()
    columns = ([column[a:b] for a, b in pairwise(ends)] for column in plan[1:5])
    return ExposurePlan(*columns)  # type: ignore[arg-type]


def flat_plan(
    lists: Ints,
    n_items: int,
    exposures: int,
    uniform: int | None = None,
    seed: int = 0,
    *,
    cutoffs: Sequence[int] | None = None,
    aim: Aim = "models",
    excluded: Lists | None = None,
    users: npt.ArrayLike | None = None,
    items: npt.ArrayLike | None = None,
) -> FlatPlan:
    """The same in one array, user after user, for many users."""
    if lists.ndim != 3 or not np.issubdtype(lists.dtype, np.integer):
        raise ValueError(
            f"top_lists must be positions of items of shape (models, users, length), found {lists.dtype} of shape "
            f"{lists.shape}"
        )
    arms = Arms(
        exposures, (exposures + 1) // 2 if uniform is None else uniform, tuple(cutoffs or lists.shape[2:]), aim, seed
    )
    check_arms(arms, lists.shape[0], lists.shape[2], n_items)
    lists = lists[:, :, : max(arms.cutoffs)]  # what is beyond the largest cutoff has weight 0
    if lists.shape[0] > 1 and (lists == lists[:1]).all():
        raise identical(lists.shape[0])
    out = no_lists(lists.shape[1]) if excluded is None else flatten(excluded, lists.shape[1])
    user_ids = id_array(np.arange(lists.shape[1]) if users is None else users, "users")
    item_ids = id_array(np.arange(n_items) if items is None else items, "items")
    if len(user_ids) != lists.shape[1] or len(item_ids) != n_items:
        raise ValueError(
            f"users and items must have one id each: {lists.shape[1]} users, {len(user_ids)} ids; {n_items} items, "
            f"{len(item_ids)} ids"
        )
    plan = drawn_plan(lists, arms, user_keys(user_ids, seed), item_keys(item_ids), out)
    if plan.error is not None:
        user, reason = plan.error
        raise DataError(f"top_lists: user {user_ids[user].as_py()} {reason}")
    return plan.found


class Drawn(NamedTuple):
    """A plan, or the first user who can have none, by number, and the reason."""

    found: FlatPlan
    error: tuple[int, str] | None


def drawn_plan(
    lists: Ints, arms: Arms, users: npt.NDArray[np.uint64], items: npt.NDArray[np.uint64], out: tuple[Ints, Ints]
) -> Drawn:
    """The plan of users with these keys."""
    n_users, e2 = lists.shape[1], arms.exposures - arms.uniform
    most = n_users * arms.exposures
    found = FlatPlan(
        np.zeros(n_users + 1, np.int64), np.empty(most, np.int32), np.empty(most), np.empty(most, np.bool_),
        np.empty(most, np.bool_), *np.empty((2, n_users), np.int64), *np.empty((2, n_users)),
    )  # fmt: skip
    sizes, expected = np.empty((n_users, 2), np.int64), np.empty((n_users, 2))
    longest = lists.shape[0] * lists.shape[2]
    user, wrong = draw(
        np.ascontiguousarray(lists, np.int32), np.array(arms.cutoffs, np.int64), EXTRA[arms.aim], users, items,
        np.asarray(out[0], np.int64), np.asarray(out[1], np.int32), arms.uniform, e2,
        nothing_seen(items.size, longest), np.zeros((longest, len(arms.cutoffs)), np.int32),
        found.offsets, found.items, found.probabilities, found.in_uniform, found.in_targeted, sizes, expected,
    )  # fmt: skip
    end = int(found.offsets[-1])
    done = found._replace(
        items=found.items[:end],
        probabilities=found.probabilities[:end],
        in_uniform=found.in_uniform[:end],
        in_targeted=found.in_targeted[:end],
        frame=sizes[:, 0],
        union=sizes[:, 1],
        in_lists=expected[:, 0],
        hits=expected[:, 1],
    )
    return Drawn(done, None if wrong == FINE else (int(user), reason(int(wrong), arms)))


def design_chances(lists: Ints, arms: Arms, n_items: int, frame: Ints, offsets: Ints, items: Ints) -> Doubles:
    """The probability that a design shows each of some items; user u's are items[offsets[u] : offsets[u + 1]]."""
    chance, longest = np.empty(items.size), lists.shape[0] * lists.shape[2]
    user, wrong = chances(
        np.ascontiguousarray(lists, np.int32), np.array(arms.cutoffs, np.int64), EXTRA[arms.aim],
        np.asarray(frame, np.int64), arms.uniform, arms.exposures - arms.uniform,
        np.asarray(offsets, np.int64), np.asarray(items, np.int32), nothing_seen(n_items, longest),
        np.zeros((longest, len(arms.cutoffs)), np.int32), chance,
    )  # fmt: skip
    if wrong != FINE:
        raise DataError(f"top_lists: the user of row {user} {reason(int(wrong), arms)}")
    return chance


def reason(wrong: int, arms: Arms) -> str:
    """Why a user can have no plan."""
    return {
        TWICE: "has an item twice in one list. A top list has each item once.",
        OUTSIDE: "has an item in a list that is excluded from the user's frame. Rank the models among the items that "
        "may be shown.",
        BEYOND: "has an item that is not in the catalogue. Use positions of the catalogue.",
        SMALL: f"has a frame of fewer than {arms.uniform} items, which arm U is to show. Give fewer exposures.",
    }[wrong]


def expected_gain(exposures: int, uniform: int, n_items: float, share: float) -> float:
    """How many times fewer users a difference of precision or pooled recall takes under a plan than under uniform
    exposure, roughly: a + (1 - a) N / |T|, a = e1 / e; at most N / e, when all of T is shown. share: |T| / N, T the
    items that arm T may show.

    >>> expected_gain(10, 5, 2000, 0.025)
    20.5
    """
    a = uniform / exposures
    return min(a + (1 - a) / share, n_items / exposures) if share > 0 else a


def check_arms(arms: Arms, n_models: int, length: int, n_items: int) -> None:
    """An error if no plan can be made."""
    check_seed(arms.seed)
    if arms.exposures < 1 or not 1 <= arms.uniform <= arms.exposures:
        raise ConfigError(
            f"exposures {arms.exposures}, uniform {arms.uniform}: a user is shown at least one item, and one of the "
            "whole frame: 1 <= uniform <= exposures. Without arm U some items could never be shown, and estimates be "
            "biased."
        )
    if arms.exposures > n_items:
        raise ConfigError(
            f"exposures {arms.exposures}: there are only {n_items:,} items, so no user can be shown as many. Give "
            "fewer."
        )
    if not arms.cutoffs or min(arms.cutoffs) < 1:
        raise ConfigError(f"cutoffs {list(arms.cutoffs)}: at least one cutoff is needed, each 1 or more.")
    if max(arms.cutoffs) > length:
        raise ConfigError(
            f"cutoffs: {max(arms.cutoffs)} is beyond the end of the top lists, which hold {length} items. Use longer "
            "lists (`top` of the config), or smaller cutoffs."
        )
    if n_models < 1 or (n_models == 1 and arms.aim == "differences"):
        raise ConfigError(
            f"{n_models} model: a design for differences needs the lists of two models or more. Name them, or use aim: "
            "models."
        )


def identical(n_models: int) -> DataError:
    """The error of models that cannot be told apart by anything that is shown."""
    return DataError(
        f"top_lists: all {n_models} models have the same lists for every user, so no exposure tells them apart. Name "
        "models that differ."
    )


def user_keys(users: Any, seed: int) -> npt.NDArray[np.uint64]:
    """xxhash64(seed, user_id) of each user, of an Arrow array of ids."""
    return xxhash64(users, np.full(len(users), seed_hash(seed))).view(np.uint64)


def item_keys(items: Any) -> npt.NDArray[np.uint64]:
    """xxhash64(item_id) of each item of the catalogue, in its order."""
    return xxhash64(items).view(np.uint64)
