"""Those leaders and no others: every other token follows one of them at layer 0, which settles the limit (Theorem 1).

Which leader each token follows is free, and with that choice made the rest is the same programme. So alternate: an A
gives every free token the leader it sees first, those targets give an A of largest margin, and so on until the margin
is positive or the targets come back. Theorem 7 gives a first choice for one and two leaders: where a direction p has
its largest value at one of them and its smallest, of the other sign, at the other, A = ppᵀ + εI does it for small ε.
Theorem 6: linearly independent tokens allow any choice.
"""

from collections.abc import Iterator

import numpy as np

from hardmax._types import FloatArray, IntArray
from hardmax.control.demands import Demands
from hardmax.control.programme import Programme, Solved
from hardmax.control.request import Request
from hardmax.control.vertices import forward_direction

SWITCHES = 12  # changes of the targets from one start
RANK_ONE = 1e-3  # weight of the identity beside ppᵀ: enough for the targets that follow from it


def alternate(
    request: Request, programme: Programme, first: FloatArray, attempts: int, seed: int
) -> Iterator[tuple[Demands, Solved]]:
    """Demands on all tokens, each with its best A, until the caller has what it wants."""
    tried: set[bytes] = set()
    for A in _starting_matrices(request, first, attempts, seed):
        for _ in range(SWITCHES):
            products = request.tokens[request.free] @ A @ request.tokens[request.leading].T
            targets = request.leading[products.argmax(axis=1)]  # of each free token the leader with the largest product
            if targets.tobytes() in tried:
                break
            tried.add(targets.tobytes())
            demands = request.demands(request.free, targets)
            solved = programme.largest_margin(demands)
            yield demands, solved
            if solved.A is None:
                break
            A = solved.A


def _starting_matrices(request: Request, first: FloatArray, attempts: int, seed: int) -> Iterator[FloatArray]:
    """Theorem 7 where it applies, the A of the leaders alone, the identity, then random ones."""
    d = request.tokens.shape[1]
    rng = np.random.default_rng(seed)
    one_or_two = len(request.leading) if len(request.leading) <= 2 else 0
    for order in (request.leading, request.leading[::-1])[:one_or_two]:
        p = _separating_direction(request, order)
        if p is not None:
            yield np.outer(p, p) + RANK_ONE * (p @ p) * np.eye(d)
    yield first
    yield np.eye(d)
    for _ in range(attempts):
        B = rng.normal(size=(d, d))
        yield B @ B.T


def _separating_direction(request: Request, order: IntArray) -> FloatArray | None:
    """A p whose largest value is at the first leader; its smallest at the second, or all positive if there is none."""
    rows, labels = request.tokens, request.classes.labels
    top = rows[order[0]]
    ahead = [top - np.delete(rows, order[0], axis=0), top[None]]  # <p, each> > 0
    if len(order) == 1:
        ahead.append(rows[rows.any(axis=1)])
    else:
        bottom = rows[order[1]]
        ahead += [np.delete(rows, order[1], axis=0) - bottom, -bottom[None]]
        ahead += [rows[[labels[i]]] * (1 if labels[t] == order[0] else -1) for i, t in request.followers.items()]
    return forward_direction(np.concatenate(ahead))
