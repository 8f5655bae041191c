"""How each kind of rule is run: exactly, layer by layer in floats, in time, or head by head."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

import numpy as np

from hardmax._arrays import as_mask, is_tensor, join, like, needs_gradient, stack, where
from hardmax._errors import ParameterError
from hardmax._types import AnyArray, Array, BoolArray, IntArray, Progress
from hardmax.exact.batch import Batch, fits
from hardmax.exact.run import Run, summed
from hardmax.flows import integrate
from hardmax.flows.coordinates import choose_coordinates
from hardmax.flows.integrate import Method
from hardmax.rules.base import Flow, Layered, Rule
from hardmax.rules.hardmax import Hardmax
from hardmax.rules.heads import MultiHead
from hardmax.search.one_search import one_search
from hardmax.search.sets import Sets
from hardmax.trajectories.base import Trajectory
from hardmax.trajectories.cloud import Cloud
from hardmax.trajectories.clouds import Clouds
from hardmax.trajectories.hardmax import HardmaxTrajectory
from hardmax.trajectories.smooth import SmoothTrajectory

SHARE = 1000  # what each head counts for in `progress`


@dataclass(frozen=True, eq=False)
class Job:
    """What to run on which tokens."""

    rule: Rule
    tokens: Array  # as they came
    array: AnyArray  # (n, d) or (batch, n, d), floats or Fractions
    real: BoolArray  # which tokens are not padding
    saved: AnyArray  # layers or times to keep
    method: Method
    kernel: str
    progress: Progress | None

    @property
    def batched(self) -> bool:
        return self.array.ndim == 3

    @property
    def clouds(self) -> AnyArray:
        return self.array if self.batched else self.array[None]

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(np.float64 if self.array.dtype == object else self.array.dtype)

    @property
    def start(self) -> AnyArray:
        return self.array.astype(self.dtype)

    @property
    def by_heads(self) -> bool:
        """Whether each head is run by itself: on coordinates of its own, and, as exact sets carry none, no gradient."""
        if not isinstance(self.rule, MultiHead) or self.rule.shared:
            return False
        return self.rule.continuous or not needs_gradient(self.tokens, *self.rule.weights)

    @property
    def searches(self) -> bool:
        return isinstance(self.rule, Hardmax) or (self.by_heads and any(head.searches for head in self.heads))

    @property
    def heads(self) -> "list[Job]":
        assert isinstance(self.rule, MultiHead)
        jobs = []
        for h, (head, part) in enumerate(zip(self.rule.heads, self.rule.columns(self.array.shape[-1]), strict=True)):
            array = self.array[..., part]
            tokens = self.tokens[..., part] if is_tensor(self.tokens) else array
            jobs.append(replace(self, rule=head, tokens=tokens, array=array, progress=self._progress_of(h)))
        return jobs

    def _progress_of(self, h: int) -> Progress | None:
        """`progress` for one head of several, each of which counts for the same part of the whole."""
        progress, rule = self.progress, self.rule
        if progress is None or not isinstance(rule, MultiHead):
            return None
        return lambda done, total: progress(SHARE * h + SHARE * done // total, SHARE * len(rule.heads))

    def ticker(self, total: int, done: int = 0) -> Callable[[], None]:
        """What to call after each layer or time: it counts, and tells `progress` if there is one."""
        numbers, progress = count(done + 1), self.progress
        return (lambda: None) if progress is None else (lambda: progress(next(numbers), total))

    def floats(self) -> tuple[Array, Array | None]:
        """Tokens as a float array or tensor with zeros for padding, and the keys that may be attended to."""
        state: Array = self.tokens if is_tensor(self.tokens) else self.start
        if is_tensor(state) and not state.dtype.is_floating_point:
            state = state.double()
        if self.real.all():
            return state, None
        return where(self.real[..., None], state, 0.0), as_mask(self.real[..., None, :], state)

    def with_padding(self, kept: Array | None) -> Array | None:
        """Tokens of all saved positions, with what came in for padding."""
        if kept is None or self.real.all():
            return kept
        return where(np.broadcast_to(self.real[..., None], tuple(kept.shape)), kept, like(self.start, kept))

    def as_given(self, clouds: AnyArray) -> Array:
        """Tokens of all saved positions and clouds as the input was: its axes and dtype, array or tensor."""
        with np.errstate(over="ignore", invalid="ignore"):  # what does not fit into the dtype becomes infinite
            kept = (clouds if self.batched else clouds[:, 0]).astype(self.dtype, copy=False)
        return like(kept, self.tokens)


def run(job: Job) -> Trajectory:
    """Run any rule."""
    if isinstance(job.rule, Hardmax):
        return run_hardmax(job, job.rule)
    if job.by_heads:
        return run_heads(job)
    if not job.rule.continuous:
        return run_layers(job)
    return run_adaptive(job) if job.method.is_adaptive else run_fixed(job)


def run_hardmax(job: Job, rule: Hardmax) -> HardmaxTrajectory:
    """All clouds in one pass where that can be, and every other cloud by itself; exact sets in both."""
    batch, real = job.clouds, np.atleast_2d(job.real)  # (batch, n, d), (batch, n)
    kept = np.empty((len(job.saved), *batch.shape), job.dtype)
    kept[:] = batch  # padding stays as it came; so does layer 0
    left, each, one_pass = np.arange(len(batch)), list[dict[str, Any]](), None
    if fits(rule, batch, job.kernel):
        one_pass = Batch(rule, batch, real, job.kernel)
        follows = _run_batch(one_pass, rule, kept, job)
        left = np.flatnonzero(~one_pass.sure)
        each = [one_pass.stats] if len(left) < len(batch) else []
    length, alone = int(job.saved[-1]) + 1, dict[int, Cloud]()
    tick = job.ticker(len(batch) * length, (len(batch) - len(left)) * length)
    for b in left.tolist():
        one = Run(rule, batch[b, real[b]], kernel=job.kernel)
        alone[b] = _run_cloud(one, rule, kept[:, b], job.saved, np.flatnonzero(real[b]), tick)
        each.append(one.stats)
    stats = summed(each, len(batch) - len(left)) if job.batched else each[0]
    stats["dtype"] = str(kept.dtype)
    clouds: Sequence[Cloud] = tuple(alone.values())
    if one_pass is not None:
        clouds = Clouds(batch, real, follows, one_pass.emerged, one_pass.settled, alone, rule.causal)
    return HardmaxTrajectory(job.as_given(kept), rule, job.saved, job.batched, stats, clouds)


def _run_batch(batch: Batch, rule: Hardmax, kept: AnyArray, job: Job) -> list[IntArray]:
    """Advance all clouds to the last layer, writing their tokens into `kept`; whom they follow in each saved layer."""
    layers, follows = int(job.saved[-1]), list[IntArray]()
    written = True if batch.real.all() else batch.real[..., None]
    for k in range(layers + 1):
        batch.choose()
        if not batch.sure.any():
            break
        if k == layers or len(job.saved) > 1:
            if k > 0:
                with np.errstate(over="ignore", invalid="ignore"):  # what does not fit into the dtype becomes infinite
                    np.copyto(kept[len(follows)], rule.grown(batch.tokens, k), "same_kind", written)
            follows.append(batch.follows)
        if job.progress is not None:
            job.progress(int(batch.sure.sum()) * (k + 1), len(batch.real) * (layers + 1))
        if k < layers:
            batch.advance()
    return follows


def _run_cloud(
    one: Run, rule: Hardmax, kept: AnyArray, saved: IntArray, real: IntArray, tick: Callable[[], None]
) -> Cloud:
    """Advance one cloud to the last layer, writing its tokens into `kept`, shape (saved layers, n, d)."""
    layers, sets = int(saved[-1]), list[Sets]()
    for k in range(layers + 1):
        found = one.choose()
        if k == layers or len(saved) > 1:
            if k > 0:
                with np.errstate(over="ignore", invalid="ignore"):  # what does not fit into the dtype becomes infinite
                    kept[len(sets), real] = rule.grown(one.tokens, k)[one.classes.labels]
            sets.append(found)
        tick()
        if k < layers:
            one.advance()
    return Cloud(one.classes, tuple(sets), one.emerged, one.settled, real)


def run_layers(job: Job) -> SmoothTrajectory:
    """All clouds at once, layer by layer; tensors keep their gradients."""
    assert isinstance(job.rule, Layered | MultiHead)
    state, keys = job.floats()
    layers = int(job.saved[-1])
    tick, kept = job.ticker(layers + 1), []
    with np.errstate(over="ignore", invalid="ignore", under="ignore"), one_search() as search:
        for k in range(layers + 1):
            if k == layers or len(job.saved) > 1:
                kept.append(state)
            tick()
            if k < layers:
                state = job.rule.layer(state, k, keys)
    stats = {"method": "layers", "dtype": _dtype(state), "layers": layers, "adaptive": False}
    return _trajectory(job, job.with_padding(stack(kept)), stats | search.stats)


def run_fixed(job: Job) -> SmoothTrajectory:
    """All clouds at once with Euler or RK4 steps; tensors keep their gradients."""
    assert isinstance(job.rule, Flow | MultiHead)
    state, keys = job.floats()
    coordinates = choose_coordinates(job.rule, state, keys, steps=job.method)
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        found = integrate.integrate_fixed(coordinates, state, job.saved, job.method, job.ticker(len(job.saved)))
    stats = {"method": job.method.name, "dt": job.method.dt, "dtype": _dtype(state), "steps": found.steps}
    tokens, rescaled = job.with_padding(found.tokens), job.with_padding(found.rescaled)
    return _trajectory(job, tokens, stats | {"adaptive": False}, rescaled=rescaled, powers=found.powers)


def run_adaptive(job: Job) -> SmoothTrajectory:
    """Every cloud by itself in float64 with error control."""
    rule, method = job.rule, job.method
    assert isinstance(rule, Flow | MultiHead)
    if needs_gradient(job.tokens, *rule.weights):
        got = f"{method.name!r}, which runs outside torch"
        advice = 'Use `method="rk4"` and `dt=0.1`, or detach the tensors.'
        raise ParameterError("method", "take fixed steps where gradients are asked for", got, advice)
    batch = job.clouds.astype(np.float64)  # (batch, n, d)
    kept = np.broadcast_to(batch, (len(job.saved), *batch.shape)).copy()
    rescaled, tick, found = kept.copy(), job.ticker(len(batch) * len(job.saved)), []
    for b, real in enumerate(np.atleast_2d(job.real)):
        cloud = batch[b, real]
        one = integrate.integrate_adaptive(choose_coordinates(rule, cloud), cloud, job.saved, method, tick)
        kept[:, b, real] = one.tokens
        if one.rescaled is not None:
            rescaled[:, b, real] = one.rescaled
        found.append(one)
    held = tuple(one.held for one in found)
    stats = {
        "method": method.name,
        "rtol": method.rtol,
        "atol": method.atol,
        "dtype": "float64",
        "steps": sum(one.steps for one in found),
        "evaluations": sum(one.evaluations for one in found),
        "adaptive": True,
        "held_from": min((each[0] for each in held if each is not None), default=None),
        "rtol_reached": max(one.rtol for one in found),
    }
    return _trajectory(
        job,
        job.as_given(kept),
        stats,
        rescaled=None if found[0].rescaled is None else job.as_given(rescaled),
        problems=tuple(one.problem for one in found),
        held=held if any(held) else (),
    )


def run_heads(job: Job) -> SmoothTrajectory:
    """Heads on coordinates of their own are independent models: each is run by itself, by what runs it best."""
    heads = tuple(run(one) for one in job.heads)
    tokens = join([head.tokens for head in heads])
    stats = {"method": "heads", "dtype": _dtype(tokens), "adaptive": False, "heads": [head.stats for head in heads]}
    searched = [head.stats for head in heads if "kernel" in head.stats]
    if searched:
        kernels = dict.fromkeys(name for own in searched for name in own["kernel"].split(", "))
        reasons = dict.fromkeys(own["why"] for own in searched)
        queries = sum(own["queries"] for own in searched)
        stats |= {"kernel": ", ".join(kernels), "why": " ".join(reasons), "queries": queries}
    of_heads = [head.problems for head in heads if isinstance(head, SmoothTrajectory)]
    problems = tuple(" ".join(filter(None, own)) for own in zip(*of_heads, strict=True))
    return _trajectory(job, tokens, stats, heads=heads, problems=problems)


def _trajectory(job: Job, tokens: Array, stats: dict[str, Any], **more: Any) -> SmoothTrajectory:
    return SmoothTrajectory(tokens, job.rule, job.saved, job.batched, stats, job.real, job.start, **more)


def _dtype(tokens: Array) -> str:
    return str(tokens.dtype).removeprefix("torch.")
