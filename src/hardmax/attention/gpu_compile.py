"""Compile the GPU kernels ahead of time: `python -m hardmax.attention.gpu_compile`, and
a part of `hardmax compile`.

It needs torch, Triton and what `import hardmax` needs alone.
"""

from itertools import product

import torch

from hardmax._types import Progress
from hardmax.attention.functional import GPU_TYPES, hardmax_attention
from hardmax.attention.gpu import WIDTHS


def compile_ahead(progress: Progress) -> None:
    """Run attention and its gradient once per type, width and number of tokens for
    which kernels are compiled.
    """
    runs = list(product(GPU_TYPES, WIDTHS, (512, 1024, 2048), (False, True)))
    for done, (dtype, d, n, causal) in enumerate(runs, 1):
        x = torch.ones(1, n, d, device="cuda", dtype=dtype, requires_grad=True)
        hardmax_attention(x, x, x, causal=causal).sum().backward()
        progress(done, len(runs))


if __name__ == "__main__":
    compile_ahead(
        lambda done, runs: print(f"GPU kernels: {done} of {runs}", flush=True)
    )
