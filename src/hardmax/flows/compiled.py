"""Compiled steps of flows: softmax means without an n by n matrix, and whole Runge-Kutta steps around them.

A row of attention takes three passes over panels of at most `PANEL` keys: products, their maximum, and exponentials
with weighted sums. Sums of earlier panels are rescaled once a larger score appears. Keys are stored coordinate by
coordinate, which LLVM vectorises. A pair of tokens takes 0.2 to 0.4 times as long as in NumPy
(`python -m benchmarks flows`). The exponential is 2^k e^r, |r| <= log(2)/2, with a polynomial of degree 11 for e^r
whose relative error is 3e-18 before rounding.
"""

# mypy: allow-untyped-defs, allow-untyped-calls

import math
from typing import Any, NamedTuple

import numpy as np
from numba import njit, types
from numba.extending import intrinsic

from hardmax._types import BoolArray, FloatArray, IntArray
from hardmax.flows import steps
from hardmax.flows.steps import State, Terms
from hardmax.search.threads import entry

PANEL, LANES = 512, 32
MIN_EXPONENT = -700.0  # e^x is negligible there, without underflow
MAX_LOG = 600.0  # scores are capped at about e^600, where any difference decides a row
LOG2_E, LN2_HIGH, LN2_LOW = 1.4426950408889634, 6.93147180369123816490e-01, 1.90821492927058770002e-10
TO_INTEGER = 6755399441055744.0  # 1.5 * 2^52: adding it leaves the nearest integer in the low bits
C2, C3, C4, C5, C6 = (
    0.5000000000000018,
    0.1666666666666617,
    0.04166666666649264,
    8.333333333559427e-3,
    1.3888888951259413e-3,
)
C7, C8, C9, C10, C11 = (
    1.9841269432480246e-4,
    2.480148648254131e-5,
    2.7557622615424146e-6,
    2.763230792264581e-7,
    2.499430394806606e-8,
)
PLAIN, SUMS = {"contract", "nsz", "nnan"}, {"contract", "nsz", "nnan", "reassoc"}
TAYLOR_DEGREE = 18  # of e^M for |M| <= 1: the rest is below 1e-17


class Space(NamedTuple):
    """Memory for one stage of one batch element."""

    point: FloatArray  # (rows, d) where the derivative is evaluated
    queries: FloatArray  # (tokens, padded d)
    panels: FloatArray  # (panels, padded d, keys of a panel)
    numbers: FloatArray  # (2,) the power of two by which keys were divided, and 1 if something is not finite


_intrinsic: Any = intrinsic  # which adds the first argument itself


@_intrinsic
def _widen(_):
    """Let LLVM use registers of 512 bits in the function that calls this: 1.5 times as fast, where there are some."""

    def body(context, builder, signature, args):
        set.add(builder.function.attributes, '"prefer-vector-width"="512"')  # `add` refuses all but a few names
        return context.get_dummy_value()

    return types.void(), body


@_intrinsic
def _larger(_, a, b):
    """Return the larger number; LLVM vectorises this maximum of a loop, and not Python's."""

    def body(context, builder, signature, args):
        flags = ("nnan", "nsz")
        return builder.select(builder.fcmp_ordered(">", *args, flags=flags), *args, flags=flags)

    return types.float64(types.float64, types.float64), body


@njit(fastmath=PLAIN)
def _exp(x):
    k = x * LOG2_E + TO_INTEGER
    n = k - TO_INTEGER
    r = (x - n * LN2_HIGH) - n * LN2_LOW
    p = ((((C11 * r + C10) * r + C9) * r + C8) * r + C7) * r + C6
    p = (((((p * r + C5) * r + C4) * r + C3) * r + C2) * r + 1.0) * r + 1.0
    bits = np.float64(p).view(np.int64) + (np.float64(k).view(np.int64) << np.int64(52))
    return np.int64(bits).view(np.float64)


# Arrays come whole, with an index: a slice counts its references, which takes as long as the sums of 50 keys.


@njit(fastmath=SUMS)
def _multiply(queries, i, panels, p, first, size, scores):
    """Write, or for later coordinates add, the products of a query with a panel, four (of two, two) coordinates."""
    _widen()
    if queries.shape[1] == 2:
        a, b = queries[i, 0], queries[i, 1]
        for j in range(size):
            scores[j] = a * panels[p, 0, j] + b * panels[p, 1, j]
        return
    a, b, c, d = queries[i, first], queries[i, first + 1], queries[i, first + 2], queries[i, first + 3]
    two, three, four = first + 1, first + 2, first + 3
    if first == 0:
        for j in range(size):
            scores[j] = a * panels[p, 0, j] + b * panels[p, 1, j] + c * panels[p, 2, j] + d * panels[p, 3, j]
    else:
        for j in range(size):
            more = a * panels[p, first, j] + b * panels[p, two, j] + c * panels[p, three, j] + d * panels[p, four, j]
            scores[j] += more


@njit(fastmath=SUMS)
def _maximum(scores, size):
    _widen()
    top = -np.inf
    for j in range(size):
        top = _larger(scores[j], top)
    return top


@njit(fastmath=SUMS)
def _sum_two(panels, p, size, scores, top, sums):
    _widen()
    total, a, b = 0.0, 0.0, 0.0
    for j in range(size):
        weight = _exp(_larger(scores[j] - top, MIN_EXPONENT))
        total += weight
        a += weight * panels[p, 0, j]
        b += weight * panels[p, 1, j]
    sums[0] += a
    sums[1] += b
    return total


@njit(fastmath=SUMS)
def _sum_four(panels, p, size, scores, top, sums):
    """Replace scores by weights, and add weighted sums of the first four coordinates."""
    _widen()
    total, a, b, c, d = 0.0, 0.0, 0.0, 0.0, 0.0
    for j in range(size):
        weight = _exp(_larger(scores[j] - top, MIN_EXPONENT))
        scores[j] = weight
        total += weight
        a += weight * panels[p, 0, j]
        b += weight * panels[p, 1, j]
        c += weight * panels[p, 2, j]
        d += weight * panels[p, 3, j]
    sums[0] += a
    sums[1] += b
    sums[2] += c
    sums[3] += d
    return total


@njit(fastmath=SUMS)
def _sum_more(panels, p, first, size, weights, sums):
    _widen()
    two, three, four = first + 1, first + 2, first + 3
    a, b, c, d = 0.0, 0.0, 0.0, 0.0
    for j in range(size):
        a += weights[j] * panels[p, first, j]
        b += weights[j] * panels[p, two, j]
        c += weights[j] * panels[p, three, j]
        d += weights[j] * panels[p, four, j]
    sums[first] += a
    sums[two] += b
    sums[three] += c
    sums[four] += d


@njit
def _sum_row(queries, i, panels, count, scores, sums):
    """Write the sums of e^{score - top} times the first `count` keys; return the sum of the weights, and top."""
    total, top, width, padded = 0.0, -np.inf, panels.shape[2], panels.shape[1]
    for c in range(padded):
        sums[c] = 0.0
    for p in range((count + width - 1) // width):
        m = min(width, count - p * width)
        size = LANES * ((m + LANES - 1) // LANES)
        for first in range(0, padded, 4):
            _multiply(queries, i, panels, p, first, size, scores)
        for j in range(m, size):
            scores[j] = -np.inf
        highest = _maximum(scores, size)
        if highest > top:
            if p:
                factor = math.exp(top - highest)
                total *= factor
                for c in range(padded):
                    sums[c] *= factor
            top = highest
        if padded == 2:
            total += _sum_two(panels, p, size, scores, top, sums)
        else:
            total += _sum_four(panels, p, size, scores, top, sums)
            for first in range(4, padded, 4):
                _sum_more(panels, p, first, size, scores, sums)
    return total, top


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
    for i in range(len(A)):
        for j in range(B.shape[1]):
            total = 0.0
            for k in range(len(B)):
                total += A[i, k] * B[k, j]
            out[i, j] = total


@njit
def _exponential(M):
    """Return e^M by Taylor's series of a part of M."""
    norm = np.abs(M).sum()
    halvings = max(0, math.frexp(norm)[1]) if norm < 1e300 else 0
    M, E, out = M / 2.0**halvings, np.eye(len(M)), np.empty(M.shape)
    for k in range(TAYLOR_DEGREE, 0, -1):  # Horner's rule
        _multiply_matrices(M, E, out)
        E[:] = out / k
        for i in range(len(M)):
            E[i, i] += 1.0
    for _ in range(halvings):
        _multiply_matrices(E, E, out)
        E[:] = out
    return E


@njit
def find_form(terms, b, s, t):
    """Return the transpose of B^T S^T Q^T K S B for B = e^{t(D - lambda I)}."""
    G = terms.forms[min(b, len(terms.forms) - 1), min(s, terms.forms.shape[1] - 1)]
    F = np.empty(G.shape)
    if len(terms.exponent):
        E, half = _exponential(t * terms.exponent), np.empty(G.shape)
        _multiply_matrices(G, E, half)
        _multiply_matrices(half.T, E, F)
        return F
    size, partner = np.exp(t * terms.decay), np.arange(len(G)) + np.sign(terms.turn).astype(np.intp)
    straight, across = size * np.cos(t * terms.turn), -size * np.sin(t * terms.turn)
    for i in range(len(G)):
        F[i] = G[:, i] * straight[i] + G[:, partner[i]] * across[i]  # transposed
    half = F.copy()
    for a in range(len(G)):
        for i in range(len(G)):
            F[a, i] = half[a, i] * straight[i] + half[a, partner[i]] * across[i]
    return F


@njit
def make_space(tokens, rows, d):
    """Allocate the memory for a stage."""
    padded = 2 if d <= 2 else 4 * ((d + 3) // 4)
    width = min(PANEL, LANES * ((tokens + LANES - 1) // LANES))
    panels = np.zeros(((tokens + width - 1) // width, padded, width))
    return Space(np.empty((rows, d)), np.zeros((tokens, padded)), panels, np.zeros(2))


@njit
def _prepare(terms, b, s, t, tokens, space):
    """Fill queries and panels for the state in `space.point`, which comes onto the sphere if the flow is there."""
    w, d = space.point, space.point.shape[1]
    size = 0.0
    for i in range(tokens):
        if terms.sphere:
            norm = 0.0
            for c in range(d):
                norm += w[i, c] * w[i, c]
            for c in range(d):
                w[i, c] /= math.sqrt(norm) if norm > 0 else 1.0
        for c in range(d):
            size = abs(w[i, c]) if not abs(w[i, c]) <= size else size  # NaN stays
    space.numbers[1] = 0.0 if size < np.inf else 1.0
    power = math.frexp(size)[1] if 0 < size < np.inf else 0
    shrink = 2.0 ** min(-power, 1000)
    space.numbers[0] = 1.0 / shrink
    F, row = find_form(terms, b, s, t), np.empty(d)
    largest = np.abs(F).max()
    log = 2.0 * terms.rate * t - 2.0 * math.log(shrink)
    F *= math.exp(min(log, MAX_LOG - math.log(largest))) if 0 < largest < np.inf else 1.0
    width = space.panels.shape[2]
    for i in range(tokens):
        for c in range(d):
            row[c] = space.panels[i // width, c, i % width] = w[i, c] * shrink
        _apply(F, row, space.queries, i)


@njit
def _attend(terms, b, s, tokens, space, first, last, out):
    """Write the derivative of rows from `first` to `last`."""
    w, d, width = space.point, space.point.shape[1], space.queries.shape[1]
    D = terms.values[min(b, len(terms.values) - 1), min(s, terms.values.shape[1] - 1)]
    scores, sums, pull = np.empty(space.panels.shape[2]), np.empty(width), np.empty(d)
    for i in range(first, last):
        if i < tokens:
            count = i + 1 if terms.causal else tokens
            total, top = _sum_row(space.queries, i, space.panels, count, scores, sums)
            grow = space.numbers[0] / total
            if terms.sphere == 2:
                grow = space.numbers[0] * math.exp(top) / count
            if space.numbers[1]:
                grow = np.nan
            for c in range(d):
                pull[c] = sums[c] * grow - terms.offset * w[i, c]
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
    terms: Terms, state: State, A: FloatArray, C: FloatArray, b: int, s: int, last: int, space: Space
) -> None:
    """Prepare stage s of a step from y, or where s > `last` (for dense output) of the step that was done."""
    again, rows = s > last, state.rows[b]
    start = state.old[b] if again else state.y[b]
    t = state.times[b, 1] if again else state.times[b, 0]
    h = state.times[b, 2] - t
    space.point[:] = start[:rows]
    for j in range(s):
        if A[s, j] != 0:
            factor = h * A[s, j]
            for i in range(rows):
                for c in range(start.shape[1]):
                    space.point[i, c] += factor * state.K[b, j, i, c]
    if s == last:
        state.new[b, :rows] = space.point
    _prepare(terms, b, s, t + C[s] * h, state.tokens[b], space)


@entry()
def attend_rows(terms: Terms, state: State, b: int, s: int, space: Space, first: int, last: int) -> None:
    """Write the derivative of some rows in stage s."""
    _attend(terms, b, s, state.tokens[b], space, first, last, state.K[b, s])


combine_errors = njit(steps.combine_errors)


@njit
def find_error(state: State, E: FloatArray, b: int) -> float:
    """Return the same as `steps.find_error`."""
    h, largest, other = state.times[b, 2] - state.times[b, 0], 0.0, 0.0
    y, new, K = state.y[b], state.new[b], state.K[b]
    for first, last in ((0, state.tokens[b]), (state.tokens[b], state.rows[b])):
        for c in range(y.shape[1]):
            mean = 0.0
            for i in range(first, last):
                mean += abs(y[i, c])
            mean /= max(last - first, 1)
            for i in range(first, last):
                unit = state.units[b, i, c] + state.rtol[b] * max(abs(y[i, c]), abs(new[i, c]), mean)
                error, second = 0.0, 0.0
                for s in range(E.shape[1]):
                    error += E[0, s] * K[s, i, c]
                    second += E[1, s] * K[s, i, c]
                error, second = abs(h * error / unit), abs(h * second / unit)
                largest = error if not error <= largest else largest  # NaN stays
                other = max(other, second)
    return combine_errors(largest, other)


settle, choose_end = njit(steps.settle), njit(steps.choose_end)


@entry()
def advance(
    some: IntArray,
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
    tries: int,
) -> None:
    """Take steps of some batch elements, each up to its time in `stops` or its number of steps in `counts`."""
    last = E.shape[1] - 1
    for b in some:
        space = make_space(state.tokens[b], state.rows[b], state.y.shape[2])
        tried = 0
        while tried < tries and state.times[b, 0] < stops[b] and state.flags[b, 0] < counts[b]:
            tried += 1
            if not choose_end(state, end, last, b):
                too_short[b] = True
                break
            for s in range(1, last + 1):
                begin_stage(terms, state, A, C, b, s, last, space)
                _attend(terms, b, s, state.tokens[b], space, 0, state.rows[b], state.K[b, s])
            state.flags[b, 1] += last
            settle(state, find_error(state, E, b), exponent, b)
