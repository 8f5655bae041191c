"""The same answers on every processor: compute them under several kernels of OpenBLAS,
and count the differences.

Each process builds the same inputs without BLAS, and prints what `classify` says of
matrices (random, defective, with multiple eigenvalues, whole or rounded) and what
`limit` proves of token sets with and without ties.
"""

import os
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from pathlib import Path
from subprocess import run

import numpy as np

# as new and old versions of NumPy call it
NO_AVX512 = "X86_V4 AVX512_ICL AVX512_SPR AVX512F AVX512CD AVX512_SKX"
MACHINES = (
    {},
    {
        "OPENBLAS_CORETYPE": "Prescott",
        "OPENBLAS_NUM_THREADS": "1",
        "NUMBA_CPU_NAME": "generic",
        "NPY_DISABLE_CPU_FEATURES": f"{NO_AVX512} X86_V3 AVX2 FMA3",
    },
    {"OPENBLAS_CORETYPE": "Nehalem"},
    {"OPENBLAS_CORETYPE": "Sandybridge"},
    {"OPENBLAS_CORETYPE": "Haswell", "NPY_DISABLE_CPU_FEATURES": NO_AVX512},
)


def jordan(rng: np.random.Generator, d: int) -> list[list[Fraction]]:
    """Return a block-diagonal matrix with few eigenvalues, some defective, some
    complex.
    """
    J = [[Fraction(0)] * d for _ in range(d)]
    values = [Fraction(int(x), 4) for x in rng.integers(-8, 9, 2)]
    k = 0
    while k < d:
        value = values[int(rng.integers(2))]
        J[k][k] = value
        if k + 1 < d and rng.random() < 0.2:  # a pair value +- i turn
            turn = Fraction(int(rng.integers(1, 5)), 4)
            J[k + 1][k + 1], J[k][k + 1], J[k + 1][k] = value, -turn, turn
            k += 1
        elif k and J[k - 1][k - 1] == value and rng.random() < 0.6:
            J[k - 1][k] = Fraction(1)
        k += 1
    return J


def sheared(
    rng: np.random.Generator, J: list[list[Fraction]], times: int
) -> list[list[Fraction]]:
    """Return S J S^{-1} for a product S of `times` integer shears, without rounding."""
    d = len(J)
    for _ in range(times if d > 1 else 0):
        i, j = rng.choice(d, 2, replace=False).tolist()
        factor = int(rng.integers(-2, 3))
        J[i] = [
            x + factor * y for x, y in zip(J[i], J[j], strict=True)
        ]  # rows by S ...
        for row in J:
            row[j] -= factor * row[i]  # ... and columns by its inverse
    return J


def matrices(count: int) -> Iterator[np.ndarray]:
    """Yield matrices that are the same in every process."""
    for seed in range(count):
        rng = np.random.default_rng(seed)
        d = int(rng.integers(1, 7))
        if seed % 4 == 0:
            yield rng.normal(size=(d, d))
            continue
        exact = sheared(rng, jordan(rng, d), 3 * d)
        if seed % 4 == 2:
            exact = [[x / 3 for x in row] for row in exact]  # rounded below
        V = np.array([[float(x) for x in row] for row in exact])
        if seed % 4 == 3:
            V = V + 2.0 ** -int(rng.integers(20, 53)) * rng.integers(-1, 2, (d, d))
        yield V


def answers(count: int, n_sets: int) -> Iterator[str]:
    """Yield one line with the results of each input."""
    import hardmax as hm

    for V in matrices(count):
        found = hm.classify(V=V)
        yield (
            f"{found!r} {found.kind} {found.multiplicity} {found.positive}"
            f" {[complex(x) for x in found.eigenvalues]}"
        )
    for seed in range(n_sets):
        rng = np.random.default_rng(seed)
        n, d = int(rng.integers(1, 40)), int(rng.integers(1, 6))
        tokens = (
            rng.integers(-3, 4, (n, d)) * 0.1 if seed % 2 else rng.normal(size=(n, d))
        )
        limit = hm.limit(tokens, hm.Hardmax(float(rng.choice([0.1, 0.5, 5.0]))))
        yield (
            f"{limit!r} {limit.leaders.tolist()} {limit.clusters.tolist()}"
            f" {limit.tokens.tolist()}"
        )


def answers_on(machine: dict[str, str], count: int, n_sets: int) -> list[str]:
    """Return the lines of a process that is set to run as on another processor."""
    script = (
        f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); import"
        " machines\n"
    )
    script += f"for line in machines.answers({count}, {n_sets}): print(line)"
    done = run(
        [sys.executable, "-c", script],
        env=os.environ | machine,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(done.stderr)
    return done.stdout.splitlines()


def differences(count: int, n_sets: int) -> list[tuple[str, ...]]:
    """Return the lines that differ between processors."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        everywhere = list(
            pool.map(lambda machine: answers_on(machine, count, n_sets), MACHINES)
        )
    assert {len(lines) for lines in everywhere} == {count + n_sets}
    return [each for each in zip(*everywhere, strict=True) if len(set(each)) > 1]
