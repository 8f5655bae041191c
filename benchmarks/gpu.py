"""Hardmax attention on a GPU against softmax attention, and exact sets against a matrix product with argmax.

With no package but torch, triton and what `import hardmax` needs: `python -m benchmarks.gpu gpu.json README.md`.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks import report
from hardmax._errors import InputError

Step = Callable[[], Any]
FORWARD, BOTH = "forward", "forward and backward"
TARGETS = {  # times as fast, both as CUDA graphs, by what is done, type, n, d and what else is true of the case
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
MAX_COMPILATION, MAX_FIRST_CALL = 12.0, 2.0  # seconds of a first call, without and with machine code on disk
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
COLUMNS = ("case", "how", "ours ms", "other ms", "ours MB", "other MB", "times as fast", "target", "reached?")


def measure(quick: bool, progress: Callable[[str], None] | None = None) -> dict[str, Any]:
    """Measure all cases on the GPU of this machine."""
    try:
        import torch
        import triton
    except ImportError:
        raise InputError("`gpu` must have torch and triton. Got neither, or one. Install torch for CUDA.") from None
    if not torch.cuda.is_available():
        raise InputError("`gpu` must run where torch sees a CUDA device. Got none. Run it on a machine with a GPU.")
    n, batch = (512, 4) if quick else (4096, 64)
    cases: list[tuple[Callable[..., list[dict[str, Any]]], tuple[Any, ...]]] = [
        *((_attention, (torch.bfloat16, batch, n, d)) for d in (64, 128)),
        (_attention, (torch.float16, batch, n, 64)),
        (_attention, (torch.bfloat16, batch, n, 64, True)),
        (_attention, (torch.bfloat16, batch, n, 64, False, 2)),
        (_attention, (torch.bfloat16, batch, n, 64, False, 8)),
        (_attention, (torch.bfloat16, batch, n, 64, False, 1, 2)),
        (_attention, (torch.bfloat16, 4 * batch, n // 4, 64)),
        (_attention, (torch.bfloat16, 8 * batch, n // 8, 64)),
        (_attention, (torch.bfloat16, batch // 8 or 1, 4 * n, 128)),
        (_attention, (torch.float32, batch // 2, n, 64)),
        (_sets, (torch.float32, batch // 2, n, 64)),
        (_sets, (torch.bfloat16, batch, n, 64)),
        (_layers, (4 * batch, n // 32)),
        (_first_call, ()),
    ]
    rows: list[dict[str, Any]] = []
    for case, arguments in cases:
        rows += case(*arguments)
        torch.cuda.empty_cache()
        if progress is not None:
            progress(f"{rows[-1]['case']}: {rows[-1]['times as fast']:.2f}")
    versions = {"torch": torch.__version__, "triton": triton.__version__}
    date = datetime.now(UTC).date().isoformat()
    return {"machine": {"device": torch.cuda.get_device_name(), **versions}, "date": date, "rows": rows}


def row(case: str, how: str, ours: float, other: float, peaks: tuple[float, float], target: float | None) -> Any:
    """One comparison."""
    times = other / ours
    reached = "" if target is None else "reached" if times >= target else "missed"
    return dict(zip(COLUMNS, (case, how, ours, other, *peaks, times, target or "", reached), strict=True))


def markdown(found: dict[str, Any]) -> str:
    """The table of a file of results."""
    facts = ", ".join(f"{key} {value}" for key, value in found["machine"].items())
    lines = [
        f"Measured on {found['date']}: {facts}.",
        "",
        f"| {' | '.join(COLUMNS)} |",
        "|---|---|" + "---:|" * 6 + "---|",
    ]
    for one in found["rows"]:
        cells = (f"{value:.3g}" if isinstance(value, float) else str(value) for value in one.values())
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


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
    """The same work as a CUDA graph: what the GPU needs, without the host that launches it."""
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


def _steps(attention: Callable[..., Any], inputs: list[Any], g: Any) -> tuple[Step, Step]:
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
    """Refuse a ratio for other sets than those of float64, on the first entry of the batch."""
    import torch

    scores = q[0, 0].double() @ k[0, 0].double().T
    if causal:
        scores = scores.masked_fill(~torch.ones_like(scores, dtype=torch.bool).tril(), -torch.inf)
    best = scores.amax(1, keepdim=True)
    chosen = (scores >= best - 1e-12 * best.abs()).double()
    means = (chosen / chosen.sum(1, keepdim=True)) @ v[0, 0].double()
    wrong = (out[0, 0].double() - means).abs().amax(1) > 0.02 * means.abs().amax(1) + 1e-3
    if wrong.any():
        raise InputError(f"hardmax_attention chooses other sets than float64 in {int(wrong.sum())} rows: no ratio.")


def _attention(
    dtype: Any, batch: int, n: int, d: int, causal: bool = False, copies: int = 1, most: int = 0
) -> list[dict[str, Any]]:
    import torch
    from torch.nn.functional import scaled_dot_product_attention

    from hardmax.attention.functional import hardmax_attention

    q, k, v, g = (torch.randn(1, batch, n, d, device="cuda").to(dtype) for _ in range(4))
    if most:  # integers up to it: different keys tie
        q, k = (torch.randint(-most, most + 1, q.shape, device="cuda").to(dtype) for _ in range(2))
    k = k[:, :, : n // copies].repeat(1, 1, copies, 1)
    ours = _steps(lambda q, k, v: hardmax_attention(q, k, v, causal=causal), [q, k, v], g)
    theirs = _steps(lambda q, k, v: scaled_dot_product_attention(q, k, v, is_causal=causal), [q, k, v], g)
    _check(q, k, v, ours[0](), causal)
    kind = str(dtype).removeprefix("torch.")
    more = (", causal" if causal else "") + (f", every key {copies} times" if copies > 1 else "")
    more += f", integers from {-most} to {most}" if most else ""
    rows = []
    for name, one, other in zip((FORWARD, BOTH), ours, theirs, strict=True):
        case = f"{name}, {kind}, batch {batch}, n = {n}, d = {d}{more}, against SDPA"
        target = TARGETS.get((name, kind, n, d, more))
        peaks = _peak(one), _peak(other)
        for how, f, h in (("CUDA graph", _replayed(one), _replayed(other)), ("eager", one, other)):
            rows.append(
                row(case, how, _milliseconds(f), _milliseconds(h), peaks, target if how == "CUDA graph" else None)
            )
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
    case = (
        f"exact sets, {kind}, batch {batch}, n = {n}, d = {d}, against matmul and argmax, which misses {wrong} of "
        f"{batch * n} rows"
    )
    target = TARGETS.get(("sets", kind, n, d, ""))
    return [row(case, "eager", _milliseconds(ours), _milliseconds(theirs), (_peak(ours), _peak(theirs)), target)]


def _layers(batch: int, n: int) -> list[dict[str, Any]]:
    """Layers of one head in the plane, a fifth of whose tokens is 0, so that all keys tie for them, on GPU and CPU."""
    from time import perf_counter

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
        start = perf_counter()
        step()
        torch.cuda.synchronize()
        times.append(1000 * (perf_counter() - start))
    case = (
        f"8 layers, {BOTH}, float32, batch {batch}, n = {n}, d = 2, a fifth of the tokens 0, against our own on the CPU"
    )
    return [row(case, "eager", times[0], times[1], (peak, 0.0), 1.0)]


def _first_call() -> list[dict[str, Any]]:
    """Time the first call of a process, without and with machine code on disk, against its limit."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for d, how, limit in (
            (64, "nothing on disk", MAX_COMPILATION),
            (64, "compiled before", MAX_FIRST_CALL),
            (128, "another width compiled before", MAX_COMPILATION),
        ):
            call = [sys.executable, "-c", FIRST, str(d)]
            done = subprocess.run(call, env=os.environ | {"TRITON_CACHE_DIR": folder}, capture_output=True, check=True)
            first, peak = map(float, done.stdout.split())
            case = f"first call, bfloat16, d = {d}, against {limit:.0f} s"
            rows.append(row(case, how, first, 1000 * limit, (peak, 0.0), 1.0))
    return rows


if __name__ == "__main__":
    results, (place, page) = measure(quick=False, progress=print), map(Path, sys.argv[1:])
    place.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    page.write_text(report.fill(page.read_text(encoding="utf-8"), markdown(results), report.GPU), encoding="utf-8")
