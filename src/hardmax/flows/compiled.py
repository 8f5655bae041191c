"""Compiled steps of flows: softmax means without an n by n matrix, and whole
Runge-Kutta steps around them.

Sixteen rows of attention are computed at once, one per lane of a vector: a pass over
the keys for the largest scores, and one for exponentials with weighted sums, all in
registers. A pair of tokens takes 0.1 to 0.3 times as long as in NumPy (`python -m
benchmarks flows`). Scores are in powers of two. 2^x is 2^k 2^r, |r| <= 1/2, with a
polynomial of degree 11 for 2^r whose relative error is 3e-18 before rounding.
"""

# mypy: allow-untyped-defs, allow-untyped-calls
# Arguments of `sums` and of the methods of `_Rows` are values of LLVM or the builder of
# its instructions.

import math
from typing import NamedTuple

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils

from hardmax._types import BoolArray, FloatArray, IntArray
from hardmax.flows import steps
from hardmax.flows.steps import State, Terms
from hardmax.search.simd import (
    FLOAT64,
    LANES,
    broadcast,
    int64,
    intrinsic,
    load,
    maximum,
    store,
)
from hardmax.search.threads import entry

MIN_EXPONENT = -1000.0  # 2^x is negligible there, without underflow
MAX_LOG = 600.0  # scores are capped at about e^600, where any difference decides a row
MAX_POWER = 1000  # of two, by which keys are divided at most: its inverse is normal
LOG2_E = 1.4426950408889634
# 1.5 * 2^52: adding it leaves the nearest integer in the low bits
TO_INTEGER = 6755399441055744.0
POLYNOMIAL = (  # of 2^r for |r| <= 1/2, the highest power first
    4.435280778382288e-10,
    7.0741093750276716e-09,
    1.0178198064557125e-07,
    1.3215433068874203e-06,
    1.5252733489807833e-05,
    0.000154035304625539,
    0.0013333558146790198,
    0.009618129107588304,
    0.055504108664819925,
    0.24022650695910155,
    0.6931471805599453,
    1.0,
)
WIDTHS = (2, 3, 4, 8, 16)  # coordinates of a token, with padding
SUMS = {"contract", "nsz", "reassoc"}
LANES_TYPE = FLOAT64[0]
BITS_TYPE = ir.VectorType(ir.IntType(64), LANES)


class Space(NamedTuple):
    """Memory for one stage of one batch element."""

    point: FloatArray  # (rows, d) where the derivative is evaluated
    queries: FloatArray  # (groups, padded d, 16) of 16 rows each
    keys: FloatArray  # (tokens, padded d)
    # (2,) the power of two by which keys were divided, and 1 if something is not finite
    numbers: FloatArray


class _Rows:
    """LLVM instructions for the sums of 16 rows of attention, in registers."""

    def __init__(self, builder, queries, at, row, width):
        self.builder = builder
        self.row = row  # the first one
        self.width = width
        self.fuse = cgutils.get_or_insert_function(
            builder.module,
            ir.FunctionType(LANES_TYPE, [LANES_TYPE] * 3),
            f"llvm.fmuladd.v{LANES}f64",
        )
        self.query = []
        for c in range(width):
            start = builder.gep(queries, [builder.add(at, at.type(LANES * c))])
            self.query.append(load(builder, start, FLOAT64))
        first = broadcast(builder, row)
        self.rows = builder.add(first, ir.Constant(BITS_TYPE, list(range(LANES))))
        self.top = self.variable(-math.inf)
        self.total = self.variable(0.0)
        self.means = [self.variable(0.0) for _ in range(width)]

    def variable(self, value):
        """Return the address of 16 numbers, which LLVM keeps in registers."""
        address = cgutils.alloca_once(self.builder, LANES_TYPE)
        self.builder.store(_repeat(value), address)
        return address

    def multiply_add(self, left, right, sum_):
        return self.builder.call(self.fuse, [left, right, sum_])

    def visit(self, keys, plain, end, add):
        """Call `add` with the scores and coordinates of each key that a row sees."""
        first = self.row.type(0)
        self._visit_range(keys, first, plain, add, is_masked=False)
        self._visit_range(keys, plain, end, add, is_masked=True)

    def _visit_range(self, keys, first, last, add, is_masked):
        builder = self.builder
        one = self.row.type(1)
        loop = cgutils.for_range_slice(builder, first, last, one, self.row.type)
        with loop as (j, _):
            start = builder.gep(keys, [builder.mul(j, j.type(self.width))])
            key = []
            for c in range(self.width):
                number = builder.load(builder.gep(start, [j.type(c)]))
                key.append(broadcast(builder, number))
            score = builder.fmul(self.query[0], key[0])
            for q, k in zip(self.query[1:], key[1:], strict=True):
                score = self.multiply_add(q, k, score)
            if is_masked:
                seen = builder.icmp_signed("<=", broadcast(builder, j), self.rows)
                score = builder.select(seen, score, _repeat(-math.inf))
            add(score, key)

    def raise_top(self, score, key):
        top = self.builder.load(self.top)
        self.builder.store(maximum(self.builder, score, top), self.top)

    def add_key(self, score, key):
        """Add 2^(score - top) to the total, and times the key to the means."""
        builder = self.builder
        below_top = builder.fsub(score, builder.load(self.top))
        weight = self.power_of_two(maximum(builder, below_top, _repeat(MIN_EXPONENT)))
        builder.store(builder.fadd(builder.load(self.total), weight), self.total)
        for mean, k in zip(self.means, key, strict=True):
            builder.store(self.multiply_add(weight, k, builder.load(mean)), mean)

    def power_of_two(self, power):
        """Return 2^x = 2^k 2^r for the nearest integer k and |r| <= 1/2."""
        builder = self.builder
        shifted = builder.fadd(power, _repeat(TO_INTEGER))  # k in the low bits
        integer = builder.fsub(shifted, _repeat(TO_INTEGER))
        rest = builder.fsub(power, integer)
        value = _repeat(POLYNOMIAL[0])
        for coefficient in POLYNOMIAL[1:]:
            value = self.multiply_add(value, rest, _repeat(coefficient))
        # k is added to the exponent, which begins at bit 52
        bit = ir.Constant(BITS_TYPE, [52] * LANES)
        exponent = builder.shl(builder.bitcast(shifted, BITS_TYPE), bit)
        bits = builder.add(builder.bitcast(value, BITS_TYPE), exponent)
        return builder.bitcast(bits, LANES_TYPE)


def _repeat(number):
    """Return a constant with the number in all lanes."""
    return ir.Constant(LANES_TYPE, [number] * LANES)


def _make_sums(width):
    """Make a function that writes, for 16 rows, the top score, the sum of 2^(score -
    top), and so weighted keys.

    Rows see the first `plain` keys, and of those up to `end` the ones whose index is at
    most their own.
    """

    @intrinsic(types.void, None, None, int64, int64, int64, int64, None)
    def sums(builder, queries, keys, row, plain, end, at, out):
        rows = _Rows(builder, queries, at, row, width)
        rows.visit(keys, plain, end, rows.raise_top)
        rows.visit(keys, plain, end, rows.add_key)
        for c, address in enumerate((rows.top, rows.total, *rows.means)):
            start = builder.gep(out, [row.type(LANES * c)])
            store(builder, builder.load(address), start, FLOAT64)

    return sums


_sums_2 = _make_sums(2)
_sums_3 = _make_sums(3)
_sums_4 = _make_sums(4)
_sums_8 = _make_sums(8)
_sums_16 = _make_sums(16)


@njit
def _sum_rows(queries, keys, row, plain, end, out):
    """Write the sums of 16 rows from `row` on (`_make_sums`)."""
    width = keys.shape[1]
    at = row * width
    if width == 2:
        _sums_2(queries, keys, row, plain, end, at, out)
    elif width == 3:
        _sums_3(queries, keys, row, plain, end, at, out)
    elif width == 4:
        _sums_4(queries, keys, row, plain, end, at, out)
    elif width == 8:
        _sums_8(queries, keys, row, plain, end, at, out)
    else:
        _sums_16(queries, keys, row, plain, end, at, out)


@njit(fastmath=SUMS)
def _apply(A, x, out, i):
    """Write A x into a row of `out`."""
    for a in range(len(A)):
        total = 0.0
        for c in range(len(x)):
            total += A[a, c] * x[c]
        out[i, a] = total


@njit
def _multiply_matrices(A, B, out):
    out[:] = 0.0
    for i in range(len(A)):
        for k in range(len(B)):
            factor = A[i, k]
            for j in range(B.shape[1]):
                out[i, j] += factor * B[k, j]


@njit
def _exponential(powers, t):
    """Return e^{tX} from X^k / k!, by Taylor's series of a part of tX."""
    norm = abs(t) * np.abs(powers[1]).sum()
    halvings = max(0, math.frexp(norm)[1]) if norm < 1e300 else 0
    part = t / 2.0**halvings
    last = len(powers) - 1
    E = powers[last].copy()
    out = np.empty(powers[0].shape)
    for k in range(last - 1, -1, -1):  # Horner's rule
        for i in range(len(E)):
            for j in range(len(E)):
                E[i, j] = E[i, j] * part + powers[k, i, j]
    for _ in range(halvings):
        _multiply_matrices(E, E, out)
        E[:] = out
    return E


@njit
def find_form(terms, b, s, t):
    """Return the transpose of B^T S^T Q^T K S B for B = e^{t(D - lambda I)}."""
    G = terms.forms[min(b, len(terms.forms) - 1), min(s, terms.forms.shape[1] - 1)]
    F = np.empty(G.shape)
    if len(terms.powers):
        E = _exponential(terms.powers, t)
    elif len(terms.decay):
        E = np.zeros(G.shape)  # blocks of e^{decay} times a rotation
        for i in range(len(G)):
            size = math.exp(t * terms.decay[i])
            partner = i + int(np.sign(terms.turn[i]))
            E[partner, i] = -size * math.sin(t * terms.turn[i])
            E[i, i] = size * math.cos(t * terms.turn[i])
    else:
        F[:] = G.T
        return F
    half = np.empty(G.shape)
    _multiply_matrices(G, E, half)
    _multiply_matrices(half.T, E, F)
    return F


@njit
def make_space(tokens, rows, d):
    """Allocate the memory for a stage."""
    width = WIDTHS[-1]
    for wider in WIDTHS[::-1]:
        if wider >= d:
            width = wider
    groups = (tokens + LANES - 1) // LANES
    return Space(
        np.empty((rows, d)),
        np.zeros((groups, width, LANES)),
        np.zeros((tokens, width)),
        np.zeros(2),
    )


@njit
def _prepare(terms, b, s, t, tokens, space):
    """Fill queries and panels for the state in `space.point`, which comes onto the
    sphere if the flow is there.
    """
    w = space.point
    d = w.shape[1]
    size = 0.0
    finite = True
    for i in range(tokens):
        if terms.sphere:
            norm = 0.0
            for c in range(d):
                norm += w[i, c] * w[i, c]
            for c in range(d):
                w[i, c] /= math.sqrt(norm) if norm > 0 else 1.0
        for c in range(d):
            finite = finite and abs(w[i, c]) < np.inf  # not for NaN
            size = max(size, abs(w[i, c]))
    space.numbers[1] = 0.0 if finite else 1.0
    power = math.frexp(size)[1] if 0 < size < np.inf else 0
    # Keys of at most 2^24 have products far inside the range of floats. Compiled code
    # underflows at powers whose inverse is infinite: 2.0 ** -1024 is 0 there.
    shrink = 2.0 ** max(min(-power, MAX_POWER), -MAX_POWER)
    space.numbers[0] = 1.0 / shrink
    F = find_form(terms, b, s, t)
    largest = np.abs(F).max()
    log = 2.0 * terms.rate * t - 2.0 * math.log(shrink)
    if 0 < largest < np.inf:
        F *= LOG2_E * math.exp(min(log, MAX_LOG - math.log(largest)))
    for i in range(tokens):
        for c in range(d):
            space.keys[i, c] = w[i, c] * shrink
        for a in range(d):
            total = 0.0
            for c in range(d):
                total += F[a, c] * space.keys[i, c]
            space.queries[i // LANES, a, i % LANES] = total


@njit
def _attend(terms, b, s, tokens, space, first, last, out):
    """Write the derivative of rows from `first`, a multiple of 16, to `last`."""
    w = space.point
    d = w.shape[1]
    sums = np.empty((2 + space.keys.shape[1], LANES))
    D = terms.values[min(b, len(terms.values) - 1), min(s, terms.values.shape[1] - 1)]
    pull = np.empty(d)
    for i in range(first, last):
        if i < tokens:
            lane = i % LANES
            if lane == 0:
                plain = i if terms.causal else tokens
                end = min(i + LANES, tokens)
                _sum_rows(space.queries, space.keys, i, plain, end, sums)
            grow = space.numbers[0] / sums[1, lane]
            if terms.sphere == 2:
                seen = i + 1 if terms.causal else tokens
                grow = space.numbers[0] * 2.0 ** sums[0, lane] / seen
            if space.numbers[1]:
                grow = np.nan
            for c in range(d):
                pull[c] = sums[2 + c, lane] * grow - terms.offset * w[i, c]
        else:
            for c in range(d):
                pull[c] = w[i, c]
        if terms.sphere:
            along = 0.0
            for c in range(d):
                along += w[i, c] * pull[c]
            for c in range(d):
                out[i, c] = pull[c] - along * w[i, c]
        else:
            _apply(D, pull, out, i)


@entry()
def begin_stage(
    terms: Terms,
    state: State,
    A: FloatArray,
    C: FloatArray,
    b: int,
    s: int,
    last: int,
    space: Space,
) -> None:
    """Prepare stage s of a step from y, or where s > `last` (for dense output) of the
    step that was done.
    """
    rows = state.rows[b]
    d = state.y.shape[2]
    if s > last:
        start = state.old
        t = state.old_t[b]
    else:
        start = state.y
        t = state.t[b]
    h = state.end[b] - t
    for i in range(rows):
        for c in range(d):
            space.point[i, c] = start[b, i, c]
    point = space.point.reshape(-1)
    K = state.K[b].reshape(state.K.shape[1], -1)
    for j in range(s):
        if A[s, j] != 0:
            factor = h * A[s, j]
            for i in range(rows * d):
                point[i] += factor * K[j, i]
    if s == last:
        state.new[b, :rows] = space.point
    _prepare(terms, b, s, t + C[s] * h, state.tokens[b], space)


@entry()
def attend_rows(
    terms: Terms,
    state: State,
    b: int,
    s: int,
    space: Space,
    bounds: IntArray,
    parts: IntArray,
) -> None:
    """Write the derivative of the rows bounds[k] to bounds[k + 1] in stage s for all k
    of `parts`.
    """
    tokens = state.tokens[b]
    for k in parts:
        _attend(terms, b, s, tokens, space, bounds[k], bounds[k + 1], state.K[b, s])


combine_errors = njit(steps.combine_errors)


@entry()
def find_error(state: State, E: FloatArray, b: int) -> float:
    """Return the same as `steps.find_error`."""
    h = state.end[b] - state.t[b]
    d = state.y.shape[2]
    y = state.y[b]
    new = state.new[b]
    K = state.K[b].reshape(state.K.shape[1], -1)
    errors = np.zeros((2, state.rows[b] * d))
    for e in range(2):
        for s in range(E.shape[1]):
            if E[e, s] != 0:
                factor = h * E[e, s]
                for i in range(errors.shape[1]):
                    errors[e, i] += factor * K[s, i]
    largest = 0.0
    other = 0.0
    for first, last in ((0, state.tokens[b]), (state.tokens[b], state.rows[b])):
        for c in range(d):
            mean = 0.0
            for i in range(first, last):
                mean += abs(y[i, c]) / (last - first)  # a sum might overflow
            for i in range(first, last):
                size = max(abs(y[i, c]), abs(new[i, c]), mean)
                unit = state.units[b, i, c] + state.rtol[b] * size
                error = abs(errors[0, i * d + c] / unit)
                if not error < np.inf:
                    return np.nan
                largest = max(largest, error)
                other = max(other, abs(errors[1, i * d + c] / unit))
    return combine_errors(largest, other)


settle = njit(steps.settle)
choose_end = njit(steps.choose_end)


@entry()
def advance(
    elements: IntArray,
    terms: Terms,
    state: State,
    A: FloatArray,
    C: FloatArray,
    E: FloatArray,
    exponent: float,
    stops: FloatArray,
    end: float,
    counts: IntArray,
    too_short: BoolArray,
    max_tries: int,
) -> None:
    """Take steps of some batch elements, each up to its time in `stops` or its number
    of steps in `counts`.
    """
    last = E.shape[1] - 1
    for b in elements:
        tokens = state.tokens[b]
        rows = state.rows[b]
        space = make_space(tokens, rows, state.y.shape[2])
        for _ in range(max_tries):
            if state.t[b] >= stops[b] or state.steps[b] >= counts[b]:
                break
            if not choose_end(state, end, last, b):
                too_short[b] = True
                break
            for s in range(1, last + 1):
                begin_stage(terms, state, A, C, b, s, last, space)
                _attend(terms, b, s, tokens, space, 0, rows, state.K[b, s])
            state.evaluations[b] += last
            settle(state, find_error(state, E, b), exponent, b)
