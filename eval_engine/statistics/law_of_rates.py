"""The law of users' rates of positives, from the counts of exposed positives, by penalised maximum likelihood.

    density(x) ~ exp(sum_d c_d B_d(x)) at RATES points x, evenly spaced in log rho; B_d: orthogonal polynomials
    loss(c) = PENALTY / 2 |c|^2 - sum_s users_s log(sum_x density(x) P(s | x))

The minimum by Fisher scoring with halved steps. The loss is convex near it, and the fit is repeated for each group of
users that a jackknife leaves out, from the law of all users: that takes a few steps.
"""

import math
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from eval_engine.kernels.compiled import compiled

Doubles = npt.NDArray[np.float64]

PENALTY = 0.1  # on the squared coefficients, in units of one user
RATES = 48  # points at which the law is kept
LEAST = 1e-300


def fit_laws(given: Doubles, users: Doubles, start: Doubles) -> Doubles:
    """The coefficients of the law of each group of users. given: P(stratum | rho), (RATES, n_strata); users: (n_groups,
    n_strata); start: (degree,).
    """
    return np.asarray(
        _fit(np.ascontiguousarray(given), np.ascontiguousarray(users, np.float64), start, basis(start.size))
    )


def density(coefficients: Doubles) -> Doubles:
    """The law at the rates; of several laws, (n_laws, n_rates)."""
    height = coefficients @ basis(coefficients.shape[-1]).T
    found: Doubles = np.exp(height - height.max(axis=-1, keepdims=True))
    return found / found.sum(axis=-1, keepdims=True)


@lru_cache(maxsize=8)
def basis(degree: int) -> Doubles:
    """Orthogonal polynomials of degree 1 and more over the rates, which are evenly spaced on the log scale."""
    powers = np.vander(np.linspace(-1, 1, RATES), degree + 1, increasing=True)
    orthogonal: Doubles = np.ascontiguousarray(np.linalg.qr(powers)[0][:, 1:] * math.sqrt(RATES))
    return orthogonal


@compiled
def _fit(given: Doubles, users: Doubles, start: Doubles, powers: Doubles) -> Doubles:
    n_groups, n_strata = users.shape
    degree = start.size
    found = np.empty((n_groups, degree))
    for n in range(n_groups):
        n_seen = 0
        for s in range(n_strata):
            n_seen += users[n, s] > 0
        own, seen = np.empty((RATES, n_seen)), np.empty(n_seen)
        n_seen = 0
        for s in range(n_strata):
            if users[n, s] > 0:
                seen[n_seen] = users[n, s]
                own[:, n_seen] = given[:, s]
                n_seen += 1
        found[n] = _minimum(own, seen, start, powers)
    return found


@compiled
def _minimum(given: Doubles, seen: Doubles, start: Doubles, powers: Doubles) -> Doubles:
    degree, n_seen, total = start.size, seen.size, seen.sum()
    now, law, mixture = start.copy(), np.empty(RATES), np.empty(n_seen)
    least = _loss(now, given, seen, powers, law, mixture)
    slopes, gradient, square = np.empty((degree, n_seen)), np.empty(degree), np.empty((degree, degree))
    tried, tried_law, tried_mixture = np.empty(degree), np.empty(RATES), np.empty(n_seen)
    for _ in range(200):
        slopes[:] = 0.0
        for x in range(RATES):  # derivative of each stratum's probability by each coefficient
            for d in range(degree):
                weight = powers[x, d] * law[x]
                for s in range(n_seen):
                    slopes[d, s] += weight * (given[x, s] - mixture[s])
        steepest = 0.0
        for d in range(degree):
            gradient[d] = PENALTY * now[d]
            for s in range(n_seen):
                gradient[d] -= slopes[d, s] * (seen[s] / mixture[s])
            steepest = max(steepest, abs(gradient[d]))
        if steepest < 1e-9 * total:
            break
        for d in range(degree):
            for f in range(degree):
                square[d, f] = PENALTY if d == f else 0.0
                for s in range(n_seen):
                    square[d, f] += total * slopes[d, s] / mixture[s] * slopes[f, s]
        _solve(square, gradient)  # the gradient is now the step
        value, better = least, False
        for _ in range(40):
            for d in range(degree):
                tried[d] = now[d] - gradient[d]
            value = _loss(tried, given, seen, powers, tried_law, tried_mixture)
            if value <= least:
                better = True
                break
            for d in range(degree):
                gradient[d] /= 2
        if not better:
            break
        done = least - value < 1e-12 * abs(least)
        now[:], law[:], mixture[:], least = tried, tried_law, tried_mixture, value
        if done:
            break
    return now


@compiled
def _solve(square: Doubles, right: Doubles) -> None:
    """The solution of a positive definite system, in place of its right side, by elimination."""
    n = right.size
    for i in range(n):
        for j in range(i + 1, n):
            factor = square[j, i] / square[i, i]
            for c in range(i, n):
                square[j, c] -= factor * square[i, c]
            right[j] -= factor * right[i]
    for i in range(n - 1, -1, -1):
        for c in range(i + 1, n):
            right[i] -= square[i, c] * right[c]
        right[i] /= square[i, i]


@compiled
def _loss(at: Doubles, given: Doubles, seen: Doubles, powers: Doubles, law: Doubles, mixture: Doubles) -> float:
    """The loss; the law and the probabilities of the strata are written into the last two arrays."""
    top, total, loss = -np.inf, 0.0, 0.0
    for x in range(RATES):
        law[x] = 0.0
        for d in range(at.size):
            law[x] += at[d] * powers[x, d]
        top = max(top, law[x])
    for x in range(RATES):
        law[x] = math.exp(law[x] - top)
        total += law[x]
    mixture[:] = 0.0
    for x in range(RATES):
        law[x] /= total
        for s in range(seen.size):
            mixture[s] += law[x] * given[x, s]
    for d in range(at.size):
        loss += PENALTY / 2 * at[d] * at[d]
    for s in range(seen.size):
        mixture[s] = max(mixture[s], LEAST)
        loss -= seen[s] * math.log(mixture[s])
    return loss
