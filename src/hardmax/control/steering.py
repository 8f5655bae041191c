"""`steer`: the leaders of the limit, rather than of layer 0.

Leaders of layer 0 stay, and more may emerge, so "these tokens lead at the limit and no others" is a question about the
whole run, for which no programme is known. It is a search: from what the programme of layer 0 gives, small changes of A
are kept where the limit is no farther from what is asked. What is returned is verified by `limit`, so the answer is
exact where there is one; where there is none, nothing is said about existence.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from hardmax._arrays import unit_rows
from hardmax._display import count
from hardmax._types import FloatArray
from hardmax._validation import check_alpha, check_count
from hardmax.control.choose import check_condition
from hardmax.control.exclusive import alternate
from hardmax.control.programme import Programme, within_condition
from hardmax.control.request import Request, check_request
from hardmax.control.result import ControlResult
from hardmax.limit import Limit, limit
from hardmax.rules.hardmax import Hardmax

SMALLEST, LARGEST = 0.02, 1.0  # sizes of a change, drawn evenly in the logarithm
OTHER_STEP = 0.2  # part of the changes that also draw another alpha, where there are several
CHOICES, RANDOM = 12, 8  # starts: choices of whom the others follow, and matrices at random
STALLED = 60  # changes without a gain after which the search begins elsewhere
MOST_LAYERS = 300


@dataclass(frozen=True, eq=False)
class Trial:
    """An A with a step, its limit, and how far that is from the request: tokens that are wrong, then by how much."""

    A: FloatArray
    alpha: float
    limit: Limit
    cost: tuple[int, float]


class Evaluator:
    """Computes limits, and counts them."""

    def __init__(self, request: Request, most: int, progress: Callable[[int, int], None] | None) -> None:
        self.request, self.most, self.done, self._progress = request, most, 0, progress
        self._wanted = set(request.leading.tolist())
        self._targets = [(i, int(request.classes.labels[t])) for i, t in request.followers.items()]

    @property
    def left(self) -> int:
        return self.most - self.done

    def __call__(self, A: FloatArray, alpha: float) -> Trial:
        found = limit(self.request.given, Hardmax(alpha, A), max_layers=MOST_LAYERS)
        self.done += 1
        if self._progress:
            self._progress(self.done, self.most)
        lead = self.request.classes.labels[found.leaders].tolist()  # classes
        missing, surplus = self._wanted.difference(lead), set(lead) - self._wanted
        limits = [lead[c] if 0 <= c < len(lead) else -1 for c in found.clusters.tolist()]
        astray = sum(limits[i] != t for i, t in self._targets)
        wrong = len(missing) + len(surplus) + astray + (not found.certified)
        return Trial(A, alpha, found, (wrong, self._shortfall(A, missing, surplus)))

    def _shortfall(self, A: FloatArray, missing: set[int], surplus: set[int]) -> float:
        """Scaled gaps at layer 0 that have the wrong sign: a slope where the count of wrong tokens is flat."""
        each = np.array([*missing, *surplus], np.intp)
        if not len(each) or len(self.request.tokens) == 1:
            return 0.0
        z = unit_rows(self.request.tokens[each])
        products = z @ A @ self.request.tokens.T  # (wrong, n)
        own = products[np.arange(len(each)), each].copy()
        products[np.arange(len(each)), each] = -np.inf
        ahead = (own - products.max(axis=1)) / np.abs(self.request.tokens[each]).max(axis=1)
        signs = np.r_[-np.ones(len(missing)), np.ones(len(surplus))]
        return float(np.maximum(signs * ahead, 0.0).sum())


def steer(
    tokens: Any,
    *,
    leaders: Any,
    followers: Mapping[int, int] | None = None,
    alpha: Any = 0.5,
    evaluations: int = 500,
    condition: float = 1e4,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> ControlResult:
    """Search an A, and a step alpha, for which exactly these tokens lead at the limit.

    Parameters
    ----------
    tokens : (n, d) array
    leaders : sequence of int
        The leaders of the limit, all of them. They may emerge at any layer.
    followers : dict, optional
        Which token shall end at which leader.
    alpha : number or sequence of numbers
        The step, or several to choose from.
    evaluations : int
        How many limits to compute at most.
    condition : float
        Largest eigenvalue of A over the smallest, at most.
    seed : int
        Of the changes that are tried.
    progress : callable, optional
        Called with (limits computed, limits at most).

    Returns
    -------
    ControlResult
        `found` is True only where `hm.limit` certifies it, with `alpha` the step that goes with A.

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
    Four tokens around 0, of which only the third shall lead in the end:

    >>> import hardmax as hm
    >>> tokens = [[-1.0, 10.0], [-0.5, -5.0], [100.0, 30.0], [50.0, -20.0]]
    >>> hm.control.choose_A(tokens, leaders=[2], only=True).found
    False
    >>> hm.control.steer(tokens, leaders=[2])
    Found: token 2 leads at the limit, and no others, with alpha = 0.5. Certified at layer 1 after 1 limit.
    """
    request = check_request(tokens, leaders, followers)
    # Unlike a rule's, a sequence of steps is a choice and not one a layer.
    steps, condition = [float(step) for step in check_alpha(alpha)], check_condition(condition)
    evaluate = Evaluator(request, check_count(evaluations, "evaluations", least=1), progress)
    rng = np.random.default_rng(check_count(seed, "seed", least=0))
    trials: list[Trial] = []
    for A in _starting_matrices(request, condition, rng):
        trials += [evaluate(A, step) for step in steps[: evaluate.left]]
        if min(trial.cost[0] for trial in trials) == 0 or not evaluate.left:
            break
    trials.sort(key=lambda trial: trial.cost)
    best = trials[0]
    while best.cost[0] and evaluate.left:
        if not trials:
            trials = [evaluate(_random_matrix(len(best.A), condition, rng), steps[rng.integers(len(steps))])]
        best = min(best, _descend(evaluate, trials.pop(0), steps, condition, rng), key=lambda trial: trial.cost)
    return _answer(request, best, evaluate.done)


def _starting_matrices(request: Request, condition: float, rng: np.random.Generator) -> Iterator[FloatArray]:
    """What the programme of layer 0 says, for the leaders alone and with targets for all; the identity; random ones."""
    d = request.tokens.shape[1]
    programme = Programme(condition)
    yield np.eye(d)
    first = programme.largest_margin(request.demands()).A
    if first is not None:
        yield first
        for _, solved in islice(alternate(request, programme, first, CHOICES, int(rng.integers(1 << 30))), CHOICES):
            if solved.A is not None:
                yield solved.A
    for _ in range(RANDOM):
        yield _random_matrix(d, condition, rng)


def _random_matrix(d: int, condition: float, rng: np.random.Generator) -> FloatArray:
    B = rng.normal(size=(d, d))
    return within_condition(B @ B.T, condition)


def _descend(
    evaluate: Evaluator, trial: Trial, steps: list[float], condition: float, rng: np.random.Generator
) -> Trial:
    """Keep changes that do not make it worse, until it is right or nothing helps."""
    stalled = 0
    while trial.cost[0] and stalled < STALLED and evaluate.left:
        other = len(steps) > 1 and rng.random() < OTHER_STEP
        alpha = steps[rng.integers(len(steps))] if other else trial.alpha
        new = evaluate(_perturbed(trial.A, evaluate.request, condition, rng), alpha)
        stalled = 0 if new.cost < trial.cost else stalled + 1
        trial = new if new.cost <= trial.cost else trial
    return trial


def _perturbed(A: FloatArray, request: Request, condition: float, rng: np.random.Generator) -> FloatArray:
    """A turned and stretched a little: all of it, or along a combination of a few tokens."""
    d = len(A)
    size = SMALLEST * (LARGEST / SMALLEST) ** rng.random()
    if rng.random() < 0.5:
        M = np.eye(d) + size * rng.normal(size=(d, d)) / np.sqrt(d)
        return within_condition(M @ A @ M.T, condition)
    p = rng.normal(size=3) @ request.tokens[rng.integers(len(request.tokens), size=3)]
    p = p / (np.linalg.norm(p) or 1.0)
    stretch = size * d * rng.choice([-0.5, 1.0])
    return within_condition(A + stretch * np.outer(p, p), condition)


def _answer(request: Request, best: Trial, done: int) -> ControlResult:
    words, found, limits = request.words(True, at=" at the limit"), best.cost[0] == 0, count(done, "limit")
    if found:
        status = f"Found: {words}, with alpha = {best.alpha:g}. Certified at layer {best.limit.layer} after {limits}."
    else:
        status = (
            f"Not found in {limits}: {words}. The closest had {count(len(best.limit.leaders), 'leader')}, and "
            f"{count(best.cost[0], 'token')} wrong; that is no proof. Raise `evaluations`, or pass several values of "
            "`alpha`."
        )
    stats = {"limits": done, "layer": best.limit.layer, "wrong": best.cost[0]}
    about = {"margin": request.demands().margin(best.A), "only": True, "alpha": best.alpha, "stats": stats}
    return request.result(A=best.A if found else None, found=found, status=status, **about)
