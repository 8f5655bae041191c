"""What is predicted of attention on the sphere: number of clusters, common angle, and
Renyi centres.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy  # whose parts load when they are used

from hardmax import _validation
from hardmax._arrays import unit_rows
from hardmax._errors import ParameterError
from hardmax._types import FloatArray, IntArray

MAX_BETA = 1e9  # SciPy has no Bessel functions of arguments beyond about 1.07e9
MAX_N = 10**6  # more tokens enlarge the error of the first step, 1e-12, beyond 1e-6
AT_LIMIT = 1e-12  # from here on all tokens are one, at the precision of the integrator


def circle_clusters(beta: float) -> int:
    """Return the predicted number of metastable clusters on the circle: argmax_k k^2
    I_k(beta), about sqrt(2 beta).

    A density 1 + eps cos(k phi) grows at a rate proportional to k^2 I_k(beta), with I_k
    the modified Bessel function, so the number of waves that grows fastest is the
    number of clusters that form first from many uniform tokens.

    Parameters
    ----------
    beta : number in (0, 1e9]
        Inverse temperature of `Sphere`.

    Returns
    -------
    int

    Examples
    --------
    >>> import hardmax as hm
    >>> [hm.circle_clusters(beta) for beta in (5, 9, 64, 100)]
    [3, 4, 11, 14]
    """
    beta = _validation.check_range(
        beta, "beta", 1e-300, MAX_BETA, "Values between 1 and 1000 are usual."
    )
    k = np.arange(1, 10 + int(3 * beta**0.5))
    return int(k[np.argmax(k**2 * scipy.special.ive(k, beta))])


def common_angle(beta: float, n: int, times: Sequence[float]) -> FloatArray:
    """Return the cosine between any two of n orthogonal tokens over time on the sphere:
    all pairs have one angle.

    gamma' = 2 e^{beta gamma} (1 - gamma) ((n - 1) gamma + 1)/(e^beta + (n - 1) e^{beta
    gamma}), gamma(0) = 0. Random tokens in high dimension are nearly orthogonal (arXiv
    2312.10794).

    Parameters
    ----------
    beta : number, 0 or larger
        Inverse temperature.
    n : int
        Number of tokens, from 2 to a million.
    times : increasing finite numbers
        Where to evaluate.

    Returns
    -------
    (times,) array

    Examples
    --------
    >>> import hardmax as hm
    >>> hm.common_angle(1, 10, [0, 1, 5]).round(3)
    array([0.   , 0.324, 0.999])
    """
    beta = float(
        _validation.check_positive(
            beta, "beta", "Values up to 10 are usual.", zero=True
        )
    )
    n = _validation.check_count(n, "n", least=2, most=MAX_N)
    at = _validation.as_array(times, "times", "be increasing numbers", "")
    good = at.ndim == 1 and len(at) > 0 and at.dtype.kind in "iuf"
    if good:
        at = at.astype(np.float64)
        good = bool(at[0] >= 0 and at[-1] < np.inf and (np.diff(at) > 0).all())
    if not good:
        must = "be increasing finite numbers, 0 or larger"
        raise ParameterError("times", must, _validation.shortened(times))

    def velocity(t: float, gamma: FloatArray) -> FloatArray:
        gamma = np.minimum(gamma, 1.0)  # a trial step may pass the limit
        weight = np.exp(beta * (gamma - 1))  # e^{beta gamma}/e^beta
        return np.asarray(
            2 * weight * (1 - gamma) * ((n - 1) * gamma + 1) / (1 + (n - 1) * weight)
        )

    def left(t: float, gamma: FloatArray) -> float:
        return float(1 - AT_LIMIT - gamma[0])

    left.terminal = True  # type: ignore[attr-defined]
    found = scipy.integrate.solve_ivp(
        velocity,
        (0, at[-1] or 1.0),
        [0.0],
        t_eval=at,
        rtol=1e-10,
        atol=1e-12,
        events=left,
    )
    cosines = np.ones(len(at))  # later ones, up to AT_LIMIT
    cosines[: len(found.y[0])] = found.y[0]
    return cosines


def renyi_centres(tokens: Any, delta: float, *, strong: bool = False) -> IntArray:
    """Return the Renyi centres of tokens on the sphere: greedily, each at an angle
    above delta from earlier centres.

    Under causal attention at inverse temperature beta, with delta about beta^{-1/2},
    centres hardly move for long and capture the others (arXiv 2411.04990).

    Parameters
    ----------
    tokens : (n, d) array
        Unit vectors in the order of the causal mask; others are normalised.
    delta : number in (0, pi]
        The angle.
    strong : bool
        True requires the angle to all earlier tokens, not to earlier centres alone.

    Returns
    -------
    (k,) array of int
        Indices of the centres, ascending; token 0 is always one.

    Examples
    --------
    >>> import hardmax as hm
    >>> hm.renyi_centres([[1, 0], [0.8, 0.6], [0, 1], [-1, 0]], delta=0.8)
    array([0, 2, 3])
    >>> hm.renyi_centres([[1, 0], [0.8, 0.6], [0.2, 0.9], [-1, 0]], delta=0.8, strong=True)
    array([0, 3])
    """
    strong = _validation.check_flag(strong, "strong")
    x = _validation.check_tokens(tokens)[0].astype(np.float64)
    delta = _validation.check_range(
        delta, "delta", 1e-12, np.pi, "Try c / sqrt(beta) with c = 2."
    )
    zero = ~x.any(axis=-1)
    if x.ndim != 2 or zero.any():
        got = f"shape {x.shape}, {int(zero.sum())} of them 0"
        raise ParameterError("tokens", "be one token set of nonzero tokens", got)
    x = unit_rows(x)
    angles = np.arccos(np.clip(x @ x.T, -1, 1))
    centres = list[int]()
    for i in range(len(x)):
        earlier = list(range(i)) if strong else centres
        if (angles[i, earlier] > delta).all():
            centres.append(i)
    return np.array(centres, np.intp)
