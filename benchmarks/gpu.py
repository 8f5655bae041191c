"""Hardmax attention on a GPU against softmax attention, exact sets against products
with argmax, and flows.

With no package but torch, triton and what `import hardmax` needs: `python -m
benchmarks.gpu gpu.json README.md`.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

import hardmax as hm
from benchmarks import report
from hardmax._errors import InputError

Step = Callable[[], Any]
FORWARD, BOTH, GRAPH = "forward", "forward and backward", "CUDA graph"
# times as fast, both as CUDA graphs, by what is done, type, n, d and what else is true
# of the case
TARGETS = {
    (FORWARD, "bfloat16", 4096, 64, ""): 1.4,
    (FORWARD, "bfloat16", 4096, 128, ""): 1.4,
    (BOTH, "bfloat16", 4096, 64, ""): 3.5,
    (BOTH, "bfloat16", 4096, 128, ""): 3.5,
    (FORWARD, "bfloat16", 4096, 64, ", causal"): 1.4,
    (BOTH, "bfloat16", 4096, 64, ", causal"): 2.5,
    (FORWARD, "bfloat16", 4096, 64, ", every key 2 times"): 1.2,
    (FORWARD, "bfloat16", 1024, 64, ""): 1.0,
    **{(BOTH, "bfloat16", n, 64, ""): 1.5 for n in (512, 1024)},
    ("sets", "float32", 4096, 64, ""): 5.0,
}
MAX_COMPILATION, MAX_FIRST_CALL = (
    12.0,
    2.0,
)  # seconds of a first call, without and with machine code on disk
FIRST = """
import sys, time, torch
from hardmax.attention.functional import hardmax_attention
torch.zeros(1, device="cuda")
q, k, v = (torch.randn(2, 100, int(sys.argv[1]), device="cuda").bfloat16().requires_grad_() for _ in range(3))
torch.cuda.synchronize()
start, before = time.perf_counter(), torch.cuda.memory_allocated()
hardmax_attention(q, k, v).sum().backward()
torch.cuda.synchronize()
print(1000 * (time.perf_counter() - start), (torch.cuda.max_memory_allocated() - before) / 2**20)
"""
FLOW_TURNS, FLOW_TARGET = 3, 3.0
MANY = 100_000  # tokens of a flow that is timed once: kernels are compiled by then
COLUMNS = (
    "case",
    "how",
    "ours ms",
    "other ms",
    "ours MB",
    "other MB",
    "times as fast",
    "target",
    "reached?",
)


def measure() -> dict[str, Any]:
    """Measure all cases on the GPU of this machine, and print the ratio of each."""
    import torch
    import triton

    from benchmarks.gpu_rivals import largest_products

    if not torch.cuda.is_available():
        raise InputError(
            "`gpu` must run where torch sees a CUDA device. Got none. Run it on a"
            " machine with a GPU."
        )
    n, batch = 4096, 64
    cases: list[Callable[[], Iterable[dict[str, Any]]]] = [
        *(partial(_attention, torch.bfloat16, batch, n, d) for d in (64, 128)),
        partial(_attention, torch.float16, batch, n, 64),
        partial(_attention, torch.bfloat16, batch, n, 64, causal=True),
        partial(_attention, torch.bfloat16, batch, n, 64, copies=2),
        partial(_attention, torch.bfloat16, batch, n, 64, copies=8),
        partial(_attention, torch.bfloat16, batch, n, 64, most=2),
        partial(_attention, torch.bfloat16, 4 * batch, n // 4, 64),
        partial(_attention, torch.bfloat16, 8 * batch, n // 8, 64),
        partial(_attention, torch.bfloat16, batch // 8, 4 * n, 128),
        partial(_attention, torch.float32, batch // 2, n, 64),
        partial(_sets, torch.float32, batch // 2, n, 64),
        partial(_sets, torch.bfloat16, batch, n, 64),
        partial(_layers, 4 * batch, n // 32),
        _first_call,
        largest_products,
        _flows,
    ]
    rows: list[dict[str, Any]] = []
    for case in cases:
        for one in case():
            print(f"{one['case']}: {one['times as fast']:.2f}", flush=True)
            rows.append(one)
        torch.cuda.empty_cache()
    versions = {"torch": torch.__version__, "triton": triton.__version__}
    date = time.strftime("%Y-%m-%d", time.gmtime())
    return {
        "machine": {"device": torch.cuda.get_device_name(), **versions},
        "date": date,
        "rows": rows,
    }


def row(
    case: str,
    how: str,
    ours: float,
    other: float,
    peaks: tuple[float, float],
    target: float | None,
) -> Any:
    """Return the row of a comparison."""
    times = other / ours
    reached = "" if target is None else "reached" if times >= target else "missed"
    return dict(
        zip(
            COLUMNS,
            (case, how, ours, other, *peaks, times, target or "", reached),
            strict=True,
        )
    )


def compare(
    case: str, how: str, ours: Step, other: Step, target: float | None = None
) -> Any:
    """Measure two steps as they are, or as CUDA graphs, and return their row."""
    timed = (
        _milliseconds(_replayed(step) if how == GRAPH else step)
        for step in (ours, other)
    )
    return row(case, how, *timed, (_peak(ours), _peak(other)), target)


def markdown(found: dict[str, Any]) -> str:
    """Return the table of a file of results."""
    columns = {key: key for key in COLUMNS}
    return report.with_machine(
        found, report.table(found["rows"], columns, ("how", "reached?"))
    )


def _milliseconds(step: Step) -> float:
    from triton.testing import do_bench

    return float(do_bench(step, warmup=25, rep=100, return_mode="median"))


def _peak(step: Step) -> float:
    """MB allocated while a step runs, beyond what is there before."""
    import torch

    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    step()
    torch.cuda.synchronize()
    return float(torch.cuda.max_memory_allocated() - before) / 2**20


def _replayed(step: Step) -> Step:
    """The same work as a CUDA graph: what the GPU needs, without the host that launches
    it.
    """
    import torch

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    replay: Step = graph.replay
    return replay


def _steps(
    attention: Callable[..., Any], inputs: list[Any], g: Any
) -> tuple[Step, Step]:
    """Forward, and forward with backward, as functions of nothing."""
    import torch

    leaves = [x.detach().requires_grad_() for x in inputs]

    def forward() -> Any:
        with torch.no_grad():
            return attention(*leaves)

    def both() -> None:
        for x in leaves:
            x.grad = None
        attention(*leaves).backward(g)

    return forward, both


def _check(q: Any, k: Any, v: Any, out: Any, causal: bool) -> None:
    """Refuse a ratio for other sets than those of float64, on the first entry of the
    batch.
    """
    import torch

    scores = q[0, 0].double() @ k[0, 0].double().T
    if causal:
        scores = scores.masked_fill(
            ~torch.ones_like(scores, dtype=torch.bool).tril(), -torch.inf
        )
    best = scores.amax(1, keepdim=True)
    chosen = (scores >= best - 1e-12 * best.abs()).double()
    means = (chosen / chosen.sum(1, keepdim=True)) @ v[0, 0].double()
    wrong = (out[0, 0].double() - means).abs().amax(1) > 0.02 * means.abs().amax(
        1
    ) + 1e-3
    if wrong.any():
        raise InputError(
            f"hardmax_attention chooses other sets than float64 in {int(wrong.sum())}"
            " rows: no ratio."
        )


def _attention(
    dtype: Any,
    batch: int,
    n: int,
    d: int,
    causal: bool = False,
    copies: int = 1,
    most: int = 0,
) -> list[dict[str, Any]]:
    import torch
    from torch.nn.functional import scaled_dot_product_attention

    from hardmax.attention.functional import hardmax_attention

    q, k, v, g = (
        torch.randn(1, batch, n, d, device="cuda").to(dtype) for _ in range(4)
    )
    if most:  # integers up to it: different keys tie
        q, k = (
            torch.randint(-most, most + 1, q.shape, device="cuda").to(dtype)
            for _ in range(2)
        )
    k = k[:, :, : n // copies].repeat(1, 1, copies, 1)
    ours = _steps(
        lambda q, k, v: hardmax_attention(q, k, v, causal=causal), [q, k, v], g
    )
    theirs = _steps(
        lambda q, k, v: scaled_dot_product_attention(q, k, v, is_causal=causal),
        [q, k, v],
        g,
    )
    _check(q, k, v, ours[0](), causal)
    kind = str(dtype).removeprefix("torch.")
    more = (", causal" if causal else "") + (
        f", every key {copies} times" if copies > 1 else ""
    )
    more += f", integers from {-most} to {most}" if most else ""
    rows: list[dict[str, Any]] = []
    for name, one, other in zip((FORWARD, BOTH), ours, theirs, strict=True):
        case = f"{name}, {kind}, batch {batch}, n = {n}, d = {d}{more}, against SDPA"
        target = TARGETS.get((name, kind, n, d, more))
        rows += [
            compare(case, GRAPH, one, other, target),
            compare(case, "eager", one, other),
        ]
    return rows


def _sets(dtype: Any, batch: int, n: int, d: int) -> list[dict[str, Any]]:
    import torch

    from hardmax.attention import gpu
    from hardmax.attention.functional import first_and_sizes, new_record

    q, k = (torch.randn(batch, n, d, device="cuda").to(dtype) for _ in range(2))
    nothing, found = k[:, :, :0], new_record(q, k, None, False)
    ours: Step = lambda: gpu.attend(q, k, nothing, None, False, found)  # noqa: E731
    theirs: Step = lambda: (q @ k.transpose(1, 2)).argmax(2)  # noqa: E731
    kind = str(dtype).removeprefix("torch.")
    ours()
    wrong = int((theirs() != first_and_sizes(found, n)[0]).sum())
    against = f"against matmul and argmax, which misses {wrong} of {batch * n} rows"
    case = f"exact sets, {kind}, batch {batch}, n = {n}, d = {d}, {against}"
    return [compare(case, "eager", ours, theirs, TARGETS.get(("sets", kind, n, d, "")))]


def _layers(batch: int, n: int) -> list[dict[str, Any]]:
    """Layers of one head in the plane, a fifth of whose tokens is 0, so that all keys
    tie for them, on GPU and CPU.
    """
    import torch

    from hardmax.attention.layers import hardmax_layers

    z = torch.randn(batch, n, 2)
    z[torch.rand(batch, n) < 0.2] = 0
    times, peak = [], 0.0
    for device in ("cuda", "cpu"):
        x, alpha = z.to(device).requires_grad_(), torch.ones(batch, device=device)

        def step(x: Any = x, alpha: Any = alpha) -> None:
            x.grad = None
            hardmax_layers(x, alpha, 8).sum().backward()

        step()
        peak = peak or _peak(step)
        start = time.perf_counter()
        step()
        torch.cuda.synchronize()
        times.append(1000 * (time.perf_counter() - start))
    case = (
        f"8 layers, {BOTH}, float32, batch {batch}, n = {n}, d = 2, a fifth of the"
        " tokens 0, against our own on the CPU"
    )
    return [row(case, "eager", times[0], times[1], (peak, 0.0), 1.0)]


def _first_call() -> list[dict[str, Any]]:
    """Time the first call of a process, without and with machine code on disk, against
    its limit.
    """
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for d, how, limit in (
            (64, "nothing on disk", MAX_COMPILATION),
            (64, "compiled before", MAX_FIRST_CALL),
            (128, "another width compiled before", MAX_COMPILATION),
        ):
            call = [sys.executable, "-c", FIRST, str(d)]
            done = subprocess.run(
                call,
                env=os.environ | {"TRITON_CACHE_DIR": folder},
                capture_output=True,
                check=True,
            )
            first, peak = map(float, done.stdout.split())
            case = f"first call, bfloat16, d = {d}, against {limit:.0f} s"
            rows.append(row(case, how, first, 1000 * limit, (peak, 0.0), 1.0))
    return rows


def _flows(d: int = 3) -> list[dict[str, Any]]:
    """Return flows of many tokens against the same integrator with softmax attention by
    torch in blocks of rows.
    """
    import torch

    from hardmax.flows import device

    kernel, rows = device._means_by_kernel, []

    def integrate(find: Any, tokens: Any, rule: Any, end: float) -> tuple[float, Any]:
        """Return the seconds of the best of some runs, of which the first is not
        counted, and the last run.
        """
        device._means_by_kernel, times = find, []
        for _ in range(FLOW_TURNS if len(tokens) < MANY else 1):
            torch.cuda.synchronize()
            start = time.perf_counter()
            run = hm.simulate(tokens, rule, times=[end], rtol=1e-5, method="RK45")
            torch.cuda.synchronize()
            times.append(time.perf_counter() - start)
        device._means_by_kernel = kernel
        return min(times[1:] or times), run

    for rule, end in ((hm.SelfAttention(), 1.0), (hm.Sphere(4.0), 5.0)):
        for dtype, n in product((torch.float32, torch.float64), (1000, 10_000, MANY)):
            drawn = np.random.default_rng(0).normal(size=(n, d))
            if isinstance(rule, hm.Sphere):
                drawn /= np.linalg.norm(drawn, axis=1, keepdims=True)
            tokens = torch.tensor(drawn, dtype=dtype, device="cuda")
            ours, run = integrate(kernel, tokens, rule, end)
            other, same = integrate(device._means_by_blocks, tokens, rule, end)
            difference = float(
                (run.tokens - same.tokens).abs().max() / same.tokens.abs().max()
            )
            kind = (
                f"{type(rule).__name__}, {str(dtype).removeprefix('torch.')}, n ="
                f" {n:,}, d = {d}"
            )
            case = (
                f"flow, {kind}, against plain torch, whose tokens differ by"
                f" {difference:.0e}"
            )
            target = FLOW_TARGET if n > 1000 else None
            rows.append(
                row(case, "eager", 1000 * ours, 1000 * other, (0.0, 0.0), target)
            )
    return rows


if __name__ == "__main__":
    results, (place, page) = measure(), map(Path, sys.argv[1:])
    report.write(results, place)
    report.fill_file(page, markdown(results), report.GPU)
