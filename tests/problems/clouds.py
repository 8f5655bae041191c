"""Seeded clouds of every kind: easy, tied, degenerate, and at the ends of float64's range."""

from fractions import Fraction

import numpy as np


def gaussian(rng, n=14, d=3):
    return rng.normal(size=(n, d))


def ball(rng, n=14, d=3):
    directions = rng.normal(size=(n, d))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    return directions * rng.uniform(size=(n, 1)) ** (1 / d)


def lattice(rng, n=14, d=2, reach=3):
    """Integers: many equal products, some equal tokens."""
    return rng.integers(-reach, reach + 1, size=(n, d))


def duplicates(rng, n=14, d=3):
    """Tokens equal up to the sign of zero, in random order and number."""
    few = rng.normal(size=(max(1, n // 3), d))
    few[0, 0] = 0.0
    cloud = few[rng.integers(len(few), size=n)]
    cloud[rng.uniform(size=n) < 0.5] += -0.0
    return np.where((cloud == 0) & (rng.uniform(size=cloud.shape) < 0.5), -0.0, cloud)


def with_zeros(rng, n=12, d=2):
    return np.vstack([np.zeros((2, d)), lattice(rng, n - 2, d)])


def mirrored(rng, n=12, d=3, reach=3):
    """A lattice, its mirror image x -> -x, and tokens on the mirror: tied by symmetry for ever."""
    half = lattice(rng, n // 3 + 1, d, reach)
    image = half * np.r_[-1, np.ones(d - 1, int)]
    on_mirror = lattice(rng, max(1, n - 2 * len(half)), d, reach) * np.r_[0, np.ones(d - 1, int)]
    return np.vstack([half, image, on_mirror])


def collinear(rng, n=12, d=3):
    return rng.integers(-4, 5, size=(n, 1)) * np.arange(1, d + 1)


def huge(rng, n=12, d=2):
    return lattice(rng, n, d) * 1e300 + rng.normal(size=(n, d)) * 1e299


def tiny(rng, n=12, d=2):
    return lattice(rng, n, d) * 1e-300


def denormal(rng, n=12, d=2):
    return lattice(rng, n, d, reach=9) * 2.0**-1074


def mixed(rng, n=10, d=3):
    """Every coordinate of its own size, from 1e-300 to 1e300."""
    return rng.normal(size=(n, d)) * 10.0 ** rng.integers(-300, 301, size=(n, d))


def rational(rng, n=10, d=2):
    """Fractions that no float holds."""
    cloud = np.empty((n, d), object)
    cloud[:] = [[Fraction(int(x), 3) for x in row] for row in lattice(rng, n, d, reach=4)]
    cloud[0, 0] = Fraction(1, 7)
    return cloud


def flattened_sphere(rng, n=200, d=2, flat=0.9):
    """A sphere flattened a little: tokens hand each other on along it, ever closer, until float64 cannot compare."""
    points = rng.normal(size=(n, d))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    points[:, 1:] *= flat
    return points


def line(rng, n=12):
    return lattice(rng, n, 1, reach=5)


KINDS = {
    "gaussian": gaussian,
    "ball": ball,
    "line": line,
    "lattice": lattice,
    "lattice in space": lambda rng: lattice(rng, 12, 3),
    "duplicates": duplicates,
    "zeros": with_zeros,
    "mirrored": mirrored,
    "collinear": collinear,
    "huge": huge,
    "tiny": tiny,
    "denormal": denormal,
    "mixed": mixed,
    "rational": rational,
    "flattened": lambda rng: flattened_sphere(rng, 12),
    "needle": lambda rng: flattened_sphere(rng, 12, 2, 1e-9),
}


def matrices(rng, d):
    """Matrices inside and outside the hypotheses, as (name, A)."""
    B = rng.integers(-2, 3, size=(d, d))
    u, v = rng.integers(-2, 3, size=(2, d))
    skew = np.triu(rng.integers(-3, 4, size=(d, d)), 1)
    return {
        "positive definite": B @ B.T + np.eye(d, dtype=int),
        "not symmetric": np.eye(d, dtype=int) + skew - skew.T,
        "indefinite": np.diag(np.r_[-1, np.ones(d - 1, int)]) + skew + skew.T,
        "negative": -np.eye(d),
        "low rank": np.outer(u, v),
        "zero": np.zeros((d, d)),
        "gaussian": rng.normal(size=(d, d)),
    }
