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
from typing import TYPE_CHECKING, Any, TypeVar
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

MAX_BASIS_CONDITION = (
    1e4  # condition number of the eigenbasis above which S is the identity
)
GROWTH_TOL = 1e-12  # a smaller lambda, relative to |D|, counts as zero
MIN_BOOLEAN = 1 - 1e-3  # smallest row maximum for attention to count as Boolean
MAX_GRADIENT_NOISE = (
    1e12  # bound of rounding errors of scores, below which attention has gradients
)
MAX_EXPONENT = (
    600.0  # scores grow by at most e^600 in the noise estimate: larger factors overflow
)
MAX_STEP_CONDITION = 1e12  # condition number of R above which z_k cannot be computed
LARGE = 2.0**500  # a size from which states are divided by it for their scores
TAYLOR_DEGREE = 18  # of e^M for |M| <= 1: the rest is below 1e-17
TERMS = {"euler": 1, "rk4": 4}  # degree of the polynomial R(hV)
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
        key = (
            d,
            *(getattr(weight, "_version", 0) for weight in rule.weights),
        )  # a tensor may change in place
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
    imaginary: (
        FloatArray | None
    )  # (d,) imaginary part of each column's eigenvalue; None if S is the identity

    @cached_property
    def grows(self) -> bool:
        """Whether lambda is positive beyond rounding."""
        return self.rate > GROWTH_TOL * float(np.linalg.norm(self.blocks, 2))

    def basis_at(self, t: float) -> FloatArray:
        """Return S e^{t(D - lambda I)}, which maps y to e^{-lambda t} x."""
        if self.imaginary is None:
            return np.asarray(
                scipy.linalg.expm(
                    t * (self.blocks - self.rate * np.eye(len(self.blocks)))
                )
            )
        decay = np.exp(t * (np.diag(self.blocks) - self.rate))
        if not self.imaginary.any():
            return np.asarray(self.basis * decay)
        partners = self.basis[
            :, np.arange(len(decay)) + np.sign(self.imaginary).astype(np.intp)
        ]  # in each pair
        straight = self.basis * (decay * np.cos(t * self.imaginary))
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
        return Growth(float(values.max()), S, S.T, np.diag(values), np.zeros(len(V)))
    values, vectors = np.linalg.eig(
        V
    )  # complex pairs are neighbours, the positive imaginary part first
    rate, imaginary = float(values.real.max()), values.imag.astype(np.float64)
    S = np.where(imaginary < 0, np.roll(vectors.imag, 1, axis=1), vectors.real)
    blocks = np.diag(values.real)
    for p in np.flatnonzero(imaginary > 0):
        blocks[p, p + 1], blocks[p + 1, p] = imaginary[p], -imaginary[p]
    if np.linalg.cond(S) > MAX_BASIS_CONDITION:
        return Growth(rate, np.eye(len(V)), np.eye(len(V)), V, None)
    return Growth(rate, S, np.linalg.inv(S), blocks, imaginary)


class Coordinates:
    """The state of an integration, with its derivative: here the tokens themselves, on
    the sphere for `Sphere`.

    A state is an array or tensor of shape (..., rows, d): one row per token, and
    possibly more rows below.
    """

    def __init__(self, rule: Flow | MultiHead, keys: Array = None) -> None:
        self._rule, self._keys = rule, keys

    def start(self, tokens: Array) -> Array:
        """Return the state at time 0."""
        return tokens

    def rate(self, state: Array, t: float) -> Array:
        """Return the derivative of the state."""
        return self._rule.velocity(state, t, self._keys)

    def read(self, state: Array, t: float) -> tuple[Array, Array | None]:
        """Return x, and z or None, at time t."""
        return state, None

    def after_step(self, state: Array) -> Array:
        """Correct the state after each fixed step, or before `read` in an adaptive
        integration.
        """
        return on_sphere(state) if isinstance(self._rule, Sphere) else state

    @property
    def varies(self) -> bool:
        """Whether Q, K, V or beta depends on time."""
        return any(map(callable, self._rule.weights))

    is_held = False  # whether attention is held constant

    def terms(self, d: int) -> Terms | None:
        """Return what compiled steps need; None if only `rate` gives the derivative."""
        if type(self._rule) is not Sphere:
            return None
        forms = np.eye(d) * float(to_numpy(self._rule.find_beta(0.0)))
        return _make_terms(forms, np.eye(d), self._rule.causal)._replace(
            sphere=1 if self._rule.normalized else 2
        )

    def matrices(self, t: float, d: int) -> tuple[FloatArray, FloatArray]:
        """Return Q^T K and V at time t, if one depends on time."""
        if isinstance(self._rule, Sphere):
            return np.eye(d) * float(to_numpy(self._rule.find_beta(t))), np.eye(d)
        assert isinstance(self._rule, SelfAttention)
        return self._rule.form(d, t), self._rule.value_matrix(d, t)

    @property
    def power(self) -> tuple[Array, float] | None:
        """R^k, which maps z to x with fixed steps, as a matrix and the logarithm of its
        factor; None without R.
        """
        return None

    def sizes(self, start: FloatArray) -> FloatArray:
        """Return the unit of the absolute tolerance for each entry: the largest
        coordinate at time 0.
        """
        return np.full(start.shape, float(np.abs(start).max()) or 1.0)


def depends_on_gradients(rule: Any) -> bool:
    """Return whether a weight requires gradients, or a function of time returns such a
    tensor.
    """
    return any(
        needs_gradient(weight(0.0) if callable(weight) else weight)
        for weight in rule.weights
    )


def choose_coordinates(
    rule: Flow | MultiHead,
    tokens: Array,
    keys: Array = None,
    *,
    steps: "Method | None" = None,
) -> Coordinates:
    """Choose the coordinates for a rule; `steps` is a method with fixed steps, or None."""
    if not isinstance(rule, SelfAttention):
        return Coordinates(rule, keys)
    if not rule.has_constant_values:
        return TokensAndGrowth(rule, keys)
    if steps is not None:
        return RescaledSteps(rule, keys, tokens, steps)
    d = tokens.shape[-1]
    return Rescaled(rule, d) if find_growth(rule, d).grows else Decaying(rule)


class Attending(Coordinates):
    """Coordinates of self-attention."""

    _rule: SelfAttention

    def values(self, tokens: Array) -> Array:
        """Return V x for each token and a constant V."""
        return self._rule.values(tokens, 0.0)

    def terms(self, d: int) -> Terms | None:
        if type(self._rule) is not SelfAttention:
            return None
        return _make_terms(
            self._rule.form(d), self._rule.value_matrix(d), self._rule.causal
        )


class Decaying(Attending):
    """x itself if every eigenvalue of V has a real part of at most 0: then x stays
    bounded, and z may overflow.
    """

    def read(self, state: Array, t: float) -> tuple[Array, Array]:
        growth = find_growth(self._rule, state.shape[-1])
        return state, _scale(
            state @ match_array(growth.bounded_factor(-t), state).T, -growth.rate * t
        )


class TokensAndGrowth(Attending):
    """x for a V that depends on time, and below it the rows of F^T, where F' = V(t) F,
    F(0) = I: z = F^{-1} x.
    """

    def start(self, tokens: Array) -> Array:
        d = tokens.shape[-1]
        identity = np.broadcast_to(np.eye(d), (*tokens.shape[:-2], d, d))
        return join([tokens, match_array(identity, tokens)], axis=-2)

    def _split(self, state: Array) -> tuple[Array, Array]:
        d = state.shape[-1]
        return state[..., :-d, :], state[..., -d:, :]

    def sizes(self, start: FloatArray) -> FloatArray:
        tokens, growth = self._split(start)
        return np.concatenate([super().sizes(tokens), np.ones_like(growth)])

    def rate(self, state: Array, t: float) -> Array:
        tokens, growth = self._split(state)
        return join(
            [self._rule.velocity(tokens, t, self._keys), self._rule.values(growth, t)],
            axis=-2,
        )

    def read(self, state: Array, t: float) -> tuple[Array, Array]:
        tokens, growth = self._split(state)
        d = tokens.shape[-1]
        try:
            return tokens, _solve(
                growth.reshape(-1, d, d)[0].T, tokens
            )  # F is the same for every batch element
        except (
            np.linalg.LinAlgError,
            RuntimeError,
        ):  # F is singular; torch raises a RuntimeError
            return tokens, tokens * np.nan


class Rescaled(Attending):
    """y = S^{-1} z in continuous time: y_i' = sum_j P_ij D (y_j - y_i).

    Scores grow as e^{2 lambda t}, and attention sharpens. If tokens have met in the
    leading directions and differ in others, attention may switch between them faster
    than the error control can follow, eventually by rounding only. `integrate.py` then
    loosens the error control, or holds attention constant if it is Boolean.
    """

    held: FloatArray | None = None  # attention, once it is held

    def __init__(self, rule: SelfAttention, d: int) -> None:
        super().__init__(rule)
        self._growth = find_growth(rule, d)

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
        terms, growth = super().terms(d), self._growth
        if terms is None:
            return None
        made = _make_terms(
            self._in_basis(self._rule.form(d)), growth.blocks, terms.causal
        )
        made = made._replace(rate=growth.rate, offset=1.0)
        exponent = growth.blocks - growth.rate * np.eye(d)
        if growth.imaginary is None:
            powers = [np.eye(d)]
            for k in range(1, TAYLOR_DEGREE + 1):
                powers.append(powers[-1] @ exponent / k)
            return made._replace(powers=np.array(powers))
        return (
            made._replace(decay=np.diag(exponent).copy(), turn=growth.imaginary)
            if exponent.any()
            else made
        )

    def matrices(self, t: float, d: int) -> tuple[FloatArray, FloatArray]:
        return self._in_basis(super().matrices(t, d)[0]), self._growth.blocks

    def _in_basis(self, form: FloatArray) -> FloatArray:
        return np.asarray(self._growth.basis.T @ form @ self._growth.basis)

    def start(self, tokens: Array) -> Array:
        return tokens @ match_array(self._growth.inverse, tokens).T

    def _unit(self, state: Array, t: float) -> Array:
        return state @ match_array(self._growth.basis_at(t), state).T

    def hold_attention(self, state: FloatArray, t: float) -> FloatArray | None:
        """Hold attention constant from now on if it is Boolean and not yet held, and
        return it; else return None.
        """
        P = np.asarray(
            self._rule.attention(self._unit(state, t), t, None, self._growth.rate * t)
        )
        if self.held is not None or P.max(axis=1).min() < MIN_BOOLEAN:
            return None
        self.held = P
        return P

    @property
    def spread(self) -> float:
        """The largest difference of real parts of eigenvalues of V."""
        return self._growth.rate - float(
            np.linalg.eigvals(self._growth.blocks).real.min()
        )

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
        growth = float(
            np.exp(min(2 * self._growth.rate * t, MAX_EXPONENT))
        )  # of products of two tokens
        return growth * length**2 * form * float(np.finfo(np.float64).eps)

    def rate(self, state: Array, t: float) -> Array:
        log = self._growth.rate * t
        if self.held is not None:
            means = self.held @ state
        elif is_tensor(state) and self.is_blurred(state, t):
            means = (
                self._rule.attention(self._unit(state, t), t, None, log).detach()
                @ state
            )
        else:
            unit = state
            if not is_tensor(state) and np.abs(state).max() > LARGE:
                unit = state / LARGE  # the matrix of `_unit` might overflow
                log += float(np.log(LARGE))
            means = self._rule.scores(self._unit(unit, t), t, None, log).means(state)
        return self._grow(means - state)

    def _grow(self, pull: Array) -> Array:
        return pull @ match_array(self._growth.blocks, pull).T

    def read(self, state: Array, t: float) -> tuple[Array, Array]:
        z = state @ match_array(self._growth.basis, state).T
        return _scale(self._unit(state, t), self._growth.rate * t), z


class RescaledByTensor(Rescaled):
    """z itself for a V that requires gradients: they have parts outside the blocks of
    D.
    """

    def __init__(self, rule: SelfAttention, d: int) -> None:
        super().__init__(rule, d)
        self._growth = Growth(
            self._growth.rate, np.eye(d), np.eye(d), rule.value_matrix(d), None
        )

    def _unit(self, state: Array, t: float) -> Array:
        if not is_tensor(state):
            return super()._unit(state, t)
        torch, V = library_of(state), match_array(self._rule.V, state)
        return (
            state
            @ torch.matrix_exp(t * (V - self._growth.rate * torch.eye(len(V)).to(V))).T
        )

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
        self._tokens, self._steps = tokens, steps
        double = library_of(tokens).float64
        self._identity = self._basis = self._inverse = _cast(
            match_array(np.eye(tokens.shape[-1]), tokens), double
        )
        self._blocks = rule.values(self._identity, 0.0).T
        if not needs_gradient(rule.V):
            growth = find_growth(rule, tokens.shape[-1])
            self._basis, self._inverse, self._blocks = (
                match_array(matrix, self._identity)
                for matrix in (growth.basis, growth.inverse, growth.blocks)
            )
        self._power, self._log = self._identity, 0.0  # R(hD)^k = e^log power

    @property
    def power(self) -> tuple[Array, float]:
        return self._basis @ self._power @ self._inverse, self._log

    def start(self, tokens: Array) -> Array:
        return (
            _cast(tokens, self._inverse.dtype) @ self._inverse.T
        )  # in narrower floats S would spoil the input

    def rate(self, state: Array, t: float) -> Array:
        unit = state @ (self._basis @ self._power).T
        scores = self._rule.scores(unit, t, self._keys, self._log)
        return scores.means(state) @ self._blocks.T

    def after_step(self, state: Array) -> Array:
        R, radius = self._factor
        self._power, self._log = (
            self._power @ R / radius,
            self._log + float(np.log(radius)),
        )
        return _solve(R, state)

    @cached_property
    def _factor(self) -> tuple[Array, float]:
        """R(hD) and its spectral radius."""
        h = self._steps.dt
        assert h is not None
        term = R = self._identity
        for order in range(1, TERMS[self._steps.name] + 1):
            term = term @ (h * self._blocks) / order
            R = R + term
        plain = np.asarray(to_numpy(R), np.float64)
        if not np.isfinite(plain).all() or np.linalg.cond(plain) > MAX_STEP_CONDITION:
            got = (
                f"a step of {h:g}, for which it is singular: V has a negative"
                " eigenvalue of the size of 1/dt"
            )
            raise ParameterError(
                "dt",
                "leave R(dt V) invertible, I + dt V for Euler",
                got,
                "Use a smaller `dt`.",
            )
        return R, float(np.abs(np.linalg.eigvals(plain)).max())

    def read(self, state: Array, t: float) -> tuple[Array, Array]:
        grown = _scale(state @ (self._basis @ self._power).T, self._log)
        return match_array(grown, self._tokens), match_array(
            state @ self._basis.T, self._tokens
        )


def _make_terms(form: FloatArray, values: FloatArray, causal: bool) -> Terms:
    """Copy the matrices: numba would compile all steps once more for arrays that are
    read only or not contiguous.
    """
    forms, plain = (np.array(each, order="C")[None, None] for each in (form, values))
    return Terms(
        np.empty(0),
        np.empty(0),
        np.empty((0, *form.shape)),
        0.0,
        forms,
        plain,
        0.0,
        0,
        causal,
    )


def _scale(values: Array, log: float) -> Array:
    """Multiply by e^log; 0 stays 0 although the factor may be infinite."""
    with np.errstate(over="ignore", invalid="ignore"):
        product = values * float(np.exp(log))
    return where(np.asarray(to_numpy(values)) == 0, values, product)


def _solve(matrix: Array, rows: Array) -> Array:
    """Return M^{-1} x for each row x; half precision is solved in single, as LAPACK has
    no other.
    """
    library, columns = library_of(rows), rows.reshape(-1, rows.shape[-1]).T
    wide = library.promote_types(rows.dtype, library.float32)
    return _cast(
        library.linalg.solve(_cast(matrix, wide), _cast(columns, wide)).T.reshape(
            rows.shape
        ),
        rows.dtype,
    )


def _cast(value: Array, dtype: Any) -> Array:
    return value.to(dtype) if is_tensor(value) else value.astype(dtype)
