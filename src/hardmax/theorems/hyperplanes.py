"""Theorem 4.2 of arXiv 2305.05465 and two conjectures: what happens along the leading directions."""

import numpy as np
from scipy import linalg

from hardmax._types import FloatArray, IntArray
from hardmax.flows.clusters import labels_of
from hardmax.theorems.base import Statement, Verdict, nothing, verdict
from hardmax.theorems.flow import HORIZONS, OUTSIDE, PAPER, Beginning, Measure, given_kind, settle, unit_size
from hardmax.trajectories.smooth import SmoothTrajectory

MOST_VALUES = 3
TOLERANCE = 1e-3  # of the spread
STILL = 1e-4  # of the spread: a move from lambda t - 3 to lambda t that counts as none


@Statement(
    "hyperplanes",
    "Where the leading eigenvalue of V is simple, positive and larger than the modulus of all others, and "
    "⟨Q phi, K phi⟩ > 0 for its eigenvector phi, the coordinate of z_i along phi tends to one of at most three values.",
    f"{PAPER}, Theorem 4.2",
)
@given_kind("hyperplanes")
def hyperplanes(began: Beginning) -> Verdict:
    """How far coordinates are from the nearest of at most three values."""
    if began.is_outside(began.expected.dual):
        return nothing(OUTSIDE)
    return settle(began, _scatter(began.expected.dual), TOLERANCE, gap=began.gap)


@Statement(
    "codimension k",
    "CONJECTURE: if, besides, k eigenvalues of V have a positive real part, the components of z in their k-dimensional "
    "eigenspace settle, and there are at most three of them: parallel subspaces of codimension k.",
    f"{PAPER}, section 4, open",
    conjecture=True,
)
@given_kind("hyperplanes")
def codimension(began: Beginning) -> Verdict:
    """The same for all coordinates of eigenvalues with positive real part."""
    if began.expected.positive < 2:
        return nothing("Only the leading eigenvalue has a positive real part: see the hyperplanes.")
    slowest = float(began.expected.eigenvalues[began.expected.positive - 1].real) / began.rate
    if slowest * HORIZONS[-1] < HORIZONS[0]:
        slow = f"The smallest positive real part is {slowest:.2g} of the leading one"
        return verdict(None, f"{slow}: rounding decides attention before that direction settles.")
    return settle(began, _scatter(_positive_dual(began)), TOLERANCE)


@Statement(
    "complex pair",
    "CONJECTURE: where the leading eigenvalues of V are a complex pair with positive real part, the components of z in "
    "their plane settle.",
    f"{PAPER}, open",
    conjecture=True,
)
@given_kind("complex")
def complex_pair(began: Beginning) -> Verdict:
    """How far the components in the leading plane still move."""

    def measure(tokens: FloatArray, trajectory: SmoothTrajectory) -> tuple[float, str, object]:
        back = int(np.searchsorted(trajectory.saved, trajectory.saved[trajectory.reached - 1] - 3 / began.rate))
        now, then = tokens @ began.expected.dual, trajectory.drawn[back] @ began.expected.dual
        size = float(np.abs(now).max()) or 1.0
        moves = np.abs(now - then).max(axis=1) / size
        return float(moves.max()), "The last move in the leading plane", {"token": int(moves.argmax())}

    return settle(began, measure, STILL)


def _positive_dual(began: Beginning) -> FloatArray:
    """Left invariant vectors of the eigenvalues that count as positive, from a real Schur form of V^T."""
    positive = began.expected.eigenvalues.real[: began.expected.positive]
    least = positive[-1] / 2

    def counts(real: float, imaginary: float = 0.0) -> bool:
        return bool(real > least)

    _, vectors, _ = linalg.schur(began.V.T, output="real", sort=counts)
    return np.asarray(vectors[:, : len(positive)])


def _scatter(dual: FloatArray) -> Measure:
    def measure(tokens: FloatArray, trajectory: SmoothTrajectory) -> tuple[float, str, object]:
        coordinates = unit_size(tokens @ dual)  # (n, k)
        labels = cluster_labels(coordinates)
        values = np.stack([coordinates[labels == c].mean(axis=0) for c in range(int(labels.max()) + 1)])
        spread = float(np.ptp(coordinates, axis=0).max())
        size = max(spread, float(np.abs(coordinates).max())) or 1.0
        off = float(np.abs(coordinates - values[labels]).max()) / size
        phrase = f"The scatter around {len(values)} value{'s' if len(values) > 1 else ''}, relative to their size,"
        scale = float(np.abs(tokens @ dual).max()) or 1.0
        return off, phrase, {"values": (values * scale).round(6).tolist()}

    return measure


def cluster_labels(coordinates: FloatArray) -> IntArray:
    """Labels of at most three clusters: the largest gaps part them."""
    everyone = np.ones(len(coordinates), bool)
    labels = labels_of(coordinates, coordinates, everyone, near=0.05)
    if labels.max() >= MOST_VALUES:  # keep the three with most tokens; the others join the nearest
        kept = np.argsort(-np.bincount(labels), kind="stable")[:MOST_VALUES]
        centres = np.stack([coordinates[labels == c].mean(axis=0) for c in kept])
        labels = np.linalg.norm(coordinates[:, None] - centres, axis=-1).argmin(axis=1)
    return np.asarray(labels)
