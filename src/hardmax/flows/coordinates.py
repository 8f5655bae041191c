"""The variables in which a flow is integrated, adaptively and by fixed steps.

For self-attention with constant V, tokens x grow as e^{tV} = e^{t lambda} e^{t(V -
lambda I)}, lambda = max Re eig V: a growing number times a bounded matrix. The rescaled
tokens z = e^{-tV} x stay bounded. If V has both growing and decaying directions,
components of z have very different sizes, and rounding errors of the large ones would
spoil the leading ones. In a real eigenbasis S, with V = S D S^{-1} and D made of blocks
of size 1 and 2, each component has its own rounding error: integrators work on y =
S^{-1} z.

A fixed step of an explicit Runge-Kutta method multiplies equal tokens by a polynomial R
= R(hV): I + hV for Euler. The discrete counterpart of z is therefore z_k = R^{-k} x_k.
Since V commutes with R, the step can be done on z itself with the scores of R^k z:

    z_{k+1} = R^{-1} step(z_k),    step of w' = V sum_j P_ij(R^k w) w_j,

which is the residual network x_{k+1} = step(x_k) in other coordinates.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, wraps
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from weakref import WeakKeyDictionary

import numpy as np
import scipy  # submodules load on first use

from hardmax._arrays import join, match_array, needs_gradient, where
from hardmax._errors import ParameterError
from hardmax._types import Array, FloatArray
from hardmax._validation import is_tensor, library_of, to_numpy
from hardmax.flows.steps import Terms
from hardmax.rules.base import Flow
from hardmax.rules.compose import MultiHead
from hardmax.rules.self_attention import SelfAttention
from hardmax.rules.sphere import Sphere, on_sphere

if TYPE_CHECKING:
    from hardmax.flows.integrate import Method

# condition number of the eigenbasis above which S is the identity
MAX_BASIS_CONDITION = 1e4
GROWTH_TOL = 1e-12  # a smaller lambda, relative to |D|, counts as zero
MIN_BOOLEAN = 1 - 1e-3  # smallest row maximum for attention to count as Boolean
# bound of rounding errors of scores, below which attention has gradients
MAX_GRADIENT_NOISE = 1e12
# scores grow by at most e^600 in the noise estimate: larger factors overflow
MAX_EXPONENT = 600.0
MAX_STEP_CONDITION = 1e12  # condition number of R above which z_k cannot be computed
LARGE = 2.0**500  # a size from which states are divided by it for their scores
TAYLOR_DEGREE = 18  # of e^M for |M| <= 1: the rest is below 1e-17
DEGREES = {"euler": 1, "rk4": 4}  # of the polynomial R(hV)
Result = TypeVar("Result")


def cache_per_rule(
    find: Callable[[SelfAttention, int], Result],
) -> Callable[[SelfAttention, int], Result]:
    """Decorate a function of a rule and a dimension to cache its results as long as the
    rule lives.
    """
    cache: WeakKeyDictionary[SelfAttention, dict[tuple[int, ...], Result]] = (
        WeakKeyDictionary()
    )

    @wraps(find)
    def find_once(rule: SelfAttention, d: int) -> Result:
        results = cache.setdefault(rule, {})
        # a tensor may change in place
        versions = [getattr(weight, "_version", 0) for weight in rule.weights]
        key = (d, *versions)
        if key not in results:
            results[key] = find(rule, d)
        return results[key]

    return find_once


@dataclass(frozen=True, eq=False)
class Growth:
    """A constant V in its real eigenbasis, and its exponential at any time."""

    rate: float  # lambda
    basis: FloatArray  # S
    inverse: FloatArray
    blocks: FloatArray  # D; V itself if S is the identity
    # (d,) imaginary part of each column's eigenvalue; None if S is the identity
    imaginary: FloatArray | None

    @classmethod
    def without_basis(cls, rate: float, V: FloatArray) -> "Growth":
        """Return a V whose S is the identity."""
        identity = np.eye(len(V))
        return cls(rate, identity, identity, V, None)

    @cached_property
    def grows(self) -> bool:
        """Whether lambda is positive beyond rounding."""
        return self.rate > GROWTH_TOL * float(np.linalg.norm(self.blocks, 2))

    @property
    def exponent(self) -> FloatArray:
        """D - lambda I."""
        return self.blocks - self.rate * np.eye(len(self.blocks))

    def basis_at(self, t: float) -> FloatArray:
        """Return S e^{t(D - lambda I)}, which maps y to e^{-lambda t} x."""
        if self.imaginary is None:
            return np.asarray(scipy.linalg.expm(t * self.exponent))
        decay = np.exp(t * (np.diag(self.blocks) - self.rate))
        if not self.imaginary.any():
            return np.asarray(self.basis * decay)
        straight = self.basis * (decay * np.cos(t * self.imaginary))
        # the other column of each pair
        shift = np.sign(self.imaginary).astype(np.intp)
        partners = self.basis[:, np.arange(len(decay)) + shift]
        return np.asarray(straight - partners * (decay * np.sin(t * self.imaginary)))

    def bounded_factor(self, t: float) -> FloatArray:
        """Return e^{t(V - lambda I)}."""
        return np.asarray(self.basis_at(t) @ self.inverse)


@cache_per_rule
def find_growth(rule: SelfAttention, d: int) -> Growth:
    """Find the real eigenbasis of V for a rule whose V is constant."""
    V = rule.value_matrix(d)
    if np.array_equal(V, V.T):
        values, S = np.linalg.eigh(V)
        rate = float(values.max())
        return Growth(rate, S, S.T, np.diag(values), np.zeros(len(V)))
    # Complex pairs are neighbours, the positive imaginary part first
    values, vectors = np.linalg.eig(V)
    rate = float(values.real.max())
    imaginary = values.imag.astype(np.float64)
    S = np.where(imaginary < 0, np.roll(vectors.imag, 1, axis=1), vectors.real)
    if np.linalg.cond(S) > MAX_BASIS_CONDITION:
        return Growth.without_basis(rate, V)
    blocks = np.diag(values.real)
    for p in np.flatnonzero(imaginary > 0):
        blocks[p, p + 1] = imaginary[p]
        blocks[p + 1, p] = -imaginary[p]
    return Growth(rate, S, np.linalg.inv(S), blocks, imaginary)


class Power(NamedTuple):
    """R^k = e^log times a matrix of moderate size: it maps z_k to x_k."""

    matrix: Array
    log: float


class Reading(NamedTuple):
    """The tokens of a state."""

    tokens: Array  # x
    rescaled: Array | None  # z, if the coordinates have it


class Coordinates:
    """The state of an integration, with its derivative: here the tokens themselves.

    A state is an array or tensor of shape (..., rows, d): one row per token, and
    possibly more rows below.
    """

    is_held = False  # whether attention is held constant
    power: Power | None = None  # R^k with fixed steps

    def __init__(self, rule: Flow | MultiHead, keys: Array = None) -> None:
        self._rule = rule
        self._keys = keys

    def start(self, tokens: Array) -> Array:
        """Return the state at time 0."""
        return tokens

    def rate(self, state: Array, t: float) -> Array:
        """Return the derivative of the state."""
        return self._rule.velocity(state, t, self._keys)

    def read(self, state: Array, t: float) -> Reading:
        """Return the tokens at time t."""
        return Reading(state, None)

    def after_step(self, state: Array) -> Array:
        """Correct the state after each fixed step, or before `read` in an adaptive
        integration.
        """
        return state

    @property
    def varies(self) -> bool:
        """Whether Q, K, V or beta depends on time."""
        return any(map(callable, self._rule.weights))

    def terms(self, d: int) -> Terms | None:
        """Return what compiled steps need; None if only `rate` gives the derivative."""
        return None

    def matrices(self, t: float, d: int) -> tuple[FloatArray, FloatArray]:
        """Return Q^T K and V at time t, for compiled steps."""
        raise NotImplementedError

    def sizes(self, start: FloatArray) -> FloatArray:
        """Return the unit of the absolute tolerance for each entry: the largest
        coordinate at time 0.
        """
        return np.full(start.shape, float(np.abs(start).max()) or 1.0)


class OnSphere(Coordinates):
    """Tokens on the sphere."""

    _rule: Sphere

    def after_step(self, state: Array) -> Array:
        return on_sphere(state)

    def terms(self, d: int) -> Terms | None:
        if type(self._rule) is not Sphere:
            return None
        terms = Terms.of(*self.matrices(0.0, d), self._rule.causal)
        return terms._replace(sphere=1 if self._rule.normalized else 2)

    def matrices(self, t: float, d: int) -> tuple[FloatArray, FloatArray]:
        identity = np.eye(d)
        return identity * float(to_numpy(self._rule.find_beta(t))), identity


def depends_on_gradients(rule: Any) -> bool:
    """Return whether a weight requires gradients, or a function of time returns such a
    tensor.
    """
    weights = [weight(0.0) if callable(weight) else weight for weight in rule.weights]
    return needs_gradient(*weights)


def choose_coordinates(
    rule: Flow | MultiHead,
    tokens: Array,
    keys: Array = None,
    *,
    steps: "Method | None" = None,
) -> Coordinates:
    """Choose the coordinates for a rule; `steps` is a method with fixed steps, or None."""
    if isinstance(rule, Sphere):
        return OnSphere(rule, keys)
    if not isinstance(rule, SelfAttention):
        return Coordinates(rule, keys)
    if not rule.has_constant_values:
        return TokensAndGrowth(rule, keys)
    if steps is not None:
        return RescaledSteps(rule, keys, tokens, steps)
    growth = find_growth(rule, tokens.shape[-1])
    return Rescaled(rule, growth) if growth.grows else Decaying(rule)


class Attending(Coordinates):
    """Coordinates of self-attention."""

    _rule: SelfAttention

    def values(self, tokens: Array) -> Array:
        """Return V x for each token and a constant V."""
        return self._rule.values(tokens, 0.0)

    def terms(self, d: int) -> Terms | None:
        if type(self._rule) is not SelfAttention:
            return None
        return Terms.of(*self.matrices(0.0, d), self._rule.causal)

    def matrices(self, t: float, d: int) -> tuple[FloatArray, FloatArray]:
        return self._rule.form(d, t), self._rule.value_matrix(d, t)


class Decaying(Attending):
    """x itself if every eigenvalue of V has a real part of at most 0: then x stays
    bounded, and z may overflow.
    """

    def read(self, state: Array, t: float) -> Reading:
        growth = find_growth(self._rule, state.shape[-1])
        bounded = state @ match_array(growth.bounded_factor(-t), state).T
        return Reading(state, _scale(bounded, -growth.rate * t))


class TokensAndGrowth(Attending):
    """x for a V that depends on time, and below it the rows of F^T, where F' = V(t) F,
    F(0) = I: z = F^{-1} x.
    """

    def start(self, tokens: Array) -> Array:
        d = tokens.shape[-1]
        identity = np.broadcast_to(np.eye(d), (*tokens.shape[:-2], d, d))
        return join([tokens, match_array(identity, tokens)], axis=-2)

    def sizes(self, start: FloatArray) -> FloatArray:
        d = start.shape[-1]
        sizes = np.ones_like(start)
        sizes[..., :-d, :] = super().sizes(start[..., :-d, :])
        return sizes

    def rate(self, state: Array, t: float) -> Array:
        d = state.shape[-1]
        velocity = self._rule.velocity(state[..., :-d, :], t, self._keys)
        growth = self._rule.values(state[..., -d:, :], t)
        return join([velocity, growth], axis=-2)

    def read(self, state: Array, t: float) -> Reading:
        d = state.shape[-1]
        tokens = state[..., :-d, :]
        F = state[..., -d:, :].reshape(-1, d, d)[0].T  # the same for all of a batch
        try:
            return Reading(tokens, _solve(F, tokens))
        except (
            np.linalg.LinAlgError,
            RuntimeError,
        ):  # of NumPy and torch: F is singular
            return Reading(tokens, tokens * np.nan)


class Rescaled(Attending):
    """y = S^{-1} z in continuous time: y_i' = sum_j P_ij D (y_j - y_i).

    Scores grow as e^{2 lambda t}, and attention sharpens. If tokens have met in the
    leading directions and differ in others, attention may switch between them faster
    than the error control can follow, eventually by rounding only. `integrate.py` then
    loosens the error control, or holds attention constant if it is Boolean.
    """

    held: FloatArray | None = None  # attention, once it is held

    def __init__(self, rule: SelfAttention, growth: Growth) -> None:
        super().__init__(rule)
        self._growth = growth

    @property
    def min_progress(self) -> float:
        """The time that 100 steps should cover: half the time scale of the tokens; 0 if
        Q or K may need small steps.
        """
        if callable(self._rule.Q) or callable(self._rule.K):
            return 0.0
        return 0.5 / max(float(np.linalg.norm(self._growth.blocks, 2)), 1e-300)

    @property
    def is_held(self) -> bool:  # type: ignore[override]
        return self.held is not None

    def terms(self, d: int) -> Terms | None:
        terms = super().terms(d)
        if terms is None:
            return None
        growth = self._growth
        exponent = growth.exponent
        terms = terms._replace(rate=growth.rate, offset=1.0)
        if growth.imaginary is None:
            powers = [np.eye(d)]
            for k in range(1, TAYLOR_DEGREE + 1):
                powers.append(powers[-1] @ exponent / k)
            return terms._replace(powers=np.array(powers))
        if exponent.any():
            decay = np.diag(exponent).copy()
            return terms._replace(decay=decay, turn=growth.imaginary)
        return terms

    def matrices(self, t: float, d: int) -> tuple[FloatArray, FloatArray]:
        S = self._growth.basis
        return np.asarray(S.T @ self._rule.form(d, t) @ S), self._growth.blocks

    def start(self, tokens: Array) -> Array:
        return tokens @ match_array(self._growth.inverse, tokens).T

    def _unit(self, state: Array, t: float) -> Array:
        """Return e^{-lambda t} x."""
        return state @ match_array(self._growth.basis_at(t), state).T

    def hold_attention(self, state: FloatArray, t: float) -> FloatArray | None:
        """Hold attention constant from now on if it is Boolean and not yet held, and
        return it; else return None.
        """
        unit = self._unit(state, t)
        P = np.asarray(self._rule.attention(unit, t, None, self._growth.rate * t))
        if self.is_held or P.max(axis=1).min() < MIN_BOOLEAN:
            return None
        self.held = P
        return P

    @property
    def spread(self) -> float:
        """The largest difference of real parts of eigenvalues of V."""
        lowest = float(np.linalg.eigvals(self._growth.blocks).real.min())
        return self._growth.rate - lowest

    @property
    def differs_in_clusters(self) -> bool:
        """Whether tokens that have met in the leading directions may differ in others
        for long.
        """
        return self.spread > self._growth.rate / 2

    def is_blurred(self, state: Array, t: float) -> bool:
        """Return whether tokens of a cluster are equal in floats, so that gradients of
        their attention are noise.
        """
        return self.noise(to_numpy(state), t) > MAX_GRADIENT_NOISE

    def noise(self, state: FloatArray, t: float) -> float:
        """Bound the change of a score, and so of attention, by rounding: eps times a
        bound of |⟨Q x_i, K x_j⟩|.
        """
        length = float(np.linalg.norm(self._unit(state, t), axis=1).max())
        form = float(np.linalg.norm(self._rule.form(state.shape[-1], t), 2))
        # of products of two tokens
        growth = float(np.exp(min(2 * self._growth.rate * t, MAX_EXPONENT)))
        return growth * length**2 * form * float(np.finfo(np.float64).eps)

    def rate(self, state: Array, t: float) -> Array:
        log = self._growth.rate * t
        if self.held is not None:
            means = self.held @ state
        elif is_tensor(state) and self.is_blurred(state, t):
            P = self._rule.attention(self._unit(state, t), t, None, log)
            means = P.detach() @ state
        else:
            bounded = state
            if not is_tensor(state) and np.abs(state).max() > LARGE:
                bounded = state / LARGE  # the matrix of `_unit` might overflow
                log += float(np.log(LARGE))
            unit = self._unit(bounded, t)
            means = self._rule.scores(unit, t, None, log).means(state)
        return self._grow(means - state)

    def _grow(self, pull: Array) -> Array:
        return pull @ match_array(self._growth.blocks, pull).T

    def read(self, state: Array, t: float) -> Reading:
        x = _scale(self._unit(state, t), self._growth.rate * t)
        return Reading(x, state @ match_array(self._growth.basis, state).T)


class RescaledByTensor(Rescaled):
    """z itself for a V that requires gradients: they have parts outside the blocks of
    D.
    """

    def __init__(self, rule: SelfAttention, d: int) -> None:
        rate = find_growth(rule, d).rate
        super().__init__(rule, Growth.without_basis(rate, rule.value_matrix(d)))

    def _unit(self, state: Array, t: float) -> Array:
        if not is_tensor(state):
            return super()._unit(state, t)
        torch = library_of(state)
        V = match_array(self._rule.V, state)
        exponent = V - self._growth.rate * torch.eye(len(V)).to(V)
        return state @ torch.matrix_exp(t * exponent).T

    def _grow(self, pull: Array) -> Array:
        return self.values(pull)


class RescaledSteps(Coordinates):
    """y = S^{-1} z_k with z_k = R^{-k} x_k, in float64; R^k is stored as a moderate
    matrix and a logarithm.

    If V requires gradients, S is the identity: the gradients have parts outside the
    blocks.
    """

    _rule: SelfAttention

    def __init__(
        self, rule: SelfAttention, keys: Array, tokens: Array, steps: "Method"
    ) -> None:
        super().__init__(rule, keys)
        self._tokens = tokens
        self._steps = steps
        double = library_of(tokens).float64
        d = tokens.shape[-1]
        identity = _cast(match_array(np.eye(d), tokens), double)
        if needs_gradient(rule.V):
            self._basis = identity
            self._inverse = identity
            self._blocks = rule.values(identity, 0.0).T
        else:
            growth = find_growth(rule, d)
            self._basis = match_array(growth.basis, identity)
            self._inverse = match_array(growth.inverse, identity)
            self._blocks = match_array(growth.blocks, identity)
        self._power = Power(identity, 0.0)  # R(hD)^k

    @property
    def power(self) -> Power:  # type: ignore[override]
        return Power(self._to_tokens @ self._inverse, self._power.log)

    @property
    def _to_tokens(self) -> Array:
        """The matrix that maps y to e^{-log} x."""
        return self._basis @ self._power.matrix

    def start(self, tokens: Array) -> Array:
        # In narrower floats S would spoil the input
        return _cast(tokens, self._inverse.dtype) @ self._inverse.T

    def rate(self, state: Array, t: float) -> Array:
        unit = state @ self._to_tokens.T
        scores = self._rule.scores(unit, t, self._keys, self._power.log)
        return scores.means(state) @ self._blocks.T

    def after_step(self, state: Array) -> Array:
        radius = self._radius
        matrix = self._power.matrix @ self._factor / radius
        self._power = Power(matrix, self._power.log + float(np.log(radius)))
        return _solve(self._factor, state)

    @cached_property
    def _factor(self) -> Array:
        """R(hD), a part of the exponential series."""
        h = self._steps.dt
        assert h is not None
        term = R = match_array(np.eye(len(self._blocks)), self._blocks)
        for order in range(1, DEGREES[self._steps.name] + 1):
            term = term @ (h * self._blocks) / order
            R = R + term
        plain = np.asarray(to_numpy(R), np.float64)
        if not np.isfinite(plain).all() or np.linalg.cond(plain) > MAX_STEP_CONDITION:
            must = "leave R(dt V) invertible, I + dt V for Euler"
            got = (
                f"a step of {h:g}, for which it is singular: V has a negative"
                " eigenvalue of the size of 1/dt"
            )
            raise ParameterError("dt", must, got, "Use a smaller `dt`.")
        return R

    @cached_property
    def _radius(self) -> float:
        """The spectral radius of R(hD)."""
        plain = np.asarray(to_numpy(self._factor), np.float64)
        return float(np.abs(np.linalg.eigvals(plain)).max())

    def read(self, state: Array, t: float) -> Reading:
        x = _scale(state @ self._to_tokens.T, self._power.log)
        z = state @ self._basis.T
        return Reading(match_array(x, self._tokens), match_array(z, self._tokens))


def _scale(values: Array, log: float) -> Array:
    """Multiply by e^log; 0 stays 0 although the factor may be infinite."""
    with np.errstate(over="ignore", invalid="ignore"):
        product = values * float(np.exp(log))
    return where(np.asarray(to_numpy(values)) == 0, values, product)


def _solve(matrix: Array, rows: Array) -> Array:
    """Return M^{-1} x for each row x; half precision is solved in single, as LAPACK has
    no other.
    """
    library = library_of(rows)
    wide = library.promote_types(rows.dtype, library.float32)
    columns = _cast(rows.reshape(-1, rows.shape[-1]).T, wide)
    solved = library.linalg.solve(_cast(matrix, wide), columns)
    return _cast(solved.T.reshape(rows.shape), rows.dtype)


def _cast(value: Array, dtype: Any) -> Array:
    return value.to(dtype) if is_tensor(value) else value.astype(dtype)
