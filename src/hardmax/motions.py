"""The differential equation of one cloud, in the variables in which it is best integrated."""

from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from hardmax._types import FloatArray
from hardmax.rules.self_attention import SelfAttention
from hardmax.rules.sphere import Sphere, on_sphere


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
            return (Rescaled if rule.growth(shape[1]).rate > 0 else Decaying)(rule, shape)
        return Plain(rule, shape)

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
    """z = e^{-tV} x, which stays bounded where x grows.

    Scores grow as e^{2 lambda t}, and their rounding errors with them. Once these are seen, rounding decides whom a
    token attends to among those that have come together in the leading directions; and where these differ in others, no
    step is small enough for the error control, which is then loosened. In the end attention is Boolean and does not
    change any more, and it is held.
    """

    _held: FloatArray | None = None

    @property
    def least_progress(self) -> float:
        """Half the time in which tokens move."""
        return 0.5 / max(float(np.linalg.norm(self._rule.value_matrix(self._shape[1]), 2)), 1e-300)

    def hold_attention(self, t: float, state: FloatArray) -> bool:
        """Hold it, once."""
        if self._held is not None:
            return False
        self._held = self._rule.rescaled_attention(state.reshape(self._shape), t)
        return True

    def noise(self, t: float, state: FloatArray) -> float:
        """Rounding of the largest score."""
        return float(self._rule.largest_score(state.reshape(self._shape), t) * np.finfo(np.float64).eps)

    def rate(self, t: float, state: FloatArray) -> FloatArray:
        """dz/dt."""
        rescaled = state.reshape(self._shape)
        if self._held is not None:
            return np.asarray(self._rule.values(self._held @ rescaled - rescaled, t)).ravel()
        return np.asarray(self._rule.rescaled_velocity(rescaled, t)).ravel()

    def read(self, t: float, state: FloatArray) -> tuple[FloatArray, FloatArray]:
        """x = e^{tV} z, and z."""
        rescaled = state.reshape(self._shape)
        return self._rule.growth(self._shape[1]).grown(rescaled, t), rescaled


class Decaying(Plain):
    """x itself where every eigenvalue of V has a real part of at most 0: there it is x that stays bounded."""

    def read(self, t: float, state: FloatArray) -> tuple[FloatArray, FloatArray]:
        """x, and z = e^{-tV} x."""
        tokens = state.reshape(self._shape)
        return tokens, self._rule.growth(self._shape[1]).grown(tokens, -t)


class Joint(Motion):
    """x together with the matrix F of F' = V(t) F, F(0) = I, which takes the place of e^{tV}: z = F^{-1} x."""

    def start(self, tokens: FloatArray) -> FloatArray:
        """x, then F = I."""
        return np.concatenate([tokens.ravel(), np.eye(self._shape[1]).ravel()])

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
