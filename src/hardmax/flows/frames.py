"""Fixed steps of a flow, in coordinates that do not overflow.

For self-attention with constant V, a step of any explicit Runge-Kutta method multiplies equal tokens by a polynomial
R = R(hV): I + hV for Euler. The discrete counterpart of z = e^{-tV} x is therefore z_k = R^{-k} x_k. Since V commutes
with R, the step can be done on z itself with the scores of R^k z:

    z_{k+1} = R^{-1} step(z_k),    step of w' = V sum_j P_ij(R^k w) w_j,

which is the residual network x_{k+1} = step(x_k) in other coordinates.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np

from hardmax._errors import ParameterError
from hardmax._tensors import in_double, matching, needs_gradient, scaled, solve, to_numpy
from hardmax.rules.self_attention import SelfAttention
from hardmax.rules.sphere import Sphere, on_sphere

Stepper = Callable[[Callable[[Any, float], Any], Any, float, float], Any]
SINGULAR = 1e12  # condition number of R beyond which z_k cannot be had
TERMS = {"euler": 1, "rk4": 4}  # of the exponential series that R(hV) has


class Frame(ABC):
    """Coordinates in which steps are taken; to tokens x and, where there are such, rescaled tokens z."""

    def __init__(self, rule: Any, stepper: Stepper, keys: Any) -> None:
        self._rule = rule
        self._stepper = stepper
        self._keys = keys

    def start(self, tokens: Any) -> Any:
        """The state at time 0."""
        return tokens

    @abstractmethod
    def step(self, state: Any, t: float, h: float) -> Any:
        """The state a step later."""

    @abstractmethod
    def show(self, state: Any) -> tuple[Any, Any]:
        """x, and z or None."""

    def snapshot(self) -> tuple[Any, float] | None:
        """What turns z into x now, if the frame keeps it."""
        return None


def frame_of(rule: Any, name: str, stepper: Stepper, keys: Any, tokens: Any) -> Frame:
    """The frame for a rule."""
    if isinstance(rule, SelfAttention):
        identity = matching(np.eye(tokens.shape[-1]), tokens)
        return (RescaledFrame if rule.has_constant_values else JointFrame)(rule, name, stepper, keys, identity)
    return PlainFrame(rule, stepper, keys)


class PlainFrame(Frame):
    """The tokens themselves."""

    def step(self, state: Any, t: float, h: float) -> Any:
        """One step, brought back to the sphere where it belongs there."""
        moved = self._stepper(lambda x, s: self._rule.velocity(x, s, self._keys), state, t, h)
        return on_sphere(moved) if isinstance(self._rule, Sphere) else moved

    def show(self, state: Any) -> tuple[Any, None]:
        """x."""
        return state, None


class RescaledFrame(Frame):
    """z_k = R^{-k} x_k, in the eigenbasis S of V as y = S^{-1} z; R^k is kept as a number and a moderate matrix.

    Where gradients with respect to V are asked for, S is the identity: they have parts outside the blocks.
    """

    def __init__(self, rule: Any, name: str, stepper: Stepper, keys: Any, identity: Any) -> None:
        super().__init__(rule, stepper, keys)
        growth = rule.growth(len(identity))
        self._given, identity = identity, in_double(identity)
        self._terms, self._identity = TERMS[name], identity
        self._basis = self._inverse = identity
        self._blocks = rule.values(identity, 0.0).T
        if not needs_gradient(rule.V):
            self._basis, self._inverse, self._blocks = (
                matching(matrix, identity) for matrix in (growth.basis, growth.inverse, growth.blocks)
            )
        self._power, self._log = identity, 0.0  # R(hD)^k = e^log power
        self._factors: dict[float, tuple[Any, float]] = {}

    def start(self, tokens: Any) -> Any:
        """y = S^{-1} x, in float64: narrower floats would lose the input itself in S."""
        return in_double(tokens) @ self._inverse.T

    def step(self, state: Any, t: float, h: float) -> Any:
        """One step in the coordinates of R^k, then R^{-1}."""
        R, radius = self._factor(h)
        moved = solve(R, self._stepper(self._rate, state, t, h))
        self._power, self._log = self._power @ R / radius, self._log + float(np.log(radius))
        return moved

    def _rate(self, state: Any, t: float) -> Any:
        P = self._rule.unit_attention(state @ (self._basis @ self._power).T, t, self._keys, self._log)
        return P @ state @ self._blocks.T

    def _factor(self, h: float) -> tuple[Any, float]:
        """R(hD) and its spectral radius."""
        if h not in self._factors:
            term = R = self._identity
            for order in range(1, self._terms + 1):
                term = term @ (h * self._blocks) / order
                R = R + term
            plain = np.asarray(to_numpy(R), np.float64)
            if not np.isfinite(plain).all() or np.linalg.cond(plain) > SINGULAR:
                raise ParameterError(
                    "dt",
                    "leave R(dt V) invertible, I + dt V for Euler",
                    f"a step of {h:g}, for which it is singular: V has a negative eigenvalue of the size of 1/dt",
                    "Use a smaller dt.",
                )
            self._factors[h] = (R, float(np.abs(np.linalg.eigvals(plain)).max()))
        return self._factors[h]

    def show(self, state: Any) -> tuple[Any, Any]:
        """x = R^k z, and z = S y."""
        with np.errstate(over="ignore"):
            grown = scaled(state @ (self._basis @ self._power).T, float(np.exp(self._log)))
            return matching(grown, self._given), matching(state @ self._basis.T, self._given)

    def snapshot(self) -> tuple[Any, float]:
        """R^k as a matrix and the logarithm of its factor."""
        return self._basis @ self._power @ self._inverse, self._log


class JointFrame(Frame):
    """x for a V that depends on time, and beside it F with F' = V(t) F in the same steps: z = F^{-1} x."""

    def __init__(self, rule: Any, name: str, stepper: Stepper, keys: Any, identity: Any) -> None:
        super().__init__(rule, stepper, keys)
        self._fundamental = identity

    def step(self, state: Any, t: float, h: float) -> Any:
        """One step of x, and the same of F."""
        moved = self._stepper(lambda x, s: self._rule.velocity(x, s, self._keys), state, t, h)
        # Rows of F^T are columns of F: values() multiplies each by V.
        self._fundamental = self._stepper(lambda F, s: self._rule.values(F.T, s).T, self._fundamental, t, h)
        return moved

    def show(self, state: Any) -> tuple[Any, Any]:
        """x, and z = F^{-1} x; NaN where F is singular."""
        try:
            return state, solve(self._fundamental, state)
        except (np.linalg.LinAlgError, RuntimeError):  # torch has an error of its own
            return state, state * np.nan
