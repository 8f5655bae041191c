"""The self-attention dynamics of arXiv 2305.05465."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from hardmax._arrays import match_array
from hardmax._errors import ParameterError
from hardmax._types import Array, FloatArray
from hardmax._validation import check_flag, check_weight, to_numpy
from hardmax.rules.base import Flow, seen_keys
from hardmax.rules.scores import Scores

Weight: TypeAlias = Array | Callable[[float], Array] | None


@dataclass(frozen=True, eq=False, repr=False)
class SelfAttention(Flow):
    """Continuous self-attention with queries Q, keys K and values V.

    x_i' = sum_j P_ij V x_j,   P_ij = softmax_j ⟨Q x_i, K x_j⟩.

    With V constant, `simulate` integrates the rescaled tokens z = e^{-tV} x, whose P is
    the same and whose hull shrinks for V = I: z_i' = sum_j P_ij V (z_j - z_i). A
    trajectory has both, `tokens` for x and `rescaled` for z.

    Parameters
    ----------
    Q, K : (k, d) arrays, or callables of t that return them, optional
        None is the identity.
    V : (d, d) array, or a callable of t that returns one, optional
        None is the identity.
    causal : bool
        True lets token i attend to tokens 0 to i alone.

    Examples
    --------
    >>> import hardmax as hm
    >>> rule = hm.SelfAttention(Q=None, K=None, V=None)
    >>> trajectory = hm.simulate([[1.0, 1.0], [-1.0, -1.0], [0.5, 0.25]], rule, times=[0, 5])
    >>> trajectory.attention(-1).round(3)
    array([[1., 0., 0.],
           [0., 1., 0.],
           [1., 0., 0.]])

    References
    ----------
    Geshkovski, Letrouit, Polyanskiy, Rigollet: The emergence of clusters in
    self-attention dynamics, arXiv 2305.05465.
    """

    Q: Weight = None
    K: Weight = None
    V: Weight = None
    causal: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        self._set(causal=check_flag(self.causal, "causal"))
        shapes = {}
        for name, weight in zip("QKV", self.weights, strict=True):
            if weight is None:
                continue
            if not callable(weight):
                self._set(**{name: check_weight(weight, name, square=name == "V")})
            shapes[name] = np.shape(to_numpy(self.weight(name, 0.0)))
        dimensions = {shape[1] for shape in shapes.values()}
        identity = (min(dimensions, default=0),)  # the height of Q or K if it is None
        heights = {shapes.get(name, identity)[0] for name in "QK"}
        if len(dimensions) > 1 or len(heights) > 1:
            must = "have one shape (k, d), and `V` the shape (d, d)"
            got = ", ".join(f"{name} of shape {shapes[name]}" for name in shapes)
            advice = "A head of width k has Q and K of shape (k, d)."
            raise ParameterError(("Q", "K"), must, got, advice)
        self._set(_dimension=next(iter(dimensions), None))

    @property
    def weights(self) -> tuple[Weight, ...]:
        return (self.Q, self.K, self.V)

    @property
    def has_constant_values(self) -> bool:
        """Whether V does not depend on time, so that tokens can be rescaled by e^{-tV}."""
        return not callable(self.V)

    def weight(self, name: str, t: float) -> Array | None:
        """Return Q, K or V at time t; None is the identity."""
        weight = getattr(self, name)
        if callable(weight):
            return check_weight(weight(t), name, square=name == "V")
        return weight

    def matrix(self, name: str, d: int, t: float = 0.0) -> FloatArray:
        """Return Q, K or V at time t as an array."""
        weight = self.weight(name, t)
        return np.eye(d) if weight is None else np.asarray(to_numpy(weight), np.float64)

    def value_matrix(self, d: int, t: float = 0.0) -> FloatArray:
        """Return V at time t as a (d, d) array."""
        return self.matrix("V", d, t)

    def form(self, d: int, t: float = 0.0) -> FloatArray:
        """Return B = Q^T K, the bilinear form of the scores, as an array."""
        return np.asarray(self.matrix("Q", d, t).T @ self.matrix("K", d, t))

    def _image(self, name: str, tokens: Array, t: float) -> Array:
        weight = self.weight(name, t)
        return tokens if weight is None else tokens @ match_array(weight, tokens).T

    def scores(
        self, tokens: Array, t: float, keys: Array | None = None, log: float = 0.0
    ) -> Scores:
        """Return the scores of x = e^log u for tokens u: e^{2 log} ⟨Q u_i, K u_j⟩."""
        return Scores.in_range(
            self._image("Q", tokens, t),
            self._image("K", tokens, t),
            seen_keys(tokens, keys, self.causal),
            log,
        )

    def attention(
        self, tokens: Array, at: float, keys: Array | None = None, log: float = 0.0
    ) -> Array:
        """Return P for x = e^log u, at tokens u."""
        return self.scores(tokens, at, keys, log).matrix()

    def values(self, tokens: Array, t: float) -> Array:
        """Return V x for each token, at time t: an array of the shape of `tokens`."""
        return self._image("V", tokens, t)

    def velocity(self, tokens: Array, t: float, keys: Array | None = None) -> Array:
        return self.values(self.scores(tokens, t, keys).means(tokens), t)
