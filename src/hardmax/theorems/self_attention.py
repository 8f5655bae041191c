"""The theorems and conjectures of arXiv 2305.05465, by the spectrum of V: where tokens of self-attention end."""

import numpy as np
import scipy  # whose parts load when they are used

from hardmax._rounding import format_down, format_up
from hardmax._types import FloatArray, IntArray
from hardmax.theorems.base import Statement, Verdict, not_met, nothing, verdict
from hardmax.theorems.flow import HORIZONS, PAPER, GivenFlow, Measure, Tested, fail, given_kind, settle
from hardmax.trajectories.smooth import label_clusters

BOOLEAN_TOL = 1e-6  # of a row's distance from a unit vector
GAIN_TOL = 1e-4  # of |B| R^2
SCATTER_TOL = 1e-3  # of the spread
STILL = 1e-4  # of the spread: a move from lambda t - 3 to lambda t that counts as none
MOST_VALUES = 3
LEAST_PACE = 0.5  # of 1/c, in units of 2t, where 1 is expected: see docs/theorems.md
MEAN_GONE = 1e-3  # of the largest norm at the start


@Statement(
    "Boolean limit",
    "For d = 1, V > 0 and QK > 0, rescaled tokens stay between the smallest and the largest one, and P tends to a "
    "Boolean matrix: all rows but at most one tend to the unit vector of the smallest or of the largest token.",
    f"{PAPER}, Theorem 2.1",
)
@given_kind("boolean")
def boolean(given: GivenFlow) -> Verdict:
    """The second largest distance of a row from the unit vectors of the extreme tokens: the rows, not the rank.

    Examples
    --------
    >>> import hardmax as hm
    >>> rule = hm.SelfAttention(V=[[1.0]])
    >>> trajectory = hm.simulate([[1.0], [-0.5], [0.2]], rule, times=10)
    >>> hm.theorems.boolean(trajectory).outcome.value
    'holds'
    """
    if len(np.unique(given.start)) < len(given.start):
        return not_met("two tokens are equal")
    if len(given.start) == 1:
        return nothing("There is one token, which attends to itself.")
    return settle(given, _boolean_distance, BOOLEAN_TOL, hull=True)


def _boolean_distance(tested: Tested) -> tuple[float, str, object]:
    P, z = tested.trajectory.attention(tested.last), tested.tokens[:, 0]
    off = 1 - np.maximum(P[:, z.argmin()], P[:, z.argmax()])
    order = np.argsort(off)
    return float(off[order[-2]]), "The distance of the second farthest row from Boolean", {"token": int(order[-2])}


@Statement(
    "polytope",
    "For V = I (or a positive multiple) and Q^T K symmetric positive definite, rescaled tokens stay in their initial "
    "hull, and each tends to a point of the limit's hull that follows itself: max_j ⟨B z_i, z_j - z_i⟩ = 0, with "
    "B = Q^T K.",
    f"{PAPER}, Theorem 3.1",
)
@given_kind("polytope")
def polytope(given: GivenFlow) -> Verdict:
    """max_ij ⟨B z_i, z_j - z_i⟩ / (|B| R^2), with R the largest norm.

    Examples
    --------
    >>> import hardmax as hm
    >>> rule = hm.SelfAttention(V=[[1, 0], [0, 1]])
    >>> trajectory = hm.simulate(hm.configuration("gaussian", n=8, d=2), rule, times=10)
    >>> hm.theorems.polytope(trajectory).outcome.value
    'holds'
    """
    return settle(given, _gain(given.B, np.eye(len(given.B))), GAIN_TOL, hull=True)


@Statement(
    "polytope times subspace",
    "Where the leading eigenvalue of V is positive and multiple with its whole eigenspace, and all others are smaller, "
    "the components in that eigenspace stay in their initial hull and tend to points that follow themselves; the "
    "others are free.",
    f"{PAPER}, Theorem 5.2",
)
@given_kind("product")
def product(given: GivenFlow) -> Verdict:
    """The same as for the polytope, of the components in the leading eigenspace.

    Examples
    --------
    >>> import hardmax as hm
    >>> rule = hm.SelfAttention(V=hm.matrix("paper-product"))
    >>> trajectory = hm.simulate(hm.configuration("gaussian", n=8, d=3), rule, times=10)
    >>> hm.theorems.product(trajectory).outcome.value
    'holds'
    """
    expected = given.expected
    projector = expected.leading @ expected.dual.T
    return settle(given, _gain(given.B, projector), GAIN_TOL, dual=expected.dual, hull=True)


def _gain(B: FloatArray, projector: FloatArray) -> Measure:
    def measure(tested: Tested) -> tuple[float, str, object]:
        points = _unit_size(tested.tokens @ projector.T)
        points = points / (float(np.linalg.norm(points, axis=1).max()) or 1.0)
        products = points @ B @ points.T  # ⟨B^T z_i, z_j⟩: B is symmetric
        gains = (products - np.diag(products)[:, None]).max(axis=1) / float(np.linalg.norm(B, 2))
        worst = int(gains.argmax())
        return float(gains[worst]), "The most that a token would gain by following another", {"token": worst}

    return measure


@Statement(
    "hyperplanes",
    "Where the leading eigenvalue of V is simple, positive and larger than the modulus of all others, and "
    "⟨Q phi, K phi⟩ > 0 for its eigenvector phi, the coordinates of z_i along phi stay between the first smallest and "
    "largest one, and tend to at most three values.",
    f"{PAPER}, Theorem 4.2",
)
@given_kind("hyperplanes")
def hyperplanes(given: GivenFlow) -> Verdict:
    """How far coordinates are from the nearest of at most three values.

    Examples
    --------
    >>> import hardmax as hm
    >>> rule = hm.SelfAttention(V=hm.matrix("paper-2d"))
    >>> trajectory = hm.simulate(hm.configuration("gaussian", n=8, d=2), rule, times=10)
    >>> hm.theorems.hyperplanes(trajectory).outcome.value
    'holds'
    """
    dual = given.expected.dual
    return settle(given, _scatter(dual), SCATTER_TOL, dual=dual, hull=True)


@Statement(
    "codimension k",
    "CONJECTURE: if, besides, k eigenvalues of V have a positive real part, the components of z in their k-dimensional "
    "eigenspace settle, and there are at most three of them: parallel subspaces of codimension k.",
    f"{PAPER}, section 4, open",
    conjecture=True,
)
@given_kind("hyperplanes")
def codimension(given: GivenFlow) -> Verdict:
    """The same as for the hyperplanes, for all coordinates of eigenvalues with positive real part.

    Examples
    --------
    >>> import hardmax as hm
    >>> rule = hm.SelfAttention(V=[[2, 0], [0, 1]])
    >>> trajectory = hm.simulate(hm.configuration("gaussian", n=8, d=2), rule, times=10)
    >>> hm.theorems.codimension(trajectory).outcome.value
    'holds'
    """
    if given.expected.positive < 2:
        return nothing("Only the leading eigenvalue has a positive real part: see the hyperplanes.")
    slowest = float(given.expected.eigenvalues[given.expected.positive - 1].real) / given.rate
    if slowest * HORIZONS[-1] < HORIZONS[0]:
        slow = f"The smallest positive real part is {slowest:.2g} of the leading one"
        return verdict(None, f"{slow}: rounding decides attention before that direction settles.")
    return settle(given, _scatter(_positive_dual(given)), SCATTER_TOL)


def _scatter(dual: FloatArray) -> Measure:
    def measure(tested: Tested) -> tuple[float, str, object]:
        coordinates = _unit_size(tested.tokens @ dual)  # (n, k)
        labels = cluster_labels(coordinates)
        values = np.stack([coordinates[labels == c].mean(axis=0) for c in range(int(labels.max()) + 1)])
        spread = float(np.ptp(coordinates, axis=0).max())
        size = max(spread, float(np.abs(coordinates).max())) or 1.0
        off = float(np.abs(coordinates - values[labels]).max()) / size
        phrase = f"The scatter around {len(values)} value{'s' if len(values) > 1 else ''}, relative to their size,"
        scale = float(np.abs(tested.tokens @ dual).max()) or 1.0
        return off, phrase, {"values": (values * scale).round(6).tolist()}

    return measure


def cluster_labels(coordinates: FloatArray) -> IntArray:
    """Labels of at most three clusters: the largest gaps part them."""
    everyone = np.ones(len(coordinates), bool)
    labels = label_clusters(coordinates, coordinates, everyone, tol=0.05)
    if labels.max() >= MOST_VALUES:  # keep the three with most tokens; the others join the nearest
        kept = np.argsort(-np.bincount(labels), kind="stable")[:MOST_VALUES]
        centres = np.stack([coordinates[labels == c].mean(axis=0) for c in kept])
        labels = np.linalg.norm(coordinates[:, None] - centres, axis=-1).argmin(axis=1)
    return np.asarray(labels)


def _positive_dual(given: GivenFlow) -> FloatArray:
    """Left invariant vectors of the eigenvalues that count as positive, from a real Schur form of V^T."""
    positive = given.expected.eigenvalues.real[: given.expected.positive]
    V, least = given.rule.value_matrix(given.start.shape[1]), positive[-1] / 2

    def counts(real: float, imaginary: float = 0.0) -> bool:
        return bool(real > least)

    _, vectors, _ = scipy.linalg.schur(V.T, output="real", sort=counts)
    return np.asarray(vectors[:, : len(positive)])


@Statement(
    "complex pair",
    "CONJECTURE: where the leading eigenvalues of V are a complex pair with positive real part, the components of z in "
    "their plane settle.",
    f"{PAPER}, open",
    conjecture=True,
)
@given_kind("complex")
def complex_pair(given: GivenFlow) -> Verdict:
    """How far the components in the leading plane still move.

    Examples
    --------
    >>> import hardmax as hm
    >>> rule = hm.SelfAttention(V=[[1, -1], [1, 1]])
    >>> trajectory = hm.simulate(hm.configuration("gaussian", n=8, d=2), rule, times=10)
    >>> hm.theorems.complex_pair(trajectory).outcome.value
    'holds'
    """

    def measure(tested: Tested) -> tuple[float, str, object]:
        trajectory, dual = tested.trajectory, given.expected.dual
        back = int(np.searchsorted(trajectory.saved, trajectory.saved[tested.last] - 3 / given.rate, side="right")) - 1
        earlier = trajectory.drawn[back] if back >= 0 else given.start  # z = x at time 0
        now, then = tested.tokens @ dual, earlier @ dual
        size = float(np.abs(now).max()) or 1.0
        moved = np.abs(now - then).max(axis=1) / size
        return float(moved.max()), "The last move in the leading plane", {"token": int(moved.argmax())}

    return settle(given, measure, STILL)


@Statement(
    "collapse",
    "For V = -I (or a negative multiple) and Q^T K symmetric positive definite, every token tends to 0.",
    f"{PAPER}, on V = -I",
)
@given_kind("collapse")
def collapse(given: GivenFlow) -> Verdict:
    """How fast 1/c grows, with c the largest eigenvalue of the covariance of B^{1/2} x, and how the mean vanishes.

    c falls as 1/(2t), too slowly to wait for 0; for small tokens it hardly falls at first, but 1/c always grows by 2t.

    Examples
    --------
    >>> import hardmax as hm
    >>> rule = hm.SelfAttention(V=[[-1, 0], [0, -1]])
    >>> trajectory = hm.simulate(hm.configuration("gaussian", n=8, d=2), rule, times=10)
    >>> hm.theorems.collapse(trajectory).outcome.value
    'holds'
    """
    first = float(np.linalg.norm(given.start, axis=1).max())
    if first == 0:
        return nothing("All tokens are at 0.")
    root = np.real(scipy.linalg.sqrtm(given.B))
    for tested in given.runs([2 * horizon for horizon in HORIZONS]):
        if tested.problem:
            return verdict(None, tested.problem)
        trajectory, last = tested.trajectory, tested.last
        times = trajectory.saved
        half = int(np.searchsorted(times, times[last] / 2, side="right")) - 1
        earlier, since = (trajectory.array[half], times[half]) if half >= 0 else (given.start, 0.0)
        middle, end = _largest_variance(earlier @ root.T), _largest_variance(trajectory.array[last] @ root.T)
        mean = float(np.linalg.norm(trajectory.array[last].mean(axis=0))) / first
        elapsed = given.rate * float(times[last] - since)
        pace = (1 / end - 1 / middle) / (2 * elapsed) if end > 0 else np.inf
        if end > 0 and np.finfo(np.float64).eps / end > 0.1 * elapsed:
            return verdict(None, "The tokens are so small that floats cannot see how 1/c grows.")
        found = (
            f"1/c grew by {format_down(pace, 3)} of 2t since lambda t = {given.rate * since:.4g} "
            f"(at least {LEAST_PACE:g}), and the mean is {format_up(mean, 2)} of the first norm, {tested.where}."
        )
        if pace > LEAST_PACE and mean < MEAN_GONE:
            return verdict(True, found, margin=min(pace, 1e300) - LEAST_PACE)
    return fail(tested, found, margin=pace - LEAST_PACE)


def _largest_variance(tokens: FloatArray) -> float:
    """c; 0 where all tokens are equal up to rounding."""
    centred = tokens - tokens.mean(axis=0)
    c = float(np.linalg.norm(centred, 2)) ** 2 / len(tokens)
    return c if c > (1e-12 * float(np.abs(tokens).max())) ** 2 else 0.0


def _unit_size(points: FloatArray) -> FloatArray:
    """Points divided by their largest coordinate, so that squares neither overflow nor underflow."""
    return np.asarray(points / (float(np.abs(points).max()) or 1.0))
