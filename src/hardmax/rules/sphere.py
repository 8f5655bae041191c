"""Self-attention on the unit sphere (Geshkovski, Letrouit, Polyanskiy, Rigollet, arXiv
2312.10794).
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from hardmax import _validation
from hardmax._errors import ParameterError
from hardmax._types import Array, FloatArray
from hardmax._validation import to_numpy
from hardmax.rules.base import Flow, seen_keys
from hardmax.rules.scores import Scores

OFF_SPHERE = 1e-6  # largest distance of a norm from 1 on input
MAX_BETA = 700.0  # e^beta of a larger one leaves the range of floats


@dataclass(frozen=True, eq=False, repr=False)
class Sphere(Flow):
    """Self-attention with V = I on the unit sphere, where layer normalisation keeps
    tokens.

    x_i' = p_i(sum_j P_ij x_j),   P_ij = softmax_j(beta ⟨x_i, x_j⟩),
    p_i(y) = y - ⟨x_i, y⟩ x_i;

    with `normalized=False`, x_i' = p_i(1/n sum_j exp(beta ⟨x_i, x_j⟩) x_j), the
    gradient flow of the energy E = 1/(2 beta n^2) sum_ij exp(beta ⟨x_i, x_j⟩). E never
    decreases along either of the two.

    Parameters
    ----------
    beta : number, 0 or larger, or a callable of t that returns one
        Inverse temperature, constant or a schedule.
    normalized : bool
        False leaves out the division by the sum of each row; beta must then be below
        700.
    causal : bool
        True lets token i attend to tokens 0 to i alone. E need not grow then.

    Examples
    --------
    >>> import hardmax as hm
    >>> trajectory = hm.simulate(hm.configuration("sphere", n=20, d=3), hm.Sphere(beta=1.0), times=[0, 1, 30])
    >>> trajectory.similarity.round(3)
    array([0.028, 0.095, 1. ])
    """

    beta: float | Array | Callable[[float], float | Array]
    normalized: bool = field(default=True, kw_only=True)
    causal: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        self._set(
            normalized=_validation.check_flag(self.normalized, "normalized"),
            causal=_validation.check_flag(self.causal, "causal"),
        )
        beta = self.find_beta(0.0)
        if not callable(self.beta):
            self._set(beta=beta)

    @property
    def weights(self) -> tuple[Array | Callable[[float], Array] | None, ...]:
        return (self.beta,)

    @property
    def has_constant_beta(self) -> bool:
        """Whether beta does not depend on time."""
        return not callable(self.beta)

    def find_beta(self, t: float) -> float | Array:
        """Return beta at time t."""
        beta = self.beta(t) if callable(self.beta) else self.beta
        advice = "Values between 1 and 100 are usual."
        beta = _validation.check_positive(beta, "beta", advice, zero=True)
        if not self.normalized and float(to_numpy(beta)) > MAX_BETA:
            must = (
                f"be at most {MAX_BETA:g} with `normalized=False`, where e^beta must be"
                " finite"
            )
            raise ParameterError("beta", must, beta, "Use `normalized=True`.")
        return beta

    def check(self, tokens: Array) -> None:
        """Refuse tokens whose norm is not 1: a `ParameterError`."""
        norms = np.linalg.norm(np.asarray(to_numpy(tokens), np.float64), axis=-1)
        distances = np.abs(norms - 1)
        if distances.max() <= OFF_SPHERE:
            return
        farthest = np.unravel_index(distances.argmax(), norms.shape)
        *batch, token = map(int, farthest)
        name = f"token {token}"
        if batch:
            name += f" of token set {batch[0]}"
        raise ParameterError(
            "tokens",
            f"lie on the unit sphere: norms within {OFF_SPHERE:g} of 1",
            f"norm {norms[farthest]:.6g} for {name}",
            "Divide each token by its norm. Use `tokens / np.linalg.norm(tokens,"
            " axis=-1, keepdims=True)`.",
        )

    def scores(self, tokens: Array, t: float, keys: Array | None = None) -> Scores:
        """Return beta ⟨x_i, x_j⟩."""
        seen = seen_keys(tokens, keys, self.causal)
        return Scores(tokens, tokens, self.find_beta(t), seen)

    def attention(self, tokens: Array, at: float, keys: Array | None = None) -> Array:
        """Return P, (..., n, n). With `normalized=False` other weights move the tokens."""
        return self.scores(tokens, at, keys).matrix()

    def velocity(self, tokens: Array, t: float, keys: Array | None = None) -> Array:
        tokens = on_sphere(tokens)
        scores = self.scores(tokens, t, keys)
        pull = scores.means(tokens, normalized=self.normalized)
        return pull - (tokens * pull).sum(-1)[..., None] * tokens

    def energy(self, tokens: Array) -> FloatArray:
        """Return E of each token set: 1/(2 beta) times the mean of exp(beta ⟨x_i,
        x_j⟩); half the mean for beta = 0.
        """
        if callable(self.beta):
            must = "be constant where an energy is defined"
            raise ParameterError("beta", must, "a function of time", "Use a number.")
        points = np.asarray(to_numpy(tokens), np.float64)
        beta = float(to_numpy(self.beta))
        products = points @ points.swapaxes(-1, -2)
        if beta == 0:
            return products.mean(axis=(-1, -2)) / 2
        with np.errstate(over="ignore"):
            return np.exp(beta * products).mean(axis=(-1, -2)) / (2 * beta)


def on_sphere(tokens: Array) -> Array:
    """Divide tokens by their norms."""
    squares = (tokens * tokens).sum(-1)[..., None]
    return tokens / (squares + (squares == 0)) ** 0.5
