"""Theorem 4.2 of arXiv 2305.05465 and the conjecture on codimension k: few values along the leading directions."""

import numpy as np
from scipy import linalg

from hardmax._types import FloatArray, IntArray
from hardmax.flows.clusters import labels_of
from hardmax.theorems.base import Statement, Verdict
from hardmax.theorems.flow import (
    HORIZONS,
    OUTSIDE,
    PAPER,
    Measure,
    Scene,
    gap_of,
    given_kind,
    is_outside,
    settle,
    unit_size,
)
from hardmax.trajectories.smooth import SmoothTrajectory

HYPERPLANES = Statement(
    "hyperplanes",
    "Where the leading eigenvalue of V is simple, positive and larger than the modulus of all others, and "
    "⟨Q phi, K phi⟩ > 0 for its eigenvector phi, the coordinate of z_i along phi tends to one of at most three values.",
    f"{PAPER}, Theorem 4.2",
)
CODIMENSION = Statement(
    "codimension k",
    "CONJECTURE: if, besides, k eigenvalues of V have a positive real part, the components of z in their k-dimensional "
    "eigenspace settle, and there are at most three of them: parallel subspaces of codimension k.",
    f"{PAPER}, section 4, open",
    conjecture=True,
)
MOST_VALUES = 3
TOLERANCE = 1e-3  # of the spread


@given_kind(HYPERPLANES, "hyperplanes")
def hyperplanes(scene: Scene) -> Verdict:
    """How far coordinates are from the centres of their groups, when there are at most three groups."""
    if is_outside(scene, scene.expected.dual):
        return HYPERPLANES.nothing(OUTSIDE)
    return settle(HYPERPLANES, scene, _scatter(scene.expected.dual), TOLERANCE, gap=gap_of(scene))


@given_kind(CODIMENSION, "hyperplanes")
def codimension(scene: Scene) -> Verdict:
    """The same for all coordinates of eigenvalues with positive real part."""
    if scene.expected.positive < 2:
        return CODIMENSION.nothing("Only the leading eigenvalue has a positive real part: see the hyperplanes.")
    slowest = float(scene.expected.eigenvalues[scene.expected.positive - 1].real) / scene.rate
    if slowest * HORIZONS[-1] < HORIZONS[0]:
        return CODIMENSION.verdict(
            None,
            f"The smallest positive real part is {slowest:.2g} of the leading one: rounding decides attention before "
            "that direction settles.",
        )
    return settle(CODIMENSION, scene, _scatter(_positive_dual(scene)), TOLERANCE)


def _positive_dual(scene: Scene) -> FloatArray:
    """Left invariant vectors of the eigenvalues that count as positive, from a real Schur form of V^T."""
    positive = scene.expected.eigenvalues.real[: scene.expected.positive]
    least = positive[-1] / 2

    def counts(real: float, imaginary: float = 0.0) -> bool:
        return bool(real > least)

    _, vectors, _ = linalg.schur(scene.V.T, output="real", sort=counts)
    return np.asarray(vectors[:, : len(positive)])


def _scatter(dual: FloatArray) -> Measure:
    def measure(tokens: FloatArray, trajectory: SmoothTrajectory) -> tuple[float, str, object]:
        coordinates = unit_size(tokens @ dual)  # (n, k)
        labels = groups(coordinates)
        values = np.stack([coordinates[labels == g].mean(axis=0) for g in range(int(labels.max()) + 1)])
        spread = float(np.ptp(coordinates, axis=0).max())
        size = max(spread, float(np.abs(coordinates).max())) or 1.0
        off = float(np.abs(coordinates - values[labels]).max()) / size
        phrase = f"The scatter around {len(values)} value{'s' if len(values) > 1 else ''}, relative to their size,"
        scale = float(np.abs(tokens @ dual).max()) or 1.0
        return off, phrase, {"values": (values * scale).round(6).tolist()}

    return measure


def groups(coordinates: FloatArray) -> IntArray:
    """Labels of at most three groups: the largest gaps part them."""
    everyone = np.ones(len(coordinates), bool)
    labels = labels_of(coordinates, coordinates, everyone, near=0.05)
    if labels.max() >= MOST_VALUES:  # keep the three with most tokens; the others join the nearest
        kept = np.argsort(-np.bincount(labels), kind="stable")[:MOST_VALUES]
        centres = np.stack([coordinates[labels == g].mean(axis=0) for g in kept])
        labels = np.linalg.norm(coordinates[:, None] - centres, axis=-1).argmin(axis=1)
    return np.asarray(labels)
