"""Frank-Wolfe attention at finite temperature: a random chain, and how long its tokens
stay where they are.

x_i <- (1 - gamma) x_i + gamma x_J, where J = j with probability proportional to
exp(beta ⟨x_i, x_j⟩), independently for every token (arXiv 2508.09628 with B = I).
Tokens near vertices that lead stay for a time exponential in beta.
"""

from dataclasses import dataclass
from math import ceil, exp, inf, log, log1p
from typing import Any

import numpy as np

from hardmax import _validation
from hardmax._errors import ParameterError
from hardmax._types import FloatArray

MAX_TIME = 1e300  # later steps are inf


def exit_times(
    tokens: Any,
    *,
    beta: float,
    gamma: float,
    eps: float,
    runs: int = 100,
    max_steps: int = 10_000,
    seed: int = 0,
) -> FloatArray:
    """Simulate the random chain, and return the first step at which a token has left
    the ball around its start.

    Parameters
    ----------
    tokens : (n, d) array
        The start.
    beta : number, 0 or larger
        Inverse temperature.
    gamma : number in (0, 1]
        Step size.
    eps : positive number
        Radius of the balls.
    runs : int
        Number of independent chains.
    max_steps : int
        Stop after this many steps; a chain that has not left by then has the time inf.
    seed : int
        Seed of the random numbers.

    Returns
    -------
    (runs,) array
        Exit times, sorted.

    Examples
    --------
    >>> import hardmax as hm
    >>> square = [[1, 1], [1, -1], [-1, 1], [-1, -1]]
    >>> hm.random_chain.exit_times(square, beta=1, gamma=0.1, eps=0.5, runs=5)
    array([ 5.,  6.,  8.,  8., 10.])
    """
    start = _check(tokens, beta, gamma, eps)
    runs, max_steps = (
        _validation.check_count(x, s, least=1)
        for x, s in ((runs, "runs"), (max_steps, "max_steps"))
    )
    rng = np.random.default_rng(_validation.check_count(seed, "seed", least=0))
    x, times = np.repeat(start[None], runs, axis=0), np.full(runs, inf)
    alive = np.arange(runs)
    for step in range(1, max_steps + 1):
        logits = beta * (x[alive] @ x[alive].swapaxes(1, 2))  # (alive, n, n)
        chosen = (logits + rng.gumbel(size=logits.shape)).argmax(
            axis=2
        )  # softmax samples
        x[alive] += gamma * (
            np.take_along_axis(x[alive], chosen[..., None], axis=1) - x[alive]
        )
        left = (np.linalg.norm(x[alive] - start, axis=2) > eps).any(axis=1)
        times[alive[left]] = step
        alive = alive[~left]
        if not len(alive):
            break
    return np.sort(times)


@dataclass(frozen=True)
class ExitBound:
    """A proved lower bound of exit times of the random chain, as `exit_bound` returns
    it.

    P[no token has left its ball before step t] >= 1 - exp(M (1 + log(t n^2 / M) - beta
    c0 / 2)).

    Attributes
    ----------
    beta, c0 : number
        Inverse temperature; the smallest lead ⟨v_i, v_i - v_j⟩ of the start.
    M, n : int
        Number of steps towards another token that an exit needs; number of tokens.
    applies : bool
        Whether eps is small enough: 4 R eps + 2 eps^2 <= c0/2, with R the largest norm.

    Examples
    --------
    >>> import hardmax as hm
    >>> bound = hm.random_chain.exit_bound([[3, 3], [3, -3], [-3, 3], [-3, -3]], beta=2, gamma=0.1, eps=0.3)
    >>> bound.c0, bound.M, bound.applies, round(bound.probability(1000), 6)
    (18.0, 1, True, 0.999338)
    """

    beta: float
    c0: float
    M: int
    n: int
    applies: bool

    def probability(self, t: float) -> float:
        """Return a lower bound of the probability that no token has left before step t;
        0 where nothing is proved.
        """
        if not self.applies or t <= self.M:
            return float(self.applies)  # fewer than M steps cannot be enough
        exponent = self.M * (1 + log(t * self.n**2 / self.M) - self.beta * self.c0 / 2)
        return max(0.0, 1 - exp(min(exponent, 1.0)))

    def time(self, probability: float = 0.5) -> float:
        """Return the step before which no token leaves with at least this probability;
        0 where nothing is proved.
        """
        probability = _validation.check_range(
            probability, "probability", 0.0, 1.0, "0.5 gives the median."
        )
        if not self.applies or probability == 1:
            return float(self.M * self.applies)
        exponent = (
            self.beta * self.c0 / 2
            - 1
            + log1p(-probability) / self.M
            + log(self.M / self.n**2)
        )
        return max(float(self.M), exp(exponent)) if exponent < log(MAX_TIME) else inf


def exit_bound(tokens: Any, *, beta: float, gamma: float, eps: float) -> ExitBound:
    """Return a lower bound of the exit times of the random chain that starts at its
    leaders.

    An exit needs M = ceil(eps / (gamma diam)) steps towards another token, and each has
    probability at most n exp(-beta c0/2) while all tokens stay in their balls.
    `docs/newer-models.md` has the proof.

    Parameters
    ----------
    tokens : (n, d) array
        The start; the bound applies where every token leads.
    beta, gamma, eps : numbers
        As in `exit_times`.

    Returns
    -------
    ExitBound

    Examples
    --------
    >>> import hardmax as hm
    >>> bound = hm.random_chain.exit_bound([[3, 3], [3, -3], [-3, 3], [-3, -3]], beta=1, gamma=0.1, eps=0.3)
    >>> round(bound.time(0.5), 2)
    93.15
    """
    v = _check(tokens, beta, gamma, eps)
    products = v @ v.T
    leads = products.diagonal()[:, None] - products
    c0 = float(np.min(leads[~np.eye(len(v), dtype=bool)]))
    R, diameter = (
        float(np.linalg.norm(v, axis=1).max()),
        float(np.linalg.norm(v[:, None] - v, axis=2).max()),
    )
    applies = c0 > 0 and 4 * R * eps + 2 * eps**2 <= c0 / 2
    return ExitBound(
        float(beta), c0, ceil(eps / (gamma * (diameter or eps))), len(v), applies
    )


def _check(tokens: Any, beta: float, gamma: float, eps: float) -> FloatArray:
    _validation.check_positive(
        beta, "beta", "Values between 1 and 20 are usual.", zero=True
    )
    _validation.check_range(gamma, "gamma", 1e-9, 1.0, "A typical value is 0.1.")
    _validation.check_positive(eps, "eps", "A fraction of the diameter is usual.")
    array, _ = _validation.check_tokens(tokens)
    if array.ndim != 2 or len(array) < 2:
        raise ParameterError(
            "tokens", "be one token set of at least two tokens", f"shape {array.shape}"
        )
    return array.astype(np.float64)
