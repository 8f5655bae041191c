"""Granularity: radii to the power tau, the value of tau at which each token stops to lead, and the choice of tau.

Features f_i = r_i u_i become tokens y_i = r_i^tau u_i. At layer 0 token i leads iff r_i^tau > r_j^tau cos(u_i, u_j) for
every other j, that is iff tau < tau_i, with tau_i = min over {j : r_j > r_i, cos > 0} of -log cos / log(r_j / r_i).
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from hardmax._types import FloatArray, IntArray, Progress
from hardmax.cluster.balance import MIN_CUT_RATIO, Balance
from hardmax.cluster.prediction import labels_of
from hardmax.exact.run import Run
from hardmax.limit import Limit, limit
from hardmax.rules.hardmax import Hardmax

BLOCK = 1 << 22  # numbers that are held at a time
SHORTEST = 1e-140  # in units of the longest token: the squares of shorter ones would be 0
ABOVE = 1.01  # "just above" a threshold, beyond the rounding of powers
FEWER = 8  # how many leaders less at layer 0 are tried, for those that emerge later
LOWER = 4  # how many numbers of eigenvectors are tried
HALVINGS = 8  # of the interval between too many and too few
NEAR = 4.0  # a tau from 1/4 to 4 is near enough to the plain model
WIDE = 16.0  # how far an interval without an end is taken to reach


def tokens_at(features: FloatArray, tau: float, fitted: FloatArray | None = None) -> FloatArray:
    """(n, m) tokens f_i (r_i / r_max)^(tau - 1), r_max that of fitted features if these are others.

    For tau = 1 they are the features themselves, to the last bit.
    """
    r, all_r = (np.linalg.norm(f, axis=1) for f in (features, features if fitted is None else fitted))
    return features * ((r / all_r.max()) ** (tau - 1))[:, None]


def capped(features: FloatArray, tau: float) -> float:
    """tau, or the largest one for which the shortest token is not lost to rounding."""
    r = np.linalg.norm(features, axis=1)
    spread = float(np.log(r.min() / r.max()))
    return min(tau, np.log(SHORTEST) / spread) if spread < 0 else tau


def first_leaders(features: FloatArray, tau: float) -> IntArray:
    """Which tokens lead at layer 0: the first of each set of equal ones."""
    run = Run(Hardmax(1.0), tokens_at(features, tau))
    run.choose()
    return np.sort(run.classes.first[run.emerged == 0])


def rivals(features: FloatArray, rows: IntArray | None = None) -> tuple[FloatArray, IntArray]:
    """tau_i of these rows, or of all, and the token j that sets it: infinite where nothing longer is on their side."""
    r = np.linalg.norm(features, axis=1)
    u, log_r = features / r[:, None], np.log(r)
    rows = np.arange(len(r)) if rows is None else rows
    found, rival = np.empty(len(rows)), np.empty(len(rows), np.intp)
    step = max(1, BLOCK // len(r))
    for start in range(0, len(rows), step):
        part = rows[start : start + step]
        cosines = u[part] @ u.T  # (step, n)
        longer = log_r - log_r[part, None]
        valid = (longer > 0) & (cosines > 0)
        np.log(np.minimum(cosines, 1.0, out=cosines), out=cosines, where=valid)
        ratio = np.divide(-cosines, longer, out=np.full(cosines.shape, np.inf), where=valid)
        rival[start : start + step] = ratio.argmin(axis=1)
        found[start : start + step] = ratio.min(axis=1)
    return found, rival


def thresholds(features: FloatArray, rows: IntArray | None = None) -> FloatArray:
    """tau_i of these rows, or of all: infinite where nothing longer lies on the same side."""
    return rivals(features, rows)[0]


def largest_thresholds(features: FloatArray, at_least: int) -> FloatArray:
    """The largest thresholds in falling order, at least so many if there are: those above some tau of 1 or less.

    The tokens that lead at that tau are those with larger thresholds, so one pass of the kernel finds whom to ask.
    """
    tau = 1.0
    while len(rows := first_leaders(features, tau)) < min(at_least, len(features)) and tau > 0:
        tau = tau / 4 if tau > 1e-3 else 0.0
    return np.sort(thresholds(features, rows))[::-1]


def tau_of(features: FloatArray, granularity: float) -> float:
    """tau = (1 - g) / g; where that is infinite, one just above all finite thresholds."""
    tau = (1 - granularity) / granularity if granularity else np.inf
    if np.isfinite(tau):
        return tau
    found = largest_thresholds(features, 1)
    return ABOVE * float(max(found[np.isfinite(found)], default=1.0))


class Choice(NamedTuple):
    """A tau and a number of coordinates, and where the tokens end with them."""

    tau: float
    tokens: FloatArray  # (n, m)
    limit: Limit

    @classmethod
    def of(cls, features: FloatArray, tau: float, alpha: float, progress: Progress | None = None) -> "Choice":
        tau = capped(features, tau)
        tokens = tokens_at(features, tau)
        return cls(tau, tokens, limit(tokens, Hardmax(alpha), progress=progress))

    @property
    def n_clusters(self) -> int:
        return len(self.limit.leaders)

    def distance(self, n_clusters: int) -> tuple[int, float]:
        """How far from the wanted number of clusters, then how far tau is from 1."""
        return abs(self.n_clusters - n_clusters), float(abs(np.log(max(self.tau, 1e-9))))


def choose_tau(features: FloatArray, n_clusters: int, alpha: float, progress: Progress | None = None) -> Choice:
    """The tau nearest to 1 with so many clusters, or else with about as many."""
    tried = [Choice.of(features, 1.0, alpha, progress)]
    if tried[0].n_clusters != n_clusters:
        for tau in _candidates(largest_thresholds(features, n_clusters + 1), n_clusters):
            tried.append(Choice.of(features, tau, alpha, progress))
            if tried[-1].n_clusters <= n_clusters:
                break
    for _ in range(HALVINGS):
        many = max((c.tau for c in tried if c.n_clusters > n_clusters), default=0.0)  # the largest tau with too many
        few = min((c.tau for c in tried if c.n_clusters < n_clusters and c.tau > many), default=0.0)  # next: too few
        if any(c.n_clusters == n_clusters for c in tried) or not many * few:
            break
        tried.append(Choice.of(features, float(np.sqrt(many * few)), alpha, progress))
    return min(tried, key=lambda choice: choice.distance(n_clusters))


class Fit(NamedTuple):
    """A choice with the features behind it."""

    choice: Choice
    features: FloatArray  # (n, m)
    groups: IntArray  # the clusters of the points of the graph
    cut: float  # their normalised cut

    def distance(self, n_clusters: int) -> tuple[float, ...]:
        """Return how far it is from the wanted number of clusters, the normalised cut, and how far tau is from 1."""
        number, tau = self.choice.distance(n_clusters)
        return number, self.cut, tau


def choose_features(
    balance: Balance, labels: IntArray, m: int, n_clusters: int | None, pick: Callable[[FloatArray], Choice]
) -> Fit:
    """Return what `pick` chooses with m eigenvectors: with their own rows, or with those of a frame.

    A frame is tried where it has as many groups as there are clusters, and a normalised cut less than that of the
    clusters by a factor of MIN_CUT_RATIO. The clusters with the least cut are taken.
    """
    first = np.unique(labels, return_index=True)[1]

    def fit(features: FloatArray) -> Fit:
        choice = pick(features)
        groups = labels_of(choice.tokens, choice.limit)[first]
        return Fit(choice, features, groups, balance.cut(groups, choice.n_clusters))

    plain = fit(balance.embedding.features(m)[labels])
    if m != (n_clusters or plain.choice.n_clusters):
        return plain
    bound = plain.cut / MIN_CUT_RATIO if plain.choice.n_clusters == m else np.inf
    frames = [frame for frame in balance.frames(m) if balance.cut(frame.groups, m) < bound]
    return min([plain, *(fit(frame.features[labels]) for frame in frames)], key=lambda found: found.distance(m))


def choose_tau_and_m(
    balance: Balance,
    labels: IntArray,
    n_clusters: int,
    top: int,
    alpha: float,
    progress: Progress | None = None,
) -> Fit:
    """As `choose_tau`, and the features: `top` eigenvectors if a tau within a factor of NEAR will do, or a few less.

    k clusters that are well apart make k rays in k dimensions. With more eigenvectors clusters are split, so more are
    taken only where a cut would fall between equal eigenvalues.
    """
    embedding = balance.embedding
    sizes = [m for m in range(top, max(0, top - LOWER), -1) if m == 1 or embedding.whole(m) == m]
    sizes += [embedding.whole(top)] if top not in sizes else []
    fits: list[Fit] = []
    for m in sizes:
        fits.append(
            choose_features(
                balance, labels, m, n_clusters, lambda features: choose_tau(features, n_clusters, alpha, progress)
            )
        )
        number, tau = fits[-1].choice.distance(n_clusters)
        if number == 0 and tau <= np.log(NEAR):
            break
    return min(fits, key=lambda fit: fit.distance(n_clusters))


def _candidates(falling: FloatArray, n_clusters: int) -> Iterator[float]:
    """Values of tau with n_clusters leaders at layer 0, then with fewer.

    `falling` holds the largest thresholds: between the c-th and the next one, c tokens lead at layer 0.
    """
    top = min(n_clusters, len(falling))
    for c in range(top, max(0, top - FEWER), -1):
        high, low = float(falling[c - 1]), float(falling[c]) if c < len(falling) else 0.0
        if low < high and np.isfinite(low):
            yield _between(low, high)


def _between(low: float, high: float) -> float:
    """1 if it lies between, else a quarter of the way from the end that is nearer to 1, in the logarithm."""
    if low < 1 < high:
        return 1.0
    low, high = max(low, min(high, 1.0) / WIDE), min(high, max(low, 1.0) * WIDE)
    return float(low ** (3 / 4) * high ** (1 / 4) if low >= 1 else low ** (1 / 4) * high ** (3 / 4))
