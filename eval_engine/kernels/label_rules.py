"""Which labelled pairs can be used: each pair gets the number of the first rule that it breaks, 0 if none.

    null_key             no user_id or no item_id
    null_value, nan_value
    outside_catalogue    an item without a position in the score vectors
    duplicate_key        the same source labels the pair more than once: every copy counts, since none is known to be right
    exposed_but_seen     a random exposure of a pair that was logged before, though exposures were drawn from unseen items
    outside_frame        a complete label of a logged pair, which is no candidate: not an error, but not ranked

Pairs come user by user, as flat arrays; a user without pairs is fine.
"""

from typing import NamedTuple

import numpy as np

from eval_engine.kernels.arrays import Bools, Floats, Ints
from eval_engine.kernels.ragged import users_of

RULES = ("", "null_key", "null_value", "nan_value", "outside_catalogue", "duplicate_key", "exposed_but_seen", "outside_frame")
RANDOM, TRUTH, LOGGED = 0, 1, 2


class Pairs(NamedTuple):
    """Labelled pairs of some users."""

    offsets: Ints  # (n_users + 1,)
    source: Ints  # RANDOM, TRUTH or LOGGED
    position: Ints  # -1: not in the catalogue
    value: Floats
    null_key: Bools
    null_value: Bools


def broken_rule(pairs: Pairs, unseen: bool) -> Ints:
    """The number in RULES of the first rule that each pair breaks, int8; unseen: logged pairs are no candidates."""
    user = users_of(pairs.offsets)
    placed = pairs.position >= 0
    seen = np.zeros(user.size, np.bool_)
    if unseen:
        width = int(pairs.position.max(initial=0)) + 1
        pair = user * width + pairs.position
        seen = placed & np.isin(pair, pair[placed & (pairs.source == LOGGED)])
    broken = (
        pairs.null_key,
        pairs.null_value,
        np.isnan(pairs.value),
        ~placed,
        _copied(user, pairs),
        seen & (pairs.source == RANDOM),
        seen & (pairs.source == TRUTH),
    )
    rule = np.zeros(user.size, np.int8)
    for number, condition in reversed(list(enumerate(broken, start=1))):
        rule[condition] = number
    return rule


def by_position(pairs: Pairs) -> Ints:
    """The order of the pairs by user, then source, then position."""
    return np.lexsort((pairs.position, pairs.source, users_of(pairs.offsets)))


def _copied(user: Ints, pairs: Pairs) -> Bools:
    """Whether the pair stands more than once in its source."""
    order = by_position(pairs)
    same = np.ones(max(user.size - 1, 0), np.bool_)
    for key in (user, pairs.source, pairs.position):
        same &= key[order][1:] == key[order][:-1]
    copied = np.zeros(user.size, np.bool_)
    copied[order[1:][same]] = True
    copied[order[:-1][same]] = True
    return copied
