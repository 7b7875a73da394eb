"""Which labelled pairs can be used: each pair gets the number of the first rule that it breaks, 0 if none.

    null_key              no user_id or no item_id
    null_value, nan_value
    outside_catalogue     an item without a position in the score vectors
    duplicate_key         the same table labels the pair more than once: every copy counts, none is known to be right
    bad_probability       a probability that is NaN (NULL), not above 0, or above 1; of tables that have probabilities
    exposed_but_seen      a random exposure of a training pair, though exposures were drawn from unseen items
    heldout_but_trained   a held-out pair that is a training pair
    outside_frame         a complete label of a training pair that is no candidate: not an error, but not ranked

Pairs come user by user, as flat arrays; a user without pairs is fine. A pair may be in several label sets: a random
exposure may be held out too.
"""

from typing import NamedTuple

import numpy as np

from eval_engine.kernels.arrays import Bools, Floats, Ints
from eval_engine.kernels.compiled import compiled

RULES = (
    "",
    "null_key",
    "null_value",
    "nan_value",
    "outside_catalogue",
    "duplicate_key",
    "bad_probability",
    "exposed_but_seen",
    "heldout_but_trained",
    "outside_frame",
)
RANDOM, HELDOUT, TRUTH, DESIGNED, FEEDBACK = (
    0,
    1,
    2,
    3,
    4,
)  # sources of pairs; feedback, the training pairs, is the last


class Pairs(NamedTuple):
    """Labelled pairs of some users."""

    offsets: Ints  # (n_users + 1,)
    source: Ints  # RANDOM, HELDOUT, TRUTH, DESIGNED or FEEDBACK
    position: Ints  # -1: not in the catalogue
    value: Floats
    null_key: Bools
    null_value: Bools
    probability: Floats | None = None  # NaN if NULL; of sources that are not in `probable` anything
    probable: tuple[int, ...] = ()  # sources whose pairs have a probability


class Ruled(NamedTuple):
    """Pairs that are judged."""

    rule: Ints  # int8: the number in RULES of the first rule that each pair breaks
    order: Ints  # the pairs by user, then source, then position


def ruled(pairs: Pairs, unseen: bool) -> Ruled:
    """Judges the pairs; unseen: training pairs are no candidates of random exposures and complete labels."""
    rule, order = np.empty(pairs.source.size, np.int8), np.empty(pairs.source.size, np.int64)
    _judge(
        np.ascontiguousarray(pairs.offsets, np.int64),
        np.ascontiguousarray(pairs.source, np.int8),
        np.ascontiguousarray(pairs.position, np.int32),
        np.ascontiguousarray(pairs.value, np.float64),
        np.ascontiguousarray(pairs.null_key),
        np.ascontiguousarray(pairs.null_value),
        np.empty(0) if pairs.probability is None else np.ascontiguousarray(pairs.probability, np.float64),
        np.isin(np.arange(FEEDBACK + 1), pairs.probable),
        unseen,
        rule,
        order,
    )
    return Ruled(rule, order)


@compiled
def _judge(offsets, source, position, value, null_key, null_value, probability, probable, unseen, rule, order):  # type: ignore[no-untyped-def]
    for user in range(offsets.size - 1):
        start, end = offsets[user], offsets[user + 1]
        keys = np.empty(end - start, np.int64)
        for n in range(start, end):
            keys[n - start] = (np.int64(source[n]) << 32) + position[n] + 1
        _sort(keys, order[start:end])
        trained = start  # the first training pair in the order
        while trained < end and keys[order[trained]] >> 32 < FEEDBACK:
            trained += 1
        seen = trained
        for at in range(start, end):
            n = start + order[at]
            key = keys[order[at]]
            if at == start or key >> 32 != keys[order[at - 1]] >> 32:
                seen = trained
            if null_key[n]:
                rule[n] = 1
            elif null_value[n]:
                rule[n] = 2
            elif value[n] != value[n]:
                rule[n] = 3
            elif position[n] < 0:
                rule[n] = 4
            elif (at > start and keys[order[at - 1]] == key) or (at + 1 < end and keys[order[at + 1]] == key):
                rule[n] = 5
            elif probable[source[n]] and not 0 < probability[n] <= 1:  # not: NaN too
                rule[n] = 6
            else:
                rule[n] = 0
                if source[n] == HELDOUT or (unseen and source[n] != FEEDBACK):
                    while seen < end and position[start + order[seen]] < position[n]:
                        seen += 1
                    if seen < end and position[start + order[seen]] == position[n]:
                        rule[n] = (
                            7 if source[n] == RANDOM or source[n] == DESIGNED else 8 if source[n] == HELDOUT else 9
                        )
        for at in range(start, end):
            order[at] += start


@compiled
def _sort(keys, order):  # type: ignore[no-untyped-def]
    """Writes the stable order of the keys: few of them, or in order already, by insertion."""
    n = keys.size
    if n > 64:
        order[:] = np.argsort(keys, kind="mergesort")
        return
    for i in range(n):
        at = i
        while at > 0 and keys[order[at - 1]] > keys[i]:
            order[at] = order[at - 1]
            at -= 1
        order[at] = i
