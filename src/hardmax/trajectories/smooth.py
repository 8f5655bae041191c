"""The result of `simulate` for every rule but `Hardmax`: tokens by layers or in time, and what follows from them."""

from dataclasses import dataclass, replace
from functools import cached_property
from os import PathLike
from typing import Any, Self

import numpy as np

from hardmax._errors import ParameterError, ParameterIndexError
from hardmax._tensors import as_mask, largest, like, matching, to_numpy, where
from hardmax._types import AnyArray, BoolArray, FloatArray, IntArray
from hardmax.flows.clusters import labels_of
from hardmax.flows.spectrum import expected_of_values
from hardmax.rules.base import Rule
from hardmax.rules.heads import by_heads
from hardmax.rules.self_attention import SelfAttention
from hardmax.rules.sphere import Sphere
from hardmax.trajectories.base import Trajectory
from hardmax.trajectories.sentences import smooth_status

NEXT_CLOUD = " | "  # between what is said of several clouds
ONE_PLACE = 1e-9  # of the spread: tokens that close count as one when leaders are named


@dataclass(frozen=True, eq=False, repr=False)
class SmoothTrajectory(Trajectory):
    """Tokens under a rule with smooth attention, by layers or in continuous time.

    Attributes
    ----------
    tokens : (saved, n, d) or (saved, batch, n, d) array
        Positions at each saved layer or time: x, for self-attention. Where an integrator had to stop, the rest is NaN.
    rule : Rule
    saved : (saved,) array
        Layers or times.
    real : (n,) or (batch, n) array
        True for real tokens, False for padding.
    batched : bool
    stats : dict
        What ran: method, dtype, layers or steps and evaluations.
    rescaled : (saved, n, d) or (saved, batch, n, d) array, or None
        z = e^{-tV} x for self-attention (with fixed steps its discrete counterpart R^{-k} x); None for other rules.
    heads : tuple of Trajectory
        Of heads on coordinates of their own; empty for other rules.
    problem : str
        Why an integration stopped early, as a sentence; empty if it did not.
    start : (n, d) or (batch, n, d) array
        The input, from which the spread is taken.
    frames : tuple
        With fixed steps, what turns z into x at each saved time.
    held : tuple
        For each cloud None, or the time from which attention was held and that matrix; empty where none was.

    Examples
    --------
    >>> import hardmax as hm
    >>> tokens = hm.configuration("gaussian", n=8, d=2)
    >>> trajectory = hm.simulate(tokens, hm.SelfAttention(), times=10)
    >>> trajectory
    Ran from t = 0 to 10 on 8 tokens of dimension 2. 2 clusters of rescaled tokens at the end. 2 leaders.
    >>> trajectory.leaders
    array([3, 6])
    """

    tokens: Any
    rule: Rule
    saved: AnyArray
    real: BoolArray
    batched: bool
    stats: dict[str, Any]
    rescaled: Any = None
    heads: tuple[Trajectory, ...] = ()
    problem: str = ""
    start: Any = None
    frames: tuple[tuple[Any, float], ...] = ()
    held: tuple[tuple[float, FloatArray] | None, ...] = ()

    def _cloud(self, b: int) -> Self:
        b = range(len(self.real))[b]
        own = next((text for text in self.problem.split(NEXT_CLOUD) if text.startswith(f"Cloud {b}: ")), "")
        held = self.held[b] if self.held else None
        return replace(
            self,
            tokens=self.tokens[:, b],
            problem=own.removeprefix(f"Cloud {b}: "),
            stats=self.stats | ({"held_from": None if held is None else held[0]} if "held_from" in self.stats else {}),
            real=self.real[b],
            batched=False,
            rescaled=None if self.rescaled is None else self.rescaled[:, b],
            heads=tuple(head[b] for head in self.heads),
            start=None if self.start is None else self.start[b],
            held=self.held[b : b + 1],
        )

    @property
    def mask(self) -> BoolArray:
        """True for real tokens: (n,) or (batch, n)."""
        return self.real

    @property
    def times(self) -> FloatArray:
        """The saved times; for layers an error."""
        if not self.rule.continuous:
            raise ParameterError("times", "be asked of a flow", "a rule with layers", "Use `saved`.")
        return self.saved

    @property
    def shows_rescaled(self) -> bool:
        """Whether it is the rescaled tokens that have a limit: not where every real part of V is 0 or negative."""
        rule = self.rule
        if self.rescaled is None or not isinstance(rule, SelfAttention):
            return False
        return not rule.has_constant_values or rule.growth(self.array.shape[-1]).grows

    @property
    def letter(self) -> str:
        """What pictures call the coordinates: z for rescaled tokens and for layers, x for others in time."""
        return "x" if self.rule.continuous and not self.shows_rescaled else "z"

    @cached_property
    def drawn(self) -> AnyArray:
        """The rescaled tokens where it is these that have a limit, else the tokens."""
        return np.asarray(to_numpy(self.rescaled)) if self.shows_rescaled else self.array

    @property
    def reached(self) -> int:
        """How many of the saved layers or times hold finite tokens: all, unless something overflowed or stopped."""
        finite = np.asarray(np.isfinite(self.drawn[..., self.real, :]).all(axis=(-1, -2)))
        return len(finite) if finite.all() else int(np.argmin(finite))

    def index(self, k: int) -> int:
        """Position k in `tokens`; negative counts from the last. With every layer saved it is the layer."""
        count = len(self.saved)
        at = k if k >= 0 else count + k
        if not 0 <= at < count:
            raise ParameterIndexError("k", f"lie between {-count} and {count - 1}", k, "Save more layers or times.")
        return at

    def label(self, at: int) -> str:
        """ "layer k" or "t = ..."."""
        return f"t = {self.saved[at]:.3g}" if self.rule.continuous else f"layer {self.saved[at]}"

    def attention(self, k: int = -1) -> Any:
        """Row-stochastic matrix P at position k: (n, n), or (batch, n, n); for several heads (..., heads, n, n).

        Computed when asked for; where attention was held, the matrix that moved the tokens. Rows and columns of padding
        are zero.
        """
        with np.errstate(over="ignore", invalid="ignore", under="ignore"):  # tokens beyond the range of floats have NaN
            return self._attention(self.index(k))

    def _attention(self, at: int) -> Any:
        when = float(self.saved[at])
        if self.heads:
            return by_heads([head.attention(at) for head in self.heads], self.real.ndim + 1)
        keys = None if self.real.all() else self.real[..., None, :]
        growing = self._growing
        if growing is not None:
            growth = growing.growth(self.array.shape[-1])
            unit = self._unit(at, growth.unit(when), growth.rate * when)
            P = growing.unit_attention(unit, when, keys, growth.rate * when)
            P = like(self._with_held(np.asarray(P), when), self.tokens)
        elif self.frames:
            assert isinstance(self.rule, SelfAttention)
            power, log = self.frames[at]
            tokens = self._unit(at, power, log)
            P = self.rule.unit_attention(tokens, when, as_mask(keys, tokens), log)
        else:
            tokens = self.tokens[at]
            P = self.rule.attention(where(self.real[..., None], tokens, 0.0), when, as_mask(keys, tokens))
        rows = self.real[..., None, :, None] if P.ndim > self.real.ndim + 1 else self.real[..., None]
        return P if keys is None else where(np.broadcast_to(rows, tuple(P.shape)), P, 0.0)

    def _unit(self, at: int, power: Any, log: float) -> Any:
        """e^{-log} x, from x itself where it is finite: weak directions of z would blur the leading ones."""
        if np.isfinite(self.array[at][self.real]).all():
            tokens = where(self.real[..., None], self.tokens[at], 0.0) * float(np.exp(-log))
        else:
            tokens = where(self.real[..., None], self.rescaled[at], 0.0)
            tokens = tokens @ matching(power, tokens).T
        return tokens if self.frames else np.asarray(to_numpy(tokens), np.float64)

    def _with_held(self, P: FloatArray, when: float) -> FloatArray:
        """P, with the matrix that moved the tokens in its place where attention was held."""
        clouds, real = P if self.batched else P[None], np.atleast_2d(self.real)
        for b, held in enumerate(self.held):
            if held is not None and when >= held[0]:
                clouds[b][np.ix_(real[b], real[b])] = held[1]
        return P

    @property
    def _growing(self) -> SelfAttention | None:
        """The rule, if under it x = e^{tV} z may leave the range of floats while z does not."""
        rule = self.rule
        if isinstance(rule, SelfAttention) and rule.has_constant_values and self.stats["adaptive"]:
            return rule if rule.growth(self.array.shape[-1]).grows else None
        return None

    @cached_property
    def _dual(self) -> FloatArray | None:
        """What reads the components in the leading eigenspace of V, if that is not the whole space."""
        rule, d = self.rule, self.array.shape[-1]
        if isinstance(rule, SelfAttention) and rule.has_constant_values:
            expected = expected_of_values(rule.value_matrix(d))
            return expected.dual if expected.kind in ("hyperplanes", "product", "complex") else None
        return None

    @cached_property
    def gathering(self) -> AnyArray:
        """The coordinates in which tokens gather: of `drawn`, the components in the leading eigenspace of V.

        All of them where that eigenspace is the whole space, and for rules other than self-attention.
        """
        return self.drawn if self._dual is None else np.asarray(self.drawn @ self._dual)

    @cached_property
    def leaders(self) -> Any:
        """Tokens that lead at the last position that holds finite tokens; for a batch a list."""
        return self.leaders_at(self.reached - 1)

    def leaders_at(self, k: int) -> Any:
        """Tokens that attend to themselves more than to all others together, P_ii > 1/2, at position k.

        As attention sharpens this becomes C_i = {i}. Tokens that have come to one place count as one, named by the one
        that moved least. For a batch a list; with several heads a token that leads in one.
        """
        if not self.rule.attends or not self.reached:
            nobody = np.empty(0, np.intp)
            return [nobody] * len(self.real) if self.batched else nobody
        at = self.index(k)
        P = np.asarray(to_numpy(self.attention(at)))
        points, start = self.drawn[at], self.drawn[0] if self.start is None else self.start
        with np.errstate(over="ignore", invalid="ignore"):  # padding may hold anything
            if not self.batched:
                return _leaders(P, points, start, self.real)
            return [_leaders(*one) for one in zip(P, points, start, self.real, strict=True)]

    @cached_property
    def clusters(self) -> IntArray:
        """Label of each token's cluster at the end, -1 for padding: (n,) or (batch, n).

        Tokens are in one cluster when a chain of steps of at most 1e-3 times the spread, the first or the last,
        whichever is larger, joins them in the coordinates of `gathering`: tokens on one of the hyperplanes of
        Theorem 4.2 are one cluster.
        """
        if not self.reached:
            return np.full(self.real.shape, -1)
        start = self.drawn[0] if self.start is None else self.start  # z = x at time 0
        first, last = start if self._dual is None else start @ self._dual, self.gathering[self.reached - 1]
        if not self.batched:
            return labels_of(last, first, self.real)
        return np.stack([labels_of(z, start, row) for z, start, row in zip(last, first, self.real, strict=True)])

    @cached_property
    def similarity(self) -> FloatArray:
        """Mean of ⟨x_i, x_j⟩/(|x_i||x_j|) over all pairs at each saved position: 1 when all tokens point one way."""
        with np.errstate(invalid="ignore"):  # directions of infinite tokens are NaN
            units = self.array / largest(self.array)
            norms = np.linalg.norm(units, axis=-1, keepdims=True)
            units = np.where(self.real[..., None], units / np.where(norms > 0, norms, 1), 0)
            total = units.sum(axis=-2) / self.real.sum(axis=-1)[..., None]
            return np.asarray((total * total).sum(axis=-1))

    @cached_property
    def energy(self) -> FloatArray:
        """E = 1/(2 beta n^2) sum_ij exp(beta ⟨x_i, x_j⟩) at each saved time, for tokens on the sphere."""
        if not isinstance(self.rule, Sphere):
            raise ParameterError("energy", "be asked of tokens under hm.Sphere", f"{self.rule!r}", "See `similarity`.")
        if self.real.all():
            return np.asarray(self.rule.energy(self.array))
        if not self.batched:
            return np.asarray(self.rule.energy(self.array[:, self.real]))
        return np.stack([self.rule.energy(self.array[:, b, row]) for b, row in enumerate(self.real)], axis=-1)

    @cached_property
    def status(self) -> str:
        """What happened, as a sentence."""
        return smooth_status(self)

    def to_npz(self, path: str | PathLike[str]) -> None:
        """Write everything to a NumPy archive, whole or not at all."""
        from hardmax.trajectories.smooth_storage import save_smooth

        save_smooth(self, path)

    def to_json(self) -> str:
        """Status, rule, saved layers or times, tokens, rescaled tokens, leaders and clusters as JSON."""
        from hardmax.trajectories.smooth_storage import smooth_json

        return smooth_json(self)


def _leaders(P: AnyArray, points: AnyArray, start: AnyArray, real: BoolArray) -> IntArray:
    """For each place where tokens attend to it by more than 1/2 in some head, the token there that moved least."""
    labels = labels_of(points, start, real, near=ONE_PLACE)
    inside = labels[:, None] == np.arange(labels.max() + 1)  # (n, places)
    own = (P @ inside)[..., np.arange(len(labels)), labels]  # (..., n), attention of each token to its own place
    leads = np.atleast_2d(own > 0.5).any(axis=0) & real
    moved = np.linalg.norm(np.where(real[:, None], points - start, 0.0), axis=-1)
    found = [np.flatnonzero(leads & inside[:, place]) for place in range(inside.shape[1])]
    return np.sort([members[moved[members].argmin()] for members in found if len(members)]).astype(np.intp)
