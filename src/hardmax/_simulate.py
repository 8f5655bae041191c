"""`simulate`: tokens through layers or in continuous time, with one runner for each
kind of rule.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from typing import Any, Literal, TypeAlias, TypedDict, Unpack, overload

import numpy as np

from hardmax import _validation
from hardmax._arrays import as_mask, join, needs_gradient, stack, where
from hardmax._errors import ParameterError, ParameterTypeError
from hardmax._exact import to_fractions
from hardmax._types import AnyArray, Array, BoolArray, Progress
from hardmax._validation import is_tensor, like
from hardmax.flows import integrate
from hardmax.flows.adaptive import integrate_adaptive
from hardmax.flows.coordinates import choose_coordinates, depends_on_gradients
from hardmax.flows.device import integrate_on_device, runs_on_device
from hardmax.flows.gradients import integrate_with_gradients
from hardmax.flows.integrate import FIXED, Method, Times
from hardmax.flows.steps import PAIRS
from hardmax.rules.base import Flow, Layered, Rule
from hardmax.rules.compose import MultiHead
from hardmax.rules.frank_wolfe import FrankWolfe
from hardmax.rules.hardmax import Hardmax
from hardmax.run import Record, merge_stats, start_runs
from hardmax.search.dispatch import check_kernel, share_search
from hardmax.trajectories.base import Trajectory
from hardmax.trajectories.hardmax import HardmaxTrajectory
from hardmax.trajectories.smooth import SmoothTrajectory

Save: TypeAlias = Literal["all", "last"]
HEAD_UNITS = 1000  # units of `progress` per head
MAX_LAYERS = 10**9  # the numbers of the layers to save are an array


class Options(TypedDict, total=False):
    """Options of every rule."""

    save: Save
    mask: Array
    progress: Progress | None


class FlowOptions(Options, total=False):
    """Options of rules in continuous time."""

    method: str | None
    rtol: float | None
    atol: float | None
    dt: float | None
    max_steps: int | None


class HeadOptions(FlowOptions, total=False):
    """Options of several heads, which have layers or times."""

    layers: int | None
    times: Times | None
    kernel: str


@overload
def simulate(
    tokens: Array,
    rule: Hardmax,
    *,
    layers: int,
    kernel: str = "auto",
    **options: Unpack[Options],
) -> HardmaxTrajectory: ...


@overload
def simulate(
    tokens: Array, rule: Layered, *, layers: int, **options: Unpack[Options]
) -> SmoothTrajectory: ...


@overload
def simulate(
    tokens: Array, rule: Flow, *, times: Times, **options: Unpack[FlowOptions]
) -> SmoothTrajectory: ...


@overload
def simulate(
    tokens: Array, rule: MultiHead, **options: Unpack[HeadOptions]
) -> SmoothTrajectory: ...


def simulate(
    tokens: Array,
    rule: Rule,
    *,
    layers: int | None = None,
    times: Times | None = None,
    save: Save = "all",
    mask: Array = None,
    method: str | None = None,
    rtol: float | None = None,
    atol: float | None = None,
    dt: float | None = None,
    max_steps: int | None = None,
    kernel: str = "auto",
    progress: Progress | None = None,
) -> Trajectory:
    """Run tokens under a rule: through layers, or in continuous time.

    For the limit of `Hardmax` at infinite depth use `hardmax.limit`, which stops once
    the limit is proved.

    Parameters
    ----------
    tokens : (n, d) or (batch, n, d) array
        Floats, integers or Fractions. The state is float64, or the float dtype of the
        input. Torch tensors give torch tensors back; gradients pass through every rule
        but `Hardmax` by itself, whose sets are found exactly.
    rule : Rule
        `Hardmax`, `Softmax`, `FeedForward`, `Normalize`, `Compose` (layers);
        `SelfAttention`, `Sphere` (time); `MultiHead` of either.
    layers : int
        Number of layers, 0 or more; for rules with layers.
    times : increasing numbers, or one positive number
        Times at which to save tokens; the input is the state at time 0. One number T
        means 101 times from 0 to T, or every step of length `dt`. For flows.
    save : "all" or "last"
        Whether to keep every layer (or time), or the last alone.
    mask : (n,) or (batch, n) boolean array, optional
        True for real tokens. The others are padding, may hold any value, and change
        nothing.
    method : str
        For flows. "DOP853" (the default) and "RK45" (the default from `rtol=1e-7` on)
        have compiled steps; "LSODA" is SciPy's solver, also for stiff flows. They
        control the error, and stop after `max_steps` (10,000) steps, which the
        status states. "euler" and "rk4" take steps of length `dt`, of which `times`
        must be multiples, and carry gradients: Euler is the residual network.
    rtol, atol : numbers
        Bounds on the error of every coordinate in one step: `rtol` (default 1e-8, from
        1e-13 to 0.1) relative to the coordinate (or its mean size over all tokens, if
        that is larger), plus `atol` (default 1e-13, at most 0.1) relative to the
        largest coordinate of the input. The error of the trajectory adds up over the
        steps: `python -m studies.flow_accuracy` measures it.
    dt, max_steps : numbers
        See `method`. Each is refused where it has no meaning.
    kernel : str
        For `Hardmax`, by itself or as a head with coordinates of its own: how the
        largest products are found. "auto" takes the fastest; "numpy" (the definition),
        "hull", "scan" and "symmetric" name one. The sets are the same;
        `stats["kernel"]` has the one used, and `stats["why"]` the reason. Token sets of
        a batch go in one pass where they have no ties, with "auto" and "scan";
        `stats["sets_in_one_pass"]` counts them.
    progress : callable, optional
        Called with (done, total) after each layer or saved time.

    Returns
    -------
    Trajectory
        A `HardmaxTrajectory` for `Hardmax`, else a `SmoothTrajectory`.

    Raises
    ------
    ParameterError
        If `tokens`, `mask`, `layers`, `times` or a setting has no meaning, or does not
        go with the rule.
    ParameterTypeError
        If `rule` is not a rule, or `tokens` are not real numbers.
    MissingExtra
        If `kernel` or `exact=True` needs a package that is not installed.

    Examples
    --------
    >>> import hardmax as hm
    >>> square = [[1, 1], [1, -1], [-1, 1], [-1, -1], [0.5, 0]]
    >>> trajectory = hm.simulate(square, hm.Hardmax(alpha=1), layers=2)
    >>> trajectory.array[:, 4]
    array([[0.5  , 0.   ],
           [0.75 , 0.   ],
           [0.875, 0.   ]])
    >>> trajectory.attention(0)[4]
    array([0.5, 0.5, 0. , 0. , 0. ])
    >>> flow = hm.simulate([[1, 1], [-1, -1], [0.5, 0]], hm.SelfAttention(), times=[0, 1, 10])
    >>> flow.rescaled[:, 2].round(3)
    array([[0.5 , 0. ],
           [0.707, 0.463],
           [0.967, 0.94 ]])
    """
    if not isinstance(rule, Rule):
        got = (
            f"the class {rule.__name__}; call it"
            if isinstance(rule, type)
            else type(rule).__name__
        )
        raise ParameterTypeError("rule", "be a rule such as hm.Hardmax(alpha=0.5)", got)
    if not _validation.is_one_of(save, ("all", "last")):
        advice = '"last" keeps the final layer alone.'
        got = _validation.shortened(save)
        raise ParameterError("save", 'be "all" or "last"', got, advice)
    kernel = check_kernel(kernel)
    array, real = _validation.check_tokens(tokens, mask)
    rule.check(
        np.where(real[..., None], array, array[real][0]) if not real.all() else array
    )
    settings: dict[str, Any] = {
        "method": method,
        "rtol": rtol,
        "atol": atol,
        "dt": dt,
        "max_steps": max_steps,
    }
    for option, value in settings.items():
        if value is not None and not rule.continuous:
            given = _validation.shortened(value)
            got = f"{given} with {type(rule).__name__}, which moves tokens by layers"
            raise ParameterError(
                option, "go with a rule in continuous time", got, "Leave it out."
            )
    steps, name = (
        Method.from_arguments(**settings) if rule.continuous else None,
        type(rule).__name__,
    )
    if steps is None:
        if times is not None:
            raise ParameterError(
                "layers",
                f"be given: {name} moves tokens by layers",
                "`times`",
                "Pass `layers=30`.",
            )
        count_of = _validation.check_count(layers, "layers", least=0, most=MAX_LAYERS)
        saved = np.arange(count_of + 1)
    elif layers is not None or times is None:
        must, got = (
            f"be given: {name} moves tokens in continuous time",
            "no times" if layers is None else "`layers`",
        )
        raise ParameterError(
            "times", must, got, "Pass `times=np.linspace(0, 15, 101)`."
        )
    else:
        saved = steps.check_times(times)
    if needs_gradient(times) and not (
        is_tensor(tokens) and steps is not None and steps.is_adaptive
    ):
        must = (
            "require no gradient, or go with a tensor of tokens and an adaptive method"
        )
        got = "tokens in an array" if not is_tensor(tokens) else f"`method={method!r}`"
        raise ParameterError(
            "times", must, got, "Use `times.detach()`, or torch.tensor and no `method`."
        )
    kept = saved if save == "all" else saved[-1:]
    report = _validation.check_progress(progress)
    job = _Job(
        rule,
        tokens,
        array,
        real,
        array.ndim == 3,
        kept,
        steps,
        kernel,
        report,
        _differentiable(times, kept),
    )
    if kernel != "auto" and not job.searches:
        must = (
            "go with Hardmax, by itself or as a head with coordinates of its own, and"
            " without gradients"
        )
        raise ParameterError("kernel", must, f"{kernel!r} with {name}", "Leave it out.")
    return _run(job)


def _differentiable(times: Times | None, kept: AnyArray) -> Array:
    """Return the times that are kept as a tensor if they require gradients, else None."""
    if not needs_gradient(times):
        return None
    shares = like(np.linspace(0, 1, 101), times)
    return (shares * times if times.ndim == 0 else times)[-len(kept) :]  # type: ignore[union-attr, index]


@dataclass(frozen=True, eq=False)
class _Job:
    """A rule, checked tokens, and the options of a run."""

    rule: Rule
    tokens: Array  # as given
    array: AnyArray  # (n, d) or (batch, n, d), floats or Fractions
    real: BoolArray  # False for padding
    batched: bool
    saved: AnyArray  # layers or times to keep
    method: Method | None  # None for rules with layers
    kernel: str
    progress: Progress
    times: Array = (
        None  # `saved` as a tensor that requires gradients, if it was given as one
    )

    @property
    def start(self) -> AnyArray:
        return self.array.astype(
            np.float64 if self.array.dtype == object else self.array.dtype
        )

    @property
    def by_heads(self) -> bool:
        """Whether each head runs alone: on coordinates of its own, and, as exact sets
        have none, without gradient.
        """
        if not isinstance(self.rule, MultiHead) or self.rule.shared:
            return False
        return self.rule.continuous or not needs_gradient(
            self.tokens, *self.rule.weights
        )

    @property
    def searches(self) -> bool:
        return isinstance(self.rule, Hardmax) or (
            self.by_heads and any(head.searches for head in self.heads)
        )

    @property
    def heads(self) -> "list[_Job]":
        """One job for each head, on its coordinates."""
        assert isinstance(self.rule, MultiHead)
        jobs = []
        for h, (head, part) in enumerate(
            zip(self.rule.heads, self.rule.columns(self.array.shape[-1]), strict=True)
        ):
            array = self.array[..., part]
            tokens = self.tokens[..., part] if is_tensor(self.tokens) else array
            report = partial(_report_head, self.progress, h, len(self.rule.heads))
            jobs.append(
                replace(self, rule=head, tokens=tokens, array=array, progress=report)
            )
        return jobs

    def ticker(self, total: int, done: int = 0) -> Callable[[], None]:
        """Return a function to call after each layer or time, which counts and calls
        `progress`.
        """
        numbers = count(done + 1)
        return lambda: self.progress(next(numbers), total)

    def floats(self) -> tuple[Array, Array | None]:
        """Return the tokens as a float array or tensor with zeros for padding, and the
        keys that are not padding.
        """
        state: Array = self.tokens if is_tensor(self.tokens) else self.start
        if is_tensor(state) and not state.dtype.is_floating_point:
            state = state.double()
        if self.real.all():
            return state, None
        return where(self.real[..., None], state, 0.0), as_mask(
            self.real[..., None, :], state
        )

    def with_padding(self, kept: Array | None) -> Array | None:
        """Return tokens of all saved positions, with the input for padding."""
        if kept is None or self.real.all():
            return kept
        return where(
            np.broadcast_to(self.real[..., None], tuple(kept.shape)),
            kept,
            like(self.start, kept),
        )

    def as_given(self, kept: AnyArray) -> Array:
        """Return tokens (saved, batch, n, d) with the axes, dtype and array type of the
        input.
        """
        with np.errstate(
            over="ignore", invalid="ignore"
        ):  # numbers beyond the dtype become infinite
            return like(
                (kept if self.batched else kept[:, 0]).astype(
                    self.start.dtype, copy=False
                ),
                self.tokens,
            )

    def smooth(
        self, tokens: Array, method: str, stats: dict[str, Any], **more: Any
    ) -> SmoothTrajectory:
        dtype = str(tokens.dtype).removeprefix("torch.")
        stats = {"method": method, "dtype": dtype, "adaptive": False} | stats
        return SmoothTrajectory(
            tokens,
            self.rule,
            self.saved,
            self.batched,
            stats,
            self.real,
            self.start,
            **more,
        )


def _report_head(progress: Progress, h: int, heads: int, done: int, total: int) -> None:
    progress(HEAD_UNITS * h + HEAD_UNITS * done // total, HEAD_UNITS * heads)


def _run(job: _Job) -> Trajectory:
    if isinstance(job.rule, Hardmax):
        return _run_hardmax(job, job.rule)
    if job.by_heads:
        return _run_heads(job)
    if isinstance(job.rule, FrankWolfe) and not needs_gradient(job.tokens):
        return _run_frank_wolfe(job, job.rule)
    if job.method is None:
        return _run_layers(job)
    return (
        _run_adaptive(job, job.method)
        if job.method.is_adaptive
        else _run_fixed(job, job.method)
    )


# Numbers beyond the dtype become infinite.
@np.errstate(over="ignore", invalid="ignore")
def _run_hardmax(job: _Job, rule: Hardmax) -> HardmaxTrajectory:
    """Run all token sets at once where possible, else one by one; exact sets in both."""
    batch = job.array.reshape(-1, *job.array.shape[-2:])  # (batch, n, d)
    real = np.atleast_2d(job.real)  # (batch, n)
    layers = int(job.saved[-1])
    kept = np.empty((len(job.saved), *batch.shape), job.start.dtype)
    kept[:] = batch  # padding stays as given; so does layer 0
    total = len(batch) * (layers + 1)
    done = 0
    records: Sequence[Record] = ()
    stats = list[dict[str, Any]]()
    in_one_run = 0
    for ids, run in start_runs(rule, batch, real, job.kernel):
        for k in range(layers + 1):
            run.choose()
            if k in job.saved and k > 0:
                moved = rule.grow(run.tokens, k).take(run.classes.labels, axis=0)
                positions = kept[len(job.saved) - 1 - layers + k]
                own = positions[ids[0] : ids[-1] + 1]
                if run.real.all():
                    own[:] = moved.reshape(own.shape)
                else:
                    own[run.real] = moved
            done += len(ids)
            job.progress(done, total)
            if k < layers:
                run.advance()
        records = (
            run.records() if len(ids) == len(batch) else [*records, *run.records()]
        )
        stats.append(run.stats)
        in_one_run += len(ids) if len(ids) > 1 else 0
    about = merge_stats(stats, in_one_run) if job.batched else stats[0]
    return HardmaxTrajectory(
        job.as_given(kept),
        rule,
        job.saved,
        job.batched,
        about | {"dtype": str(kept.dtype)},
        records,
    )


@np.errstate(over="ignore", under="ignore")
def _run_frank_wolfe(job: _Job, rule: FrankWolfe) -> SmoothTrajectory:
    """Run every token set by itself in rational arithmetic, as `limit` does."""
    batch = job.array.reshape(-1, *job.array.shape[-2:])  # (batch, n, d)
    kept = np.empty((len(job.saved), *batch.shape), job.start.dtype)
    kept[:] = batch  # padding stays as given
    layers = int(job.saved[-1])
    tick = job.ticker(len(batch) * (layers + 1))
    for b, real in enumerate(np.atleast_2d(job.real)):
        exact = to_fractions(batch[b, real])
        for k in range(layers + 1):
            if k in job.saved:
                kept[k - job.saved[0], b, real] = exact
            tick()
            if k < layers:
                exact = rule.exact_layer(exact, k)
    return job.smooth(job.as_given(kept), "layers", {"layers": layers})


def _run_layers(job: _Job) -> SmoothTrajectory:
    """Run all token sets at once, layer by layer; tensors keep their gradients."""
    assert isinstance(job.rule, Layered | MultiHead)
    state, keys = job.floats()
    layers = int(job.saved[-1])
    tick, kept = job.ticker(layers + 1), []
    with (
        np.errstate(over="ignore", invalid="ignore", under="ignore"),
        share_search() as search,
    ):
        for k in range(layers + 1):
            if k in job.saved:
                kept.append(state)
            tick()
            if k < layers:
                state = job.rule.layer(state, k, keys)
    return job.smooth(
        job.with_padding(stack(kept)), "layers", {"layers": layers} | search.stats
    )


def _run_fixed(job: _Job, method: Method) -> SmoothTrajectory:
    """Run all token sets at once with Euler or RK4 steps; tensors keep their gradients."""
    assert isinstance(job.rule, Flow | MultiHead)
    state, keys = job.floats()
    coordinates = choose_coordinates(job.rule, state, keys, steps=method)
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        found = integrate.integrate_fixed(
            coordinates, state, job.saved, method, job.ticker(len(job.saved))
        )
    tokens, rescaled = job.with_padding(found.tokens), job.with_padding(found.rescaled)
    stats = {"dt": method.dt, "steps": found.steps}
    return job.smooth(
        tokens, method.name, stats, rescaled=rescaled, powers=found.powers
    )


def _run_adaptive(job: _Job, method: Method) -> SmoothTrajectory:
    """Run the token sets in float64 with error control, each with its own steps."""
    assert isinstance(job.rule, Flow | MultiHead)
    if is_tensor(job.tokens) and (
        needs_gradient(job.tokens, job.times) or depends_on_gradients(job.rule)
    ):
        return _run_with_gradients(job, method)
    if depends_on_gradients(job.rule):
        raise ParameterError(
            "tokens",
            "be a tensor where a weight requires gradients",
            "an array",
            "Use torch.tensor.",
        )
    batch = job.array.reshape(-1, *job.array.shape[-2:]).astype(
        np.float64
    )  # (batch, n, d)
    kept = np.broadcast_to(batch, (len(job.saved), *batch.shape)).copy()
    rescaled, tick = kept.copy(), job.ticker(len(batch) * len(job.saved))
    sets = [
        tokens[real]
        for tokens, real in zip(batch, np.atleast_2d(job.real), strict=True)
    ]
    on_device = is_tensor(job.tokens) and runs_on_device(job.rule, job.tokens, method)
    if on_device:
        found = [
            integrate_on_device(job.rule, tokens, job.tokens, job.saved, method, tick)
            for tokens in sets
        ]
    else:
        coordinates = [choose_coordinates(job.rule, tokens) for tokens in sets]
        found = integrate_adaptive(coordinates, sets, job.saved, method, tick)
    for b, (real, one) in enumerate(zip(np.atleast_2d(job.real), found, strict=True)):
        kept[:, b, real] = one.tokens
        if one.rescaled is not None:
            rescaled[:, b, real] = one.rescaled
    held, reached = tuple(one.held for one in found), [one.rtol for one in found]
    stats = {
        "rtol": method.rtol,
        "atol": method.atol,
        "dtype": "float64",
        "steps": sum(one.steps for one in found),
        "evaluations": sum(one.evaluations for one in found),
        "rejected": sum(one.rejected for one in found),
        "adaptive": True,
        "held_from": min((each[0] for each in held if each is not None), default=None),
        "rtol_reached": max(reached),
    } | ({"device": str(job.tokens.device)} if on_device else {})
    stats |= {} if len(set(reached)) == 1 else {"rtol_reached_by_set": reached}
    return job.smooth(
        job.as_given(kept),
        method.name,
        stats,
        rescaled=None if found[0].rescaled is None else job.as_given(rescaled),
        problems=tuple(one.problem for one in found),
        held=held if any(held) else (),
    )


def _run_with_gradients(job: _Job, method: Method) -> SmoothTrajectory:
    """Run every token set in float64 with error control, and repeat its steps in torch."""
    assert isinstance(job.rule, Flow | MultiHead)
    if method.name not in PAIRS:
        must = f"be one of {', '.join((*PAIRS, *FIXED))} where gradients are needed"
        raise ParameterError(
            "method",
            must,
            f"{method.name!r}, which runs outside torch",
            "Leave it out.",
        )
    state, _ = job.floats()
    batch, real = (
        (state if job.batched else state[None]),
        np.atleast_2d(job.real),
    )  # (batch, n, d)
    found = [
        integrate_with_gradients(
            job.rule, tokens[as_mask(mask, tokens)], job.saved, job.times, method
        )
        for tokens, mask in zip(batch, real, strict=True)
    ]
    tick = job.ticker(1)
    kept = [
        batch.expand(len(job.saved), *batch.shape).clone()
        for _ in range(1 if found[0].rescaled is None else 2)
    ]
    for b, (mask, one) in enumerate(zip(real, found, strict=True)):
        for whole, part in zip(kept, (one.tokens, one.rescaled), strict=False):
            whole[:, b, as_mask(mask, whole)] = part
    tick()
    x, *z = [job.with_padding(each if job.batched else each[:, 0]) for each in kept]
    counts = {
        name: sum(getattr(one, name) for one in found)
        for name in ("steps", "evaluations", "rejected")
    }
    stats = {
        "rtol": method.rtol,
        "atol": method.atol,
        "adaptive": True,
        "held_from": None,
    }
    stats |= counts | {"rtol_reached": method.rtol}
    return job.smooth(
        x, method.name, stats, rescaled=z[0] if z else None, problems=("",) * len(found)
    )


def _run_heads(job: _Job) -> SmoothTrajectory:
    """Run each head by itself: heads on coordinates of their own are independent
    models.
    """
    heads = tuple(_run(one) for one in job.heads)
    stats: dict[str, Any] = {"heads": [head.stats for head in heads]}
    searched = [head.stats for head in heads if "kernel" in head.stats]
    if searched:
        kernels = dict.fromkeys(
            name for own in searched for name in own["kernel"].split(", ")
        )
        reasons = dict.fromkeys(own["why"] for own in searched)
        queries = sum(own["queries"] for own in searched)
        stats |= {
            "kernel": ", ".join(kernels),
            "why": " ".join(reasons),
            "queries": queries,
        }
    by_head = [head.problems for head in heads if isinstance(head, SmoothTrajectory)]
    problems = tuple(" ".join(filter(None, own)) for own in zip(*by_head, strict=True))
    return job.smooth(
        join([head.tokens for head in heads]),
        "heads",
        stats,
        heads=heads,
        problems=problems,
    )
