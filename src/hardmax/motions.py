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
            return Rescaled(rule, shape) if rule.has_constant_values else Joint(rule, shape)
        return Plain(rule, shape)

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

    def read(self, t: float, state: FloatArray) -> tuple[FloatArray, None]:
        """x, brought back to the sphere where it belongs there."""
        tokens = state.reshape(self._shape)
        return (on_sphere(tokens) if isinstance(self._rule, Sphere) else tokens), None


class Rescaled(Motion):
    """z = e^{-tV} x, which stays bounded while x grows."""

    def rate(self, t: float, state: FloatArray) -> FloatArray:
        """dz/dt."""
        return np.asarray(self._rule.rescaled_velocity(state.reshape(self._shape), t)).ravel()

    def read(self, t: float, state: FloatArray) -> tuple[FloatArray, FloatArray]:
        """x = e^{tV} z, and z."""
        rescaled = state.reshape(self._shape)
        return self._rule.growth(self._shape[1]).grown(rescaled, t), rescaled


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
        return tokens, np.asarray(np.linalg.solve(fundamental, tokens.T).T, np.float64)
