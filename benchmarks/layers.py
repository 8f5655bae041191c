"""The NumPy engine against the definition."""

import hardmax as hm
from benchmarks.definition import triple_loop
from benchmarks.registry import Peer, benchmark


def _sets(trajectory: hm.Trajectory) -> list[list[list[int]]]:
    return [[members.tolist() for members in trajectory.sets(int(k))] for k in trajectory.saved]


def _peers(n: int, d: int, layers: int, **rules: hm.Hardmax) -> list[Peer]:
    tokens = hm.configuration("gaussian", n=n, d=d)
    loop = Peer("triple loop", lambda: triple_loop(tokens.tolist(), 0.5, layers), list, 1)
    ours = [
        Peer(name, lambda rule=rule: hm.simulate(tokens, rule, layers=layers), _sets, 3 if rule.exact else 20)
        for name, rule in rules.items()
    ]
    return [loop, *ours]


@benchmark("Gaussian tokens, n = 1000, d = 2, 30 layers, alpha = 1/2")
def thousand_tokens() -> list[Peer]:
    return _peers(1000, 2, 30, simulate=hm.Hardmax(0.5))


@benchmark("Gaussian tokens, n = 200, d = 8, 10 layers, alpha = 1/2")
def rational() -> list[Peer]:
    return _peers(200, 8, 10, simulate=hm.Hardmax(0.5), exact=hm.Hardmax(0.5, exact=True))
