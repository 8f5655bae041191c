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
            _dimension=_common_dimension(self.parts, "parts"),
        )

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
                when = at * self.dt if part.continuous else at
                return part.attention(tokens, when, keys)
            tokens = self._move(part, tokens, int(at), keys)
        raise no_attention(self)

    def _move(self, part: Any, tokens: Array, k: int, keys: Array | None) -> Array:
        if part.continuous:
            return tokens + self.dt * part.velocity(tokens, k * self.dt, keys)
        return part.layer(tokens, k, keys)


def _common_dimension(rules: Sequence[Rule], name: str) -> int | None:
    """Return the one dimension that tokens of all rules must have, or None for any."""
    sizes = {rule.dimension for rule in rules if rule.dimension is not None}
    if len(sizes) > 1:
        must = "have matrices of one dimension where all see the same coordinates"
        raise ParameterError(name, must, sorted(sizes), "Change the matrices.")
    return next(iter(sizes), None)


def by_heads(matrices: list[Array], axes: int) -> Array:
    """Return attention of all heads, (..., heads, n, n); a head that has heads of its
    own brings them all.
    """
    heads = []
    for P in matrices:
        if P.ndim == axes:
            heads.append(P)
        else:
            heads += [P[..., h, :, :] for h in range(P.shape[-3])]
    return stack(heads, axis=-3)


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
            must = "all have layers, or all be in continuous time"
            advice = (
                "To take Euler steps of a flow among layers, put hm.Compose([flow],"
                " dt=0.1) in its place."
            )
            raise ParameterError("heads", must, "both", advice)
        if any(not head.attends for head in heads):
            must = "be rules in which tokens attend to each other"
            got = "one in which each moves by itself"
            advice = (
                "Compose it after the heads: hm.Compose([hm.MultiHead([...]),"
                " hm.FeedForward(...)])."
            )
            raise ParameterError("heads", must, got, advice)
        if self.shares is not None:
            if not self.shared:
                must = "go with `shared=True`"
                raise ParameterError("shares", must, "it without", "Leave it out.")
            self._set(shares=check_weight(self.shares, "shares", size=len(heads)))
        if self.shared:
            self._set(_dimension=_common_dimension(heads, "heads"))
        else:
            known = [head.dimension for head in heads if head.dimension is not None]
            if len(known) == len(heads):
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
        sizes = [head.dimension for head in self.heads]
        free = sizes.count(None)
        left = d - sum(size or 0 for size in sizes)
        share = left // free if free else 0
        if left != share * free or (free and share < 1):
            raise InputError(
                f"Tokens of dimension {d} must split into {len(self.heads)} heads:"
                f" {left} coordinates are left for {free} heads of no size of their"
                " own. Use a dimension that splits evenly, or `shared=True`."
            )
        widths = [share if size is None else size for size in sizes]
        bounds = accumulate(widths, initial=0)
        return [slice(first, last) for first, last in pairwise(bounds)]

    def _parts(self, tokens: Array) -> list[tuple[Any, Array]]:
        """Return each head with its coordinates of the tokens."""
        columns = self.columns(tokens.shape[-1])
        return [
            (head, tokens[..., part])
            for head, part in zip(self.heads, columns, strict=True)
        ]

    def attention(self, tokens: Array, at: float, keys: Array | None = None) -> Array:
        """Return P of every head, shape (..., heads, n, n); a head that has heads of
        its own brings them all.
        """
        parts = self._parts(tokens)
        matrices = [head.attention(part, at, keys) for head, part in parts]
        return by_heads(matrices, tokens.ndim)

    def layer(self, tokens: Array, k: int, keys: Array | None = None) -> Array:
        """Return tokens after layer k of every head; `keys` as for `Layered.layer`."""
        moved = [head.layer(part, k, keys) for head, part in self._parts(tokens)]
        if not self.shared:
            return join(moved)
        return tokens + self._sum([z - tokens for z in moved])

    def velocity(self, tokens: Array, t: float, keys: Array | None = None) -> Array:
        """Return the sum of the velocities of the heads at time t; `keys` as for
        `Layered.layer`.
        """
        pulls = [head.velocity(part, t, keys) for head, part in self._parts(tokens)]
        return self._sum(pulls) if self.shared else join(pulls)

    def _sum(self, moves: list[Array]) -> Array:
        """Return the sum of moves on shared coordinates, with their shares."""
        shares = [1.0 if self.continuous else 1 / len(moves)] * len(moves)
        if self.shares is not None:
            shares = list(match_array(self.shares, moves[0]))
        return sum(s * move for s, move in zip(shares, moves, strict=True))
