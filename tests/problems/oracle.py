"""The definition and nothing else: loops over i, j and the coordinates, in Fractions.

C_i = argmax_j <A z_i, z_j> over tokens,
z_i <- z_i + alpha/(1 + alpha) mean_{j in C_i} (z_j - z_i) (arXiv 2407.01602). Equal tokens are counted one by one, which is the
same as weighting classes by their multiplicities. A token leads when all members of C_i
are at its own position.
"""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np


def fractions(rows):
    """Return rows of numbers as tuples of Fractions, exactly."""
    return [tuple(map(Fraction, row)) for row in np.asarray(rows, object).tolist()]


def dot(x, y):
    return sum((a * b for a, b in zip(x, y, strict=True)), Fraction(0))


def choose(tokens, A=None, *, keys=None, causal=False, mask=None):
    """Return C_i of every token as a sorted list of indices; among other keys if given,
    and those that it sees.

    >>> choose([(1, 0), (2, 0), (-1, 0), (2, 0), (0, 0)])
    [[1, 3], [1, 3], [2], [1, 3], [0, 1, 2, 3, 4]]
    """
    tokens, keys = fractions(tokens), fractions(tokens if keys is None else keys)
    A, sets = None if A is None else fractions(A), []
    for i, z in enumerate(tokens):
        query = z if A is None else tuple(dot(row, z) for row in A)
        seen = (
            range(i + 1 if causal else len(keys))
            if mask is None
            else np.flatnonzero(mask[i]).tolist()
        )
        products = {j: dot(query, keys[j]) for j in seen}
        best = max(products.values())
        sets.append([j for j, product in products.items() if product == best])
    return sets


def layer(tokens, sets, alpha):
    """Return every token after one layer.

    >>> layer([(Fraction(0),), (Fraction(3),)], [[1], [1]], Fraction(1, 2))
    [(Fraction(1, 1),), (Fraction(3, 1),)]
    """
    b = alpha / (1 + alpha)
    moved = []
    for z, members in zip(tokens, sets, strict=True):
        mean = [
            sum(tokens[j][r] for j in members) / len(members) for r in range(len(z))
        ]
        moved.append(tuple(x + b * (m - x) for x, m in zip(z, mean, strict=True)))
    return moved


@dataclass
class Truth:
    """Positions and sets of every layer, and the layer from which each token leads, -1
    for never.
    """

    positions: list
    sets: list
    emerged: list

    @property
    def leaders(self):
        """Return tokens that lead, the first of each set of equal inputs."""
        start = self.positions[0]
        return [
            i
            for i, k in enumerate(self.emerged)
            if k >= 0 and start.index(start[i]) == i
        ]


def definition(tokens, alpha, *, layers, A=None, causal=False, mask=None):
    """Run the definition; `alpha` is a number, or a list whose last value is repeated."""
    steps = [Fraction(a) for a in (alpha if isinstance(alpha, list) else [alpha])]
    now, positions, all_sets = fractions(tokens), [], []
    emerged = [-1] * len(now)
    for k in range(layers + 1):
        sets = choose(now, A, causal=causal, mask=mask)
        for i, members in enumerate(sets):
            if emerged[i] < 0 and all(now[j] == now[i] for j in members):
                emerged[i] = k
        positions.append(now)
        all_sets.append(sets)
        now = layer(now, sets, steps[min(k, len(steps) - 1)])
    return Truth(positions, all_sets, emerged)


def sets_of(trajectory, k):
    """Return the sets of a trajectory as lists, to compare with those of the
    definition.
    """
    return [members.tolist() for members in trajectory.sets(k)]


def positions_of(trajectory, k):
    """Return the exact positions of a trajectory as tuples."""
    return [tuple(row) for row in trajectory.exact(k)]
