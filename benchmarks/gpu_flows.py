"""`python -m benchmarks.gpu_flows FILE`: flows of many tokens on a GPU against the same integrator in plain torch.

The peer evaluates softmax attention by torch in blocks of rows and is otherwise the same program, so that steps and
errors agree. Both run once before they are timed; the best of three runs counts.
"""

import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

import hardmax as hm
from hardmax.flows import device

RTOL, TURNS = 1e-5, 3
MANY = 100_000  # tokens that are timed once: kernels are compiled by then


def measure(sizes: tuple[int, ...] = (1000, 10_000, 100_000), d: int = 3) -> list[dict[str, Any]]:
    """Measure self-attention and the sphere in float32 and float64."""
    import torch

    rows, kernel = [], device._means_by_kernel
    for rule, end in ((hm.SelfAttention(), 1.0), (hm.Sphere(4.0), 5.0)):
        for dtype in (torch.float32, torch.float64):
            for n in sizes:
                tokens = np.random.default_rng(0).normal(size=(n, d))
                if isinstance(rule, hm.Sphere):
                    tokens /= np.linalg.norm(tokens, axis=1, keepdims=True)
                given, seconds, found = torch.tensor(tokens, dtype=dtype, device="cuda"), [], []
                for find in (kernel, device._means_by_blocks):
                    device._means_by_kernel, best = find, np.inf
                    for turn in range(TURNS if n < MANY else 1):
                        torch.cuda.synchronize()
                        start = time.perf_counter()
                        run = hm.simulate(given, rule, times=[end], rtol=RTOL, method="RK45")
                        torch.cuda.synchronize()
                        seconds_now = time.perf_counter() - start
                        best = min(best, seconds_now) if turn or n >= MANY else best
                    seconds.append(best)
                    found.append(run)
                device._means_by_kernel = kernel
                difference = float((found[0].tokens - found[1].tokens).abs().max() / found[1].tokens.abs().max())
                rows.append({
                    "case": f"{type(rule).__name__}, {str(dtype)[6:]}, n = {n:,}, d = {d}",
                    "ours s": seconds[0], "plain torch s": seconds[1], "times as fast": seconds[1] / seconds[0],
                    "steps": found[0].stats["steps"], "difference": difference,
                })  # fmt: skip
                print(rows[-1], flush=True)
    return rows


def markdown(found: dict[str, Any]) -> str:
    """Return the table of a record."""
    lines = ["| case | steps | ms | plain torch, ms | times as fast | difference |", "|---|---:|---:|---:|---:|---:|"]
    for row in found["rows"]:
        ours, theirs = (f"{1000 * row[key]:,.0f}" for key in ("ours s", "plain torch s"))
        cells = [row["case"], row["steps"], ours, theirs, f"{row['times as fast']:.1f}", f"{row['difference']:.0e}"]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join([*lines, "", f"{found['machine']['device']}, torch {found['machine']['torch']}."])


if __name__ == "__main__":
    import torch

    machine = {"device": torch.cuda.get_device_name(), "torch": torch.__version__}
    result = {"machine": machine, "rows": measure()}
    Path(sys.argv[1]).write_text(json.dumps(result, indent=1), encoding="utf-8")
