"""Adaptive flows on the device of a tensor: the state in float64, attention in the
precision of the tokens.

Each stage computes the softmax means of all tokens by a Triton kernel (`gpu_means.py`),
or by torch in blocks of rows on other devices and in more than 16 dimensions. A step
waits for the device once, for its error.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hardmax._types import Array, FloatArray
from hardmax._validation import library_of, to_numpy
from hardmax.flows import steps
from hardmax.flows.adaptive import integrate_run
from hardmax.flows.coordinates import Coordinates, Decaying, Rescaled, find_growth
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
MAX_SCORES = {
    4: 1e30,
    8: 1e200,
}  # by bytes of a float; beyond it every difference decides a row
MAX_LOG, LOG2_E = 600.0, 1 / math.log(2)
TILE = 64  # tokens; the arrays of the kernel are padded to a multiple
WARP, WARPS, REGISTERS = (
    32,
    4,
    180,
)  # threads of a warp, warps of a program, numbers of 32 bits that a thread holds
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
        d = start.shape[-1]
        coordinates = (
            RescaledOnDevice(rule, d)
            if find_growth(rule, d).grows
            else DecayingOnDevice(rule)
        )
    else:
        coordinates = SphereOnDevice(rule)
    coordinates.dtype = (
        like.dtype if like.dtype.itemsize >= 4 else library_of(like).float32
    )
    rtol = (
        max(method.rtol, MIN_SINGLE_RTOL)
        if coordinates.dtype.itemsize == 4
        else method.rtol
    )
    run = DeviceRungeKutta(coordinates, start, like.device, method, float(times[-1]))
    return integrate_run(
        run, times, Method(method.name, rtol, method.atol, None, method.max_steps), tick
    )[0]


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

        (d, n), stages = self.state.y[0].T.shape, len(self.pair.C)
        self._y = torch.tensor(self.state.y[0].T.copy(), device=device)  # (d, n)
        self._old, self._new = torch.zeros_like(self._y), torch.zeros_like(self._y)
        self._K = self._y.new_zeros(stages, d, n)
        self._narrow = self._y.new_zeros(
            2, d, -(-n // TILE) * TILE, dtype=coordinates.dtype
        )  # queries and keys
        self._forms = np.zeros((stages, d, d))
        self._values, self._E = (
            torch.tensor(each).to(self._y)
            for each in (coordinates.factor(d), self.pair.E)
        )
        self._size = self._new_size = float(np.abs(self.state.y).max())
        y, old, new = (each.T[None] for each in (self._y, self._old, self._new))
        self.state = self.state._replace(
            y=y, old=old, new=new, K=self._K.transpose(1, 2)[None]
        )
        parts = [stages * d * d, stages * stages, 2]
        self._numbers = self._y.new_zeros(sum(parts))
        forms, weights, self._tolerances = self._numbers.split(parts)
        self._device_forms, self._weights = (
            forms.view(stages, d, d),
            weights.view(stages, stages),
        )
        self._errors, self._graph, self._tried = self._y.new_zeros(3), None, 0

    def is_finite(self, b: int) -> bool:
        return math.isfinite(self._size)

    def _run_stage(self, b: int, s: int) -> None:
        last = self.pair.last
        if s in (0, last + 1):
            self._upload(range(s, len(self.pair.C) if s else 1), s > last)
        self._evaluate(s)

    def _run_stages(self, b: int) -> None:
        self._upload(range(1, self.pair.last + 1), False)
        self._tried += 1
        if (
            self._graph is None and self._tried > 1 and self._y.is_cuda
        ):  # the first time kernels are compiled
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
        torch, stages = library_of(self._y), self._E.shape[1]
        sizes, new = self._y.abs(), self._new.abs()
        unit = torch.maximum(torch.maximum(sizes, sizes.mean(1, keepdim=True)), new)
        unit = unit * self._tolerances[0] + self._tolerances[1]
        ratios = (self._E @ self._K[:stages].view(stages, -1)).view(
            2, *unit.shape
        ) / unit
        torch.cat(
            [torch.linalg.vector_norm(ratios, math.inf, (1, 2)), new.amax()[None]],
            out=self._errors,
        )

    def _evaluate(self, s: int) -> None:
        """Evaluate a stage with the numbers on the device."""
        last, y = self.pair.last, self._old if s > self.pair.last else self._y
        torch = library_of(y)
        point = self._new if s == last else torch.empty_like(y)
        if s:
            torch.addmv(
                y.view(-1),
                self._K[:s].view(s, -1).T,
                self._weights[s, :s],
                out=point.view(-1),
            )
        else:
            point.copy_(y)
        self.coordinates[0].write_rate(
            point, self._device_forms[s], self._values, self._narrow, self._K[s]
        )

    def _upload(self, some: range, again: bool) -> None:
        """Copy Q^T K in the coordinates, scaled, the weights of derivatives and the
        tolerances to the device.
        """
        state, d = self.state, self._forms.shape[1]
        t = float(state.times[0, 1 if again else 0])
        h = float(state.times[0, 2] - t)
        for s in some:
            form, log = self.coordinates[0].form(d, t + float(self.pair.C[s]) * h)
            size = 2 * max(
                self._size, 1e-100
            )  # stages may leave the range of the last state
            most = MAX_SCORES[self._narrow.itemsize] / (
                d * d * max(float(np.abs(form).max()), 1e-100) * size
            )
            self._forms[s] = form.T * (
                LOG2_E * min(math.exp(min(log, MAX_LOG)), most / max(2 * size, 1.0))
            )
        tolerances = [float(state.rtol[0]), float(state.units[0, 0, 0])]
        numbers = np.concatenate(
            [self._forms.ravel(), (h * self.pair.A).ravel(), tolerances]
        )
        host = library_of(self._y).from_numpy(numbers)
        self._numbers.copy_(
            host.pin_memory() if self._y.is_cuda else host, non_blocking=True
        )

    def _find_error(self, b: int) -> float:
        """Return the same as `steps.find_error`; the only call that waits for the
        device in a step.
        """
        largest, other, self._new_size = self._errors.tolist()
        h = float(self.state.times[b, 2] - self.state.times[b, 0])
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
        offset = point - centre
        library_of(point).mm(
            values, self.means(point, offset, form, narrow) + centre, out=out
        )

    def means(self, point: Array, offset: Array, form: Array, narrow: Array) -> Array:
        """Return softmax means of tokens minus their centre, whose scores differ by a
        constant: smaller errors.
        """
        d, n = point.shape
        narrow[0, :, :n], narrow[1, :, :n] = form @ point, offset
        find = _means_by_kernel if point.is_cuda and d <= MAX_D else _means_by_blocks
        return find(narrow[0], narrow[1], n, self._rule.causal)[:, :n]


class SphereOnDevice(_OnDevice):
    """Tokens on the sphere."""

    def factor(self, d: int) -> FloatArray:
        return np.eye(d)

    def form(self, d: int, t: float) -> tuple[FloatArray, float]:
        return np.eye(d) * float(to_numpy(self._rule.find_beta(t))), 0.0

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
        library_of(point).mm(
            values, self.means(point, offset, form, narrow) - offset, out=out
        )

    def noise(self, state: FloatArray, t: float) -> float:
        return super().noise(state, t) * (2.0**29 if self.dtype.itemsize == 4 else 1.0)

    def hold_attention(self, state: FloatArray, t: float) -> None:
        """Hold no attention: it would take an n by n matrix."""


def _means_by_kernel(queries: Array, keys: Array, n: int, causal: bool) -> Array:
    import torch

    from hardmax.flows.gpu_means import find_means

    (d, width), out = queries.shape, torch.empty_like(queries)
    fit = (
        REGISTERS * 4 // ((2 * d + 3) * queries.itemsize)
    )  # rows of a thread: of queries, maxima and sums
    rows = WARPS * 2 ** min(3, fit.bit_length() - 1)
    with torch.cuda.device(queries.device):
        find_means[(-(-n // rows),)](
            queries, keys, out, n, width, d, causal, rows, WARP, num_warps=WARPS
        )
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
