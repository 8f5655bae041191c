"""The one driver."""

from collections.abc import Callable
from itertools import count
from typing import Any, Literal

import numpy as np

from hardmax import _checks, kernels
from hardmax._tensors import like
from hardmax._types import AnyArray, IntArray
from hardmax.hardmax_trajectory import Cloud, HardmaxTrajectory
from hardmax.rules.hardmax import Hardmax
from hardmax.run import Run


def simulate(
    tokens: Any,
    rule: Hardmax,
    *,
    layers: int,
    save: Literal["all", "last"] = "all",
    mask: Any = None,
    progress: Callable[[int, int], None] | None = None,
) -> HardmaxTrajectory:
    """Run tokens through the layers of a transformer.

    For the limit at infinite depth use `hardmax.limit`, which stops as soon as it is proved.

    Parameters
    ----------
    tokens : (n, d) or (batch, n, d) array
        Floats, integers or Fractions. The state is float64, or the float dtype that comes in; sets are those of exact
        arithmetic on the values given. Torch tensors give torch tensors back, without gradients.
    rule : Hardmax
    layers : int
        How many layers to run, 0 or more. Sets are found at the last one too.
    save : "all" or "last"
        Whether to keep every layer or the last alone.
    mask : (n,) or (batch, n) boolean array, optional
        True for real tokens. The others are padding, may hold anything, and change nothing.
    progress : callable, optional
        Called with (layers done, layers in all) after each.

    Returns
    -------
    HardmaxTrajectory

    Raises
    ------
    ValueError, TypeError
        On input without a meaning: what must hold, what came, what to do.

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
    """
    if not isinstance(rule, Hardmax):
        raise TypeError(f"`rule` must be a rule such as hm.Hardmax(alpha=0.5). Got {type(rule).__name__}.")
    if save not in ("all", "last"):
        raise ValueError(f'`save` must be "all" or "last". Got {save!r}. "last" keeps the final layer alone.')
    layers = _checks.check_count(layers, "layers", least=0)
    array, real = _checks.check_tokens(tokens, mask)
    _checks.check_dimension(rule.matrix, array.shape)

    batched = array.ndim == 3
    batch = array if batched else array[None]  # (batch, n, d)
    real = real.reshape(batch.shape[:2])
    saved = np.arange(layers + 1) if save == "all" else np.array([layers])
    dtype = np.float64 if array.dtype == object else array.dtype
    kept = np.empty((len(saved), *batch.shape), dtype)
    kept[:] = batch  # padding stays as it came; so does layer 0
    tick = _ticker(progress, len(batch) * (layers + 1))
    clouds, queries, exact_rows = [], 0, 0
    for b, cloud in enumerate(batch):
        run = rule.start(cloud[real[b]])
        clouds.append(_run_cloud(run, rule, kept[:, b], saved, np.flatnonzero(real[b]), tick))
        queries += run.queries
        exact_rows += run.state.exact_rows
    stats = {
        "kernel": kernels.METHOD,
        "arithmetic": type(run.state).__name__.lower(),
        "dtype": str(dtype),
        "layers": layers,
        "queries": queries,
        "sets_compared_exactly": exact_rows,
    }
    return HardmaxTrajectory(like(kept if batched else kept[:, 0], tokens), rule, saved, tuple(clouds), batched, stats)


def _ticker(progress: Callable[[int, int], None] | None, total: int) -> Callable[[], None]:
    """What to call after each layer: it counts, and tells `progress` if there is one."""
    done = count(1)
    return (lambda: None) if progress is None else (lambda: progress(next(done), total))


def _run_cloud(
    run: Run, rule: Hardmax, kept: AnyArray, saved: IntArray, real: IntArray, tick: Callable[[], None]
) -> Cloud:
    """Advance one cloud to the last layer, writing its tokens into `kept`, shape (saved layers, n, d)."""
    layers, sets = int(saved[-1]), []
    for k in range(layers + 1):
        chosen = run.choose()
        if k == layers or len(saved) > 1:
            at = k if len(saved) > 1 else 0
            if k > 0:
                with np.errstate(over="ignore"):  # a narrow dtype may not hold what grew without normalisation
                    kept[at, real] = rule.grown(run.tokens, k)[run.classes.labels]
            sets.append(chosen)
        tick()
        if k < layers:
            run.advance()
    return Cloud(run.classes, tuple(sets), run.emerged, run.settled, real)
