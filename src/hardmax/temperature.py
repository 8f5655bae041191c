"""Certified temperature: the beta from which softmax provably makes the choices of hardmax for given tokens.

Let both runs start at z and let layer k of `Hardmax` have the targets l(i), without ties. With the leads
g_ij = ⟨A z_i, z_l(i) - z_j⟩ and e_k a bound of the distance of the two runs, eta = |A| (2 R e + e^2) bounds the change
of a product, and

    e_{k+1} = e_k + b max_i sum_j (|z_l(i) - z_j| + 2 e_k) exp(-beta max(0, g_ij - 2 eta)).    (1)

While 2 eta < g_ij for all i and j, each token of the softmax run has its largest weight on the target of hardmax.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hardmax import _validation
from hardmax._display import count
from hardmax._errors import ParameterError
from hardmax._exact import format_up
from hardmax._types import FloatArray
from hardmax.rules.hardmax import Hardmax
from hardmax.rules.softmax import Softmax
from hardmax.simulate import simulate

SAFETY = 1 + 1e-9  # of each layer's bound, for the rounding of its own computation and of both float runs


@dataclass(frozen=True, repr=False)
class TemperatureCertificate:
    """The inverse temperature that `certify` returns, with the bounds of the distance. It prints as a sentence.

    Attributes
    ----------
    beta : number
        From this inverse temperature on softmax has its largest weight where hardmax chooses, at all layers; inf if
        some layer has a tie.
    distances : (layers + 1,) array
        Bounds of the distance between the two runs at each layer, for `beta` and every larger one.
    layers : int
        The number of layers.

    Examples
    --------
    >>> import hardmax as hm
    >>> hm.temperature.certify([[1, 1], [1, -1], [-1, 0], [0.5, 0.25]], hm.Hardmax(0.5), layers=3)
    From beta = 7.05 on softmax follows hardmax for 3 layers, at a distance of at most 0.25.
    """

    beta: float
    distances: FloatArray
    layers: int

    def __repr__(self) -> str:
        if not np.isfinite(self.beta):
            return f"No beta is certified for {count(self.layers, 'layer')}: a token has several targets."
        ran, distance = count(self.layers, "layer"), format_up(float(self.distances[-1]), 2)
        beta = format_up(self.beta, 3)
        return f"From beta = {beta} on softmax follows hardmax for {ran}, at a distance of at most {distance}."


class _Layers:
    """Leads and distances of all layers of one hardmax run."""

    def __init__(self, tokens: Any, rule: Hardmax, layers: int) -> None:
        if not isinstance(rule, Hardmax) or rule.causal or not rule.normalize:
            must = "be a hm.Hardmax with normalisation and without a causal mask"
            raise ParameterError("rule", must, repr(rule), "Softmax is compared with it.")
        run = simulate(tokens, rule, layers=_validation.check_count(layers, "layers", least=1))
        run.refuse_batch("hm.temperature for each token set")
        self.tokens = z = run.array.astype(np.float64)
        A = np.eye(z.shape[2]) if rule.matrix is None else rule.matrix.astype(np.float64)
        self.norm, self.radius = 1.01 * float(np.linalg.norm(A, 2)), float(np.linalg.norm(z[0], axis=1).max())
        self.steps, self.parts, self.gap = [], list[tuple[FloatArray, FloatArray]](), np.inf
        eps = 64 * z.shape[2] ** 2 * np.finfo(float).eps * self.norm * self.radius**2 * (layers + 1)
        for k in range(layers):
            alpha = float(rule.step(k))
            self.steps.append(alpha / (1 + alpha))
            sizes, targets = run.token_sets[0].sets[k].sizes, run.attention(k).argmax(axis=1)
            others = ~np.eye(len(z[k]), dtype=bool)[targets]
            products = z[k] @ A.T @ z[k].T
            leads = products[np.arange(len(z[k])), targets][:, None] - products - eps
            far = np.linalg.norm(z[k][targets][:, None] - z[k], axis=2)
            tied = (sizes > 1).any() or (leads[others] <= 0).any()
            self.gap = 0.0 if tied else min(self.gap, float(leads[others].min(initial=np.inf)))
            self.parts.append((np.where(others, leads, np.inf), far))

    def bounds(self, beta: float) -> tuple[FloatArray, bool]:
        """Return e_0, ..., e_K by (1), capped at the diameter 2 R, and whether every choice is certified."""
        bounds, certified = [0.0], self.gap > 0
        for b, (leads, far) in zip(self.steps, self.parts, strict=True):
            e = bounds[-1]
            eta = self.norm * (2 * self.radius * e + e * e)
            certified = certified and bool(2 * eta < leads.min())
            weights = np.exp(-beta * np.maximum(leads - 2 * eta, 0.0))
            step = float(np.where(np.isfinite(leads), (far + 2 * e) * weights, 0.0).sum(axis=1).max())
            bounds.append(min(SAFETY * (e + b * step), 2 * self.radius))
        return np.array(bounds), certified


def certify(tokens: Any, rule: Hardmax, layers: int) -> TemperatureCertificate:
    """Find the inverse temperature from which softmax provably makes the choices of hardmax for some layers.

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
    if run.gap <= 0:
        return TemperatureCertificate(np.inf, np.full(layers + 1, 2 * run.radius), layers)
    low, high = 0.0, 1.0 / max(run.radius**2 * run.norm, 1e-290)
    while not run.bounds(high)[1] and high < 1e300:
        low, high = high, 2 * high
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (low, middle) if run.bounds(middle)[1] else (middle, high)
    bounds, certified = run.bounds(high)
    return TemperatureCertificate(high if certified else np.inf, bounds, layers)


def compare(tokens: Any, rule: Hardmax, layers: int, betas: Sequence[float]) -> tuple[FloatArray, FloatArray]:
    """Measure the distance of softmax from hardmax over beta and depth, beside the proved bound.

    Parameters
    ----------
    tokens, rule, layers
        As in `certify`.
    betas : sequence of positive numbers
        Inverse temperatures.

    Returns
    -------
    measured, bounds : (betas, layers + 1) arrays
        The largest distance of a token in the two runs at each layer, and the bound (1).

    Examples
    --------
    >>> import hardmax as hm
    >>> tokens = hm.configuration("gaussian", n=10, seed=1)
    >>> measured, bounds = hm.temperature.compare(tokens, hm.Hardmax(0.5), layers=3, betas=[5, 50, 500])
    >>> measured.shape, bool((measured <= bounds).all())
    ((3, 4), True)
    """
    run = _Layers(tokens, rule, layers)
    values = [_validation.check_positive(beta, "betas", "Values between 1 and 1000 are usual.") for beta in betas]
    measured = []
    for beta in values:
        soft = simulate(tokens, Softmax(rule.steps, rule.matrix, temperature=1 / beta), layers=layers).array
        measured.append(np.linalg.norm(soft - run.tokens, axis=2).max(axis=1))
    return np.array(measured), np.array([run.bounds(beta)[0] for beta in values])
