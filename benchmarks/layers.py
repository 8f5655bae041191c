"""Many layers of the engine against the definition in plain Python."""

from collections.abc import Callable
from functools import partial
from typing import Any

import hardmax as hm
from benchmarks.agreement import choice
from benchmarks.definition import triple_loop
from benchmarks.registry import Answer, Case, Method, equal, size
from hardmax._types import FloatArray
from hardmax.exact.run import Run
from hardmax.search.sets import Sets
from hardmax.trajectories.hardmax import HardmaxTrajectory

Make = Callable[[], FloatArray]
WHY = "chooses other sets than the definition"


def history(layers: list[list[list[int]]]) -> Answer:
    """The sets of all layers, one after the other."""
    sets = Sets.of([row for layer in layers for row in layer])
    return choice(sets.starts, sets.members)


def trajectory_history(trajectory: HardmaxTrajectory) -> Answer:
    """The sets of all layers of a run."""
    return history([[members.tolist() for members in trajectory.sets(int(k))] for k in trajectory.saved])


def _simulate(make: Make, rule: hm.Hardmax, layers: int, name: str = "simulate") -> Method:
    def prepare() -> Callable[[], Any]:
        tokens = make()
        return lambda: hm.simulate(tokens, rule, layers=layers)

    return Method(name, prepare, trajectory_history, facts=lambda run: {"kernel": run.stats["kernel"]})


def _triple(make: Make, alpha: float, layers: int) -> Method:
    def prepare() -> Callable[[], Any]:
        tokens = make().tolist()
        return lambda: triple_loop(tokens, alpha, layers)

    return Method("triple loop in Python", prepare, history)


def _without_shortcuts(make: Make, alpha: float, layers: int) -> Method:
    """The same layers as if no token were ever decided: what the shortcut of Theorem 1 is worth."""

    def run(tokens: FloatArray) -> list[list[list[int]]]:
        engine = Run(hm.Hardmax(alpha), tokens, shortcuts=False)
        place = engine.classes.first  # all tokens are distinct: class c is token place[c]
        found = []
        for _ in range(layers + 1):
            sets = [[0]] * len(tokens)
            for c, target in zip(place.tolist(), place[engine.choose().targets].tolist(), strict=True):
                sets[c] = [target]
            found.append(sets)
            engine.advance()
        return found

    return Method("every token asked at every layer", lambda: partial(run, make()), history)


def _case(name: str, title: str, kind: str, n: int, d: int, alpha: float, layers: int, *more: str) -> Case:
    """`simulate` against the triple loop."""

    def methods(quick: bool) -> list[Method]:
        make = partial(hm.configuration, kind, n=size(n, quick), d=d)
        found = [_simulate(make, hm.Hardmax(alpha), layers), _triple(make, alpha, layers)]
        if "shortcuts" in more:
            found.append(_without_shortcuts(make, alpha, layers))
        if "exact" in more:
            found.append(_simulate(make, hm.Hardmax(alpha, exact=True), layers, "simulate, exact=True"))
        return found

    return Case(name, f"{title}, n = {n}, d = {d}, {layers} layers, alpha = {alpha}", methods, equal, WHY)


CASES = [
    _case("gaussian", "Gaussian tokens, all decided at layer 3", "gaussian", 1000, 2, 0.5, 30, "shortcuts"),
    _case("slow_ball", "Tokens in a ball, decided slowly", "ball", 1000, 2, 0.02, 30),
    _case("all_leaders", "Gaussian tokens, every token leads", "gaussian", 1000, 64, 0.5, 10),
    _case("rational", "Gaussian tokens, and in rational arithmetic", "gaussian", 200, 8, 0.5, 10, "exact"),
]
