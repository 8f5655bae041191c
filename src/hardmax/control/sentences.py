"""What `choose_A` says of its answer, and why there is none."""

from typing import Any

import numpy as np

from hardmax.control.conflicts import FEASIBLE, WIDE, Clash, exists
from hardmax.control.demands import Demands
from hardmax.control.programme import Programme, Solved
from hardmax.control.request import Wish
from hardmax.control.result import ControlResult, asked, listed
from hardmax.control.vertices import Vertices


def success(wish: Wish, demands: Demands, solved: Solved, only: bool, prefer: str) -> ControlResult:
    """A that works."""
    A = np.asarray(solved.A)
    words = [f"Found: {asked(wish.leaders, wish.followers, only)}."]
    size = f"Margin {solved.margin:.3g}, c" if np.isfinite(solved.margin) else "C"
    away = f", distance to the identity {np.linalg.norm(A - np.eye(len(A))):.3g}" if prefer == "identity" else ""
    away += f" (the solver gave up on a closer one: {solved.failure})" if solved.failure else ""
    words.append(f"{size}ondition number {np.linalg.cond(A):.3g}{away}. Checked by simulation.")
    return _result(wish, demands, solved, only, " ".join(words), A=A, found=True)


def impossible(wish: Wish, demands: Demands, solved: Solved, programme: Programme, only: bool) -> ControlResult:
    """The solver failed, the bound on the condition number is in the way, or the demands conflict."""
    words = asked(wish.leaders, wish.followers, False)
    if solved.A is None:
        status = f"Not found: {words}. The solver gave up ({solved.failure}). Pass other `solver_options`."
        return _result(wish, demands, solved, only, status)
    freely = exists(demands, programme.options)
    if freely.solved.margin > FEASIBLE and len(freely.demands) == len(demands):
        status = (
            f"Not found: {words}, with a condition number of at most {programme.condition:g}. "
            "There is such an A without that bound. Raise `condition`."
        )
        return _result(wish, demands, solved, only, status)
    behind = _cannot_lead(wish, demands, programme)
    named, proved = freely.clashes(wish), freely.proof
    status = _why(words, behind, proved, named, freely.solved.bound)
    more = {"proved": proved or bool(behind), "conflict": named, "cannot_lead": behind}
    return _result(wish, demands, solved, only, status, **more)


def _cannot_lead(wish: Wish, demands: Demands, programme: Programme) -> tuple[int, ...]:
    """Leaders that lead for no A whatever else is asked; those within rounding of the hull are not among them."""
    hull = Vertices(wish.rows)
    inside = [r for r, i in enumerate(wish.leading) if not hull.has(int(i))]
    return tuple(wish.leaders[r] for r in inside if exists(demands.some(np.array([r])), programme.options).proof)


def _why(words: str, behind: tuple[int, ...], proved: bool, named: tuple[Clash, ...], bound: float) -> str:
    if behind:
        verb, what = ("leads", "it is no vertex") if len(behind) == 1 else ("lead", "they are no vertices")
        reason = f"{listed(behind).capitalize()} {verb} for no A: {what} of the hull of all tokens and 0 (Theorem 5)."
        return f"Impossible: {words}. {reason}"
    if proved:
        return f"Impossible: {words}. What is asked of {_tokens(named)} conflicts for every A, by Farkas weights."
    doubt = f"; what is asked of {_tokens(named)} is in the way" if named else ""
    if bound < -FEASIBLE:
        return f"Not found: {words}. There is none with a condition number up to {WIDE**2:g}{doubt}."
    return f"Not found: {words}. The best margin is 0 within rounding{doubt}."


def not_alone(wish: Wish, demands: Demands, solved: Solved, programme: Programme) -> ControlResult:
    """With one leader the targets are forced, so that a conflict is a proof; with more it is not."""
    words = asked(wish.leaders, wish.followers, True)
    if len(wish.leaders) == 1:
        forced = wish.demands(wish.free, np.repeat(wish.leading, len(wish.free)))
        freely = exists(forced, programme.options)
        if freely.proof:
            named = freely.clashes(wish)
            status = (
                f"Impossible at layer 0: {words}. What is asked of {_tokens(named)} conflicts for every A, by Farkas "
                "weights. `steer` looks for an A that does it at the limit."
            )
            return _result(wish, forced, freely.solved, True, status, proved=True, conflict=named)
    status = (
        f"Not found: {words}. {listed(wish.leaders).capitalize()} can lead with margin {solved.margin:.3g}, but no "
        "choice of whom the others follow that was tried can be met; that is no proof. Raise `attempts`, or look for "
        "it at the limit with `steer`."
    )
    return _result(wish, demands, solved, True, status)


def _tokens(named: tuple[Clash, ...]) -> str:
    return listed(sorted({clash.token for clash in named}))


def _result(wish: Wish, demands: Demands, solved: Solved, only: bool, status: str, **more: Any) -> ControlResult:
    stats: dict[str, Any] = {"solver": "Clarabel", "rounds": solved.rounds, "rows": len(solved.pairs)}
    stats |= {"rows_in_all": len(demands) * (len(wish.rows) - 1)}
    stats |= {"bound": float(solved.bound) if np.isfinite(solved.bound) else None}
    settled = {"A": None, "found": False, "proved": False} | more
    return ControlResult(
        margin=solved.margin,
        status=status,
        leaders=wish.leaders,
        followers=wish.followers,
        only=only,
        tokens=wish.given,
        stats=stats,
        **settled,
    )
