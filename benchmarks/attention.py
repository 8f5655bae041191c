"""A training step in torch: hardmax attention with its gradient against softmax
attention.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import hardmax as hm
from benchmarks.machine import THREADS
from benchmarks.registry import Answer, Case, Method, Target

BATCH, N, D, LAYERS, ALPHA = 64, 128, 16, 8, 0.5
CLOSE = 1e-4  # relative, of gradients summed in float32 in different orders


def hardmax(q: Any, z: Any) -> Any:
    return hm.hardmax_attention(q, z, z)


def all_at_once(A: Any, z: Any) -> Any:
    """Run ours on all layers. Where each token follows one leader, the remaining layers
    are one step.
    """
    return hm.hardmax_layers(
        z, z.new_full((len(z),), ALPHA), LAYERS, A=A.expand(len(z), D, D)
    )


def one_by_one(attention: Callable[[Any, Any], Any], A: Any, z: Any) -> Any:
    """LAYERS times z <- z + b (attention(z A, z, z) - z)."""
    b = ALPHA / (1 + ALPHA)
    for _ in range(LAYERS):
        z = z + b * (attention(z @ A, z) - z)
    return z


def gather(q: Any, z: Any) -> Any:
    first = (q @ z.mT).argmax(-1, keepdim=True)
    return z.gather(1, first.expand(-1, -1, z.shape[-1]))


def softmax(q: Any, z: Any) -> Any:
    return (q @ z.mT / math.sqrt(D)).softmax(-1) @ z


def sdpa(q: Any, z: Any) -> Any:
    from torch.nn.functional import scaled_dot_product_attention

    return scaled_dot_product_attention(q, z, z)


def step(layers: Callable[[Any, Any], Any], quick: bool) -> Callable[[], Any]:
    """Loss and gradients of: encoder, layers with a symmetric positive definite A,
    mean, linear head.
    """
    import torch

    torch.set_num_threads(THREADS)
    torch.manual_seed(0)
    inputs = torch.randn(8 if quick else BATCH, N, D)
    wanted = torch.randn(len(inputs), 1)
    # Without the encoder the tokens would need no gradient, and hardmax, whose A has
    # none, no backward pass.
    encoder, head = torch.nn.Linear(D, D), torch.nn.Linear(D, 1)
    noise = torch.randn(D, D)
    A = torch.nn.Parameter(torch.eye(D) + 0.05 * (noise + noise.mT))

    def run() -> Any:
        encoder.zero_grad()
        head.zero_grad()
        A.grad = None
        z = layers(A, encoder(inputs))
        torch.nn.functional.mse_loss(head(z.mean(1)), wanted).backward()
        return encoder.weight.grad

    run()
    return run


def close(ours: Answer, theirs: Answer) -> bool:
    scale = np.abs(ours["gradient"]).max()
    return bool(np.abs(ours["gradient"] - theirs["gradient"]).max() <= CLOSE * scale)


def _methods(quick: bool) -> list[Method]:
    rows: list[
        tuple[str, Callable[[Any, Any], Any], bool, float | None]
    ] = [  # the same gradient? and the target
        ("hardmax_attention", partial(one_by_one, hardmax), True, None),
        ("hardmax_layers, all layers in one call", all_at_once, True, None),
        ("softmax(q k^T) v", partial(one_by_one, softmax), False, 3.5),
        ("scaled_dot_product_attention", partial(one_by_one, sdpa), False, 3.5),
        (
            "argmax and gather in torch, no ties",
            partial(one_by_one, gather),
            True,
            1.5,
        ),
    ]
    answer: Callable[[Any], Answer] = lambda gradient: {"gradient": gradient.numpy()}  # noqa: E731
    return [
        Method(
            name,
            partial(step, layers, quick),
            answer,
            times and Target(times),
            package="torch",
            compared=same,
        )
        for name, layers, same, times in rows
    ]


TITLE = (
    f"Forward and backward, Gaussian tokens, batch {BATCH}, n = {N}, d = {D}, {LAYERS}"
    " layers, float32"
)
CASES = [Case("training_step", TITLE, _methods, close, "has another gradient")]
