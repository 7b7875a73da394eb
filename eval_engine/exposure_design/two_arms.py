"""The two arms by which a designed exposure is drawn, compiled: what is shown to each user, with what probability.

    arm U   e1 items of the user's frame C_u, uniformly without replacement               e1 / N_u
    arm T   e2 items of T_u, the union of the models' top lists in C_u                    tau_i
            w_i^2 = sum_K t_K(i) (M + extra - t_K(i)) / K      t_K(i): models that have i among their first K
            tau_i = min(1, c w_i), sum tau_i = min(e2, number of items with w_i > 0)
    pi_i = 1 - (1 - e1 / N_u) (1 - tau_i)                      the arms are independent given the user

extra = 1 spreads arm T for the value of each model and for differences, 0 for differences only: an item that all models
have in their top K then has weight 0. An item of both arms is shown once.

Arm T is drawn by a randomised systematic draw, which has exactly these probabilities and a fixed size: items with
tau = 1 are taken; the others lie in the order of hash(seed, user, item), S_i is the running sum of their tau, and i is
taken if floor(S_i + v) > floor(S_{i-1} + v), v = hash(seed, user) in [0, 1). S of the last one is a whole number.

Arm U takes positions floor(N hash(seed, user, j)), j = 0, 1, .., and passes over those that it has or that are not in
the frame. So a plan depends on seed, ids, lists, frame and catalogue only. Items stand in the order of their hash,
which tells nothing of their arm.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from eval_engine.kernels.compiled import compiled

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
START = np.uint64(0xD1B54A32D192ED03)  # of the systematic draw, apart from arm U
FINE, TWICE, OUTSIDE, BEYOND, SMALL = 0, 1, 2, 3, 4
"""What is wrong with a user: an item twice in a list, an item outside the frame, one that is no item, e1 above N_u."""


@compiled
def mixed(x):  # type: ignore[no-untyped-def]
    """splitmix64 of one number: the same as kernels/splitmix64.py."""
    x = x + GOLDEN
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@compiled
def unit(x):  # type: ignore[no-untyped-def]
    """A number of [0, 1) from random bits, a multiple of 2^-53."""
    return np.float64(np.int64(x >> np.uint64(11))) * 2.0**-53


@compiled
def inclusion(w, size, tau):  # type: ignore[no-untyped-def]
    """tau of weights w >= 0: proportional to w, at most 1, with sum min(size, number of w > 0). Gives that sum."""
    able = 0
    for i in range(w.size):
        tau[i] = 0.0
        if w[i] > 0.0:
            able += 1
    if able <= size:
        for i in range(w.size):
            if w[i] > 0.0:
                tau[i] = 1.0
        return able
    left, more = size, True
    while more and left > 0:
        total = 0.0
        for i in range(w.size):
            if tau[i] < 1.0:
                total += w[i]
        more = False
        for i in range(w.size):
            if tau[i] < 1.0 and w[i] * left >= total:
                more = True
                break
        if not more:
            for i in range(w.size):
                if tau[i] < 1.0:
                    tau[i] = w[i] * left / total
        else:
            full = 0
            for i in range(w.size):
                if tau[i] < 1.0 and w[i] * left >= total:
                    tau[i] = 1.0
                    full += 1
            left -= full
    return size


class Seen(NamedTuple):
    """Scratch arrays of one task: which items are in the lists of the user at hand."""

    user: npt.NDArray[np.int32]  # (n_items,) the last user who had the item in a list
    slot: npt.NDArray[np.int32]  # (n_items,) its number in the union
    last: npt.NDArray[np.int64]  # (n_items,) the last list that had it
    union: npt.NDArray[np.int32]  # (models * length,)


def nothing_seen(n_items: int, longest: int) -> Seen:
    """The arrays before the first user."""
    return Seen(
        np.full(n_items, -1, np.int32), np.zeros(n_items, np.int32), np.full(n_items, -1, np.int64),
        np.zeros(longest, np.int32),
    )  # fmt: skip


@compiled
def union_of_lists(lists, u, cutoffs, n_items, seen, counts):  # type: ignore[no-untyped-def]
    """Fills the union of a user's lists, and t_K of each of its items; gives their number, and what is wrong."""
    n_models, _, length = lists.shape
    n = 0
    for m in range(n_models):
        for r in range(length):
            i = lists[m, u, r]
            if i < 0:
                break
            if i >= n_items:
                return n, BEYOND
            if seen.last[i] == np.int64(u) * n_models + m:
                return n, TWICE
            seen.last[i] = np.int64(u) * n_models + m
            if seen.user[i] != u:
                seen.user[i], seen.slot[i], seen.union[n] = u, n, i
                for c in range(cutoffs.size):
                    counts[n, c] = 0
                n += 1
            for c in range(cutoffs.size):
                if r < cutoffs[c]:
                    counts[seen.slot[i], c] += 1
    return n, FINE


@compiled
def weigh(counts, cutoffs, most, w):  # type: ignore[no-untyped-def]
    """w of items by t_K; most: M + extra."""
    for i in range(w.size):
        square = 0.0
        for c in range(cutoffs.size):
            square += counts[i, c] * (most - counts[i, c]) / cutoffs[c]
        w[i] = np.sqrt(square)


@compiled
def chances(lists, cutoffs, extra, frame, e1, e2, offsets, items, seen, counts, chance):  # type: ignore[no-untyped-def]
    """pi of each item of some users' flat lists under a design; frame: N_u. Gives what is wrong, with which user."""
    n_models, n_users, length = lists.shape
    w_all, tau_all = np.empty(n_models * length), np.empty(n_models * length)
    for u in range(n_users):
        if e1 > frame[u]:
            return u, SMALL
        n, wrong = union_of_lists(lists, u, cutoffs, seen.user.size, seen, counts)
        if wrong != FINE:
            return u, wrong
        w, tau = w_all[:n], tau_all[:n]
        weigh(counts[:n], cutoffs, n_models + extra, w)
        inclusion(w, e2, tau)
        for p in range(offsets[u], offsets[u + 1]):
            own = tau[seen.slot[items[p]]] if seen.user[items[p]] == u else 0.0
            chance[p] = 1.0 - (1.0 - e1 / frame[u]) * (1.0 - own)
    return -1, FINE


@compiled
def draw(  # type: ignore[no-untyped-def]
    lists, cutoffs, extra, user_keys, item_keys, out_offsets, out_items, e1, e2, seen, counts,
    offsets, items, probabilities, in_uniform, in_targeted, sizes, expected
):  # fmt: skip
    """Fills a plan, user after user; gives the number of a user that has none, and what is wrong, or -1 and FINE.

    lists: (models, users, length) positions, -1 after the end. out_: lists of positions that are not in the frame.
    sizes: (users, 2), N_u and |T_u|. expected: of each user sum of pi over T_u, and sum over K and models of pi q / K.
    """
    n_models, n_users, length = lists.shape
    n_items = item_keys.size
    excluded_of, uniform_of = np.full(n_items, -1, np.int32), np.full(n_items, -1, np.int32)
    w_all, tau_all = np.empty(n_models * length), np.empty(n_models * length)
    shown = np.empty(e1 + e2, np.int32)
    targeted = np.zeros(n_models * length, np.bool_)
    at = 0
    for u in range(n_users):
        n_out = out_offsets[u + 1] - out_offsets[u]
        frame = n_items - n_out
        if e1 > frame:
            return u, SMALL
        for p in range(out_offsets[u], out_offsets[u + 1]):
            excluded_of[out_items[p]] = u
        n, wrong = union_of_lists(lists, u, cutoffs, n_items, seen, counts)
        if wrong != FINE:
            return u, wrong
        for i in range(n):
            if excluded_of[seen.union[i]] == u:
                return u, OUTSIDE
            targeted[i] = False
        w, tau = w_all[:n], tau_all[:n]
        weigh(counts[:n], cutoffs, n_models + extra, w)
        size = inclusion(w, e2, tau)
        key = user_keys[u]
        n_shown, j, base = 0, np.uint64(0), mixed(key)
        while n_shown < e1:
            i = np.int32(unit(mixed(base + j)) * n_items)
            j += np.uint64(1)
            if uniform_of[i] != u and excluded_of[i] != u:
                uniform_of[i] = u
                shown[n_shown] = i
                n_shown += 1
        hashes = np.empty(n, np.uint64)
        sure = 0
        for i in range(n):
            hashes[i] = mixed(key ^ item_keys[seen.union[i]])
            if tau[i] >= 1.0:
                targeted[i] = True
                sure += 1
        if size > sure:
            rest, running, v = size - sure, 0.0, unit(mixed(key ^ START))
            order, last = np.argsort(hashes), -1
            for i in order:
                if 0.0 < tau[i] < 1.0:
                    last = i
            before = 0.0  # floor(S + v) of the item before
            for i in order:
                if 0.0 < tau[i] < 1.0:
                    running = np.float64(rest) if i == last else running + tau[i]
                    now = np.floor(min(running, np.float64(rest)) + v)
                    if now > before:
                        targeted[i] = True
                    before = now
        base_chance = e1 / frame
        hit, total = 0.0, 0.0
        for i in range(n):
            chance = 1.0 - (1.0 - base_chance) * (1.0 - tau[i])
            total += chance
            for c in range(cutoffs.size):
                hit += counts[i, c] * chance / cutoffs[c]
            if targeted[i] and uniform_of[seen.union[i]] != u:
                shown[n_shown] = seen.union[i]
                n_shown += 1
        sizes[u, 0], sizes[u, 1] = frame, n
        expected[u, 0], expected[u, 1] = total, hit
        shown_hashes = np.empty(n_shown, np.uint64)
        for p in range(n_shown):
            shown_hashes[p] = mixed(key ^ item_keys[shown[p]])
        for p in np.argsort(shown_hashes):
            i = shown[p]
            items[at] = i
            in_uniform[at] = uniform_of[i] == u
            chance = base_chance
            in_targeted[at] = False
            if seen.user[i] == u:
                slot = seen.slot[i]
                in_targeted[at] = targeted[slot]
                chance = 1.0 - (1.0 - base_chance) * (1.0 - tau[slot])
            probabilities[at] = chance
            at += 1
        offsets[u + 1] = at
    return -1, FINE
