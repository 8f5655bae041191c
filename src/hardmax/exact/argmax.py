"""Exact argmax sets of one layer, of one token set or of a batch.

Products are computed in float64. Where the best key leads by more than the error bound,
its index is the exact answer. Only the other rows are compared in rational arithmetic,
on exact positions computed for them alone.

Tokens are scaled by a power of two so that the largest coordinate lies in [1/4, 1]:
products neither overflow nor, but for the smallest numbers, underflow. `error` bounds
each coordinate's distance from the exact state. It grows by a few units of rounding per
layer, because a layer with given sets is a convex combination and so never enlarges it.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, NamedTuple, TypeAlias, overload

import numpy as np
from numpy.typing import ArrayLike

from hardmax._errors import ParameterError
from hardmax._exact import TINY, UNIT, check_subnormals, over_one_denominator
from hardmax._types import AnyArray, BoolArray, FloatArray, IntArray, Row, Seen
from hardmax._validation import as_array, check_flag, exact_numbers
from hardmax.exact.comparison import ExactRows, compare_exactly
from hardmax.search.dispatch import (
    Search,
    check_kernel,
    is_small,
    products_of_batch,
    search_batch,
    use_compiled,
)
from hardmax.search.reference import TILE, near_maxima_of_elements
from hardmax.sets import Classes, Sets, TooMany

CHUNK = 1 << 16  # numbers that are summed at a time
MAX_FLOAT64_FACTOR = 1e150  # its square is still a float


def times_power_of_two(values: FloatArray, exponents: IntArray) -> FloatArray:
    """Return values * 2**exponents, each rounded once."""
    # A product is faster than `ldexp`; not all powers are floats.
    if np.abs(exponents).max() < 1022:
        return np.asarray(values * np.ldexp(1.0, exponents))
    return np.ldexp(values, exponents)


@dataclass(frozen=True, eq=False)
class Scaled:
    """values * 2**exponent is the array meant, each coordinate within `error` (in
    scaled units).
    """

    values: FloatArray
    exponent: int
    error: float

    @classmethod
    def of(cls, array: AnyArray) -> "Scaled":
        """Scale an array of floats or Fractions so that its largest entry lies in [1/4,
        1].
        """
        if array.dtype == object:
            largest = max(map(abs, array.flat))
            exponent = (
                largest.numerator.bit_length() - largest.denominator.bit_length() + 1
                if largest
                else 0
            )
            return cls(
                (array / Fraction(2) ** exponent).astype(np.float64),
                exponent,
                UNIT + TINY,
            )
        floats = np.asarray(array, np.float64)
        sizes = np.abs(floats)
        exponent = int(np.frexp(sizes.max())[1])
        # Only what becomes smaller than a normal number can lose digits.
        least = 2.0 ** (exponent - 1022)
        lossless = (
            exponent <= 0
            or sizes.min() >= least
            or not ((sizes > 0) & (sizes < least)).any()
        )
        values = times_power_of_two(floats, np.array(-exponent))
        return cls(values, exponent, 0.0 if lossless else TINY)


class ScaledSets(NamedTuple):
    """The same for the token sets of a batch, each scaled by itself; rows (m, d) of one
    after another.
    """

    values: FloatArray  # (m, d)
    exponents: IntArray  # (batch,)
    error: float  # of every coordinate

    @classmethod
    def of(cls, rows: AnyArray, offsets: IntArray) -> "ScaledSets":
        """Scale the rows of each token set, which begins at its offset."""
        if len(offsets) == 2:
            one = Scaled.of(rows)
            return cls(one.values, np.array([one.exponent]), one.error)
        rows = np.asarray(rows, np.float64)
        sizes = np.abs(rows)
        largest = np.maximum.reduceat(sizes.max(axis=1), offsets[:-1])
        exponents = np.frexp(largest)[1].astype(np.intp)
        owners = np.repeat(np.arange(len(exponents)), np.diff(offsets))
        of_row = exponents[owners, None]
        values = times_power_of_two(rows, -of_row)
        # Only what becomes smaller than a normal number can lose digits.
        least = np.ldexp(1.0, of_row - 1022)
        is_lossy = False
        if sizes.min() < least.max():
            is_lossy = bool(((of_row > 0) & (sizes > 0) & (sizes < least)).any())
        return cls(values, exponents, TINY if is_lossy else 0.0)


@dataclass(frozen=True, eq=False)
class Metric:
    """The matrix A, scaled for floats with the bounds that a product needs, and exactly
    as integers.
    """

    A: FloatArray | None  # None is the identity
    exponent: int
    error: float
    row_sum: float  # the largest sum of |a_rs| over s
    norm: float  # an upper bound of |A|_2
    rows: list[Row] | None  # A as integers, over
    denominator: int

    @classmethod
    def of(cls, A: AnyArray | None) -> "Metric":
        """Prepare A once for all states and checks."""
        if A is None:
            return cls(None, 0, 0.0, 1.0, 1.0, None, 1)
        scaled = Scaled.of(A)
        row_sum = 1.01 * float(np.abs(scaled.values).sum(axis=1).max())
        norm = 1.01 * float(np.linalg.norm(scaled.values, 2))
        return cls(
            scaled.values,
            scaled.exponent,
            scaled.error,
            row_sum,
            norm,
            *over_one_denominator(A),
        )

    def queries(self, points: FloatArray, error: float) -> tuple[FloatArray, float]:
        """Return A z for each row z, and the error of each coordinate."""
        if self.A is None:
            return points, error
        d = points.shape[1]
        # Coordinates of points are at most 1, so the sum of d products is off by (d +
        # 1) UNIT row_sum.
        spread = self.row_sum * (error + (d + 1) * UNIT) + d * (
            self.error * (1 + error) + TINY
        )
        return points @ self.A.T, spread


class ScaledBatch(NamedTuple):
    """The same for a batch (batch, n, d), each element scaled by itself."""

    values: FloatArray
    exponents: IntArray  # (batch,)
    errors: FloatArray  # (batch,)

    @classmethod
    def of(cls, batch: AnyArray) -> "ScaledBatch":
        """Scale each element of a batch of floats."""
        sizes = np.abs(batch)
        exponents = np.frexp(sizes.max(axis=(1, 2), initial=0).astype(np.float64))[1]
        lost = (sizes > 0) & (sizes < np.ldexp(1.0, exponents - 1022)[:, None, None])
        errors = np.where(lost.any(axis=(1, 2)) & (exponents > 0), TINY, 0.0)
        return cls(
            np.ldexp(batch.astype(np.float64), -exponents[:, None, None]),
            exponents,
            errors,
        )


Error: TypeAlias = float | FloatArray


def slack_of(
    queries: FloatArray, query_error: Error, keys: FloatArray, error: Error
) -> FloatArray:
    """Return the largest difference of two computed products of each query whose exact
    products are equal: (rows,).

    |<q, z> - fl<q~, z~>| <= (d + 4) u |q~|_1 |z~|_max + e_z |q~|_1 + e_q |z~|_1 + d e_q e_z + d tiny, twice, and a bit.
    No square is taken, which would underflow for the smallest queries. For batches
    errors have shape (batch, 1).
    """
    d, axes = keys.shape[-1], (-2, -1)
    highest = np.maximum(
        keys.max(axis=axes, initial=0), -keys.min(axis=axes, initial=0)
    )[..., None]
    widest = (
        _row_sums(keys).max(axis=-1, initial=0)[..., None]
        if np.any(query_error)
        else 0.0
    )
    slack = _row_sums(queries)  # |q~|_1
    slack *= 2.02 * ((d + 4) * UNIT * highest + error)
    slack += 2.02 * (query_error * widest + d * (query_error * error + TINY))
    return slack


def _row_sums(array: FloatArray) -> FloatArray:
    """Return |x|_1 of every row, in chunks that stay in the cache."""
    rows = array.reshape(-1, array.shape[-1])
    step = max(1, CHUNK // rows.shape[1])
    sums, ones = np.empty(len(rows)), np.ones(rows.shape[1])
    for start in range(0, len(rows), step):
        np.matmul(
            np.abs(rows[start : start + step]), ones, out=sums[start : start + step]
        )
    return sums.reshape(array.shape[:-1])


class Points(NamedTuple):
    """Positions as floats, the error of each coordinate, and a function that returns
    rows exactly.
    """

    values: FloatArray
    error: float
    exact: ExactRows

    @classmethod
    def of(cls, array: AnyArray) -> "Points":
        scaled = Scaled.of(array)
        return cls(scaled.values, scaled.error, exact_rows(array))

    def part(self, some: slice) -> "Points":
        exact, first = self.exact, some.start
        return Points(
            self.values[some],
            self.error,
            lambda rows: exact([first + row for row in rows]),
        )


def exact_rows(array: AnyArray) -> ExactRows:
    """Return a function that returns rows of floats or Fractions as integers over one
    denominator.
    """
    return lambda some: over_one_denominator(array[some])[0]


Answer: TypeAlias = tuple[Sets, FloatArray | None, dict[int, int]]


def exact_sets(
    points: Points, keys: Points, metric: Metric, search: Search, seen: Seen = None
) -> Answer:
    """Return C_i = argmax_j <A x_i, z_j> for points x_i and keys z_j, as in real
    arithmetic, over the keys `seen`.

    Also returns lower bounds of the gaps between the float products of each row, if
    `search.gaps`; and by how much each row that floats did not decide leads in products
    of exact rows, 0 for a tie. Where tokens have clustered to within rounding, so that
    every key may be the largest, few rows are compared at a time.
    """
    try:
        return _exact_sets(points, keys, metric, search, seen)
    except TooMany:
        half = len(points.values) // 2
    upper, lower = (
        exact_sets(
            points.part(some),
            keys,
            metric,
            search,
            None if seen is None else seen[some],
        )
        for some in (slice(0, half), slice(half, len(points.values)))
    )
    gaps = None if upper[1] is None or lower[1] is None else np.r_[upper[1], lower[1]]
    return (
        upper[0].concatenate(lower[0]),
        gaps,
        upper[2] | {row + half: lead for row, lead in lower[2].items()},
    )


def argmax_matrix(points: AnyArray, tokens: AnyArray, A: AnyArray | None) -> BoolArray:
    """Return whether token j maximises ⟨A x_i, z_j⟩ for each point x_i, (points, n), as
    in real arithmetic.
    """
    is_member = np.zeros((len(points), len(tokens)), bool)
    if len(points):
        search = Search("numpy")
        sets = exact_sets(Points.of(points), Points.of(tokens), Metric.of(A), search)[0]
        is_member[np.repeat(np.arange(len(points)), sets.sizes), sets.members] = True
    return is_member


def _exact_sets(
    points: Points, keys: Points, metric: Metric, search: Search, seen: Seen
) -> Answer:
    queries, query_error = metric.queries(points.values, points.error)
    slack = slack_of(queries, query_error, keys.values, keys.error)
    near, gaps = search.near_maxima(queries, keys.values, slack, seen)
    leads = dict.fromkeys(near.tied.tolist(), 0)
    rows = near.tied if keys.error else _with_different_keys(near, keys.values)
    sets = near
    if len(rows):
        decided, by = compare_exactly(
            near.take(rows), points.exact(rows.tolist()), keys.exact, metric.rows
        )
        sets, leads = (
            near.replace(rows, decided),
            leads | dict(zip(rows.tolist(), by, strict=True)),
        )
    if not search.gaps:
        return sets, None, leads
    if gaps is None:
        gaps = _gaps_of(queries, keys.values, slack, near, leads)
    return sets, np.maximum(gaps - slack, 0.0), leads


def _gaps_of(
    queries: FloatArray,
    keys: FloatArray,
    slack: FloatArray,
    near: Sets,
    leads: dict[int, int],
) -> FloatArray:
    """Return the distance from each maximum to the best key outside its near set, in
    float64; 0 for ties.
    """
    gaps, alone = np.zeros(len(near)), np.flatnonzero(near.sizes == 1)
    gaps[alone] = _lead_of_winners(
        queries[alone], keys, slack[alone], near.targets[alone]
    )
    close = np.array(
        [row for row, lead in leads.items() if lead], np.intp
    )  # decided by integers: few
    step = max(1, TILE // len(keys))
    for rows in (close[k : k + step] for k in range(0, len(close), step)):
        gaps[rows] = _leads(queries[rows] @ keys.T, near.take(rows))
    return gaps


def _leads(products: FloatArray, sets: Sets) -> FloatArray:
    """Return by how much the largest product of each row exceeds those outside its set;
    overwrite the products.
    """
    best = products.max(axis=1)
    products[np.repeat(np.arange(len(sets)), sets.sizes), sets.members] = -np.inf
    return np.asarray(best - products.max(axis=1))


def _lead_of_winners(
    queries: FloatArray, keys: FloatArray, slack: FloatArray, winners: IntArray
) -> FloatArray:
    """Return by how much the products at `winners` (rows,) lead all other keys:
    (rows,), infinite without other keys.

    Number the keys that win somewhere. Two different numbers differ in some binary
    digit, so the best of the other winners is the best among those that differ in the
    first digit, or in the second, and so on: for w winners log2 w searches on each side
    of a digit, and one among the keys that never win. In the plane w is at most the
    number of vertices of the hull. The bound rests on the contract of the search alone.
    """
    won, number = np.unique(winners, return_inverse=True)
    never = np.ones(len(keys), bool)
    never[won] = False
    second = _best_products(queries, keys[never], slack)
    for digit in range((len(won) - 1).bit_length()):
        upper = (np.arange(len(won)) >> digit & 1).astype(bool)
        for side in (upper, ~upper):
            rows = side[number]
            second[rows] = np.maximum(
                second[rows],
                _best_products(queries[rows], keys[won[~side]], slack[rows]),
            )
    return np.asarray(np.einsum("ij,ij->i", queries, keys[winners]) - second)


def _best_products(
    queries: FloatArray, keys: FloatArray, slack: FloatArray
) -> FloatArray:
    """Return the largest product of each query: (rows,). It is among the near-maxima."""
    if not (len(queries) and len(keys)):
        return np.full(len(queries), -np.inf)
    try:
        near = Search().near_maxima(queries, keys, slack)[0]
    except TooMany:
        half = len(queries) // 2
        parts = [
            _best_products(queries[s], keys, slack[s])
            for s in (slice(0, half), slice(half, None))
        ]
        return np.concatenate(parts)
    owners = np.repeat(np.arange(len(queries)), near.sizes)
    products = np.einsum("ij,ij->i", queries[owners], keys[near.members])
    return np.asarray(np.maximum.reduceat(products, near.starts[:-1]))


def _with_different_keys(near: Sets, keys: AnyArray) -> IntArray:
    """Return the rows whose members are not all equal keys."""
    if not len(near.tied):
        return near.tied
    tied = near.take(near.tied)
    ids, labels = np.unique(tied.members), np.zeros(len(keys), np.intp)
    labels[ids] = Classes.of(keys[ids]).labels
    labels, starts = labels[tied.members], tied.starts[:-1]
    return near.tied[
        np.maximum.reduceat(labels, starts) > np.minimum.reduceat(labels, starts)
    ]


def exact_sets_of_batch(
    queries: AnyArray,
    keys: AnyArray,
    mask: BoolArray | None = None,
    causal: bool = False,
    most: float = np.inf,
) -> Sets:
    """Return C_i = argmax_j <q_i, k_j> for (batch, n, d) queries and (batch, m, d)
    keys, as in real arithmetic.

    `mask` (batch, m) is True for keys that may be chosen; with `causal`, query i sees
    only the keys 0 to i. Row b * n + i holds keys of batch element b. Raises TooMany
    where the sets, or their candidates, have more than `most` members in all.
    """
    check_subnormals()
    if queries.shape[2] == 1 and not causal:
        return _sets_on_line(queries, keys, mask, most)
    near, decided = near_maxima_of_batch(queries, keys, None, mask, causal, most)
    return compare_open_rows(near, decided, queries, keys)


def compare_open_rows(
    near: Sets,
    decided: BoolArray,
    queries: AnyArray,
    keys: AnyArray,
    A: AnyArray | None = None,
) -> Sets:
    """Return near-maxima of a batch with the rows that are not `decided` compared
    exactly; queries times A if given.
    """
    rows, n = np.flatnonzero(~decided), queries.shape[1]
    answers: list[IntArray] = []
    for b in np.unique(rows // n).tolist():
        some = rows[rows // n == b]
        points, _ = over_one_denominator(queries[b, some % n])
        form = None if A is None else over_one_denominator(A[b].T)[0]
        answers += compare_exactly(near.take(some), points, exact_rows(keys[b]), form)[
            0
        ]
    return near.replace(rows, Sets.of(answers))


def near_maxima_of_batch(
    queries: AnyArray,
    keys: AnyArray,
    slack: FloatArray | None,
    mask: BoolArray | None = None,
    causal: bool = False,
    most: float = np.inf,
) -> tuple[Sets, BoolArray]:
    """Return all keys whose products are within `slack` (batch * n,) of the largest,
    and where these are all equal.

    Without `slack` it is the error of the products, so that rows whose candidates are
    all equal are decided.
    """
    (batch, n, d), m = queries.shape, keys.shape[1]
    small = (
        slack is None
        and not causal
        and is_small(d, max(n, m), queries.dtype == keys.dtype == np.float32)
    )
    compiled = use_compiled(
        "small" if small else "scan", products_of_batch(batch, n, m)
    )
    if compiled and not (too_large(queries) or too_large(keys)):
        return search_batch(queries, keys, slack, mask, causal, most)
    Q, K = (
        ScaledBatch.of(queries),
        ScaledBatch.of(keys if mask is None else np.where(mask[..., None], keys, 0)),
    )
    allowed = slack_of(
        Q.values, Q.errors[:, None], K.values, K.errors[:, None]
    )  # (batch, n)
    if slack is not None:
        with np.errstate(
            over="ignore"
        ):  # of the smallest numbers: then all keys are near
            allowed += np.ldexp(
                slack.reshape(batch, n), -(Q.exponents + K.exponents)[:, None]
            )
    near = near_maxima_of_elements(
        Q.values, K.values, allowed.reshape(-1), mask, causal, most
    )
    same = np.ones(batch * n, bool)
    same[_with_different_keys(near.flatten(n, m), keys.reshape(-1, keys.shape[2]))] = (
        False
    )
    return near, same


def too_large(array: AnyArray) -> bool:
    """Return whether products may overflow in float64."""
    return (
        array.dtype == np.float64
        and max(float(array.max(initial=0)), -float(array.min(initial=0)))
        > MAX_FLOAT64_FACTOR
    )


def _sets_on_line(
    queries: AnyArray, keys: AnyArray, mask: BoolArray | None, most: float
) -> Sets:
    """Return `exact_sets_of_batch` for d = 1, where no product is computed and nothing
    is rounded.

    q k_j is largest at the largest k_j for q > 0, at the smallest for q < 0, and
    everywhere for q = 0.
    """
    q, k = queries[..., 0], keys[..., 0]
    seen = np.ones(k.shape, bool) if mask is None else mask
    low, high = (np.where(seen, k, edge) for edge in (np.inf, -np.inf))
    # (batch, 3, m) members of the set for negative, zero and positive queries
    table = np.stack(
        [
            k == low.min(axis=1, keepdims=True),
            seen,
            k == high.max(axis=1, keepdims=True),
        ],
        axis=1,
    )
    table &= seen[:, None]
    kinds = Sets(np.r_[0, np.cumsum(table.sum(axis=2))], np.nonzero(table)[2])
    rows = (np.arange(len(q))[:, None] * 3 + 1 + np.sign(q).astype(np.intp)).reshape(-1)
    if kinds.sizes[rows].sum() > most:
        raise TooMany
    return kinds.take(rows)


@overload
def argmax_sets(
    queries: ArrayLike,
    keys: ArrayLike | None = None,
    *,
    kernel: str = "auto",
    margins: Literal[False] = False,
) -> Sets: ...


@overload
def argmax_sets(
    queries: ArrayLike,
    keys: ArrayLike | None = None,
    *,
    kernel: str = "auto",
    margins: Literal[True],
) -> tuple[Sets, FloatArray]: ...


def argmax_sets(
    queries: ArrayLike,
    keys: ArrayLike | None = None,
    *,
    kernel: str = "auto",
    margins: bool = False,
) -> Sets | tuple[Sets, FloatArray]:
    """Find the sets C_i = argmax_j ⟨q_i, k_j⟩, exactly.

    The sets are those of real arithmetic on the given floats: rows that float64 cannot
    decide are compared in integers. For several layers use `hardmax.simulate`, which
    treats equal tokens as one.

    Parameters
    ----------
    queries : (n, d) or (batch, n, d) array or tensor of finite floats
        Rows q_i. Tensors of a GPU are copied to the CPU, so that the answer is the
        same.
    keys : (m, d) or (batch, m, d) array or tensor, optional
        Rows k_j. Default: the queries.
    kernel : str
        For one token set "auto", "numpy", "hull", "scan" or "symmetric"; for
        a batch "auto".
    margins : bool
        Whether to return margins, too.

    Returns
    -------
    sets : Sets
        `sets[i]` is the sorted array C_i, and `sets.sizes` how many keys tie; for a
        batch, row b * n + i holds keys of batch element b.
    margins : (rows,) array, if asked for
        By how much the largest product of each row exceeds that of the best key outside
        C_i, at least: float64 products less the bound of their error. 0 where floats do
        not separate them, infinite where C_i holds every key.

    Raises
    ------
    ParameterError
        If shapes do not fit, a number is not finite, or there is no such kernel.
    MissingExtra
        If the kernel needs numba, which is not installed.

    Examples
    --------
    >>> import hardmax as hm
    >>> sets = hm.argmax_sets([[1.0, 1.0], [1.0, -1.0], [0.5, 0.0]])
    >>> sets[0], sets[2]
    (array([0]), array([0, 1]))
    >>> hm.argmax_sets([[1.0, 1.0]], [[1.0, 1.0], [0.5, 0.0], [2.0, 0.0]], margins=True)[1].round(3)
    array([1.5])
    """
    check_subnormals()
    kernel = check_kernel(kernel)
    margins = check_flag(margins, "margins")
    Q, K = _check(queries, keys)
    if Q.ndim == 3:
        if kernel != "auto":
            raise ParameterError(
                "kernel", 'be "auto" for a batch', repr(kernel), "Leave it out."
            )
        return (
            _with_margins(exact_sets_of_batch(Q, K), Q, K)
            if margins
            else exact_sets_of_batch(Q, K)
        )
    if kernel == "symmetric" and K is not Q:
        raise ParameterError(
            'kernel="symmetric"',
            "have keys that are the queries",
            "other keys",
            'Use `kernel="auto"`.',
        )
    if not len(Q):
        return (Sets.of([]), np.empty(0)) if margins else Sets.of([])
    points = Points.of(Q)
    sets = exact_sets(
        points, points if K is Q else Points.of(K), Metric.of(None), Search(kernel)
    )[0]
    return _with_margins(sets, Q[None], K[None]) if margins else sets


def _with_margins(sets: Sets, Q: AnyArray, K: AnyArray) -> tuple[Sets, FloatArray]:
    """Return sets (batch * n rows), and by how much products of their members exceed
    all others, at least: (rows,).
    """
    margins, (n, m) = np.empty(len(sets)), (Q.shape[1], K.shape[1])
    step = max(1, TILE // m if len(Q) == 1 else n)
    for row in range(0, len(sets), step):
        rows = np.arange(row, min(row + step, len(sets)))
        queries, keys = Scaled.of(Q[row // n][rows % n]), Scaled.of(K[row // n])
        slack = slack_of(queries.values, queries.error, keys.values, keys.error)
        lead = np.maximum(
            _leads(queries.values @ keys.values.T, sets.take(rows)) - slack, 0.0
        )
        exponent = queries.exponent + keys.exponent
        with np.errstate(over="ignore", under="ignore"):
            margin = np.ldexp(
                lead, exponent
            )  # rounded where it is subnormal or overflows, and then down
            margins[rows] = np.where(
                np.ldexp(margin, -exponent) > lead, np.nextafter(margin, 0.0), margin
            )
    return sets, margins


def _check(queries: ArrayLike, keys: ArrayLike | None) -> tuple[AnyArray, AnyArray]:
    must = "have rows of equal length"
    Q = as_array(queries, "queries", must)
    K = Q if keys is None or keys is queries else as_array(keys, "keys", must)
    if (
        Q.ndim not in (2, 3)
        or Q.ndim != K.ndim
        or Q.shape[-1] != K.shape[-1]
        or Q.shape[:-2] != K.shape[:-2]
    ):
        must = "have shapes (n, d) and (m, d), or (batch, n, d) and (batch, m, d)"
        raise ParameterError(("queries", "keys"), must, f"{Q.shape} and {K.shape}")
    if not K.size or not Q.shape[-1]:
        raise ParameterError("keys", "hold at least one key", f"shape {K.shape}")
    floats = _as_floats("queries", Q)
    return floats, floats if K is Q else _as_floats("keys", K)


def _as_floats(name: str, array: AnyArray) -> AnyArray:
    """Return float32 and float64 as they are, other numbers as float64 if that is
    exact.
    """
    floats = exact_numbers(array, name)
    if floats.dtype == object:
        got = f"{array.dtype} that float64 cannot hold"
        raise ParameterError(name, "be floats", got, "Use hm.simulate.")
    return (
        floats if floats.dtype == np.float32 else floats.astype(np.float64, copy=False)
    )
