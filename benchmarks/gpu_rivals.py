"""The largest inner product on a GPU: ours against a fused kernel of products and
argmax, and against torch.compile.

The fused kernel is the algorithm of flash-kmeans' assignment step and of
late-interaction kernels such as flash-maxsim: tiles of products on the tensor cores,
with a running maximum and its index, without the matrix. Their packages are not needed;
this kernel is tuned over the same block sizes. It has no bound of errors, and keeps one
of several maxima.

`python -m benchmarks.gpu_rivals` prints the rows of `benchmarks.gpu` for these cases as
JSON.
"""

# mypy: allow-untyped-defs, allow-untyped-decorators

import json
from collections.abc import Iterator
from typing import Any

import torch
import triton
import triton.language as tl

CONFIGS = [
    triton.Config({"N": n, "M": m}, num_warps=warps, num_stages=stages)
    for n, m, warps, stages in (
        (128, 64, 4, 3),
        (128, 128, 4, 3),
        (128, 128, 8, 3),
        (64, 128, 4, 3),
        (128, 256, 8, 2),
    )
]
SQUARES, DIMENSIONS = (1000, 4096, 16_384, 65_536), (64, 128)
FEW_CENTRES = (1 << 20, 256)
CHECKED = 2048  # queries that are compared with float64


@triton.autotune(CONFIGS, key=["n", "m", "D"])
@triton.jit
def assign(q, k, out, n, m, D: tl.constexpr, N: tl.constexpr, M: tl.constexpr):
    """Write the index of the largest product of each query."""
    rows = tl.program_id(0) * N + tl.arange(0, N)
    columns = tl.arange(0, D)
    queries = tl.load(
        q + rows[:, None].to(tl.int64) * D + columns[None, :],
        mask=rows[:, None] < n,
        other=0.0,
    )
    best = tl.full([N], -float("inf"), tl.float32)
    index = tl.zeros([N], tl.int32)
    for start in range(0, m, M):
        keys = start + tl.arange(0, M)
        tile = tl.load(
            k + keys[None, :].to(tl.int64) * D + columns[:, None],
            mask=keys[None, :] < m,
            other=0.0,
        )
        scores = tl.dot(queries, tile)
        scores = tl.where(keys[None, :] < m, scores, -float("inf"))
        most, place = tl.max(scores, 1, return_indices=True)
        index = tl.where(most > best, start + place, index)
        best = tl.maximum(most, best)
    tl.store(out + rows, index, mask=rows < n)


def fused(q: Any, k: Any, out: Any) -> Any:
    """Run the fused kernel."""
    grid = lambda chosen: (triton.cdiv(len(q), chosen["N"]),)  # noqa: E731
    assign[grid](q, k, out, len(q), len(k), D=q.shape[1])
    return out


def largest_products() -> Iterator[dict[str, Any]]:
    """Yield rows of `benchmarks.gpu`."""
    from benchmarks.gpu import GRAPH, compare
    from hardmax.attention import gpu
    from hardmax.attention.functional import first_and_sizes, new_record

    compiled = torch.compile(lambda q, k: (q @ k.T).argmax(1), dynamic=True)
    for dtype in (torch.bfloat16, torch.float16, torch.float32):
        for n, m, d in [(n, n, d) for n in SQUARES for d in DIMENSIONS] + [
            (*FEW_CENTRES, d) for d in DIMENSIONS
        ]:
            q, k = (torch.randn(size, d, device="cuda").to(dtype) for size in (n, m))
            nothing, found = k[None, :, :0], new_record(q[None], k[None], None, False)
            out = torch.empty(n, dtype=torch.int32, device="cuda")

            def ours(
                q: Any = q, k: Any = k, nothing: Any = nothing, found: Any = found
            ) -> Any:
                gpu.attend(q[None], k[None], nothing, None, False, found)
                return first_and_sizes(found, len(q))[0][0]

            exact = (q[:CHECKED].double() @ k.double().T).argmax(1)
            assert (ours()[:CHECKED] == exact).all(), (
                "hardmax chooses other keys than float64: no ratio"
            )
            size = f"n = m = {n}" if n == m else f"n = {n}, m = {m}"
            for name, other in (
                (
                    "a fused kernel of products and argmax",
                    lambda q=q, k=k, out=out: fused(q, k, out),
                ),
                ("torch.compile of matmul and argmax", lambda q=q, k=k: compiled(q, k)),
            ):
                wrong = int((other() != ours()).sum())
                kind = str(dtype).removeprefix("torch.")
                case = (
                    f"largest product, {kind}, {size}, d = {d}, against {name}, which"
                    f" misses {wrong} rows"
                )
                yield compare(case, GRAPH, ours, other)
            torch.cuda.empty_cache()


if __name__ == "__main__":
    for one in largest_products():
        print(json.dumps(list(one.values())[:7]), flush=True)
