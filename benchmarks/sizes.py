"""How large: seconds of each rule against n, and of the same formula written with NumPy and SciPy, where that ends."""

from collections.abc import Callable
from dataclasses import dataclass
from time import process_time
from typing import Any

import numpy as np
from scipy.integrate import solve_ivp
from scipy.special import softmax

import hardmax as hm
from benchmarks.memory import with_peak
from benchmarks.results import number
from hardmax._types import FloatArray

BEGIN = "<!-- made by python -m benchmarks sizes -->"
LAYERS, TIME, TOLERANCES = 10, 5.0, {"rtol": 1e-8, "atol": 1e-13}
AGREE = 1e-5  # of the largest coordinate: what both error controls promise together, and more
Run = Callable[[FloatArray], Any]


@dataclass(frozen=True)
class Size:
    """A question, in words and as calls of ours and of a peer, and how many tokens it is asked for."""

    words: str
    d: int
    sizes: tuple[int, ...]
    ours: Run
    peer: Run | None = None  # None where nothing else answers it
    peer_up_to: int = 1000  # beyond, it takes minutes
    on_sphere: bool = False

    def tokens(self, n: int) -> FloatArray:
        return hm.configuration("sphere" if self.on_sphere else "gaussian", n=n, d=self.d)


def hardmax_layers(tokens: FloatArray) -> FloatArray:
    """The formula in floats, which knows no ties."""
    for _ in range(LAYERS):
        tokens = (tokens + 0.5 * tokens[(tokens @ tokens.T).argmax(axis=1)]) / 1.5
    return tokens


def softmax_layers(tokens: FloatArray) -> FloatArray:
    for _ in range(LAYERS):
        tokens = (tokens + 0.5 * softmax(tokens @ tokens.T, axis=1) @ tokens) / 1.5
    return tokens


def _integrated(tokens: FloatArray, velocity: Callable[[FloatArray], FloatArray]) -> FloatArray:
    def flat(t: float, state: FloatArray) -> FloatArray:
        return velocity(state.reshape(tokens.shape)).ravel()

    found = solve_ivp(flat, (0, TIME), tokens.ravel(), method="DOP853", t_eval=[TIME], **TOLERANCES)
    return np.asarray(found.y[:, -1].reshape(tokens.shape))


def self_attention(tokens: FloatArray) -> FloatArray:
    return _integrated(tokens, lambda x: softmax(x @ x.T, axis=1) @ x)


def sphere(tokens: FloatArray) -> FloatArray:
    def velocity(x: FloatArray) -> FloatArray:
        pull = softmax(9 * x @ x.T, axis=1) @ x
        return np.asarray(pull - (x * pull).sum(axis=1, keepdims=True) * x)

    return _integrated(tokens, velocity)


def _simulated(rule: Any, **options: Any) -> Run:
    return lambda tokens: hm.simulate(tokens, rule, save="last", **options).tokens[-1]


SIZES = [
    Size("`Hardmax`, `limit` with its proof, d = 2", 2, (10_000, 1_000_000), lambda x: hm.limit(x, hm.Hardmax(0.5))),
    Size("`Hardmax`, `limit` with its proof, d = 16", 16, (1000, 10_000), lambda x: hm.limit(x, hm.Hardmax(0.5))),
    Size(
        "`Hardmax`, 10 layers, d = 3",
        *(3, (1000, 10_000, 100_000)),
        *(_simulated(hm.Hardmax(0.5), layers=LAYERS), hardmax_layers, 10_000),
    ),
    Size(
        "`Softmax`, 10 layers, d = 3",
        *(3, (1000, 10_000)),
        *(_simulated(hm.Softmax(0.5), layers=LAYERS), softmax_layers, 10_000),
    ),
    Size(
        "`SelfAttention`, t = 5, d = 2",
        *(2, (300, 1000, 3000)),
        *(_simulated(hm.SelfAttention(), times=TIME), self_attention),
    ),
    Size(
        "`Sphere`, beta = 9, t = 5, d = 3",
        *(3, (300, 1000, 3000)),
        *(_simulated(hm.Sphere(9.0), times=TIME), sphere),
        on_sphere=True,
    ),
]


def measure(quick: bool, progress: Callable[[str], None] | None = None) -> dict[str, Any]:
    """Seconds of processor time, all threads together, of one run each; that is what does not depend on other work."""
    rows = []
    for size in SIZES:
        size.ours(size.tokens(20))  # loads what it needs
        for n in (20,) if quick else size.sizes:
            if progress is not None:
                progress(f"sizes: {size.words}, n = {n:,}")
            rows.append({"what": size.words, "n": n} | _row(size, n))
    return {"rows": rows}


def _row(size: Size, n: int) -> dict[str, float | str]:
    tokens = size.tokens(n)
    ours, answer, peak = _timed(size.ours, tokens)
    if size.peer is None or n > size.peer_up_to:
        return {"seconds": ours, "formula": "", "times as fast": "", "MB": peak, "formula MB": ""}
    theirs, other, more = _timed(size.peer, tokens)
    agree = np.abs(answer - other).max() <= AGREE * np.abs(other).max()
    times = theirs / ours if agree else "answers differ"
    return {"seconds": ours, "formula": theirs, "times as fast": times, "MB": peak, "formula MB": more}


def _timed(run: Run, tokens: FloatArray) -> tuple[float, Any, float | str]:
    """Seconds, what was found, and by how many MB the process was larger at its peak."""
    start = process_time()
    found, peak = with_peak(lambda: run(tokens))
    return process_time() - start, found, "" if peak is None else peak


def markdown(values: dict[str, Any]) -> str:
    """The rows as a table for docs/speed.md."""
    more = list(values["rows"][0])[5:]  # memory, which files of before do not have
    head = ["rule and call", "n", "seconds", "the formula", "times as fast", *more]
    lines = [f"| {' | '.join(head)} |", f"|---|{'---:|' * (len(head) - 1)}"]
    for row in values["rows"]:
        cells = [number(x) if isinstance(x, float) else x for x in list(row.values())[2:]]
        lines.append(f"| {row['what']} | {row['n']:,} | {' | '.join(cells)} |")
    facts = {key: values["machine"][key] for key in ("processor", "cores", "numpy", "scipy")}
    return "\n".join([*lines, "", ", ".join(f"{key} {value}" for key, value in facts.items())])
