"""Rules made of rules: in sequence, as a transformer block is, and side by side, as its
heads are.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from typing import Any

from hardmax._arrays import join, match_array, stack
from hardmax._errors import InputError, ParameterError
from hardmax._types import Array
from hardmax._validation import check_flag, check_positive, check_weight
from hardmax.rules.base import Layered, Rule, check_rules, no_attention


@dataclass(frozen=True, eq=False, repr=False)
class Compose(Layered):
    """Run several rules in turn as one layer.

    A flow among them takes one forward Euler step of length dt: z <- z + dt v(z), which
    is the residual connection of a transformer.

    Parameters
    ----------
    parts : sequence of rules
        They run in this order.
    dt : positive number
        Length of the step of flows.

    Examples
    --------
    A transformer block: two heads with softmax attention, a feed-forward part, a norm
    after each.

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
        self._set(
            parts=check_rules(self.parts, "parts"),
            dt=check_positive(self.dt, "dt", advice),
        )
        sizes = sorted(
            {part.dimension for part in self.parts if part.dimension is not None}
        )
        if len(sizes) > 1:
            raise ParameterError(
                "parts", "have matrices of one dimension", sizes, "Change the matrices."
            )
        self._set(_dimension=sizes[0] if sizes else None)

    @property
    def attends(self) -> bool:
        return any(part.attends for part in self.parts)

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
                return part.attention(
                    tokens, at * self.dt if part.continuous else at, keys
                )
            tokens = self._move(part, tokens, int(at), keys)
        raise no_attention(self)

    def _move(self, part: Any, tokens: Array, k: int, keys: Array | None) -> Array:
        if part.continuous:
            return tokens + self.dt * part.velocity(tokens, k * self.dt, keys)
        return part.layer(tokens, k, keys)


def by_heads(matrices: list[Array], axes: int) -> Array:
    """Return attention of all heads, (..., heads, n, n); a head that has heads of its
    own brings them all.
    """
    single = [P if P.ndim > axes else P[..., None, :, :] for P in matrices]
    return stack([P[..., h, :, :] for P in single for h in range(P.shape[-3])], axis=-3)


@dataclass(frozen=True, eq=False, repr=False)
class MultiHead(Rule):
    """Run rules side by side, as the heads of a transformer.

    On their own coordinates, tokens are z = (z^1, ..., z^H) and head h moves z^h by
    itself: independent models, and the theorems about one rule hold for each head. On
    shared coordinates every head sees all of z, and their moves are added with
    `shares`: z <- z + sum_h s_h (rule_h(z) - z), or x' = sum_h s_h v_h(x). OPEN:
    nothing is proved of the limit of the latter in general.

    Parameters
    ----------
    heads : sequence of rules
        All with layers, or all in continuous time.
    shared : bool
        False gives each head coordinates of its own: the size of its matrices, the rest
        split evenly.
    shares : sequence of numbers, optional
        s_h, for shared coordinates. By default 1/H each for rules with layers, so that
        tokens stay in their hull, and 1 each for flows, as transformers add their
        heads.

    Examples
    --------
    >>> import hardmax as hm
    >>> rule = hm.MultiHead([hm.Hardmax(0.5), hm.Hardmax(2)])
    >>> trajectory = hm.simulate(hm.configuration("gaussian", n=10, d=4), rule, layers=5)
    >>> trajectory.attention(0).shape, trajectory.heads[1].leaders
    ((2, 10, 10), array([1, 3, 9]))
    """

    heads: Sequence[Rule]
    shared: bool = field(default=False, kw_only=True)
    shares: Array | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        heads = check_rules(self.heads, "heads")
        self._set(heads=heads, shared=check_flag(self.shared, "shared"))
        if len({head.continuous for head in heads}) > 1:
            advice = (
                "To take Euler steps of a flow among layers, put hm.Compose([flow],"
                " dt=0.1) in its place."
            )
            raise ParameterError(
                "heads", "all have layers, or all be in continuous time", "both", advice
            )
        if any(not head.attends for head in heads):
            must, got = (
                "be rules in which tokens attend to each other",
                "one in which each moves by itself",
            )
            advice = (
                "Compose it after the heads: hm.Compose([hm.MultiHead([...]),"
                " hm.FeedForward(...)])."
            )
            raise ParameterError("heads", must, got, advice)
        if self.shares is not None:
            if not self.shared:
                raise ParameterError(
                    "shares", "go with `shared=True`", "it without", "Leave it out."
                )
            self._set(shares=check_weight(self.shares, "shares", size=len(heads)))
        sizes = [head.dimension for head in heads]
        if self.shared and len(set(sizes) - {None}) > 1:
            must = "have matrices of one size with `shared=True`"
            raise ParameterError(
                "heads",
                must,
                f"sizes {sizes}",
                "Use `shared=False` for coordinates of their own.",
            )
        known = [size for size in sizes if size is not None]
        if self.shared and known:
            self._set(_dimension=known[0])
        elif len(known) == len(heads):
            self._set(_dimension=sum(known))

    @property
    def continuous(self) -> bool:
        """Whether its heads move tokens in time, not by layers."""
        return self.heads[0].continuous

    @property
    def weights(self) -> tuple[Array | None, ...]:
        return (
            *(weight for head in self.heads for weight in head.weights),
            self.shares,
        )

    def check(self, tokens: Array) -> None:
        super().check(tokens)
        for head, part in self._parts(tokens):
            head.check(part)

    def columns(self, d: int) -> list[slice]:
        """Return the slice of each head in d coordinates."""
        if self.shared:
            return [slice(0, d)] * len(self.heads)
        known = [head.dimension for head in self.heads]
        free, left = known.count(None), d - sum(size or 0 for size in known)
        if left < free or (left % free if free else left):
            raise InputError(
                f"Tokens of dimension {d} must split into {len(self.heads)} heads:"
                f" {left} coordinates are left for {free} heads of no size of their"
                " own. Use a dimension that splits evenly, or `shared=True`."
            )
        bounds = list(
            accumulate(
                (left // free if size is None else size for size in known), initial=0
            )
        )
        return [slice(*pair) for pair in pairwise(bounds)]

    def _parts(self, tokens: Array) -> list[tuple[Any, Array]]:
        return [
            (head, tokens[..., own])
            for head, own in zip(
                self.heads, self.columns(tokens.shape[-1]), strict=True
            )
        ]

    def attention(self, tokens: Array, at: float, keys: Array | None = None) -> Array:
        """Return P of every head, shape (..., heads, n, n); a head that has heads of
        its own brings them all.
        """
        return by_heads(
            [head.attention(part, at, keys) for head, part in self._parts(tokens)],
            tokens.ndim,
        )

    def layer(self, tokens: Array, k: int, keys: Array | None = None) -> Array:
        """Return tokens after layer k of every head; `keys` as for `Layered.layer`."""
        moved = [head.layer(part, k, keys) for head, part in self._parts(tokens)]
        if not self.shared:
            return join(moved)
        return tokens + sum(
            s * (z - tokens) for s, z in zip(self._shares(tokens), moved, strict=True)
        )

    def velocity(self, tokens: Array, t: float, keys: Array | None = None) -> Array:
        """Return the sum of the velocities of the heads at time t; `keys` as for
        `Layered.layer`.
        """
        pulls = [head.velocity(part, t, keys) for head, part in self._parts(tokens)]
        return (
            sum(s * v for s, v in zip(self._shares(tokens), pulls, strict=True))
            if self.shared
            else join(pulls)
        )

    def _shares(self, tokens: Array) -> list[Array | float]:
        if self.shares is not None:
            return list(match_array(self.shares, tokens))
        return [1.0 if self.continuous else 1 / len(self.heads)] * len(self.heads)
