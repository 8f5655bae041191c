"""Rules in sequence: a transformer block is a composition."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from hardmax import _validation
from hardmax._errors import ParameterError
from hardmax._types import Array
from hardmax.rules.base import Layered, Rule, check_rules, no_attention


@dataclass(frozen=True, eq=False, repr=False)
class Compose(Layered):
    """Run several rules in turn as one layer.

    A flow among them takes one forward Euler step of length dt: z <- z + dt v(z), which is the residual connection of a
    transformer.

    Parameters
    ----------
    parts : sequence of rules
        They run in this order.
    dt : positive number
        Length of the step of flows.

    Raises
    ------
    ParameterError
        If there is no part, parts have different dimensions, or `dt` is not positive.

    Examples
    --------
    A transformer block: two heads with softmax attention, a feed-forward part, a norm after each.

    >>> import numpy as np
    >>> import hardmax as hm
    >>> rng = np.random.default_rng(0)
    >>> heads = [hm.SelfAttention(*rng.normal(size=(3, 4, 4)) / 2) for _ in range(2)]
    >>> norm = hm.Normalize("layer")
    >>> block = hm.Compose([hm.MultiHead(heads, shared=True), norm, hm.FeedForward.random(4), norm])
    >>> hm.simulate(hm.configuration("gaussian", n=6, d=4), block, layers=12)
    Ran 12 layers on 6 tokens of dimension 4. 2 clusters of tokens at the last layer. 1 leader.
    """

    parts: Sequence[Rule]
    dt: float = field(default=1.0, kw_only=True)

    def __post_init__(self) -> None:
        advice = "1 is the residual connection of a transformer."
        self._set(parts=check_rules(self.parts, "parts"), dt=_validation.check_positive(self.dt, "dt", advice))
        sizes = sorted({part.dimension for part in self.parts if part.dimension is not None})
        if len(sizes) > 1:
            raise ParameterError("parts", "have matrices of one dimension", sizes, "Change the matrices.")

    @property
    def attends(self) -> bool:
        return any(part.attends for part in self.parts)

    @property
    def dimension(self) -> int | None:
        return next((part.dimension for part in self.parts if part.dimension is not None), None)

    @property
    def weights(self) -> tuple[Array | None, ...]:
        return tuple(weight for part in self.parts for weight in part.weights)

    def check(self, tokens: Array) -> None:
        """Check the first part, which gets the input."""
        super().check(tokens)
        self.parts[0].check(tokens)

    def layer(self, tokens: Array, k: int, keys: Array | None = None) -> Array:
        for part in self.parts:
            tokens = self._move(part, tokens, k, keys)
        return tokens

    def attention(self, tokens: Array, at: float, keys: Array | None = None) -> Array:
        """Return P of the first part with attention, at the tokens that reach it."""
        for part in self.parts:
            if part.attends:
                return part.attention(tokens, at * self.dt if part.continuous else at, keys)
            tokens = self._move(part, tokens, int(at), keys)
        raise no_attention(self)

    def _move(self, part: Any, tokens: Array, k: int, keys: Array | None) -> Array:
        if part.continuous:
            return tokens + self.dt * part.velocity(tokens, k * self.dt, keys)
        return part.layer(tokens, k, keys)
