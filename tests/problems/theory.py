"""Small examples whose answers are known exactly, all with A = I.

The square is the fourth row of Figure 2 of arXiv 2407.01602 without its random tokens.
The others were found by search in exact arithmetic, and each has an answer that is easy
to get wrong.
"""

from fractions import Fraction

import hardmax as hm

HALF = Fraction(1, 2)

# The square with (+-1/2, 0). Each inner token is tied between two corners at every
# layer, and tends to their midpoint: Theorem 1 never decides it. Theorem 4 does at
# layer 0.
SQUARE = [(1, 1), (1, -1), (-1, 1), (-1, -1), (HALF, 0), (-HALF, 0)]
SQUARE_LIMITS = [(1, 1), (1, -1), (-1, 1), (-1, -1), (1, 0), (-1, 0)]
SQUARE_WEIGHTS = [
    [1, 0, 0, 0],
    [0, 1, 0, 0],
    [0, 0, 1, 0],
    [0, 0, 0, 1],
    [0.5, 0.5, 0, 0],
    [0, 0, 0.5, 0.5],
]

# A token in the middle of an edge sees itself and both corners: it stands still without
# leading. Only T proves that, both for it and for the token that follows the three.
MIDDLE = [(1, 1), (1, -1), (-1, 1), (-1, -1), (1, 0), (HALF, 0)]
MIDDLE_LIMITS = [(1, 1), (1, -1), (-1, 1), (-1, -1), (1, 0), (1, 0)]

# Mirror images of each other in x = 0, and three tokens on the mirror; alpha = 1/2. The
# last, (0, 3, 1), follows (+-3, 4, -2) from layer 7 on, and those never lead: they tend
# to (+-4, 3, -3). Only the chain certificate sees it.
_SIDE = [(-3, 4, -2), (-1, 4, -1), (-4, 1, 1), (-4, 3, -3), (-3, -1, -2)]
FOLLOWS_FOLLOWERS = [
    *_SIDE,
    *[(-x, y, z) for x, y, z in _SIDE],
    (0, -2, 2),
    (0, -3, -2),
    (0, 3, 1),
]
FOLLOWS_FOLLOWERS_MEMBERS = [0, 5]  # (-3, 4, -2) and (3, 4, -2)
FOLLOWS_FOLLOWERS_LIMIT = (0, 3, -3)

# Equal products of a centroid with all of C_i are necessary and not sufficient for a
# frozen tie when d >= 3. The last token sees {0, 1} at layer 0, whose centroid (1, 0,
# 0) has the product 1 with both; yet it has 3/2 with token 3, and at layer 1 the last
# token sees {3}.
EQUAL_PRODUCTS = [
    (1, 1, 0),
    (1, -1, 0),
    (-1, 0, 0),
    (3 * HALF, 0, -HALF),
    (Fraction(1, 10), 0, Fraction(1, 5)),
]

# 0 in the interior of the convex hull does not force two leaders.
ONE_LEADER = [(-1, 10), (-HALF, -5), (100, 30), (50, -20)]

# The leaders depend on alpha, and a token inside the hull can lead later: token 0 leads
# from layer 2 for alpha = 1/2, and never for 1/10 or 5.
_X, _Y = (
    [51, -29, 80, 0, 68, -131, 38, -188, -97, -63],
    [19, -250, -32, 135, -86, -79, 19, -222, -99, 17],
)
DEPENDS_ON_ALPHA = [
    (Fraction(x, 100), Fraction(y, 100)) for x, y in zip(_X, _Y, strict=True)
]
DEPENDS_ON_ALPHA_ANSWERS = {HALF: 2, Fraction(1, 10): -1, Fraction(5): -1}


def outcomes(trajectory: hm.Trajectory) -> dict[str, str]:
    """Return the outcome of every statement about a trajectory, by its name."""
    return {verdict.name: verdict.outcome for verdict in hm.theorems.check(trajectory)}
