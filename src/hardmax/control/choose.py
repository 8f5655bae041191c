"""`choose_A`: the programme, its answer checked, and a sentence."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from numbers import Real
from typing import Any

import numpy as np

from hardmax._errors import ParameterError
from hardmax._types import FloatArray
from hardmax._validation import check_count, check_positive, is_positive_definite
from hardmax.control.demands import Demands
from hardmax.control.exclusive import SWITCHES, alternate
from hardmax.control.programme import Programme, Solved
from hardmax.control.request import Request, check_request
from hardmax.control.result import ControlResult
from hardmax.control.sentences import impossible, not_exclusive, success
from hardmax.rules.hardmax import Hardmax
from hardmax.simulate import simulate

Progress = Callable[[int, int], None]
PREFERENCES = ("margin", "identity")
METHODS = ("cuts", "full")
BOUNDS = (1e2, 1e6)  # on the condition number, one after the other, where the caller has none
LARGEST = 1e12  # condition number that may be asked for
KEPT = 0.5  # part of the best margin that `prefer="identity"` keeps unless told


def choose_A(
    tokens: Any,
    *,
    leaders: Any,
    followers: Mapping[int, int] | None = None,
    only: bool = False,
    prefer: str = "margin",
    margin: float | None = None,
    condition: float | None = None,
    method: str = "cuts",
    attempts: int = 10,
    seed: int = 0,
    solver_options: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
) -> ControlResult:
    """Choose A so that chosen tokens lead at layer 0 and chosen tokens follow them.

    Maximises m over symmetric A with trace d, eigenvalues within `condition` of each other, and
    ⟨A z_i, z_t - z_j⟩ >= m |z_i| |z_t - z_j| for every leader i = t and every follower i of t, and all other tokens j.
    A leader never moves again, so these tokens lead for every alpha and at every layer. For leaders that may emerge at
    later layers use `steer`. The programme has d(d + 1)/2 unknowns: seconds for d up to about 32, and slow beyond.

    Parameters
    ----------
    tokens : (n, d) array
    leaders : sequence of int
        Tokens that shall lead.
    followers : dict, optional
        Which token shall follow which leader: {7: 0}.
    only : bool
        Those leaders and no others: every other token follows one of them at layer 0, so that all limits are decided.
        A search; where it fails the sentence says "not found", unless impossibility is proved.
    prefer : {"margin", "identity"}
        The largest margin, or the A closest to the identity (Frobenius norm) that keeps a margin.
    margin : float, optional
        The margin that `prefer="identity"` keeps; half of the largest one unless given.
    condition : float, optional
        Largest eigenvalue of A over the smallest, at most. Unless given, 100, and a million where that is not enough.
    method : {"cuts", "full"}
        Rows of the programme as they are needed, or all at once: the same optimum, later.
    attempts, seed : int
        Random starts of `only=True`.
    solver_options : dict, optional
        For Clarabel, such as {"max_iter": 500}.
    progress : callable, optional
        Called by `only=True` with (choices of whom the others follow that were tried, those at most).

    Returns
    -------
    ControlResult
        With `found`, `A`, `status` and, where there is no A, the tokens that conflict.

    Raises
    ------
    ParameterError
        On a request without a meaning: tokens out of range, one that leads and follows, zero or equal leaders, numbers
        out of range.
    ParameterTypeError
        If `tokens` are not real numbers.
    MissingExtra
        If CVXPY or Clarabel is not installed.

    Examples
    --------
    Token 1 follows token 0, and leads all the same where A turns its view:

    >>> import hardmax as hm
    >>> tokens = [[2.0, 0.0], [1.0, 1.0], [0.5, 0.9], [-1.0, 0.0]]
    >>> hm.simulate(tokens, hm.Hardmax(alpha=1), layers=20).leaders
    array([0, 3])
    >>> result = hm.control.choose_A(tokens, leaders=[1], followers={2: 1})
    >>> result
    Found: token 1 leads; token 2 follows 1. Margin 0.821, condition number 100. Checked by simulation.
    >>> hm.simulate(tokens, hm.Hardmax(alpha=1, A=result.A), layers=20).leaders
    array([1, 3])

    Theorems 5, 6 and 7 of this project (docs/control.md).
    """
    request = check_request(tokens, leaders, followers)
    for value, name, choices in ((method, "method", METHODS), (prefer, "prefer", PREFERENCES)):
        if not isinstance(value, str) or value not in choices:
            raise ParameterError(name, f"be {' or '.join(map(repr, choices))}", f"{value!r}")
    keep = _check_margin(margin, prefer)
    attempts, seed = (check_count(*pair, least=0) for pair in ((attempts, "attempts"), (seed, "seed")))
    zero = np.flatnonzero(~request.tokens.any(axis=1))
    if only and len(zero) and len(request.classes) > 1:
        why = "which sees every token alike at layer 0, so that where it goes depends on alpha"
        got, advice = f"token {request.token(int(zero[0]))}, {why}", "Leave it out, or use `steer`."
        raise ParameterError("tokens", "not be zero with `only=True`", got, advice)
    bounds = BOUNDS if condition is None else (check_condition(condition),)
    programmes = [Programme(bound, method == "cuts", solver_options) for bound in bounds]
    demands = request.demands()
    programme, solved, met = _solve(request, demands, programmes)
    if not met:
        return impossible(request, demands, solved, programme, only)
    if only:
        assigned = _assign_others(request, programmes[-1], solved, attempts, seed, progress)
        if assigned is None:
            return not_exclusive(request, demands, solved, programme)
        demands = assigned
        programme, solved, _ = _solve(request, demands, programmes)
    if prefer == "identity":
        solved = _closest_to_identity(request, demands, solved, programme, keep)
    return success(request, demands, solved, only, prefer)


def _solve(request: Request, demands: Demands, programmes: list[Programme]) -> tuple[Programme, Solved, bool]:
    """The first programme whose A works, with its answer; else the last, and that it does not."""
    for programme in programmes:
        solved = programme.largest_margin(demands)
        if solved.A is not None and _meets_demands(request, demands, solved.A):
            return programme, solved, True
    return programme, solved, False


def _assign_others(
    request: Request, programme: Programme, first: Solved, attempts: int, seed: int, progress: Progress | None
) -> Demands | None:
    """Demands on all tokens that some A meets: everything is decided at layer 0 then, for every alpha (Theorem 1)."""
    most = SWITCHES * (attempts + 2)
    for tried, (demands, solved) in enumerate(alternate(request, programme, np.asarray(first.A), attempts, seed)):
        if progress:
            progress(min(tried, most), most)
        if solved.A is not None and _meets_demands(request, demands, solved.A):
            return demands
    return None


def _meets_demands(request: Request, demands: Demands, A: FloatArray) -> bool:
    """Whether every demand is met: positive gaps in NumPy, a definite A, and the exact sets of layer 0."""
    if demands.margin(A) <= 0 or not is_positive_definite(A):
        return False
    sets = simulate(request.given, Hardmax(1, A), layers=0).sets(0)
    first, labels = request.classes.first, request.classes.labels
    return all((labels[sets[first[i]]] == t).all() for i, t in zip(demands.chooser, demands.target, strict=True))


def _closest_to_identity(
    request: Request, demands: Demands, solved: Solved, programme: Programme, keep: float | None
) -> Solved:
    """The A closest to the identity that keeps a margin; the one of largest margin where the solver fails at it."""
    aim = KEPT * solved.margin if keep is None else keep
    if not np.isfinite(aim):  # a single token asks for nothing
        return solved
    if aim > solved.margin:
        must = f"be at most the largest that there is, {solved.margin!r}"
        raise ParameterError("margin", must, f"{aim!r}", "Ask for less.")
    closer = programme.closest_to_identity(demands, aim, solved.pairs)
    if closer.A is not None and _meets_demands(request, demands, closer.A):
        return closer
    return replace(solved, failure=closer.failure or "its answer fails the check")


def check_condition(condition: Any) -> float:
    """Return a bound on the condition number."""
    value = float(condition) if isinstance(condition, Real) and not isinstance(condition, bool) else np.nan
    if not 1 <= value <= LARGEST:
        reason = "beyond which floats do not know a definite matrix from others"
        must = f"be a number from 1, the condition number of the identity, to {LARGEST:g}, {reason}"
        raise ParameterError("condition", must, f"{condition!r}", "Use 1e4, say.")
    return value


def _check_margin(margin: Any, prefer: str) -> float | None:
    if margin is None:
        return None
    if prefer != "identity":
        got = '`prefer="margin"`, which finds the largest one'
        raise ParameterError("margin", 'go with `prefer="identity"`', got)
    return float(check_positive(margin, "margin", "Leave it out for half of the largest one."))
