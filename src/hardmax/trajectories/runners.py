"""How each kind of rule is run: exactly, layer by layer in floats, in time, or head by head."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np

from hardmax import _checks
from hardmax._errors import ParameterError
from hardmax._tensors import as_mask, is_tensor, join, like, needs_gradient, stack, where
from hardmax._types import AnyArray, BoolArray, FloatArray, IntArray
from hardmax.engine.run import Run
from hardmax.flows import integrate
from hardmax.flows.frames import frame_of
from hardmax.flows.integrate import Method
from hardmax.flows.motions import Motion
from hardmax.rules.base import Rule
from hardmax.rules.hardmax import Hardmax
from hardmax.rules.heads import MultiHead
from hardmax.trajectories.base import Trajectory
from hardmax.trajectories.hardmax import Cloud, HardmaxTrajectory
from hardmax.trajectories.smooth import NEXT_CLOUD, SmoothTrajectory

MOST_STEPS, MOST_FIXED_STEPS = 10_000, 1_000_000  # unless said
STEPPERS = {"euler": integrate.euler, "rk4": integrate.rk4}


@dataclass(frozen=True, eq=False)
class Job:
    """Checked input of a simulation."""

    tokens: Any  # as they came
    array: AnyArray  # (n, d) or (batch, n, d), floats or Fractions
    real: BoolArray  # which tokens are not padding
    saved: AnyArray  # layers or times to keep
    method: Method
    progress: Callable[[int, int], None] | None
    kernel: str = "auto"

    @property
    def batched(self) -> bool:
        """Whether there is an axis for the batch."""
        return self.array.ndim == 3

    @property
    def dtype(self) -> Any:
        """Of the result: that of the input, or float64."""
        return np.float64 if self.array.dtype == object else self.array.dtype

    @property
    def start(self) -> AnyArray:
        """The input as a float array."""
        return self.array.astype(self.dtype)

    def ticker(self, total: int) -> Callable[[], None]:
        """What to call after each layer or time: it counts, and tells `progress` if there is one."""
        done, progress = count(1), self.progress
        return (lambda: None) if progress is None else (lambda: progress(next(done), total))

    def progress_of(self, h: int, rule: MultiHead) -> Callable[[int, int], None] | None:
        """`progress` for one head of several, each of which counts for the same part of the whole."""
        progress, each = self.progress, 1000
        if progress is None:
            return None
        return lambda done, total: progress(h * each + each * done // total, len(rule.heads) * each)

    def floats(self) -> tuple[Any, Any]:
        """Tokens as a float array or tensor with zeros for padding, and the keys that may be attended to."""
        state: Any = self.tokens if is_tensor(self.tokens) else self.start
        if is_tensor(state) and not state.dtype.is_floating_point:
            state = state.double()
        if self.real.all():
            return state, None
        return where(self.real[..., None], state, 0.0), as_mask(self.real[..., None, :], state)

    def with_padding(self, kept: Any) -> Any:
        """Tokens of all saved positions, with what came in for padding."""
        if self.real.all():
            return kept
        return where(np.broadcast_to(self.real[..., None], tuple(kept.shape)), kept, like(self.start, kept))


def run(job: Job, rule: Rule) -> Trajectory:
    """Run any rule."""
    if isinstance(rule, Hardmax):
        return run_hardmax(job, rule)
    if _by_heads(job, rule):
        return run_heads(job, rule)  # type: ignore[arg-type]
    if not rule.continuous:
        return run_layers(job, rule)
    return run_adaptive(job, rule) if job.method.adaptive else run_fixed(job, rule)


def _by_heads(job: Job, rule: Rule) -> bool:
    """Whether each head is run by itself: on coordinates of its own, and, as exact sets carry none, no gradient."""
    exactly = rule.continuous or not needs_gradient(job.tokens, *rule.weights)
    return isinstance(rule, MultiHead) and not rule.shared and exactly


def searches(job: Job, rule: Rule) -> bool:
    """Whether a run searches for largest products by `job.kernel`."""
    if isinstance(rule, MultiHead) and _by_heads(job, rule):
        return any(searches(job, head) for head in rule.heads)
    return isinstance(rule, Hardmax)


def run_hardmax(job: Job, rule: Hardmax) -> HardmaxTrajectory:
    """Every cloud by itself, with exact sets."""
    batch = job.array if job.batched else job.array[None]  # (batch, n, d)
    real = job.real.reshape(batch.shape[:2])
    kept = np.empty((len(job.saved), *batch.shape), job.dtype)
    kept[:] = batch  # padding stays as it came; so does layer 0
    tick = job.ticker(len(batch) * (int(job.saved[-1]) + 1))
    clouds, queries, exact_rows = [], 0, 0
    for b, cloud in enumerate(batch):
        one = rule.start(cloud[real[b]], kernel=job.kernel)
        clouds.append(_run_cloud(one, rule, kept[:, b], job.saved, np.flatnonzero(real[b]), tick))
        queries += one.queries
        exact_rows += one.state.exact_rows
    stats = {
        "kernel": one.state.kernel,
        "arithmetic": type(one.state).__name__.lower(),
        "dtype": str(np.dtype(job.dtype)),
        "layers": int(job.saved[-1]),
        "queries": queries,
        "sets_compared_exactly": exact_rows,
    }
    tokens = like(kept if job.batched else kept[:, 0], job.tokens)
    return HardmaxTrajectory(tokens, rule, job.saved, tuple(clouds), job.batched, stats)


def _run_cloud(
    one: Run, rule: Hardmax, kept: AnyArray, saved: IntArray, real: IntArray, tick: Callable[[], None]
) -> Cloud:
    """Advance one cloud to the last layer, writing its tokens into `kept`, shape (saved layers, n, d)."""
    layers, sets = int(saved[-1]), []
    for k in range(layers + 1):
        chosen = one.choose()
        if k == layers or len(saved) > 1:
            at = k if len(saved) > 1 else 0
            if k > 0:
                kept[at, real] = integrate.cast(rule.grown(one.tokens, k)[one.classes.labels], kept.dtype)
            sets.append(chosen)
        tick()
        if k < layers:
            one.advance()
    return Cloud(one.classes, tuple(sets), one.emerged, one.settled, real)


def run_layers(job: Job, rule: Any) -> SmoothTrajectory:
    """All clouds at once, layer by layer; tensors keep their gradients."""
    state, keys = job.floats()
    layers = int(job.saved[-1])
    tick, kept = job.ticker(layers + 1), []
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        for k in range(layers + 1):
            if k == layers or len(job.saved) > 1:
                kept.append(state)
            tick()
            if k < layers:
                state = rule.layer(state, k, keys)
    stats = {"method": "layers", "dtype": _name(state), "layers": layers, "adaptive": False}
    tokens = job.with_padding(stack(kept))
    return SmoothTrajectory(tokens, rule, job.saved, job.real, job.batched, stats, start=job.start)


def run_fixed(job: Job, rule: Any) -> SmoothTrajectory:
    """All clouds at once with Euler or RK4 steps; tensors keep their gradients."""
    state, keys = job.floats()
    frame = frame_of(rule, job.method.name, STEPPERS[job.method.name], keys, state)
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        shown, steps = integrate.fixed(frame, state, job.saved, job.method, job.ticker(len(job.saved)))
    raw, rescaled = job.with_padding(stack([x for x, _, _ in shown])), None
    if shown[0][1] is not None:
        rescaled = job.with_padding(stack([z for _, z, _ in shown]))
    frames = tuple(snapshot for _, _, snapshot in shown if snapshot is not None)
    stats = {"method": job.method.name, "dt": job.method.dt, "dtype": _name(state), "steps": steps, "adaptive": False}
    return SmoothTrajectory(
        raw, rule, job.saved, job.real, job.batched, stats, rescaled, start=job.start, frames=frames
    )


def run_adaptive(job: Job, rule: Any) -> SmoothTrajectory:
    """Every cloud by itself in float64 with error control."""
    if needs_gradient(job.tokens, *rule.weights):
        raise ParameterError(
            "method",
            "take fixed steps where gradients are asked for",
            f"{job.method.name!r}, which runs outside torch",
            'Use method="rk4", dt=0.1, or detach the tensors.',
        )
    batch = (job.array if job.batched else job.array[None]).astype(np.float64)  # (batch, n, d)
    real = job.real.reshape(batch.shape[:2])
    kept = np.broadcast_to(batch, (len(job.saved), *batch.shape)).copy()
    rescaled = kept.copy()
    tick, held_from = job.ticker(len(batch) * len(job.saved)), np.inf
    problems: list[str] = []
    steps, evaluations, has_rescaled, rtol = 0, 0, False, job.method.rtol
    held: list[tuple[float, FloatArray] | None] = []
    for b, cloud in enumerate(batch):
        motion = Motion.of(rule, cloud[real[b]].shape)
        solution = integrate.adaptive(motion, motion.start(cloud[real[b]]), job.saved, job.method, tick)
        steps, evaluations = steps + solution.steps, evaluations + solution.evaluations
        if solution.problem:
            problems.append((f"Cloud {b}: " if job.batched else "") + solution.problem)
        held_from, rtol = min(held_from, solution.held_from), max(rtol, solution.rtol)
        held.append(None if solution.held is None else (solution.held_from, solution.held))
        for at, (t, state) in enumerate(zip(job.saved, solution.states, strict=True)):
            tokens, z = motion.read(float(t), state) if np.isfinite(state).all() else (np.nan, np.nan)
            kept[at, b, real[b]] = tokens
            if z is not None:
                rescaled[at, b, real[b]] = z
                has_rescaled = has_rescaled or np.ndim(z) > 0
    stats = {
        "method": job.method.name,
        "rtol": job.method.rtol,
        "atol": job.method.atol,
        "dtype": "float64",
        "steps": steps,
        "evaluations": evaluations,
        "adaptive": True,
        "held_from": None if np.isinf(held_from) else held_from,
        "rtol_reached": rtol,
    }
    raw, z_all = (_like_input(values, job) for values in (kept, rescaled))
    more: dict[str, Any] = {
        "problem": NEXT_CLOUD.join(problems),
        "start": job.start,
        "held": tuple(held) if any(held) else (),
    }
    z_all = z_all if has_rescaled else None
    return SmoothTrajectory(raw, rule, job.saved, job.real, job.batched, stats, z_all, **more)


def _like_input(values: FloatArray, job: Job) -> Any:
    return like(integrate.cast(values if job.batched else values[:, 0], job.dtype), job.tokens)


def run_heads(job: Job, rule: MultiHead) -> SmoothTrajectory:
    """Heads on coordinates of their own are independent models: each is run by itself, by what runs it best."""
    heads = []
    for h, (head, part) in enumerate(zip(rule.heads, rule.columns(job.array.shape[-1]), strict=True)):
        tokens = job.tokens[..., part] if is_tensor(job.tokens) else job.array[..., part]
        kernel = job.kernel if searches(job, head) else "auto"
        one = Job(tokens, job.array[..., part], job.real, job.saved, job.method, job.progress_of(h, rule), kernel)
        heads.append(run(one, head))
    tokens = join([head.tokens for head in heads])
    stats = {"method": "heads", "dtype": _name(tokens), "adaptive": False, "heads": [head.stats for head in heads]}
    problem = " ".join(filter(None, (getattr(head, "problem", "") for head in heads)))
    return SmoothTrajectory(
        tokens, rule, job.saved, job.real, job.batched, stats, heads=tuple(heads), problem=problem, start=job.start
    )


def _name(tokens: Any) -> str:
    return str(tokens.dtype).removeprefix("torch.")


def check_grid(times: FloatArray, method: Method) -> None:
    """Fixed steps must meet the times to save exactly, and not be too many."""
    assert method.dt is not None
    steps = times / method.dt
    off = np.abs(steps - np.rint(steps))
    if off.max() > 1e-6 * max(1.0, float(steps[-1]) * 1e-3):
        worst = float(times[int(off.argmax())])
        raise ParameterError(
            "times",
            "be multiples of `dt`, which steps of one length meet",
            f"{worst:.6g} with `dt={method.dt:g}`",
            f"Use `dt={worst / max(1, np.ceil(worst / method.dt)):.6g}`. For several: `dt * np.arange(n)`.",
        )
    if steps[-1] > method.max_steps:
        raise ParameterError(
            "dt",
            f"need at most `max_steps={method.max_steps}` steps",
            f"{steps[-1]:.3g} steps of {method.dt:g} to {times[-1]:g}",
            "Use a larger `dt`, or raise `max_steps`.",
        )


def refuse_meaningless(rule: Rule, settings: dict[str, Any]) -> None:
    """Settings of a flow have no meaning for layers."""
    for name, value in settings.items():
        if value is not None and not rule.continuous:
            raise ParameterError(
                name,
                "go with a rule in continuous time",
                f"{value!r} with {type(rule).__name__}, which moves tokens by layers",
                "Leave it out.",
            )


def check_method(method: Any, rtol: Any, atol: Any, dt: Any, max_steps: Any) -> Method:
    """A method from the arguments of `simulate`; None is what is usual."""
    name = "DOP853" if method is None else method
    known = (*integrate.ADAPTIVE, *integrate.FIXED)
    if name not in known:
        raise ParameterError("method", f"be one of {', '.join(known)}", f"{name!r}", "DOP853 suits nearly everything.")
    for setting, value in (("rtol", rtol), ("atol", atol)):
        if value is not None and name in integrate.FIXED:
            raise ParameterError(
                setting,
                "go with a method that controls its error",
                f"{value!r} with {name!r}, whose steps have the length `dt`",
                "Leave it out.",
            )
    rtol = _checks.check_positive(1e-8 if rtol is None else rtol, "rtol", "1e-8 is usual.")
    atol = _checks.check_positive(1e-13 if atol is None else atol, "atol", "1e-13 is usual.")
    if (dt is None) == (name in integrate.FIXED):
        needs, has = f'none: "{name}" needs `dt`, the length of its steps', f'{dt}: "{name}" chooses its own steps'
        methods = " and ".join(integrate.FIXED)
        raise ParameterError("dt", f"go with the methods {methods}", needs if dt is None else has)
    if dt is not None:
        _checks.check_positive(dt, "dt", "0.1 is usual.")
    usual = MOST_FIXED_STEPS if name in integrate.FIXED else MOST_STEPS
    most = usual if max_steps is None else _checks.check_count(max_steps, "max_steps", least=1)
    return Method(name, float(rtol), float(atol), None if dt is None else float(dt), most)
