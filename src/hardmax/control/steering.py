"""`steer`: choose the leaders of the limit, rather than of layer 0.

This is a search, as no programme for all layers is known: start from the A of the
programme of layer 0, and keep small changes of A if the limit is no farther from the
request. If nothing is found, nothing is known about existence.
"""

from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from hardmax._arrays import unit_rows
from hardmax._display import count
from hardmax._limit import limit
from hardmax._types import FloatArray
from hardmax._validation import MAX_FLOAT, check_alpha, check_count, check_progress
from hardmax.control.choose import alternate, check_condition
from hardmax.control.programme import Programme, clip_condition
from hardmax.control.request import ControlResult, Request, check_request
from hardmax.rules.hardmax import Hardmax
from hardmax.trajectories.limit import Limit

MIN_CHANGE, MAX_CHANGE = (
    0.02,
    1.0,
)  # relative sizes of a change, drawn uniformly in the logarithm
OTHER_ALPHA = 0.2  # probability that a change draws another alpha, if there are several
ASSIGNED_STARTS, RANDOM_STARTS = (
    12,
    8,
)  # from targets of the other tokens, and random matrices
MAX_STALLED = 60  # changes without a gain after which the search restarts elsewhere
MAX_LAYERS = 300


class Trial(NamedTuple):
    """An A with a step size, its limit, and its cost: the number of wrong tokens, then
    their wrong gaps.
    """

    A: FloatArray
    alpha: float
    limit: Limit
    cost: tuple[int, float]


class Evaluator:
    """A function from A and alpha to a `Trial`, at most `most` times."""

    def __init__(
        self, request: Request, most: int, progress: Callable[[int, int], None] | None
    ) -> None:
        self.request, self.most, self.left, self._progress = (
            request,
            most,
            most,
            progress,
        )
        self._leading = set(request.leading.tolist())
        self._targets = [
            (i, int(request.classes.labels[t])) for i, t in request.followers.items()
        ]

    def __call__(self, A: FloatArray, alpha: float) -> Trial:
        found = limit(self.request.given, Hardmax(alpha, A), max_layers=MAX_LAYERS)
        self.left -= 1
        if self._progress:
            self._progress(self.most - self.left, self.most)
        lead = self.request.classes.labels[found.leaders].tolist()  # classes
        missing, surplus = self._leading.difference(lead), set(lead) - self._leading
        limits = [
            lead[c] if 0 <= c < len(lead) else -1 for c in found.clusters.tolist()
        ]
        astray = sum(limits[i] != t for i, t in self._targets)
        wrong = len(missing) + len(surplus) + astray + (not found.certified)
        return Trial(
            A, alpha, found, (wrong, self._sum_wrong_gaps(A, missing, surplus))
        )

    def _sum_wrong_gaps(
        self, A: FloatArray, missing: set[int], surplus: set[int]
    ) -> float:
        """Sum the scaled gaps at layer 0 with the wrong sign: a slope where the number
        of wrong tokens is constant.
        """
        each = np.array([*missing, *surplus], np.intp)
        if not len(each) or len(self.request.tokens) == 1:
            return 0.0
        z = unit_rows(self.request.tokens[each])
        products = z @ A @ self.request.tokens.T  # (wrong, n)
        own = products[np.arange(len(each)), each].copy()
        products[np.arange(len(each)), each] = -np.inf
        sizes = np.abs(self.request.tokens[each]).max(axis=1)
        with np.errstate(over="ignore"):  # of tiny tokens
            ahead = (own - products.max(axis=1)) / sizes
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
    """Search for an A, and a step size alpha, for which exactly these tokens lead at
    the limit.

    Parameters
    ----------
    tokens : (n, d) array
    leaders : sequence of int
        The leaders of the limit, all of them. They may emerge at any layer.
    followers : dict, optional
        Each follower with the leader at which it shall end.
    alpha : number or sequence of numbers
        The step size, or several to choose from.
    evaluations : int
        Maximum number of limits to compute.
    condition : float
        Bound on the largest eigenvalue of A over the smallest.
    seed : int
        Seed of the random changes.
    progress : callable, optional
        Called with (limits computed, `evaluations`).

    Returns
    -------
    ControlResult
        `found` is True only if `hm.limit` certifies it, with `alpha` the step size that
        belongs to A.

    Examples
    --------
    Four tokens around 0, of which only the third shall lead at the limit:

    >>> import hardmax as hm
    >>> tokens = [[-1.0, 10.0], [-0.5, -5.0], [100.0, 30.0], [50.0, -20.0]]
    >>> hm.control.choose_A(tokens, leaders=[2], only=True).found
    False
    >>> hm.control.steer(tokens, leaders=[2])
    Found: token 2 leads at the limit, and no others, with alpha = 0.5. Certified at layer 1 after 1 limit.
    """
    request = check_request(tokens, leaders, followers)
    check_progress(progress)
    # For a rule a sequence is one step size per layer; here it is a choice.
    alphas = [float(step) for step in check_alpha(alpha, most=MAX_FLOAT)]
    condition = check_condition(condition)
    evaluate = Evaluator(
        request, check_count(evaluations, "evaluations", least=1), progress
    )
    rng = np.random.default_rng(check_count(seed, "seed", least=0))
    trials: list[Trial] = []
    for A in _initial_matrices(request, condition, rng):
        trials += [evaluate(A, step) for step in alphas[: evaluate.left]]
        if min(trial.cost[0] for trial in trials) == 0 or not evaluate.left:
            break
    trials.sort(key=lambda trial: trial.cost)
    best = trials[0]
    while best.cost[0] and evaluate.left:
        if not trials:
            trials = [
                evaluate(
                    _random_matrix(len(best.A), condition, rng),
                    alphas[rng.integers(len(alphas))],
                )
            ]
        best = min(
            best,
            _descend(evaluate, trials.pop(0), alphas, condition, rng),
            key=lambda trial: trial.cost,
        )
    done = evaluate.most - evaluate.left
    words, found, limits = (
        request.describe(True, at=" at the limit"),
        best.cost[0] == 0,
        count(done, "limit"),
    )
    status = (
        f"Found: {words}, with alpha = {best.alpha:g}. Certified at layer"
        f" {best.limit.layer} after {limits}."
    )
    if not found:
        status = (
            f"Not found in {limits}: {words}. The closest had"
            f" {count(len(best.limit.leaders), 'leader')}, and"
            f" {count(best.cost[0], 'token')} wrong; that is no proof. Raise"
            " `evaluations`, or pass several values of `alpha`."
        )
    stats = {"limits": done, "layer": best.limit.layer, "wrong": best.cost[0]}
    about = {
        "margin": request.demands().margin(best.A),
        "only": True,
        "alpha": best.alpha,
        "stats": stats,
    }
    return request.answer(
        A=best.A if found else None, found=found, status=status, **about
    )


def _initial_matrices(
    request: Request, condition: float, rng: np.random.Generator
) -> Iterator[FloatArray]:
    """Yield the identity, the A of the programme of layer 0 for the leaders alone and
    with targets, random ones.
    """
    d, programme = request.tokens.shape[1], Programme(condition)
    yield np.eye(d)
    first = programme.find_A(request.demands()).A
    if first is not None:
        yield first
        assigned = alternate(
            request, programme, first, ASSIGNED_STARTS, int(rng.integers(1 << 30))
        )
        yield from (
            solved.A
            for _, solved in islice(assigned, ASSIGNED_STARTS)
            if solved.A is not None
        )
    for _ in range(RANDOM_STARTS):
        yield _random_matrix(d, condition, rng)


def _random_matrix(d: int, condition: float, rng: np.random.Generator) -> FloatArray:
    B = rng.normal(size=(d, d))
    return clip_condition(B @ B.T, condition)


def _descend(
    evaluate: Evaluator,
    trial: Trial,
    alphas: list[float],
    condition: float,
    rng: np.random.Generator,
) -> Trial:
    """Keep changes that do not raise the cost, until it is 0 or nothing helps."""
    tokens, d, stalled = evaluate.request.tokens, len(trial.A), 0
    while trial.cost[0] and stalled < MAX_STALLED and evaluate.left:
        other = len(alphas) > 1 and rng.random() < OTHER_ALPHA
        alpha = alphas[rng.integers(len(alphas))] if other else trial.alpha
        size = MIN_CHANGE * (MAX_CHANGE / MIN_CHANGE) ** rng.random()
        if (
            rng.random() < 0.5
            # rotate and stretch A a little: all of it, or along a combination of a few
            # tokens
        ):
            M = np.eye(d) + size * rng.normal(size=(d, d)) / np.sqrt(d)
            A = M @ trial.A @ M.T
        else:
            p = rng.normal(size=3) @ tokens[rng.integers(len(tokens), size=3)]
            p = p / (np.linalg.norm(p) or 1.0)
            A = trial.A + size * d * rng.choice([-0.5, 1.0]) * np.outer(p, p)
        new = evaluate(clip_condition(A, condition), alpha)
        stalled = 0 if new.cost < trial.cost else stalled + 1
        trial = new if new.cost <= trial.cost else trial
    return trial
