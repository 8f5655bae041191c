"""Seeded token sets of every kind: easy, tied, degenerate, and at the ends of float64's
range.
"""

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
    tokens = few[rng.integers(len(few), size=n)]
    tokens[rng.uniform(size=n) < 0.5] += -0.0
    return np.where(
        (tokens == 0) & (rng.uniform(size=tokens.shape) < 0.5), -0.0, tokens
    )


def mirrored(rng, n=12, d=3, reach=3):
    """A lattice, its mirror image x -> -x, and tokens on the mirror: tied by symmetry
    at every layer.
    """
    half = lattice(rng, n // 3 + 1, d, reach)
    image = half * np.r_[-1, np.ones(d - 1, int)]
    on_mirror = (
        lattice(rng, max(1, n - 2 * len(half)), d, reach)
        * np.r_[0, np.ones(d - 1, int)]
    )
    return np.vstack([half, image, on_mirror])


def collinear(rng, n=12, d=3):
    return rng.integers(-4, 5, size=(n, 1)) * np.arange(1, d + 1)


def denormal(rng, n=12, d=2):
    return lattice(rng, n, d, reach=9) * 2.0**-1074


def mixed(rng, n=10, d=3):
    """Every coordinate of its own size, from 1e-300 to 1e300."""
    return rng.normal(size=(n, d)) * 10.0 ** rng.integers(-300, 301, size=(n, d))


def rational(rng, n=10, d=2):
    """Fractions that no float holds."""
    tokens = np.empty((n, d), object)
    tokens[:] = [
        [Fraction(int(x), 3) for x in row] for row in lattice(rng, n, d, reach=4)
    ]
    tokens[0, 0] = Fraction(1, 7)
    return tokens


def flattened_sphere(rng, n=200, d=2, flat=0.9):
    """A slightly flattened sphere: followers move along it, ever closer to others,
    until float64 cannot compare.
    """
    points = rng.normal(size=(n, d))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    points[:, 1:] *= flat
    return points


KINDS = {  # small, of fixed size
    "gaussian": gaussian,
    "ball": ball,
    "line": lambda rng: lattice(rng, 12, 1, reach=5),
    "lattice": lattice,
    "lattice in space": lambda rng: lattice(rng, 12, 3),
    "duplicates": duplicates,
    "zeros": lambda rng: np.vstack([np.zeros((2, 2)), lattice(rng, 10)]),
    "mirrored": mirrored,
    "collinear": collinear,
    "huge": lambda rng: lattice(rng, 12) * 1e300 + rng.normal(size=(12, 2)) * 1e299,
    "tiny": lambda rng: lattice(rng, 12) * 1e-300,
    "denormal": denormal,
    "mixed": mixed,
    "rational": rational,
    "flattened": lambda rng: flattened_sphere(rng, 12),
    "needle": lambda rng: flattened_sphere(rng, 12, 2, 1e-9),
}


def sphere(rng, n, d):
    return flattened_sphere(rng, n, d, flat=1.0)


def clusters(rng, n, d, width=1e-15):
    return rng.normal(size=(4, d))[rng.integers(4, size=n)] + width * rng.normal(
        size=(n, d)
    )


SHAPES = {  # of any size, for searches
    "gaussian": gaussian,
    "off centre": lambda rng, n, d: rng.normal(size=(n, d)) + 30,
    "far from zero": lambda rng, n, d: rng.normal(size=(n, d)) + 1e6,
    "sphere": sphere,
    "shell": lambda rng, n, d: sphere(rng, n, d) * (1 + 1e-7 * rng.normal(size=(n, 1))),
    "ellipsoid": lambda rng, n, d: sphere(rng, n, d) * 10.0 ** -np.arange(d),
    "cube": lambda rng, n, d: rng.choice([-1.0, 1.0], size=(n, d)),
    "lattice": lattice,
    "mirrored": lambda rng, n, d: mirrored(rng, n, d)[:n],
    "collinear": collinear,
    "nearly collinear": lambda rng, n, d: (
        rng.normal(size=(n, 1)) * np.linspace(1, 1 / 3, d)
    ),
    "all equal": lambda rng, n, d: np.tile(rng.normal(size=d), (n, 1)),
    "duplicates": duplicates,
    "nearly duplicates": lambda rng, n, d: (
        duplicates(rng, n, d) + 1e-6 * rng.normal(size=(n, d))
    ),
    "zero": lambda rng, n, d: np.zeros((n, d)),
    "some zero": lambda rng, n, d: (
        rng.normal(size=(n, d)) * (rng.uniform(size=(n, 1)) < 0.5)
    ),
    "clusters": clusters,
    "wide clusters": lambda rng, n, d: clusters(rng, n, d, 1e-9),
    "almost tied": lambda rng, n, d: (
        np.r_[rng.normal(size=(n - n // 2, d)), np.ones((n // 2, d))]
        + 2.0**-52 * rng.integers(-2, 3, (n, d))
    ),
    "one far key": lambda rng, n, d: (
        rng.normal(size=(n, d)) * np.r_[1e9, np.ones(n - 1)][:, None]
    ),
    "shrinking": lambda rng, n, d: (
        rng.normal(size=(n, d)) * 0.5 ** np.arange(n)[:, None]
    ),
    "mixed": mixed,
    "mixed scales": lambda rng, n, d: (
        rng.normal(size=(n, d)) * 2.0 ** rng.integers(-300, 300, size=(n, 1))
    ),
    "tiny": lambda rng, n, d: (
        rng.normal(size=(n, d)) * 2.0 ** rng.integers(-1070, -400, size=(n, 1))
    ),
    "denormal": denormal,
    "underflow": lambda rng, n, d: rng.normal(size=(n, d)) * 1e-160,
    "1e150": lambda rng, n, d: rng.normal(size=(n, d)) * 1e150,
    "lattice of 1e150": lambda rng, n, d: lattice(rng, n, d) * 1e150,
}


def make(kind, n, d, dtype=np.float64, seed=0):
    """Return tokens of a kind from `SHAPES`; a lattice where they are not finite in the
    dtype.
    """
    with np.errstate(over="ignore", under="ignore"):
        tokens = np.asarray(SHAPES[kind](np.random.default_rng(seed), n, d)).astype(
            dtype
        )
    return tokens if np.isfinite(tokens).all() else make("lattice", n, d, dtype, seed)


def matrices(rng, d):
    """Return matrices inside and outside the hypotheses, by name."""
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
