"""The NumPy engine against the definition."""

import hardmax as hm
from benchmarks.definition import triple_loop
from benchmarks.registry import Peer, benchmark
from hardmax._types import FloatArray


def _sets(trajectory: hm.Trajectory) -> list[list[list[int]]]:
    return [[members.tolist() for members in trajectory.sets(int(k))] for k in trajectory.saved]


def _peers(tokens: FloatArray, alpha: float, layers: int, exact: bool = False) -> list[Peer]:
    rules = {"simulate": hm.Hardmax(alpha)}
    if exact:
        rules["simulate, exact=True"] = hm.Hardmax(alpha, exact=True)
    loop = Peer("triple loop", lambda: triple_loop(tokens.tolist(), alpha, layers), list, 1)
    ours = [
        Peer(name, lambda rule=rule: hm.simulate(tokens, rule, layers=layers), _sets, 3 if rule.exact else 20)
        for name, rule in rules.items()
    ]
    return [loop, *ours]


def _without_shortcuts(tokens: FloatArray) -> list[list[list[int]]]:
    """The same 30 layers as if no token were ever decided: what the shortcut of Theorem 1 is worth."""
    run = hm.Hardmax(0.5).start(tokens, shortcuts=False)
    place = run.classes.first  # all tokens are distinct: class c is token place[c]
    history = []
    for _ in range(31):
        chosen = place[run.choose().targets]
        sets = [[0]] * len(tokens)
        for c, target in zip(place.tolist(), chosen.tolist(), strict=True):
            sets[c] = [target]
        history.append(sets)
        run.advance()
    return history


@benchmark("Gaussian tokens, n = 1000, d = 2, 30 layers, alpha = 0.5: all decided at layer 3")
def gaussian() -> list[Peer]:
    tokens = hm.configuration("gaussian", n=1000, d=2)
    return [
        *_peers(tokens, 0.5, 30),
        Peer("every token asked at every layer", lambda: _without_shortcuts(tokens), list, 5),
    ]


@benchmark("Ball, n = 1000, d = 2, 30 layers, alpha = 0.02: decided slowly")
def slow_ball() -> list[Peer]:
    return _peers(hm.configuration("ball", n=1000, d=2), 0.02, 30)


@benchmark("Gaussian tokens, n = 1000, d = 64, 10 layers, alpha = 0.5: every token leads")
def all_leaders() -> list[Peer]:
    return _peers(hm.configuration("gaussian", n=1000, d=64), 0.5, 10)


@benchmark("Gaussian tokens, n = 200, d = 8, 10 layers, alpha = 0.5, and in rational arithmetic")
def rational() -> list[Peer]:
    return _peers(hm.configuration("gaussian", n=200, d=8), 0.5, 10, exact=True)
