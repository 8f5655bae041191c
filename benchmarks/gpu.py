"""Hardmax attention on a GPU against softmax attention and a product with argmax.

Run with a path to write the numbers to:

    python3 benchmarks/gpu.py gpu.json
"""

import json
import sys
from pathlib import Path

import torch
import triton

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

from hardmax.kernels import gpu
from hardmax.kernels.attention import hardmax_attention

softmax_attention = torch.nn.functional.scaled_dot_product_attention


def milliseconds(f):
    return triton.testing.do_bench(f, warmup=25, rep=100, return_mode="median")


def peak(f):
    """MiB allocated while f runs, beyond what is there before."""
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    f()
    torch.cuda.synchronize()
    return (torch.cuda.max_memory_allocated() - before) / 2**20


def replayed(f):
    """The same work as a CUDA graph: what the GPU needs, without the host that launches it."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            f()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        f()
    return graph.replay


def check(q, k, v, out, causal):
    """Refuse to print a ratio for other sets than those of float64, on the first entry of the batch."""
    scores = q[0, 0].double() @ k[0, 0].double().T
    if causal:
        scores = scores.masked_fill(~torch.ones_like(scores, dtype=torch.bool).tril(), -torch.inf)
    best = scores.amax(1, keepdim=True)
    chosen = (scores >= best - 1e-12 * best.abs()).double()
    means = (chosen / chosen.sum(1, keepdim=True)) @ v[0, 0].double()
    wrong = (out[0, 0].double() - means).abs().amax(1) > 0.02 * means.abs().amax(1) + 1e-3
    if wrong.any():
        raise AssertionError(f"hardmax_attention chooses other sets than float64 in {int(wrong.sum())} rows: no ratio.")


def steps(attention, q, k, v, g, causal):
    """Forward, and forward with backward, as functions of nothing."""
    inputs = [x.detach().requires_grad_() for x in (q, k, v)]

    def forward():
        with torch.no_grad():
            return attention(*inputs, causal)

    def both():
        for x in inputs:
            x.grad = None
        attention(*inputs, causal).backward(g)

    return forward, both


def attention_case(dtype, batch, n, d, causal=False, copies=1):
    q, k, v, g = (torch.randn(1, batch, n, d, device="cuda").to(dtype) for _ in range(4))
    k = k[:, :, : n // copies].repeat(1, 1, copies, 1)  # every set has this many members
    row = {
        "case": f"attention, {copies} in a set",
        "dtype": str(dtype)[6:],
        "batch": batch,
        "n": n,
        "d": d,
        "causal": causal,
    }
    ours = steps(lambda q, k, v, causal: hardmax_attention(q, k, v, causal=causal), q, k, v, g, causal)
    theirs = steps(lambda q, k, v, causal: softmax_attention(q, k, v, is_causal=causal), q, k, v, g, causal)
    check(q, k, v, ours[0](), causal)
    for name, f, h in zip(("forward", "both"), ours, theirs, strict=True):
        graphs = [milliseconds(replayed(step)) for step in (f, h)]
        row |= {f"{name}_graph_ms": graphs[0], f"{name}_other_graph_ms": graphs[1]}
        row[f"{name}_graph_ratio"] = graphs[1] / graphs[0]
        row |= {f"{name}_ms": milliseconds(f), f"{name}_other_ms": milliseconds(h)}
        row |= {f"{name}_mib": peak(f), f"{name}_other_mib": peak(h)}
        row[f"{name}_ratio"] = row[f"{name}_other_ms"] / row[f"{name}_ms"]
    return row


def sets_case(dtype, batch, n, d):
    q, k = (torch.randn(batch, n, d, device="cuda").to(dtype) for _ in range(2))
    nothing = k[:, :, :0]

    def ours():
        return gpu.find(q, k, nothing, None, False)[1]

    def theirs():
        return (q @ k.transpose(1, 2)).argmax(2)

    row = {"case": "sets against matmul + argmax", "dtype": str(dtype)[6:], "batch": batch, "n": n, "d": d}
    row |= {"forward_ms": milliseconds(ours), "forward_other_ms": milliseconds(theirs)}
    row |= {"forward_mib": peak(ours), "forward_other_mib": peak(theirs)}
    row["forward_ratio"] = row["forward_other_ms"] / row["forward_ms"]
    row["rows_argmax_has_wrong"] = int((theirs().flatten() != ours().first).sum())
    return row


def main():
    rows = []
    cases = [
        *((attention_case, (torch.bfloat16, 64, 4096, d)) for d in (64, 128)),
        (attention_case, (torch.float16, 64, 4096, 64)),
        (attention_case, (torch.bfloat16, 64, 4096, 64, True)),
        (attention_case, (torch.bfloat16, 64, 4096, 64, False, 2)),
        (attention_case, (torch.bfloat16, 256, 1024, 64)),
        (attention_case, (torch.bfloat16, 8, 16384, 128)),
        (attention_case, (torch.float32, 32, 4096, 64)),
        (sets_case, (torch.float32, 32, 4096, 64)),
        (sets_case, (torch.bfloat16, 64, 4096, 64)),
    ]
    for case, arguments in cases:
        rows.append(case(*arguments))
        print({key: round(x, 3) if isinstance(x, float) else x for key, x in rows[-1].items()}, flush=True)
        torch.cuda.empty_cache()
    machine = {"device": torch.cuda.get_device_name(), "torch": torch.__version__, "triton": triton.__version__}
    print(machine)
    if len(sys.argv) > 1:
        Path(sys.argv[1]).write_text(json.dumps({"machine": machine, "rows": rows}, indent=1))


if __name__ == "__main__":
    main()
