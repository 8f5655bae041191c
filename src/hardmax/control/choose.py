"""`choose_A`: solve the programme, check its solution exactly, and explain it in a
sentence.

With `only=True` the leader that each other token follows is free, and once that is
chosen the rest is the same programme. So alternate: an A gives every free token the
leader with the largest product, these targets give an A of largest margin, and so on
until the margin is positive or the targets repeat.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from hardmax._errors import ParameterError
from hardmax._exact import format_down
from hardmax._simulate import simulate
from hardmax._types import FloatArray, IntArray
from hardmax._validation import (
    check_count,
    check_flag,
    check_positive,
    check_progress,
    check_range,
    is_one_of,
    is_positive_definite,
    shortened,
)
from hardmax.control.programme import (
    MAX_CROSS,
    MIN_MARGIN,
    MIN_WEIGHT,
    Demands,
    Existence,
    Programme,
    Solution,
)
from hardmax.control.request import (
    Clash,
    ControlResult,
    Request,
    Vertices,
    check_request,
    find_direction,
    list_tokens,
)
from hardmax.rules.hardmax import Hardmax

DEFAULT_CONDITIONS = (1e2, 1e6)  # bounds on the condition number, tried in turn
MAX_CONDITION = 1e12  # floats cannot show that a matrix with a larger one is definite
KEPT_MARGIN = 0.5  # default part of the largest margin that `prefer="identity"` keeps
MAX_SWITCHES = 12  # changes of the targets from one start
RANK_ONE_WEIGHT = (
    1e-3  # of the identity beside ppᵀ: enough for the targets that follow from it
)


def choose_A(
    tokens: Any,
    *,
    leaders: Any,
    followers: Mapping[int, int] | None = None,
    only: bool = False,
    prefer: str = "margin",
    margin: float | None = None,
    condition: float | None = None,
    attempts: int = 10,
    seed: int = 0,
    solver_options: Mapping[str, Any] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> ControlResult:
    """Choose A so that chosen tokens lead at layer 0 and chosen tokens follow them.

    Maximises m over symmetric A with trace d, eigenvalues within `condition` of each
    other, and ⟨A z_i, z_t - z_j⟩ >= m |z_i| |z_t - z_j| for every leader i = t and
    every follower i of t, and all other tokens j. A leader never moves again, so these
    tokens lead for every alpha and at every layer. For leaders that may emerge at later
    layers use `steer`. The programme has d(d + 1)/2 unknowns: seconds for d up to about
    32, and slow beyond.

    Parameters
    ----------
    tokens : (n, d) array
    leaders : sequence of int
        Tokens that shall lead.
    followers : dict, optional
        Each follower with its leader: {7: 0}.
    only : bool
        Those leaders and no others: every other token follows one of them at layer 0,
        so that all limits are decided. A search; if it fails the status says "not
        found", unless impossibility is proved.
    prefer : {"margin", "identity"}
        The largest margin, or the A closest to the identity (Frobenius norm) that keeps
        a margin.
    margin : float, optional
        The margin that `prefer="identity"` keeps; by default half of the largest one.
    condition : float, optional
        Bound on the largest eigenvalue of A over the smallest. By default 100, then a
        million if that is not enough.
    attempts, seed : int
        Random starts of `only=True`.
    solver_options : dict, optional
        For Clarabel, such as {"max_iter": 500}.
    progress : callable, optional
        Called by `only=True` with (assignments of leaders to the other tokens tried,
        their maximum number).

    Returns
    -------
    ControlResult
        With `found`, `A`, `status` and, if there is no A, the tokens that conflict.

    Raises
    ------
    ParameterError
        If tokens are out of range, one leads and follows, leaders are zero or equal, or
        numbers are out of range.
    ParameterTypeError
        If `tokens` are not real numbers.
    MissingExtra
        If CVXPY or Clarabel is not installed.

    Examples
    --------
    Token 1 follows token 0 with A = I, and leads with another A:

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
    only = check_flag(only, "only")
    check_progress(progress)
    if not is_one_of(prefer, ("margin", "identity")):
        raise ParameterError("prefer", 'be "margin" or "identity"', shortened(prefer))
    if solver_options is not None and not isinstance(solver_options, Mapping):
        raise ParameterError(
            "solver_options", "be a dictionary", shortened(solver_options)
        )
    if margin is not None and prefer != "identity":
        raise ParameterError(
            "margin",
            'go with `prefer="identity"`',
            '`prefer="margin"`, which finds the largest one',
        )
    if margin is not None:
        margin = float(
            check_positive(
                margin, "margin", "Leave it out for half of the largest one."
            )
        )
    attempts, seed = (
        check_count(*pair, least=0) for pair in ((attempts, "attempts"), (seed, "seed"))
    )
    zero = np.flatnonzero(~request.tokens.any(axis=1))
    if only and len(zero) and len(request.classes) > 1:
        why = "whose products are all 0 at layer 0, so that its limit depends on alpha"
        got, advice = (
            f"token {request.name_token(int(zero[0]))}, {why}",
            "Leave it out, or use `steer`.",
        )
        raise ParameterError("tokens", "not be zero with `only=True`", got, advice)
    bounds = DEFAULT_CONDITIONS if condition is None else (check_condition(condition),)
    programmes = [Programme(bound, solver_options) for bound in bounds]
    demands = request.demands()
    programme, solved, met = _solve(request, demands, programmes)
    if not met:
        return _explain_failure(request, demands, solved, programme, only)
    if only:
        most = MAX_SWITCHES * (attempts + 2)
        pairs = alternate(request, programmes[-1], np.asarray(solved.A), attempts, seed)
        for tried, (assigned, best) in enumerate(pairs):
            if progress:
                progress(min(tried, most), most)
            if _meets_demands(request, assigned, best.A):
                break
        else:
            return _explain_not_exclusive(request, demands, solved, programme)
        demands = assigned
        programme, solved, _ = _solve(request, demands, programmes)
    aim = KEPT_MARGIN * solved.margin if margin is None else margin
    if prefer == "identity" and np.isfinite(aim):  # a single token has no demands
        if aim > solved.margin:
            must = f"be at most the largest that there is, {solved.margin!r}"
            raise ParameterError("margin", must, f"{aim!r}", "Use a smaller one.")
        closer = programme.find_A(demands, aim, solved.pairs)
        failure = closer.failure or "its answer fails the check"
        solved = (
            closer
            if _meets_demands(request, demands, closer.A)
            else replace(solved, failure=failure)
        )
    A = np.asarray(solved.A)
    size = (
        f"Margin {format_down(solved.margin, 3)}, c"
        if np.isfinite(solved.margin)
        else "C"
    )
    away = (
        f", distance to the identity {np.linalg.norm(A - np.eye(len(A))):.3g}"
        if prefer == "identity"
        else ""
    )
    away += (
        f" (the solver gave up on a closer one: {solved.failure})"
        if solved.failure
        else ""
    )
    about = (
        f"{size}ondition number {np.linalg.cond(A):.3g}{away}. Checked by simulation."
    )
    return _answer(
        request,
        demands,
        solved,
        only,
        f"Found: {request.describe(only)}. {about}",
        A=A,
        found=True,
    )


def _solve(
    request: Request, demands: Demands, programmes: list[Programme]
) -> tuple[Programme, Solution, bool]:
    """Return the first programme whose A meets the demands, its solution and True; else
    the last one and False.
    """
    for programme in programmes:
        solved = programme.find_A(demands)
        if _meets_demands(request, demands, solved.A):
            return programme, solved, True
    return programme, solved, False


def _meets_demands(request: Request, demands: Demands, A: FloatArray | None) -> bool:
    """Return whether every demand is met: positive gaps in NumPy, a definite A, and the
    exact sets of layer 0.
    """
    if A is None or demands.margin(A) <= 0 or not is_positive_definite(A):
        return False
    sets = simulate(request.given, Hardmax(1, A), layers=0).sets(0)
    first, labels = request.classes.first, request.classes.labels
    return all(
        (labels[sets[first[i]]] == t).all()
        for i, t in zip(demands.chooser, demands.target, strict=True)
    )


def check_condition(condition: Any) -> float:
    """Return a bound on the condition number."""
    return check_range(
        condition, "condition", 1, MAX_CONDITION, "The identity has 1; use 1e4, say."
    )


def alternate(
    request: Request, programme: Programme, first: FloatArray, attempts: int, seed: int
) -> Iterator[tuple[Demands, Solution]]:
    """Yield demands on all tokens, each with its A of largest margin, for changing
    targets of the free tokens.
    """
    tried: set[bytes] = set()
    for A in _starting_matrices(request, first, attempts, seed):
        for _ in range(MAX_SWITCHES):
            products = (
                request.tokens[request.free] @ A @ request.tokens[request.leading].T
            )
            targets = request.leading[
                products.argmax(axis=1)
            ]  # of each free token the leader with the largest product
            if targets.tobytes() in tried:
                break
            tried.add(targets.tobytes())
            demands = request.demands(request.free, targets)
            solved = programme.find_A(demands)
            yield demands, solved
            if solved.A is None:
                break
            A = solved.A


def _starting_matrices(
    request: Request, first: FloatArray, attempts: int, seed: int
) -> Iterator[FloatArray]:
    """Yield those of Theorem 7 for two leaders, the A of the leaders alone, the
    identity, then random ones.
    """
    d, rng, leading = (
        request.tokens.shape[1],
        np.random.default_rng(seed),
        request.leading,
    )
    for order in (leading, leading[::-1]) if len(leading) == 2 else ():
        p = _separating_direction(request, order)
        if p is not None:
            yield np.outer(p, p) + RANK_ONE_WEIGHT * (p @ p) * np.eye(d)
    yield first
    yield np.eye(d)
    for _ in range(attempts):
        B = rng.normal(size=(d, d))
        yield B @ B.T


def _separating_direction(request: Request, order: IntArray) -> FloatArray | None:
    """Find a p with its largest value, a positive one, at the first leader, and its
    smallest at the second.
    """
    rows, labels, (top, bottom) = (
        request.tokens,
        request.classes.labels,
        request.tokens[order],
    )
    ahead = [top - np.delete(rows, order[0], axis=0), top[None]]  # <p, each> > 0
    ahead += [np.delete(rows, order[1], axis=0) - bottom, -bottom[None]]
    ahead += [
        rows[[labels[i]]] * (1 if labels[t] == order[0] else -1)
        for i, t in request.followers.items()
    ]
    return find_direction(np.concatenate(ahead))


def _explain_failure(
    request: Request,
    demands: Demands,
    solved: Solution,
    programme: Programme,
    only: bool,
) -> ControlResult:
    """Explain that the solver failed, that the condition number is too small, or that
    the demands conflict.
    """
    words = request.describe(False)
    if solved.A is None:
        advice = 'Pass other `solver_options`, or try `prefer="identity"`.'
        status = f"Not found: {words}. The solver gave up ({solved.failure}). {advice}"
        return _answer(request, demands, solved, only, status)
    unbounded = Existence.decide(demands, programme.options)
    if unbounded.solved.margin > MIN_MARGIN and len(unbounded.demands) == len(demands):
        bound = f"with a condition number of at most {programme.condition:g}"
        status = (
            f"Not found: {words}, {bound}. There is such an A without that bound. Raise"
            " `condition`."
        )
        return _answer(request, demands, solved, only, status)
    # Leaders that lead for no A, whatever the other demands; those within rounding of
    # the hull are not among them
    hull, inside = Vertices(request.tokens), list[int]()
    for r, label in enumerate(request.leading):
        if (
            not hull.has(int(label))
            and Existence.decide(
                demands.subset(np.array([r])), programme.options
            ).is_refuted
        ):
            inside.append(request.leaders[r])
    clashes, proved = _name_clashes(request, unbounded), unbounded.is_refuted
    conflict = (
        f"the demands on {list_tokens(sorted({clash.token for clash in clashes}))}"
        if clashes
        else ""
    )
    if inside:
        verb, what = (
            ("leads", "it is no vertex")
            if len(inside) == 1
            else ("lead", "they are no vertices")
        )
        why = (
            f"{list_tokens(inside).capitalize()} {verb} for no A: {what} of the hull of"
            " all tokens and 0 (Theorem 5)"
        )
    elif proved:
        why = f"{conflict.capitalize()} conflict for every A, by Farkas weights"
    else:
        why = "The best margin is 0 within rounding"
        if unbounded.solved.bound < -MIN_MARGIN:
            why = f"There is none with a condition number up to {MAX_CROSS**2:g}"
        why += f"; {conflict} prevent it" if conflict else ""
    status = f"{'Impossible' if inside or proved else 'Not found'}: {words}. {why}."
    more = {
        "proved": proved or bool(inside),
        "conflict": clashes,
        "cannot_lead": tuple(inside),
    }
    return _answer(request, demands, solved, only, status, **more)


def _explain_not_exclusive(
    request: Request, demands: Demands, solved: Solution, programme: Programme
) -> ControlResult:
    """With one leader the targets are forced, so that a conflict is a proof; with more
    it is not.
    """
    words = request.describe(True)
    if len(request.leaders) == 1:
        forced = request.demands(
            request.free, np.repeat(request.leading, len(request.free))
        )
        unbounded = Existence.decide(forced, programme.options)
        if unbounded.is_refuted:
            clashes = _name_clashes(request, unbounded)
            conflict = list_tokens(sorted({clash.token for clash in clashes}))
            why = f"The demands on {conflict} conflict for every A, by Farkas weights"
            status = (
                f"Impossible at layer 0: {words}. {why}. `steer` looks for an A that"
                " does it at the limit."
            )
            return _answer(
                request,
                forced,
                unbounded.solved,
                True,
                status,
                proved=True,
                conflict=clashes,
            )
    status = (
        f"Not found: {words}. {list_tokens(request.leaders).capitalize()} can lead with"
        f" margin {format_down(solved.margin, 3)}, but no targets of the others that"
        " were tried can be met; that is no proof. Raise `attempts`, or look for it at"
        " the limit with `steer`."
    )
    return _answer(request, demands, solved, True, status)


def _name_clashes(request: Request, existence: Existence) -> tuple[Clash, ...]:
    """Return the products with a weight that matters, the largest first, in token
    numbers.
    """
    weights, demands = existence.solved.weights, existence.demands
    order = np.argsort(-weights, kind="stable")
    order = order[weights[order] > MIN_WEIGHT * weights.max(initial=0.0)]
    demand, rival = existence.solved.pairs[order].T
    named = (
        map(request.name_token, labels)
        for labels in (demands.chooser[demand], demands.target[demand], rival)
    )
    return tuple(map(Clash, *named, weights[order].tolist()))


def _answer(
    request: Request,
    demands: Demands,
    solved: Solution,
    only: bool,
    status: str,
    **more: Any,
) -> ControlResult:
    stats: dict[str, Any] = {
        "solver": "Clarabel",
        "rounds": solved.rounds,
        "rows": len(solved.pairs),
    }
    bound = float(solved.bound) if np.isfinite(solved.bound) else None
    stats |= {"rows_in_all": len(demands) * (len(request.tokens) - 1), "bound": bound}
    return request.answer(
        margin=solved.margin, status=status, only=only, stats=stats, **more
    )
