"""A Triton kernel for softmax means of tokens in few dimensions, without an n by n matrix.

A program reads all keys twice for its rows: for the largest score of each row, and for the sums. Every lane of a tile
keeps a maximum and sums of its own, so that the loops contain no reduction.
"""

# mypy: allow-untyped-defs, allow-untyped-decorators

import triton
import triton.language as tl

MAX_D = 16  # sums are kept in registers: one per coordinate


@triton.jit
def _score(query, k, n, rows, columns, D: tl.constexpr, CAUSAL: tl.constexpr):
    """Return the scores of a tile, -inf for keys that a row does not see."""
    score = query[0] * tl.load(k + columns, mask=columns < n, other=0.0)[None, :]
    for c in tl.static_range(1, D):
        score += query[c] * tl.load(k + c * n + columns, mask=columns < n, other=0.0)[None, :]
    seen = (columns < n)[None, :]
    if CAUSAL:
        seen = seen & (columns[None, :] <= rows[:, None])
    return tl.where(seen, score, float("-inf"))


@triton.jit(do_not_specialize=["n"])
def find_means(
    q, k, out, n, D: tl.constexpr, CAUSAL: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr
):  # fmt: skip
    """Write sum_j 2^(q_i . k_j) k_j / sum_j 2^(q_i . k_j) for ROWS rows i; all arrays are (D, n)."""
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    query, sums = (), ()
    for c in tl.static_range(D):
        query = query + (tl.load(q + c * n + rows, mask=rows < n, other=0.0)[:, None],)
        sums = sums + (tl.zeros([ROWS, COLUMNS], q.dtype.element_ty),)
    end = n
    if CAUSAL:
        end = tl.minimum(n, (tl.program_id(0) + 1) * ROWS)
    top = tl.full([ROWS, COLUMNS], float("-inf"), q.dtype.element_ty)
    for start in range(0, end, COLUMNS):
        columns = start + tl.arange(0, COLUMNS)
        top = tl.maximum(top, _score(query, k, n, rows, columns, D, CAUSAL))
    highest = tl.max(top, 1)[:, None]
    total = tl.zeros([ROWS, COLUMNS], q.dtype.element_ty)
    for start in range(0, end, COLUMNS):
        columns = start + tl.arange(0, COLUMNS)
        weight = tl.exp2(_score(query, k, n, rows, columns, D, CAUSAL) - highest)
        total += weight
        more = ()
        for c in tl.static_range(D):
            more = more + (sums[c] + weight * tl.load(k + c * n + columns, mask=columns < n, other=0.0)[None, :],)
        sums = more
    whole = tl.sum(total, 1)
    for c in tl.static_range(D):
        tl.store(out + c * n + rows, tl.sum(sums[c], 1) / whole, mask=rows < n)
