"""Adaptive flows on the device of a tensor: the state in float64, attention in the precision of the tokens.

Each stage computes the softmax means of all tokens by a Triton kernel (`gpu_means.py`), or by torch in blocks of rows
on other devices and in more than 16 dimensions. A step waits for the device twice: for its error, and to see whether
the state is finite.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hardmax._types import Array, FloatArray
from hardmax._validation import library_of, to_numpy
from hardmax.flows.adaptive import integrate_run
from hardmax.flows.coordinates import Coordinates, Decaying, Rescaled, find_growth
from hardmax.flows.integrate import Method, Solution
from hardmax.flows.runge_kutta import RungeKutta
from hardmax.flows.steps import PAIRS
from hardmax.rules.base import Flow
from hardmax.rules.compose import MultiHead
from hardmax.rules.self_attention import SelfAttention
from hardmax.rules.sphere import Sphere, on_sphere

MIN_TOKENS = 1000  # below it the CPU is faster
MAX_D = 16  # of the kernel
MIN_SINGLE_RTOL = 1e-6  # rounding errors of attention in float32 are as large
MAX_SCORES = {4: 1e30, 8: 1e200}  # by bytes of a float; beyond it every difference decides a row
MAX_LOG, LOG2_E = 600.0, 1 / math.log(2)
TILE = 64  # tokens; the arrays of the kernel are padded to a multiple
WARP, WARPS, REGISTERS = 32, 4, 180  # threads of a warp, warps of a program, numbers of 32 bits that a thread holds
BLOCK = 1 << 26  # scores at a time in torch


def runs_on_device(rule: Flow | MultiHead, tokens: Array, method: Method) -> bool:
    """Return whether a flow of CUDA tensors (..., n, d) is integrated there."""
    if not tokens.is_cuda or tokens.shape[-2] < MIN_TOKENS or method.name not in PAIRS:
        return False
    if type(rule) is SelfAttention:
        return rule.has_constant_values
    return type(rule) is Sphere and rule.normalized


def integrate_on_device(
    rule: Flow | MultiHead, start: FloatArray, like: Array, times: FloatArray, method: Method, tick: Callable[[], None]
) -> Solution:
    """Integrate tokens (n, d) on the device and in the precision of the tensor `like`, and read them at `times`."""
    coordinates: _OnDevice
    if isinstance(rule, SelfAttention):
        d = start.shape[-1]
        coordinates = RescaledOnDevice(rule, d) if find_growth(rule, d).grows else DecayingOnDevice(rule)
    else:
        coordinates = SphereOnDevice(rule)
    coordinates.dtype = like.dtype if like.dtype.itemsize >= 4 else library_of(like).float32
    rtol = max(method.rtol, MIN_SINGLE_RTOL) if coordinates.dtype.itemsize == 4 else method.rtol
    run = DeviceRungeKutta(coordinates, start, like.device, method, float(times[-1]))
    return integrate_run(run, times, Method(method.name, rtol, method.atol, None, method.max_steps), tick)[0]


class DeviceRungeKutta(RungeKutta):
    """One token set whose states and derivatives are tensors."""

    def __init__(self, coordinates: Coordinates, tokens: FloatArray, device: Any, method: Method, end: float) -> None:
        super().__init__([coordinates], [tokens], method.name, end, method.max_steps)
        from torch import from_numpy

        arrays = ("units", "y", "old", "new", "K")
        tensors: dict[str, Any] = {name: from_numpy(getattr(self.state, name)).to(device) for name in arrays}
        self.state = self.state._replace(**tensors)
        self._sizes = self.state.units.clone()
        self._A, self._E = (from_numpy(np.array(each)).to(device) for each in (self.pair.A, self.pair.E))


class _OnDevice(Coordinates):
    """Coordinates whose `rate` takes a tensor."""

    _rule: Any
    dtype: Any

    def terms(self, d: int) -> None:
        return None

    def means(self, queries: Array, state: Array, log: float = 0.0) -> Array:
        """Return the softmax means of the state, for scores e^log <q_i, y_j>."""
        (n, d), torch = state.shape, library_of(state)
        centre = state.mean(0)
        narrow = torch.zeros(2, d, -(-n // TILE) * TILE, dtype=self.dtype, device=state.device)
        torch.sub(state.T, centre[:, None], out=narrow[1, :, :n])  # scores of a query change alike: smaller errors
        size = d * (torch.linalg.vector_norm(queries, np.inf) * torch.linalg.vector_norm(narrow[1], np.inf))
        factor = (LOG2_E * MAX_SCORES[self.dtype.itemsize] / size).clamp(max=LOG2_E * np.exp(min(log, MAX_LOG)))
        torch.mul(queries.T, factor, out=narrow[0, :, :n])
        find = _means_by_kernel if state.is_cuda and d <= MAX_D else _means_by_blocks
        return centre + find(narrow[0], narrow[1], n, self._rule.causal)[:, :n].T


class SphereOnDevice(_OnDevice):
    """Tokens on the sphere."""

    def rate(self, state: Array, t: float) -> Array:
        points = on_sphere(state)
        pull = self.means(points * float(to_numpy(self._rule.find_beta(t))), points)
        return pull - (points * pull).sum(-1)[:, None] * points


class DecayingOnDevice(_OnDevice, Decaying):
    """x itself if every eigenvalue of V has a real part of at most 0."""

    def rate(self, state: Array, t: float) -> Array:
        form, V = _upload(self.matrices(t, state.shape[-1]), state)
        return self.means(state @ form, state) @ V.T


class RescaledOnDevice(_OnDevice, Rescaled):
    """y = S^{-1} z."""

    def rate(self, state: Array, t: float) -> Array:
        basis, growth = self._growth.basis_at(t), self._growth
        form, D = _upload((basis.T @ self._rule.form(state.shape[-1], t) @ basis, growth.blocks), state)
        return (self.means(state @ form, state, 2 * growth.rate * t) - state) @ D.T

    def noise(self, state: FloatArray, t: float) -> float:
        return super().noise(state, t) * (2.0**29 if self.dtype.itemsize == 4 else 1.0)

    def hold_attention(self, state: FloatArray, t: float) -> None:
        """Hold no attention: it would take an n by n matrix."""


def _upload(matrices: Sequence[FloatArray], like: Array) -> Array:
    return library_of(like).from_numpy(np.array(matrices)).to(like.device, non_blocking=True)


def _means_by_kernel(queries: Array, keys: Array, n: int, causal: bool) -> Array:
    import torch

    from hardmax.flows.gpu_means import find_means

    (d, width), out = queries.shape, torch.empty_like(queries)
    fit = REGISTERS * 4 // ((2 * d + 3) * queries.itemsize)  # rows of a thread: of queries, maxima and sums
    rows = WARPS * 2 ** min(3, fit.bit_length() - 1)
    with torch.cuda.device(queries.device):
        find_means[(-(-n // rows),)](queries, keys, out, n, width, d, causal, rows, WARP, num_warps=WARPS)
    return out


def _means_by_blocks(queries: Array, keys: Array, n: int, causal: bool) -> Array:
    import torch

    out, keys = torch.empty_like(queries), keys[:, :n]
    index = torch.arange(n, device=queries.device)
    for part in index.split(max(1, BLOCK // n)):
        scores = queries[:, part].T @ keys
        if causal:
            scores.masked_fill_(index > part[:, None], -float("inf"))
        weights = (scores - scores.amax(1, keepdim=True)).exp2()
        out[:, part] = (weights @ keys.T / weights.sum(1, keepdim=True)).T
    return out
