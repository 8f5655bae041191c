"""The self-attention dynamics of arXiv 2305.05465."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from hardmax import _checks
from hardmax._tensors import matching, products, softmax, to_numpy
from hardmax._types import FloatArray
from hardmax.rules.base import Flow, seen_keys
from hardmax.rules.growth import Growth


@dataclass(frozen=True, eq=False, repr=False)
class SelfAttention(Flow):
    """Continuous self-attention with queries Q, keys K and values V.

    x_i' = sum_j P_ij V x_j,   P_ij = softmax_j ⟨Q x_i, K x_j⟩.

    With V constant, `simulate` integrates the rescaled tokens z = e^{-tV} x, whose P is the same and whose hull shrinks
    for V = I: z_i' = sum_j P_ij V (z_j - z_i). A trajectory has both, `tokens` for x and `rescaled` for z.

    Parameters
    ----------
    Q, K : (k, d) arrays, or callables of t that return them, optional
        None is the identity.
    V : (d, d) array, or a callable of t that returns one, optional
        None is the identity.
    causal : bool
        True lets token i attend to tokens 0 to i alone.

    Raises
    ------
    ValueError
        If a shape is wrong or a number is not finite, with a sentence that says which.

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
    Geshkovski, Letrouit, Polyanskiy, Rigollet: The emergence of clusters in self-attention dynamics, arXiv 2305.05465.
    """

    Q: Any = None
    K: Any = None
    V: Any = None
    causal: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        for name in ("Q", "K", "V"):
            weight = getattr(self, name)
            if weight is not None and not callable(weight):
                object.__setattr__(self, name, _checks.check_weight(weight, name, square=name == "V"))
        shapes = {
            name: np.shape(to_numpy(self.weight(name, 0.0)))
            for name in ("Q", "K", "V")
            if getattr(self, name) is not None
        }
        _checks.check_shapes(shapes)
        object.__setattr__(self, "_dimension", next((shape[1] for shape in shapes.values()), None))

    @property
    def dimension(self) -> int | None:
        """The width of Q, K and V."""
        return self._dimension  # type: ignore[attr-defined]

    @property
    def weights(self) -> tuple[Any, ...]:
        """Q, K and V."""
        return (self.Q, self.K, self.V)

    @property
    def has_constant_values(self) -> bool:
        """Whether V does not depend on time, so that tokens can be rescaled by e^{-tV}."""
        return not callable(self.V)

    def weight(self, name: str, t: float) -> Any:
        """Q, K or V at time t; None is the identity."""
        weight = getattr(self, name)
        if not callable(weight):
            return weight
        return _checks.check_weight(weight(t), name, square=name == "V")

    def value_matrix(self, d: int, t: float = 0.0) -> FloatArray:
        """V as an array."""
        V = self.weight("V", t)
        return np.eye(d) if V is None else np.asarray(to_numpy(V), np.float64)

    def form(self, d: int, t: float = 0.0) -> FloatArray:
        """B = Q^T K, the bilinear form of the scores, as an array."""
        Q, K = (
            np.eye(d) if weight is None else np.asarray(to_numpy(weight), np.float64)
            for weight in (self.weight("Q", t), self.weight("K", t))
        )
        return np.asarray(Q.T @ K)

    @cached_property
    def _growths(self) -> dict[tuple[int, int], Growth]:
        return {}

    def growth(self, d: int) -> Growth:
        """e^{tV} for the constant V."""
        key = (d, getattr(self.V, "_version", 0))  # a tensor may change in place
        if key not in self._growths:
            self._growths[key] = Growth.of(self.value_matrix(d))
        return self._growths[key]

    def queries_and_keys(self, tokens: Any, t: float) -> tuple[Any, Any]:
        """Q x_i and K x_j."""
        Q, K = self.weight("Q", t), self.weight("K", t)
        queries = tokens if Q is None else tokens @ matching(Q, tokens).T
        return queries, tokens if K is None else tokens @ matching(K, tokens).T

    def attention(self, tokens: Any, at: float, keys: Any = None) -> Any:
        """P for raw tokens x."""
        return self.unit_attention(tokens, at, keys, 0.0)

    def unit_attention(self, unit: Any, t: float, keys: Any, log: float) -> Any:
        """P for u = e^{-log} x: scores e^{2 log} ⟨Q u_i, K u_j⟩."""
        scores, scale = products(*self.queries_and_keys(unit, t), log)
        return softmax(scores, seen_keys(unit, keys, self.causal), scale)

    def largest_score(self, unit: FloatArray, t: float) -> float:
        """A bound of |⟨Q x_i, K x_j⟩| over all pairs, for u = e^{-lambda t} x."""
        with np.errstate(over="ignore"):
            length, d = float(np.linalg.norm(unit, axis=1).max()), unit.shape[1]
            return self.growth(d).scale(t) * length**2 * float(np.linalg.norm(self.form(d, t), 2))

    def values(self, tokens: Any, t: float) -> Any:
        """V x for each token."""
        V = self.weight("V", t)
        return tokens if V is None else tokens @ matching(V, tokens).T

    def velocity(self, tokens: Any, t: float, keys: Any = None) -> Any:
        """dx/dt, first formula above."""
        return self.values(self.attention(tokens, t, keys) @ tokens, t)
