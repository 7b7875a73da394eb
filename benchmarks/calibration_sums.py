"""Sums over draws of users, for benchmarks/calibration_grid.py: compiled, with the same draws for every case.

A draw takes users of a population at random. User i of draw d has two random words that follow from (seed, d, i): they
say which user of the population it is, its bucket, and whether the second, worse model loses or wins the user's hits.
"""

import numpy as np
import numpy.typing as npt

from eval_engine.kernels.compiled import compiled

Doubles = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

BUCKETS, UNITS = 256, 32
N, HITS, A, B, AA, AB, BB, BUCKETS_WITH = range(8)  # columns of the moments of a draw and case
OTHER_A, OTHER_AA, FIRST, BOTH, APART = range(5)  # columns of a second model
GOLDEN, TWO, ONE_UP = np.uint64(0x9E3779B97F4A7C15), np.uint64(2), np.uint64(1)
S27, S30, S31, S32, S11 = np.uint64(27), np.uint64(30), np.uint64(31), np.uint64(32), np.uint64(11)
M1, M2, LOW = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB), np.uint64(BUCKETS - 1)


@compiled
def mixed(x: np.uint64) -> np.uint64:
    """splitmix64."""
    x = x + GOLDEN
    x = (x ^ (x >> S30)) * M1
    x = (x ^ (x >> S27)) * M2
    return x ^ (x >> S31)


@compiled
def drawn(base: np.uint64, i: int, population: int) -> tuple[np.int64, np.int64, np.float64]:
    """Which user of the population the i-th of a draw is, its bucket, and a random number in [0, 1)."""
    one = mixed(base + np.uint64(i) * TWO)
    other = mixed(base + np.uint64(i) * TWO + ONE_UP)
    row = ((one >> S32) * np.uint64(population)) >> S32
    return np.int64(row), np.int64(one & LOW), np.float64(other >> S11) * 2.0**-53


@compiled
def base_of(seed: int, draw: int) -> np.uint64:
    """The key of a draw."""
    return mixed(mixed(np.uint64(seed)) ^ np.uint64(draw))


@compiled
def factor_of(uniform: float, ratio: float, wins: float) -> float:
    """What a user's numerator is multiplied with under a worse model: 0, 1 or 2, `ratio` on average; 2 with chance
    `wins`.
    """
    return (0.0 if uniform < wins + 1 - ratio else 1.0) + (1.0 if uniform > 1 - wins else 0.0)


@compiled
def draw_sums(
    a: Doubles, b: Doubles, n_users: int, n_draws: int, seed: int, scenarios: Doubles
) -> tuple[Doubles, Doubles]:
    """Of numerators and denominators (population, n_cases): the moments of each draw and case, (n_draws, 8, n_cases),
    and of each pair with a worse model, scenarios (n, 2) of ratio and wins, (n_draws, n, 5, n_cases): its sum and sum
    of squares; and, of errors by bucket e_g (the first model) and d_g (second less first), sum e^2, sum e d, sum d^2.
    """
    n_cases, n_pairs = a.shape[1], scenarios.shape[0]
    moments, pairs = np.zeros((n_draws, 8, n_cases)), np.zeros((n_draws, n_pairs, 5, n_cases))
    by_bucket = np.empty((2 + n_pairs, BUCKETS, n_cases))
    for draw in range(n_draws):
        base, own = base_of(seed, draw), moments[draw]
        by_bucket[:] = 0.0
        for i in range(n_users):
            row, g, uniform = drawn(base, i, a.shape[0])
            for c in range(n_cases):
                x, y = a[row, c], b[row, c]
                own[N, c] += 1.0 if y > 0 else 0.0
                own[HITS, c] += 1.0 if x > 0 else 0.0
                own[A, c] += x
                own[B, c] += y
                own[AA, c] += x * x
                own[AB, c] += x * y
                own[BB, c] += y * y
            for c in range(n_cases):
                by_bucket[0, g, c] += a[row, c]
                by_bucket[1, g, c] += b[row, c]
            for s in range(n_pairs):
                factor = factor_of(uniform, scenarios[s, 0], scenarios[s, 1])
                if factor != 1.0:
                    for c in range(n_cases):
                        by_bucket[2 + s, g, c] += (factor - 1.0) * a[row, c]
                        pairs[draw, s, OTHER_AA, c] += (factor * factor - 1.0) * a[row, c] * a[row, c]
        for g in range(BUCKETS):
            for c in range(n_cases):
                own[BUCKETS_WITH, c] += 1.0 if by_bucket[1, g, c] > 0 else 0.0
                for s in range(n_pairs):
                    pairs[draw, s, OTHER_A, c] += by_bucket[2 + s, g, c]
        for s in range(n_pairs):
            of = pairs[draw, s]
            for g in range(BUCKETS):
                for c in range(n_cases):
                    total = own[B, c]
                    if total > 0:
                        share = by_bucket[1, g, c] / total
                        e = by_bucket[0, g, c] / total - own[A, c] / total * share
                        d = by_bucket[2 + s, g, c] / total - of[OTHER_A, c] / total * share
                        of[FIRST, c] += e * e
                        of[BOTH, c] += e * d
                        of[APART, c] += d * d
            for c in range(n_cases):
                of[OTHER_A, c] += own[A, c]
                of[OTHER_AA, c] += own[AA, c]
    return moments, pairs


@compiled
def unit_sums(
    x: Doubles, n_users: int, n_draws: int, seed: int, scenarios: Doubles
) -> tuple[Doubles, Doubles, Doubles, Doubles]:
    """Of columns of users, (population, n_columns): their sums by unit of each draw, (n_draws, n_columns, UNITS); what
    a worse model has more, (n_draws, n_scenarios, n_columns, UNITS); users of each draw in which a column is above 0,
    (n_draws, n_columns); and sums of squares of the column and of worse models, (n_draws, 1 + n_scenarios, n_columns).
    """
    n_columns, n_pairs = x.shape[1], scenarios.shape[0]
    sums, some = np.zeros((n_draws, UNITS, n_columns)), np.zeros((n_draws, n_columns))
    more, squares = np.zeros((n_draws, n_pairs, UNITS, n_columns)), np.zeros((n_draws, 1 + n_pairs, n_columns))
    for draw in range(n_draws):
        base = base_of(seed, draw)
        for i in range(n_users):
            row, g, uniform = drawn(base, i, x.shape[0])
            unit = g % UNITS
            for c in range(n_columns):
                sums[draw, unit, c] += x[row, c]
                some[draw, c] += 1.0 if x[row, c] > 0 else 0.0
                squares[draw, 0, c] += x[row, c] * x[row, c]
            for s in range(n_pairs):
                factor = factor_of(uniform, scenarios[s, 0], scenarios[s, 1])
                if factor != 1.0:
                    for c in range(n_columns):
                        more[draw, s, unit, c] += (factor - 1.0) * x[row, c]
                        squares[draw, 1 + s, c] += (factor * factor - 1.0) * x[row, c] * x[row, c]
        for s in range(n_pairs):
            for c in range(n_columns):
                squares[draw, 1 + s, c] += squares[draw, 0, c]
    return sums.transpose(0, 2, 1), more.transpose(0, 1, 3, 2), some, squares


@compiled
def stratum_sums(
    stratum: Ints, x: Doubles, n_strata: int, n_users: int, draw: int, seed: int, scenarios: Doubles
) -> tuple[Doubles, Doubles, Doubles]:
    """Of one draw: users by unit and stratum (UNITS, n_strata), and sums and sums of squares of a model's ratios and of
    those of worse models, (1 + n_scenarios, UNITS, n_strata).
    """
    n_models = 1 + scenarios.shape[0]
    users = np.zeros((UNITS, n_strata))
    sums, squares = np.zeros((n_models, UNITS, n_strata)), np.zeros((n_models, UNITS, n_strata))
    base = base_of(seed, draw)
    for i in range(n_users):
        row, g, uniform = drawn(base, i, x.size)
        unit, s = g % UNITS, stratum[row]
        users[unit, s] += 1.0
        for m in range(n_models):
            factor = 1.0 if m == 0 else factor_of(uniform, scenarios[m - 1, 0], scenarios[m - 1, 1])
            sums[m, unit, s] += factor * x[row]
            squares[m, unit, s] += factor * factor * x[row] * x[row]
    return users, sums, squares
