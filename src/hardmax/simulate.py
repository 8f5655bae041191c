"""The one verb."""

from typing import Any, Literal, TypeAlias, TypedDict, Unpack, overload

import numpy as np

from hardmax import _validation
from hardmax._errors import ParameterError, ParameterTypeError
from hardmax._types import AnyArray, Array, Progress
from hardmax.flows.integrate import Method, Times
from hardmax.rules.base import Flow, Layered, Rule
from hardmax.rules.hardmax import Hardmax
from hardmax.rules.heads import MultiHead
from hardmax.search.dispatch import check_kernel
from hardmax.trajectories.base import Trajectory
from hardmax.trajectories.hardmax import HardmaxTrajectory
from hardmax.trajectories.runners import Job, run
from hardmax.trajectories.smooth import SmoothTrajectory

Save: TypeAlias = Literal["all", "last"]


class Options(TypedDict, total=False):
    """What goes with every rule."""

    save: Save
    mask: Array
    progress: Progress | None


class FlowOptions(Options, total=False):
    """What goes with rules in continuous time."""

    method: str | None
    rtol: float | None
    atol: float | None
    dt: float | None
    max_steps: int | None


@overload
def simulate(
    tokens: Array, rule: Hardmax, *, layers: int, kernel: str = "auto", **options: Unpack[Options]
) -> HardmaxTrajectory: ...


@overload
def simulate(tokens: Array, rule: Layered, *, layers: int, **options: Unpack[Options]) -> SmoothTrajectory: ...


@overload
def simulate(tokens: Array, rule: Flow, *, times: Times, **options: Unpack[FlowOptions]) -> SmoothTrajectory: ...


@overload  # of layers or flows: only the heads know
def simulate(
    tokens: Array,
    rule: MultiHead,
    *,
    layers: int | None = None,
    times: Times | None = None,
    kernel: str = "auto",
    **options: Unpack[FlowOptions],
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

    For the limit of `Hardmax` at infinite depth use `hardmax.limit`, which stops as soon as it is proved.

    Parameters
    ----------
    tokens : (n, d) or (batch, n, d) array
        Floats, integers or Fractions. The state is float64, or the float dtype that comes in. Torch tensors give torch
        tensors back; gradients pass through every rule but `Hardmax` by itself, whose sets are found exactly.
    rule : Rule
        `Hardmax`, `Softmax`, `FeedForward`, `Normalize`, `Compose` (layers); `SelfAttention`, `Sphere` (time);
        `MultiHead` of either.
    layers : int
        How many layers to run, 0 or more; for rules with layers.
    times : increasing numbers, or one positive number
        When to save tokens; those given are the state at time 0. One number T means 101 times from 0 to T, or every
        step of length `dt`. For flows.
    save : "all" or "last"
        Whether to keep every layer (or time), or the last alone.
    mask : (n,) or (batch, n) boolean array, optional
        True for real tokens. The others are padding, may hold anything, and change nothing.
    method : str
        For flows. "DOP853" (the default), "RK45", "RK23", "Radau", "BDF" and "LSODA" are SciPy's methods with error
        control; they stop after `max_steps` (10,000) steps, and the status says so. "euler" and "rk4" take steps of
        length `dt`, of which `times` must be multiples, and carry gradients: Euler is the residual network.
    rtol, atol : numbers
        Bounds on the error of every coordinate in one step: `rtol` (default 1e-8, from 1e-13 to 0.1) relative to the
        coordinate, plus `atol` (default 1e-13, at most 0.1) relative to the largest coordinate of the input. The error
        of the trajectory adds up over the steps: `python -m benchmarks.flow_accuracy` measures it.
    dt, max_steps : numbers
        See `method`. Each is refused where it has no meaning.
    kernel : str
        For `Hardmax`, by itself or as a head with coordinates of its own: how the largest products are found. "auto"
        takes the fastest; "numpy" (the definition), "hull", "tree", "scan" and "symmetric" name one. The sets are the
        same; `stats["kernel"]` says what ran, and `stats["why"]` why. Clouds of a batch go in one pass where they have
        no ties, with "auto" and "scan"; `stats["clouds_in_one_pass"]` counts them.
    progress : callable, optional
        Called with (done, in all) after each layer or saved time.

    Returns
    -------
    Trajectory
        A `HardmaxTrajectory` for `Hardmax`, else a `SmoothTrajectory`.

    Raises
    ------
    ParameterError
        If `tokens`, `mask`, `layers`, `times` or a setting has no meaning, or does not go with the rule.
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
        got = f"the class {rule.__name__}; call it" if isinstance(rule, type) else type(rule).__name__
        raise ParameterTypeError("rule", "be a rule such as hm.Hardmax(alpha=0.5)", got)
    if save not in ("all", "last"):
        raise ParameterError("save", 'be "all" or "last"', f'{save!r}. "last" keeps the final layer alone')
    array, real = _validation.check_tokens(tokens, mask)
    rule.check(np.where(real[..., None], array, array[real][0]) if not real.all() else array)
    settings: dict[str, Any] = {"method": method, "rtol": rtol, "atol": atol, "dt": dt, "max_steps": max_steps}
    for name, value in settings.items():
        if value is not None and not rule.continuous:
            got = f"{value!r} with {type(rule).__name__}, which moves tokens by layers"
            raise ParameterError(name, "go with a rule in continuous time", got, "Leave it out.")
    how = Method.from_arguments(**settings)
    saved = _saved(rule, layers, times, how)
    job = Job(rule, tokens, array, real, saved if save == "all" else saved[-1:], how, kernel, progress)
    if kernel != "auto" and check_kernel(kernel) and not job.searches:
        must = "go with Hardmax, by itself or as a head with coordinates of its own, and without gradients"
        raise ParameterError("kernel", must, f"{kernel!r} with {type(rule).__name__}", "Leave it out.")
    return run(job)


def _saved(rule: Rule, layers: int | None, times: Times | None, method: Method) -> AnyArray:
    name = type(rule).__name__
    if not rule.continuous:
        if times is not None:
            raise ParameterError("layers", f"be given: {name} moves tokens by layers", "`times`", "Pass `layers=30`.")
        return np.arange(_validation.check_count(layers, "layers", least=0) + 1)
    if layers is not None or times is None:
        must, got = f"be given: {name} moves tokens in continuous time", "no times" if layers is None else "`layers`"
        raise ParameterError("times", must, got, "Pass `times=np.linspace(0, 15, 101)`.")
    return method.check_times(times)
