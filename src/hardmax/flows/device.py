"""Adaptive flows on the device of a tensor: the state in float64, attention in the
precision of the tokens.

Each stage computes the softmax means of all tokens by a Triton kernel (`gpu_means.py`),
or by torch in blocks of rows on other devices and in more than 16 dimensions. A step
waits for the device once, for its error.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from hardmax._types import Array, FloatArray
from hardmax._validation import library_of
from hardmax.flows import steps
from hardmax.flows.adaptive import integrate_run
from hardmax.flows.coordinates import (
    Coordinates,
    Decaying,
    OnSphere,
    Rescaled,
    find_growth,
)
from hardmax.flows.integrate import Method, Solution
from hardmax.flows.runge_kutta import RungeKutta
from hardmax.flows.steps import PAIRS, combine_errors
from hardmax.rules.base import Flow
from hardmax.rules.compose import MultiHead
from hardmax.rules.self_attention import SelfAttention
from hardmax.rules.sphere import Sphere, on_sphere

MIN_TOKENS = 1000  # below it the CPU is faster
MAX_D = 16  # of the kernel
MIN_SINGLE_RTOL = 1e-6  # rounding errors of attention in float32 are as large
# by bytes of a float; beyond it every difference decides a row
MAX_SCORES = {4: 1e30, 8: 1e200}
MAX_LOG = 600.0
LOG2_E = 1 / math.log(2)
TILE = 64  # tokens; the arrays of the kernel are padded to a multiple
WARP = 32  # threads of a warp
WARPS = 4  # warps of a program
REGISTERS = 180  # numbers of 32 bits that a thread holds
BLOCK = 1 << 26  # scores at a time in torch


def runs_on_device(rule: Flow | MultiHead, tokens: Array, method: Method) -> bool:
    """Return whether a flow of CUDA tensors (..., n, d) is integrated there."""
    if not tokens.is_cuda or tokens.shape[-2] < MIN_TOKENS or method.name not in PAIRS:
        return False
    if type(rule) is SelfAttention:
        return rule.has_constant_values
    return type(rule) is Sphere and rule.normalized


def integrate_on_device(
    rule: Flow | MultiHead,
    start: FloatArray,
    like: Array,
    times: FloatArray,
    method: Method,
    tick: Callable[[], None],
) -> Solution:
    """Integrate tokens (n, d) on the device and in the precision of the tensor `like`,
    and read them at `times`.
    """
    coordinates: _OnDevice
    if isinstance(rule, SelfAttention):
        growth = find_growth(rule, start.shape[-1])
        if growth.grows:
            coordinates = RescaledOnDevice(rule, growth)
        else:
            coordinates = DecayingOnDevice(rule)
    else:
        coordinates = SphereOnDevice(rule)
    coordinates.dtype = like.dtype
    if like.dtype.itemsize < 4:
        coordinates.dtype = library_of(like).float32
    run = DeviceRungeKutta(coordinates, start, like.device, method, float(times[-1]))
    if coordinates.dtype.itemsize == 4:
        method = replace(method, rtol=max(method.rtol, MIN_SINGLE_RTOL))
    return integrate_run(run, times, method, tick)[0]


class DeviceRungeKutta(RungeKutta):
    """One token set whose states and derivatives are tensors, coordinate by coordinate
    as the kernel reads them.

    The numbers of all stages of a step are copied to the device at once. From the
    second step on a CUDA graph launches the stages and the error norm together.
    """

    coordinates: "Sequence[_OnDevice]"

    def __init__(
        self,
        coordinates: "_OnDevice",
        tokens: FloatArray,
        device: Any,
        method: Method,
        end: float,
    ) -> None:
        super().__init__([coordinates], [tokens], method.name, end, method.max_steps)
        import torch

        start = self.state.y[0].T  # (d, n)
        d, n = start.shape
        stages = len(self.pair.C)
        self._y = torch.tensor(start.copy(), device=device)
        self._old = torch.zeros_like(self._y)
        self._new = torch.zeros_like(self._y)
        self._K = self._y.new_zeros(stages, d, n)
        self.state = self.state._replace(
            y=self._y.T[None],
            old=self._old.T[None],
            new=self._new.T[None],
            K=self._K.transpose(1, 2)[None],
        )
        # queries and keys
        width = -(-n // TILE) * TILE
        self._narrow = self._y.new_zeros(2, d, width, dtype=coordinates.dtype)
        self._forms = np.zeros((stages, d, d))
        self._values = torch.tensor(coordinates.factor(d)).to(self._y)
        self._E = torch.tensor(self.pair.E).to(self._y)
        self._size = float(np.abs(start).max())
        self._new_size = self._size
        parts = [stages * d * d, stages * stages, 2]
        self._numbers = self._y.new_zeros(sum(parts))
        forms, weights, self._tolerances = self._numbers.split(parts)
        self._device_forms = forms.view(stages, d, d)
        self._weights = weights.view(stages, stages)
        self._errors = self._y.new_zeros(3)
        self._graph: Any = None
        self._tried = 0

    def is_finite(self, b: int) -> bool:
        return math.isfinite(self._size)

    def _run_stage(self, b: int, s: int) -> None:
        last = self.pair.last
        if s == 0:
            self._upload(range(1), False)
        elif s == last + 1:
            self._upload(range(s, len(self.pair.C)), True)
        self._evaluate(s)

    def _run_stages(self, b: int) -> None:
        self._upload(range(1, self.pair.last + 1), False)
        self._tried += 1
        # the first time kernels are compiled
        if self._graph is None and self._tried > 1 and self._y.is_cuda:
            torch = library_of(self._y)
            self._graph = torch.cuda.CUDAGraph()
            with (
                torch.cuda.device(self._y.device),
                torch.cuda.graph(self._graph, capture_error_mode="thread_local"),
            ):
                self._evaluate_step()
        if self._graph is None:
            self._evaluate_step()
        else:
            self._graph.replay()

    def _evaluate_step(self) -> None:
        """Evaluate all stages, and the two error norms and the largest coordinate of
        the new state.
        """
        for s in range(1, self.pair.last + 1):
            self._evaluate(s)
        torch = library_of(self._y)
        stages = self._E.shape[1]
        sizes = self._y.abs()
        new = self._new.abs()
        unit = torch.maximum(torch.maximum(sizes, sizes.mean(1, keepdim=True)), new)
        unit = unit * self._tolerances[0] + self._tolerances[1]
        errors = self._E @ self._K[:stages].view(stages, -1)
        ratios = errors.view(2, *unit.shape) / unit
        norms = torch.linalg.vector_norm(ratios, math.inf, (1, 2))
        torch.cat([norms, new.amax()[None]], out=self._errors)

    def _evaluate(self, s: int) -> None:
        """Evaluate a stage with the numbers on the device."""
        last = self.pair.last
        y = self._old if s > last else self._y
        torch = library_of(y)
        point = self._new if s == last else torch.empty_like(y)
        if s:
            slopes = self._K[:s].view(s, -1).T
            weights = self._weights[s, :s]
            torch.addmv(y.view(-1), slopes, weights, out=point.view(-1))
        else:
            point.copy_(y)
        self.coordinates[0].write_rate(
            point, self._device_forms[s], self._values, self._narrow, self._K[s]
        )

    def _upload(self, stages: range, again: bool) -> None:
        """Copy Q^T K in the coordinates, scaled, the weights of derivatives and the
        tolerances to the device.
        """
        state = self.state
        d = self._forms.shape[1]
        t = float(state.old_t[0] if again else state.t[0])
        h = float(state.end[0] - t)
        # stages may leave the range of the last state
        size = 2 * max(self._size, 1e-100)
        max_score = MAX_SCORES[self._narrow.itemsize]
        for s in stages:
            form, log = self.coordinates[0].form(d, t + float(self.pair.C[s]) * h)
            largest = max(float(np.abs(form).max()), 1e-100)
            most = max_score / (d * d * largest * size)
            scale = min(math.exp(min(log, MAX_LOG)), most / max(2 * size, 1.0))
            self._forms[s] = form.T * (LOG2_E * scale)
        tolerances = [float(state.rtol[0]), float(state.units[0, 0, 0])]
        numbers = np.concatenate(
            [self._forms.ravel(), (h * self.pair.A).ravel(), tolerances]
        )
        host = library_of(self._y).from_numpy(numbers)
        if self._y.is_cuda:
            host = host.pin_memory()
        self._numbers.copy_(host, non_blocking=True)

    def _find_error(self, b: int) -> float:
        """Return the same as `steps.find_error`; the only call that waits for the
        device in a step.
        """
        largest, other, self._new_size = self._errors.tolist()
        h = float(self.state.end[b] - self.state.t[b])
        return combine_errors(h * largest, h * other)

    def _settle(self, b: int, error: float) -> None:
        if steps.settle(self.state, error, self.pair.exponent, b):
            self._size = self._new_size


class _OnDevice(Coordinates):
    """Coordinates that write derivatives of tensors (d, n)."""

    _rule: Any
    dtype: Any

    def terms(self, d: int) -> None:
        return None

    def factor(self, d: int) -> FloatArray:
        """Return the matrix by which means are multiplied."""
        return np.asarray(self._rule.value_matrix(d))

    def form(self, d: int, t: float) -> tuple[FloatArray, float]:
        """Return B, and log with scores e^log <B^T y_i, y_j>."""
        return self._rule.form(d, t), 0.0

    def write_rate(
        self, point: Array, form: Array, values: Array, narrow: Array, out: Array
    ) -> None:
        """Write the derivative of a state."""
        centre = point.mean(1, keepdim=True)
        means = self.means(point, point - centre, form, narrow) + centre
        library_of(point).mm(values, means, out=out)

    def means(self, point: Array, offset: Array, form: Array, narrow: Array) -> Array:
        """Return softmax means of tokens minus their centre, whose scores differ by a
        constant: smaller errors.
        """
        d, n = point.shape
        narrow[0, :, :n] = form @ point
        narrow[1, :, :n] = offset
        find = _means_by_kernel if point.is_cuda and d <= MAX_D else _means_by_blocks
        return find(narrow[0], narrow[1], n, self._rule.causal)[:, :n]


class SphereOnDevice(_OnDevice, OnSphere):
    """Tokens on the sphere."""

    def factor(self, d: int) -> FloatArray:
        return np.eye(d)

    def form(self, d: int, t: float) -> tuple[FloatArray, float]:
        return self.matrices(t, d)[0], 0.0

    def write_rate(
        self, point: Array, form: Array, values: Array, narrow: Array, out: Array
    ) -> None:
        point = on_sphere(point.T).T
        centre = point.mean(1, keepdim=True)
        pull = self.means(point, point - centre, form, narrow) + centre
        library_of(point).addcmul(pull, (point * pull).sum(0), point, value=-1, out=out)


class DecayingOnDevice(_OnDevice, Decaying):
    """x itself if every eigenvalue of V has a real part of at most 0."""


class RescaledOnDevice(_OnDevice, Rescaled):
    """y = S^{-1} z."""

    def factor(self, d: int) -> FloatArray:
        return self._growth.blocks

    def form(self, d: int, t: float) -> tuple[FloatArray, float]:
        basis = self._growth.basis_at(t)
        return basis.T @ self._rule.form(d, t) @ basis, 2 * self._growth.rate * t

    def write_rate(
        self, point: Array, form: Array, values: Array, narrow: Array, out: Array
    ) -> None:
        offset = point - point.mean(1, keepdim=True)
        pull = self.means(point, offset, form, narrow) - offset
        library_of(point).mm(values, pull, out=out)

    def noise(self, state: FloatArray, t: float) -> float:
        noise = super().noise(state, t)
        # eps is 2^29 times as large in float32
        return noise * 2.0**29 if self.dtype.itemsize == 4 else noise

    def hold_attention(self, state: FloatArray, t: float) -> None:
        """Hold no attention: it would take an n by n matrix."""


def _means_by_kernel(queries: Array, keys: Array, n: int, causal: bool) -> Array:
    """Return softmax means of the keys, (d, width), for scores <q_i, k_j> in powers of
    two; the first n columns are tokens.
    """
    import torch

    from hardmax.flows.gpu_means import find_means

    d, width = queries.shape
    out = torch.empty_like(queries)
    # rows of a thread: of queries, maxima and sums
    fit = REGISTERS * 4 // ((2 * d + 3) * queries.itemsize)
    rows = WARPS * 2 ** min(3, fit.bit_length() - 1)
    with torch.cuda.device(queries.device):
        find_means[(-(-n // rows),)](
            queries, keys, out, n, width, d, causal, rows, WARP, num_warps=WARPS
        )
    return out


def _means_by_blocks(queries: Array, keys: Array, n: int, causal: bool) -> Array:
    """Return the same without the kernel, which is for few dimensions."""
    import torch

    out = torch.empty_like(queries)
    keys = keys[:, :n]
    index = torch.arange(n, device=queries.device)
    for part in index.split(max(1, BLOCK // n)):
        scores = queries[:, part].T @ keys
        if causal:
            scores.masked_fill_(index > part[:, None], -float("inf"))
        weights = (scores - scores.amax(1, keepdim=True)).exp2()
        out[:, part] = (weights @ keys.T / weights.sum(1, keepdim=True)).T
    return out
