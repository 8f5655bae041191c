"""`steer`: the leaders of the limit, rather than of layer 0.

Leaders of layer 0 stay, and more may emerge, so "these tokens lead at the limit and no others" is a question about the
whole run, for which no programme is known. It is a search: from what the programme of layer 0 gives, small changes of A
are kept where the limit is no farther from the wish. What is returned is verified by `limit`, so the answer is exact
where there is one; where there is none, nothing is said about existence.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from hardmax import _checks
from hardmax._types import FloatArray
from hardmax.control.choose import check_condition
from hardmax.control.demands import units
from hardmax.control.exclusive import alternate
from hardmax.control.programme import Programme, within_condition
from hardmax.control.request import Wish, check_wish
from hardmax.control.result import ControlResult, asked
from hardmax.limits import Limit, limit
from hardmax.rules.hardmax import Hardmax

SMALLEST, LARGEST = 0.02, 1.0  # sizes of a change, drawn evenly in the logarithm
OTHER_STEP = 0.2  # part of the changes that also draw another alpha, where there are several
CHOICES, RANDOM = 12, 8  # starts: choices of whom the others follow, and matrices at random
STALLED = 60  # changes without a gain after which the search begins elsewhere
MOST_LAYERS = 300


@dataclass(frozen=True, eq=False)
class Trial:
    """An A with a step, its limit, and how far that is from the wish: how many tokens are wrong, then by how much."""

    A: FloatArray
    alpha: float
    limit: Limit
    cost: tuple[int, float]


class Judge:
    """Computes limits, and counts them."""

    def __init__(self, wish: Wish, most: int, progress: Callable[[int, int], None] | None) -> None:
        self.wish, self.most, self.done = wish, most, 0
        self._progress = progress
        labels = wish.classes.labels
        self._wanted = set(wish.leading.tolist())
        self._ends = [(i, int(labels[t])) for i, t in wish.followers.items()]

    @property
    def left(self) -> int:
        """How many limits may still be computed."""
        return self.most - self.done

    def __call__(self, A: FloatArray, alpha: float) -> Trial:
        """How good an A is."""
        found = limit(self.wish.given, Hardmax(alpha, A), max_layers=MOST_LAYERS)
        self.done += 1
        if self._progress is not None:
            self._progress(self.done, self.most)
        lead = self.wish.classes.labels[found.leaders]  # (leaders,) classes
        missing, surplus = self._wanted.difference(lead.tolist()), set(lead.tolist()) - self._wanted
        ends = [lead[c] if 0 <= c < len(lead) else -1 for c in found.clusters.tolist()]
        astray = sum(ends[i] != t for i, t in self._ends)
        wrong = len(missing) + len(surplus) + astray + (not found.certified)
        return Trial(A, alpha, found, (wrong, self._by_how_much(A, missing, surplus)))

    def _by_how_much(self, A: FloatArray, missing: set[int], surplus: set[int]) -> float:
        """Scaled gaps at layer 0 that have the wrong sign: a slope where the count of wrong tokens is flat."""
        each = np.array([*missing, *surplus], np.intp)
        if not len(each) or len(self.wish.rows) == 1:
            return 0.0
        z = units(self.wish.rows[each])
        products = z @ A @ self.wish.rows.T  # (wrong, n)
        own = products[np.arange(len(each)), each].copy()
        products[np.arange(len(each)), each] = -np.inf
        ahead = (own - products.max(axis=1)) / np.abs(self.wish.rows[each]).max(axis=1)
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
    wish = check_wish(tokens, leaders, followers)
    steps, condition = _check_steps(alpha), check_condition(condition)
    judge = Judge(wish, _checks.check_count(evaluations, "evaluations", least=1), progress)
    rng = np.random.default_rng(_checks.check_count(seed, "seed", least=0))
    trials: list[Trial] = []
    for A in _starts(wish, condition, rng):
        trials += [judge(A, step) for step in steps[: judge.left]]
        if min(trial.cost[0] for trial in trials) == 0 or not judge.left:
            break
    trials.sort(key=lambda trial: trial.cost)
    best = trials[0]
    while best.cost[0] and judge.left:
        start = trials.pop(0) if trials else judge(_random(len(best.A), condition, rng), _any(steps, rng))
        best = min(best, _descend(judge, start, steps, condition, rng), key=lambda trial: trial.cost)
    return _answer(wish, best, judge)


def _starts(wish: Wish, condition: float, rng: np.random.Generator) -> Iterator[FloatArray]:
    """What the programme of layer 0 says, for the leaders alone and with targets for all; the identity; random ones."""
    d = wish.rows.shape[1]
    programme = Programme(condition)
    yield np.eye(d)
    first = programme.largest_margin(wish.demands()).A
    if first is not None:
        yield first
        for _, solved in islice(alternate(wish, programme, first, CHOICES, int(rng.integers(1 << 30))), CHOICES):
            if solved.A is not None:
                yield solved.A
    for _ in range(RANDOM):
        yield _random(d, condition, rng)


def _random(d: int, condition: float, rng: np.random.Generator) -> FloatArray:
    B = rng.normal(size=(d, d))
    return within_condition(B @ B.T, condition)


def _any(steps: list[float], rng: np.random.Generator) -> float:
    return steps[int(rng.integers(len(steps)))]


def _descend(judge: Judge, trial: Trial, steps: list[float], condition: float, rng: np.random.Generator) -> Trial:
    """Keep changes that do not make it worse, until it is right or nothing helps."""
    stalled = 0
    while trial.cost[0] and stalled < STALLED and judge.left:
        other = len(steps) > 1 and rng.random() < OTHER_STEP
        alpha = _any(steps, rng) if other else trial.alpha
        new = judge(_change(trial.A, judge.wish, condition, rng), alpha)
        stalled = 0 if new.cost < trial.cost else stalled + 1
        trial = new if new.cost <= trial.cost else trial
    return trial


def _change(A: FloatArray, wish: Wish, condition: float, rng: np.random.Generator) -> FloatArray:
    """A turned and stretched a little: all of it, or along a combination of a few tokens."""
    d = len(A)
    size = SMALLEST * (LARGEST / SMALLEST) ** rng.random()
    if rng.random() < 0.5:
        M = np.eye(d) + size * rng.normal(size=(d, d)) / np.sqrt(d)
        return within_condition(M @ A @ M.T, condition)
    p = rng.normal(size=3) @ wish.rows[rng.integers(len(wish.rows), size=3)]
    p = p / (np.linalg.norm(p) or 1.0)
    stretch = size * d * rng.choice([-0.5, 1.0])
    return within_condition(A + stretch * np.outer(p, p), condition)


def _answer(wish: Wish, best: Trial, judge: Judge) -> ControlResult:
    words = asked(wish.leaders, wish.followers, True, at=" at the limit")
    count = _many(judge.done, "limit")
    found = best.cost[0] == 0
    if found:
        status = f"Found: {words}, with alpha = {best.alpha:g}. Certified at layer {best.limit.layer} after {count}."
    else:
        status = (
            f"Not found in {count}: {words}. The closest had {_many(len(best.limit.leaders), 'leader')}, and "
            f"{_many(best.cost[0], 'token')} wrong; that is no proof. Raise `evaluations`, or pass several values of "
            "`alpha`."
        )
    gaps, _ = wish.demands().tightest(best.A, 1, 1)
    return ControlResult(
        A=best.A if found else None,
        found=found,
        margin=float(gaps[0]) if len(gaps) else np.inf,
        proved=False,
        status=status,
        leaders=wish.leaders,
        followers=wish.followers,
        only=True,
        tokens=wish.given,
        alpha=best.alpha,
        stats={"limits": judge.done, "layer": best.limit.layer, "wrong": best.cost[0]},
    )


def _many(number: int, thing: str) -> str:
    return f"{number} {thing}{'' if number == 1 else 's'}"


def _check_steps(alpha: Any) -> list[float]:
    """The values of alpha to choose from; unlike a rule's, a sequence is a choice and not one value a layer."""
    return [float(step) for step in _checks.check_alpha(alpha)]
