"""A Triton kernel for softmax means of tokens in few dimensions, without an n by n
matrix.

A program reads all keys twice for its rows: for the largest score of each row, and for
the sums. Every lane of a tile keeps a maximum and sums of its own, so that the loops
contain no reduction. Only the last tiles, those with keys that are padding or that some
rows do not see, are masked.
"""

# mypy: allow-untyped-defs, allow-untyped-decorators, disable-error-code=assignment

import triton
import triton.language as tl


@triton.jit
def _load(x, width, columns, D: tl.constexpr):
    """Return coordinates of tokens, one tensor for each."""
    loaded = ()
    for c in tl.static_range(D):
        loaded = loaded + (tl.load(x + c * width + columns),)  # noqa: RUF005  Triton has no starred expressions
    return loaded


@triton.jit
def _score(
    query,
    key,
    less,
    rows,
    columns,
    n,
    D: tl.constexpr,
    CAUSAL: tl.constexpr,
    MASKED: tl.constexpr,
):
    """Return scores minus `less`, -inf for keys that a row does not see."""
    score = query[0][:, None] * key[0][None, :] - less
    for c in tl.static_range(1, D):
        score += query[c][:, None] * key[c][None, :]
    if MASKED:
        seen = (columns < n)[None, :]
        if CAUSAL:
            seen = seen & (columns[None, :] <= rows[:, None])
        score = tl.where(seen, score, float("-inf"))
    return score


@triton.jit
def _add(total, sums, weight, key, D: tl.constexpr):
    more = ()
    for c in tl.static_range(D):
        more = more + (sums[c] + weight * key[c][None, :],)  # noqa: RUF005
    return total + weight, more


@triton.jit(do_not_specialize=["n"])
def find_means(
    q, k, out, n, width, D: tl.constexpr, CAUSAL: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr
):  # fmt: skip
    """Write sum_j 2^(q_i . k_j) k_j / sum_j 2^(q_i . k_j) for ROWS rows i.

    Arrays are (D, width), of which the first n columns are tokens; `width` is a
    multiple of ROWS and of COLUMNS.
    """
    first = tl.program_id(0) * ROWS
    rows = first + tl.arange(0, ROWS)
    lanes = tl.arange(0, COLUMNS)
    query = _load(q, width, rows, D)
    end = n
    whole = n // COLUMNS * COLUMNS  # keys in tiles that need no mask
    if CAUSAL:
        end = tl.minimum(n, first + ROWS)
        whole = first // COLUMNS * COLUMNS
    top = tl.full([ROWS, COLUMNS], float("-inf"), q.dtype.element_ty)
    for start in range(0, whole, COLUMNS):
        columns = start + lanes
        top = tl.maximum(
            top,
            _score(
                query,
                _load(k, width, columns, D),
                0.0,
                rows,
                columns,
                n,
                D,
                CAUSAL,
                False,
            ),
        )
    for start in range(whole, end, COLUMNS):
        columns = start + lanes
        top = tl.maximum(
            top,
            _score(
                query,
                _load(k, width, columns, D),
                0.0,
                rows,
                columns,
                n,
                D,
                CAUSAL,
                True,
            ),
        )
    highest = tl.max(top, 1)[:, None]
    total = tl.zeros([ROWS, COLUMNS], q.dtype.element_ty)
    sums = ()
    for _c in tl.static_range(D):
        sums = sums + (total,)  # noqa: RUF005
    for start in range(0, whole, COLUMNS):
        columns = start + lanes
        key = _load(k, width, columns, D)
        weight = tl.exp2(
            _score(query, key, highest, rows, columns, n, D, CAUSAL, False)
        )
        total, sums = _add(total, sums, weight, key, D)
    for start in range(whole, end, COLUMNS):
        columns = start + lanes
        key = _load(k, width, columns, D)
        weight = tl.exp2(_score(query, key, highest, rows, columns, n, D, CAUSAL, True))
        total, sums = _add(total, sums, weight, key, D)
    count = tl.sum(total, 1)
    for c in tl.static_range(D):
        tl.store(out + c * width + rows, tl.sum(sums[c], 1) / count)
