"""Every rule against n: processor seconds and memory, and those of the same formula
written with NumPy and SciPy.
"""

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from benchmarks import report
from benchmarks.machine import with_peak
from benchmarks.registry import Progress
from scipy.integrate import solve_ivp
from scipy.special import softmax

import hardmax as hm
from hardmax._types import FloatArray

LAYERS, TIME, TOLERANCES = 10, 5.0, {"rtol": 1e-8, "atol": 1e-13}
MAX_DIFFERENCE = (
    1e-5  # of the largest coordinate: more than both error controls promise together
)


def _hardmax_layers(x: FloatArray) -> FloatArray:
    for _ in range(LAYERS):
        x = (x + 0.5 * x[(x @ x.T).argmax(axis=1)]) / 1.5
    return x


def _softmax_layers(x: FloatArray) -> FloatArray:
    for _ in range(LAYERS):
        x = (x + 0.5 * softmax(x @ x.T, axis=1) @ x) / 1.5
    return x


def _attention_velocity(x: FloatArray) -> FloatArray:
    return np.asarray(softmax(x @ x.T, axis=1) @ x)


def _sphere_velocity(x: FloatArray) -> FloatArray:
    pull = softmax(9 * x @ x.T, axis=1) @ x
    return np.asarray(pull - (x * pull).sum(axis=1, keepdims=True) * x)


def _integrate(
    velocity: Callable[[FloatArray], FloatArray], tokens: FloatArray
) -> FloatArray:
    """Integrate a formula with SciPy."""

    def flat(t: float, state: FloatArray) -> FloatArray:
        return velocity(state.reshape(tokens.shape)).ravel()

    found = solve_ivp(
        flat, (0, TIME), tokens.ravel(), method="DOP853", t_eval=[TIME], **TOLERANCES
    )
    return np.asarray(found.y[:, -1].reshape(tokens.shape))


def _last_tokens(rule: Any, tokens: FloatArray, **options: Any) -> FloatArray:
    return np.asarray(hm.simulate(tokens, rule, save="last", **options).tokens[-1])


def _limit(tokens: FloatArray) -> Any:
    return hm.limit(tokens, hm.Hardmax(0.5))


# what is run, d, numbers of tokens, ours, the formula in NumPy and SciPy, and the most
# tokens the formula is run with
SIZES: list[
    tuple[str, int, tuple[int, ...], Callable[..., Any], Callable[..., Any] | None, int]
] = [
    (
        "`Hardmax`, `limit` with its proof, d = 2",
        2,
        (10_000, 1_000_000),
        _limit,
        None,
        0,
    ),
    ("`Hardmax`, `limit` with its proof, d = 16", 16, (1000, 10_000), _limit, None, 0),
    (
        *("`Hardmax`, 10 layers, d = 3", 3, (1000, 10_000, 100_000)),
        *(
            partial(_last_tokens, hm.Hardmax(0.5), layers=LAYERS),
            _hardmax_layers,
            10_000,
        ),
    ),
    (
        *("`Softmax`, 10 layers, d = 3", 3, (1000, 10_000)),
        *(
            partial(_last_tokens, hm.Softmax(0.5), layers=LAYERS),
            _softmax_layers,
            10_000,
        ),
    ),
    (
        *("`SelfAttention`, t = 5, d = 2", 2, (300, 1000, 3000)),
        *(
            partial(_last_tokens, hm.SelfAttention(), times=TIME),
            partial(_integrate, _attention_velocity),
            1000,
        ),
    ),
    (
        *("`Sphere`, beta = 9, t = 5, d = 3", 3, (300, 1000, 3000)),
        *(
            partial(_last_tokens, hm.Sphere(9.0), times=TIME),
            partial(_integrate, _sphere_velocity),
            1000,
        ),
    ),
]


def measure(quick: bool, progress: Progress) -> dict[str, Any]:
    """Measure processor seconds of all threads, one run each, and the memory of every
    rule and its formula.
    """

    def timed(
        run: Callable[..., Any], tokens: FloatArray
    ) -> tuple[float, Any, float | None]:
        start = time.process_time()
        found, peak = with_peak(lambda: run(tokens))
        return time.process_time() - start, found, peak

    rows = []
    for words, d, sizes, ours, formula, most in SIZES:
        kind = "sphere" if "Sphere" in words else "gaussian"
        ours(hm.configuration(kind, n=20, d=d))  # loads compiled code
        for n in (20,) if quick else sizes:
            progress(f"sizes: {words}, n = {n:,}")
            tokens = hm.configuration(kind, n=n, d=d)
            seconds, found, peak = timed(ours, tokens)
            row: dict[str, Any] = {
                "what": words,
                "n": n,
                "seconds": seconds,
                "formula": None,
                "times as fast": None,
            }
            row |= {"MB": peak, "formula MB": None}
            if formula is not None and n <= most:
                theirs, other, more = timed(formula, tokens)
                agrees = (
                    np.abs(found - other).max() <= MAX_DIFFERENCE * np.abs(other).max()
                )
                ratio = theirs / seconds if agrees else "answers differ"
                row |= {"formula": theirs, "times as fast": ratio, "formula MB": more}
            rows.append(row)
    return {"rows": rows}


def markdown(found: dict[str, Any]) -> str:
    """Return the table of seconds by rule and size."""
    columns = {
        "rule and call": "what",
        "n": "n",
        "seconds": "seconds",
        "the formula": "formula",
    }
    columns |= {"times as fast": "times as fast"}
    columns |= {
        name: name
        for name in ("MB", "formula MB")
        if any(row.get(name) for row in found["rows"])
    }
    facts = ", ".join(
        f"{key} {found['machine'][key]}"
        for key in ("processor", "cores", "numpy", "scipy")
    )
    return f"{report.table(found['rows'], columns)}\n\n{facts}"
