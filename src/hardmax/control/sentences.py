"""What `choose_A` says of its answer, and why there is none."""

from typing import Any

import numpy as np

from hardmax._exact import format_down
from hardmax.control.conflicts import FEASIBLE, WIDE, exists
from hardmax.control.demands import Demands
from hardmax.control.programme import Programme, Solved
from hardmax.control.request import Request, listed
from hardmax.control.result import Clash, ControlResult
from hardmax.control.vertices import Vertices


def success(request: Request, demands: Demands, solved: Solved, only: bool, prefer: str) -> ControlResult:
    """A that works."""
    A = np.asarray(solved.A)
    size = f"Margin {format_down(solved.margin, 3)}, c" if np.isfinite(solved.margin) else "C"
    away = f", distance to the identity {np.linalg.norm(A - np.eye(len(A))):.3g}" if prefer == "identity" else ""
    away += f" (the solver gave up on a closer one: {solved.failure})" if solved.failure else ""
    about = f"{size}ondition number {np.linalg.cond(A):.3g}{away}. Checked by simulation."
    return _result(request, demands, solved, only, f"Found: {request.words(only)}. {about}", A=A, found=True)


def impossible(request: Request, demands: Demands, solved: Solved, programme: Programme, only: bool) -> ControlResult:
    """The solver failed, the bound on the condition number is in the way, or the demands conflict."""
    words = request.words(False)
    if solved.A is None:
        advice = 'Pass other `solver_options`, or try `prefer="identity"`.'
        status = f"Not found: {words}. The solver gave up ({solved.failure}). {advice}"
        return _result(request, demands, solved, only, status)
    unbounded = exists(demands, programme.options)
    if unbounded.solved.margin > FEASIBLE and len(unbounded.demands) == len(demands):
        status = (
            f"Not found: {words}, with a condition number of at most {programme.condition:g}. "
            "There is such an A without that bound. Raise `condition`."
        )
        return _result(request, demands, solved, only, status)
    inside = _cannot_lead(request, demands, programme)
    clashes, proved = unbounded.clashes(request), unbounded.proof
    status = _why(words, inside, proved, clashes, unbounded.solved.bound)
    more = {"proved": proved or bool(inside), "conflict": clashes, "cannot_lead": inside}
    return _result(request, demands, solved, only, status, **more)


def _cannot_lead(request: Request, demands: Demands, programme: Programme) -> tuple[int, ...]:
    """Leaders that lead for no A whatever else is asked; those within rounding of the hull are not among them."""
    hull = Vertices(request.tokens)
    inside = [r for r, i in enumerate(request.leading) if not hull.has(int(i))]
    return tuple(request.leaders[r] for r in inside if exists(demands.subset(np.array([r])), programme.options).proof)


def _why(words: str, inside: tuple[int, ...], proved: bool, clashes: tuple[Clash, ...], bound: float) -> str:
    if inside:
        verb, what = ("leads", "it is no vertex") if len(inside) == 1 else ("lead", "they are no vertices")
        reason = f"{listed(inside).capitalize()} {verb} for no A: {what} of the hull of all tokens and 0 (Theorem 5)."
        return f"Impossible: {words}. {reason}"
    if proved:
        return f"Impossible: {words}. What is asked of {_tokens(clashes)} conflicts for every A, by Farkas weights."
    doubt = f"; what is asked of {_tokens(clashes)} is in the way" if clashes else ""
    if bound < -FEASIBLE:
        return f"Not found: {words}. There is none with a condition number up to {WIDE**2:g}{doubt}."
    return f"Not found: {words}. The best margin is 0 within rounding{doubt}."


def not_exclusive(request: Request, demands: Demands, solved: Solved, programme: Programme) -> ControlResult:
    """With one leader the targets are forced, so that a conflict is a proof; with more it is not."""
    words = request.words(True)
    if len(request.leaders) == 1:
        forced = request.demands(request.free, np.repeat(request.leading, len(request.free)))
        unbounded = exists(forced, programme.options)
        if unbounded.proof:
            clashes = unbounded.clashes(request)
            status = (
                f"Impossible at layer 0: {words}. What is asked of {_tokens(clashes)} conflicts for every A, by Farkas "
                "weights. `steer` looks for an A that does it at the limit."
            )
            return _result(request, forced, unbounded.solved, True, status, proved=True, conflict=clashes)
    status = (
        f"Not found: {words}. {listed(request.leaders).capitalize()} can lead with margin "
        f"{format_down(solved.margin, 3)}, but no targets of the others that were tried can be met; that is "
        "no proof. Raise `attempts`, or look for it at the limit with `steer`."
    )
    return _result(request, demands, solved, True, status)


def _tokens(clashes: tuple[Clash, ...]) -> str:
    return listed(sorted({clash.token for clash in clashes}))


def _result(request: Request, demands: Demands, solved: Solved, only: bool, status: str, **more: Any) -> ControlResult:
    stats: dict[str, Any] = {"solver": "Clarabel", "rounds": solved.rounds, "rows": len(solved.pairs)}
    stats |= {"rows_in_all": len(demands) * (len(request.tokens) - 1)}
    stats |= {"bound": float(solved.bound) if np.isfinite(solved.bound) else None}
    return request.result(margin=solved.margin, status=status, only=only, stats=stats, **more)
