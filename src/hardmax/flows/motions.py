"""The differential equation of one cloud, in the variables in which it is best integrated."""

from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from hardmax._types import FloatArray
from hardmax.rules.self_attention import SelfAttention
from hardmax.rules.sphere import Sphere, on_sphere

BOOLEAN = 1 - 1e-3  # the least that the largest entry of each row must be for attention to be held


class Motion(ABC):
    """A flat state with its rate of change; to tokens x and, where there are such, rescaled tokens z."""

    def __init__(self, rule: Any, shape: tuple[int, int]) -> None:
        self._rule = rule
        self._shape = shape

    @staticmethod
    def of(rule: Any, shape: tuple[int, int]) -> "Motion":
        """The motion for a rule."""
        if isinstance(rule, SelfAttention):
            if not rule.has_constant_values:
                return Joint(rule, shape)
            return (Rescaled if rule.growth(shape[1]).grows else Decaying)(rule, shape)
        return Plain(rule, shape)

    held: FloatArray | None = None  # attention, once it is held

    @property
    def least_progress(self) -> float:
        """How far in time 100 steps should come at the least, before attention is looked at."""
        return 0.0

    def noise(self, t: float, state: FloatArray) -> float:
        """What rounding may change a score by, and so attention."""
        return 0.0

    def hold_attention(self, t: float, state: FloatArray) -> bool:
        """Keep attention as it is from now on; say whether this was done."""
        return False

    def start(self, tokens: FloatArray) -> FloatArray:
        """The state at time 0."""
        return tokens.ravel()

    def sizes(self, start: FloatArray) -> FloatArray:
        """What the absolute tolerance is relative to: the largest coordinate at time 0."""
        return np.full(start.size, float(np.abs(start).max()) or 1.0)

    @abstractmethod
    def rate(self, t: float, state: FloatArray) -> FloatArray:
        """Its derivative."""

    @abstractmethod
    def read(self, t: float, state: FloatArray) -> tuple[FloatArray, FloatArray | None]:
        """x and z at time t."""


class Plain(Motion):
    """The tokens themselves."""

    def rate(self, t: float, state: FloatArray) -> FloatArray:
        """dx/dt."""
        return np.asarray(self._rule.velocity(state.reshape(self._shape), t)).ravel()

    def read(self, t: float, state: FloatArray) -> tuple[FloatArray, FloatArray | None]:
        """x, brought back to the sphere where it belongs there."""
        tokens = state.reshape(self._shape)
        return (on_sphere(tokens) if isinstance(self._rule, Sphere) else tokens), None


class Rescaled(Motion):
    """y = S^{-1} z with z = e^{-tV} x, in the eigenbasis S of V: y_i' = sum_j P_ij D (y_j - y_i).

    Scores grow as e^{2 lambda t}, and attention with them becomes as sharp. Where tokens have come together in the
    leading directions and differ in others, it may then switch between them faster than the error control can follow,
    and in the end by rounding alone. The error control is loosened where it makes no headway; where attention is
    Boolean, it is held instead.
    """

    def __init__(self, rule: Any, shape: tuple[int, int]) -> None:
        super().__init__(rule, shape)
        self._growth = rule.growth(shape[1])
        self._constant = not (callable(rule.Q) or callable(rule.K))

    @property
    def least_progress(self) -> float:
        """Half the time in which tokens move; nothing where Q or K may ask for small steps themselves."""
        size = float(np.linalg.norm(self._growth.blocks, 2))
        return 0.5 / max(size, 1e-300) if self._constant else 0.0

    def start(self, tokens: FloatArray) -> FloatArray:
        """y = S^{-1} x."""
        return np.asarray(tokens @ self._growth.inverse.T).ravel()

    def _unit(self, t: float, state: FloatArray) -> FloatArray:
        """e^{-lambda t} x."""
        return np.asarray(state.reshape(self._shape) @ self._growth.frame(t).T)

    def _attention(self, t: float, state: FloatArray) -> FloatArray:
        return np.asarray(self._rule.unit_attention(self._unit(t, state), t, None, self._growth.rate * t))

    def hold_attention(self, t: float, state: FloatArray) -> bool:
        """Hold it, once, where it is Boolean."""
        P = self._attention(t, state)
        if self.held is not None or P.max(axis=1).min() < BOOLEAN:
            return False
        self.held = P
        return True

    def noise(self, t: float, state: FloatArray) -> float:
        """Rounding of the largest score."""
        return float(self._rule.largest_score(self._unit(t, state), t) * np.finfo(np.float64).eps)

    def rate(self, t: float, state: FloatArray) -> FloatArray:
        """dy/dt."""
        y = state.reshape(self._shape)
        P = self._attention(t, state) if self.held is None else self.held
        return np.asarray((P @ y - y) @ self._growth.blocks.T).ravel()

    def read(self, t: float, state: FloatArray) -> tuple[FloatArray, FloatArray]:
        """x = e^{tV} z, and z = S y."""
        return self._growth.grown(self._unit(t, state), t), state.reshape(self._shape) @ self._growth.basis.T


class Decaying(Plain):
    """x itself where every eigenvalue of V has a real part of at most 0: there it is x that stays bounded."""

    def read(self, t: float, state: FloatArray) -> tuple[FloatArray, FloatArray]:
        """x, and z = e^{-tV} x."""
        tokens, growth = state.reshape(self._shape), self._rule.growth(self._shape[1])
        with np.errstate(over="ignore", invalid="ignore"):  # z leaves the range of floats sooner than x
            return tokens, growth.grown(tokens @ growth.unit(-t).T, -t)


class Joint(Motion):
    """x together with the matrix F of F' = V(t) F, F(0) = I, which takes the place of e^{tV}: z = F^{-1} x."""

    def start(self, tokens: FloatArray) -> FloatArray:
        """x, then F = I."""
        return np.concatenate([tokens.ravel(), np.eye(self._shape[1]).ravel()])

    def sizes(self, start: FloatArray) -> FloatArray:
        """The largest coordinate for x, 1 for F."""
        sizes = np.ones(start.size)
        sizes[: -(self._shape[1] ** 2)] = float(np.abs(start[: -(self._shape[1] ** 2)]).max()) or 1.0
        return sizes

    def _split(self, state: FloatArray) -> tuple[FloatArray, FloatArray]:
        d = self._shape[1]
        return state[: -d * d].reshape(self._shape), state[-d * d :].reshape(d, d)

    def rate(self, t: float, state: FloatArray) -> FloatArray:
        """dx/dt and dF/dt."""
        tokens, fundamental = self._split(state)
        V = self._rule.value_matrix(self._shape[1], t)
        return np.concatenate([np.asarray(self._rule.velocity(tokens, t)).ravel(), (V @ fundamental).ravel()])

    def read(self, t: float, state: FloatArray) -> tuple[FloatArray, FloatArray]:
        """x, and z = F^{-1} x."""
        tokens, fundamental = self._split(state)
        try:
            return tokens, np.asarray(np.linalg.solve(fundamental, tokens.T).T, np.float64)
        except np.linalg.LinAlgError:  # F has shrunk below the range of floats
            return tokens, np.full_like(tokens, np.nan)
