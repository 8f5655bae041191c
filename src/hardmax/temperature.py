"""Certified temperature: the beta from which softmax provably makes the choices of
hardmax for given tokens.

Let both runs start at z and let layer k of `Hardmax` have the targets l(i), without
ties. With the leads g_ij = ⟨A z_i, z_l(i) - z_j⟩ and e_k a bound of the distance of the
two runs, eta = |A| (2 R e + e^2) bounds the change of a product, and

    e_{k+1} = e_k
              + b max_i sum_j (|z_l(i) - z_j| + 2 e_k) exp(-beta max(0, g_ij - 2 eta)).
                                                                                   (1)

To each layer is added a bound for the rounding of both runs, of about 4 (n + 16) u R
with u = 2^-53. Tokens and A are first scaled by powers of two, so that their largest
entries lie in [1/2, 1).

While 2 eta < g_ij for all i and j, each token of the softmax run has its largest weight
on the target of hardmax.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hardmax import _validation
from hardmax._display import count
from hardmax._errors import ParameterError
from hardmax._exact import UNIT, format_up
from hardmax._simulate import simulate
from hardmax._types import FloatArray
from hardmax.rules.hardmax import Hardmax
from hardmax.rules.softmax import Softmax

SAFETY = 1 + 1e-9  # of each layer's bound, for the rounding of its own computation


@dataclass(frozen=True, repr=False)
class TemperatureCertificate:
    """The inverse temperature that `certify` returns, with the bounds of the distance.
    It prints as a sentence.

    Attributes
    ----------
    beta : number
        From this inverse temperature on softmax has its largest weight where hardmax
        chooses, at all layers; inf if some layer has a tie, if a lead is below the
        rounding of floats, or if the number exceeds their range.
    distances : (layers + 1,) array
        Bounds of the distance between the two runs at each layer, for `beta` and every
        larger one.
    layers : int
        The number of layers.
    tied : bool
        Whether some layer has a tie, so that no beta is certified.

    Examples
    --------
    >>> import hardmax as hm
    >>> hm.temperature.certify([[1, 1], [1, -1], [-1, 0], [0.5, 0.25]], hm.Hardmax(0.5), layers=3)
    From beta = 7.05 on softmax follows hardmax for 3 layers, at a distance of at most 0.25.
    """

    beta: float
    distances: FloatArray
    layers: int
    tied: bool = False

    def __repr__(self) -> str:
        if not np.isfinite(self.beta):
            why = (
                "a token has several targets"
                if self.tied
                else "a lead or beta is beyond the precision of floats"
            )
            return f"No beta is certified for {count(self.layers, 'layer')}: {why}."
        ran, distance = (
            count(self.layers, "layer"),
            format_up(float(self.distances[-1]), 2),
        )
        beta = format_up(self.beta, 3)
        return (
            f"From beta = {beta} on softmax follows hardmax for {ran}, at a distance of"
            f" at most {distance}."
        )


class _Layers:
    """Leads and distances of all layers of one hardmax run."""

    def __init__(self, tokens: Any, rule: Hardmax, layers: int) -> None:
        if not isinstance(rule, Hardmax) or rule.causal or not rule.normalize:
            must = "be a hm.Hardmax with normalisation and without a causal mask"
            raise ParameterError(
                "rule",
                must,
                _validation.shortened(rule),
                "Softmax is compared with it.",
            )
        run = simulate(
            tokens, rule, layers=_validation.check_count(layers, "layers", least=1)
        )
        run.refuse_batch("hm.temperature for each token set")
        z, n = run.array.astype(np.float64), run.array.shape[1]
        A = (
            np.eye(z.shape[2])
            if rule.matrix is None
            else rule.matrix.astype(np.float64)
        )
        self.exponent, shift = (int(np.frexp(np.abs(x).max())[1]) for x in (z[0], A))
        self.tokens, self.A = z, A = np.ldexp(z, -self.exponent), np.ldexp(A, -shift)
        self.power = (
            2 * self.exponent + shift
        )  # products are 2^power times those of `tokens` and `A`
        self.norm, self.radius = (
            1.01 * float(np.linalg.norm(A, 2)),
            float(np.linalg.norm(z[0], axis=1).max()),
        )
        self.steps, self.parts, self.gap, self.tied = (
            [],
            list[tuple[FloatArray, FloatArray]](),
            np.inf,
            False,
        )
        self.rounding = 4 * (n + 16) * UNIT * self.radius  # of one layer of both runs
        eps = (
            64
            * z.shape[2] ** 2
            * np.finfo(float).eps
            * self.norm
            * self.radius**2
            * (layers + 1)
        )
        for k in range(layers):
            alpha = rule.step(k)
            self.steps.append(float(alpha / (1 + alpha)))
            P = run.attention(k)
            targets, self.tied = (
                P.argmax(axis=1),
                self.tied or bool(((P > 0).sum(axis=1) > 1).any()),
            )
            others = ~np.eye(len(z[k]), dtype=bool)[targets]
            products = z[k] @ A.T @ z[k].T
            leads = products[np.arange(len(z[k])), targets][:, None] - products - eps
            far = np.linalg.norm(z[k][targets][:, None] - z[k], axis=2)
            self.gap = min(self.gap, float(leads[others].min(initial=np.inf)))
            self.parts.append((np.where(others, leads, np.inf), far))

    def bounds(self, beta: float) -> tuple[FloatArray, bool]:
        """Return e_0, ..., e_K of `tokens` by (1), at most the diameter 2 R, and
        whether every choice is certified.
        """
        bounds, certified = [0.0], self.gap > 0 and not self.tied
        for b, (leads, far) in zip(self.steps, self.parts, strict=True):
            e = bounds[-1]
            eta = self.norm * (2 * self.radius * e + e * e)
            certified = certified and bool(2 * eta < leads.min())
            weights = np.exp(-beta * np.maximum(leads - 2 * eta, 0.0))
            step = float(
                np.where(np.isfinite(leads), (far + 2 * e) * weights, 0.0)
                .sum(axis=1)
                .max()
            )
            bounds.append(min(SAFETY * (e + b * step) + self.rounding, 2 * self.radius))
        return np.array(bounds), certified

    def unscale(self, distances: Any) -> FloatArray:
        """Return distances in the unit of the input."""
        with np.errstate(over="ignore"):
            return np.ldexp(np.array(distances), self.exponent)


def certify(tokens: Any, rule: Hardmax, layers: int) -> TemperatureCertificate:
    """Find the inverse temperature from which softmax provably makes the choices of
    hardmax for some layers.

    Parameters
    ----------
    tokens : (n, d) array
        One token set.
    rule : Hardmax
        With normalisation; A may be any matrix.
    layers : int
        Number of layers, at least 1.

    Returns
    -------
    TemperatureCertificate
        Its bounds hold for `beta` and all larger values: (1) decreases in beta.

    Examples
    --------
    >>> import hardmax as hm
    >>> certificate = hm.temperature.certify([[1, 0], [-1, 0], [0.5, 0.25]], hm.Hardmax(1), layers=2)
    >>> round(certificate.beta, 2), certificate.distances.round(4).tolist()
    (10.16, [0.0, 0.0417, 0.2231])
    """
    run = _Layers(tokens, rule, layers)
    low, high = 0.0, 1.0 if run.bounds(1e300)[1] else 1e300
    while not run.bounds(high)[1] and high < 1e300:
        low, high = high, 2 * high
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if run.bounds(middle)[1] else (middle, high)
    bounds, certified = run.bounds(high)
    with np.errstate(over="ignore", under="ignore"):
        beta = (
            np.maximum(np.ldexp(high, -run.power), 1e-300) if certified else np.inf
        )  # exact above 1e-300
    return TemperatureCertificate(float(beta), run.unscale(bounds), layers, run.tied)


def compare(
    tokens: Any, rule: Hardmax, layers: int, betas: Sequence[float]
) -> tuple[FloatArray, FloatArray]:
    """Measure the distance of softmax from hardmax over beta and depth, beside the
    proved bound.

    Parameters
    ----------
    tokens, rule, layers
        As in `certify`.
    betas : sequence of positive numbers
        Inverse temperatures.

    Returns
    -------
    measured, bounds : (betas, layers + 1) arrays
        The largest distance of a token in the two runs at each layer, and the bound
        (1).

    Examples
    --------
    >>> import hardmax as hm
    >>> tokens = hm.configuration("gaussian", n=10, seed=1)
    >>> measured, bounds = hm.temperature.compare(tokens, hm.Hardmax(0.5), layers=3, betas=[5, 50, 500])
    >>> measured.shape, bool((measured <= bounds).all())
    ((3, 4), True)
    """
    run = _Layers(tokens, rule, layers)
    is_list = np.iterable(betas) and not isinstance(betas, str | bytes | Mapping)
    given = betas
    betas = list(betas) if is_list else []
    if not betas:
        raise ParameterError(
            "betas",
            "be a sequence of positive numbers, at least one",
            _validation.shortened(given),
            "Pass [10, 100, 1000].",
        )
    measured, bounds = [], []
    for beta in betas:
        beta = _validation.check_positive(
            beta, "betas", "Values between 1 and 1000 are usual."
        )
        with np.errstate(over="ignore", under="ignore"):
            scaled = float(np.clip(np.ldexp(beta, run.power), 1e-300, 1e300))
        soft = simulate(
            run.tokens[0],
            Softmax(rule.steps, run.A, temperature=1 / scaled),
            layers=layers,
        ).array
        measured.append(np.linalg.norm(soft - run.tokens, axis=2).max(axis=1))
        bounds.append(run.bounds(scaled)[0])
    return run.unscale(measured), run.unscale(bounds)
