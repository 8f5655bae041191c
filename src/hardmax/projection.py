"""How tokens of any dimension come onto paper: as they are for d = 2 and 3, else on principal axes, and labelled so."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from hardmax._types import FloatArray
from hardmax.rules.sphere import Sphere
from hardmax.smooth_trajectory import SmoothTrajectory
from hardmax.trajectory import Trajectory

UNEQUAL = 20.0  # how many times one spread may be another before both cannot be seen on one scale


@dataclass(frozen=True, eq=False)
class Projection:
    """An affine map to 2 or 3 coordinates, with its axes' names and limits."""

    basis: FloatArray | None  # (d, 2), or None for the coordinates themselves
    labels: tuple[str, ...]
    low: FloatArray
    high: FloatArray
    source: int  # dimension of the tokens
    unit: float  # a power of ten by which tokens far from 1 are divided
    equal: bool = True  # whether all axes have one scale

    @classmethod
    def of(cls, tokens: FloatArray, *, letter: str = "z", stretch: bool = False) -> "Projection":
        """Choose axes for tokens of shape (..., d); all layers at once, so that the view does not move.

        With `stretch`, coordinates that differ more than twentyfold in their spread get scales of their own.
        """
        points = tokens.reshape(-1, tokens.shape[-1])
        d = points.shape[1]
        size = float(np.abs(points).max()) or 1.0
        if not np.isfinite(size):
            raise ValueError(
                "Tokens must be finite to be drawn. Got infinities: without normalisation they left the range of "
                "floats. Simulate fewer layers, or with normalize=True."
            )
        unit = 1.0 if 1e-100 < size < 1e100 else 10.0 ** int(np.floor(np.log10(size)))
        points = points / unit
        basis, labels = None, tuple(f"${letter}_{{{r + 1}}}$" for r in range(d))
        if d == 1:
            labels = (f"${letter}$", "")
        elif d > 3:
            centred = (points - points.mean(axis=0)) / (size / unit)
            _, scales, axes = np.linalg.svd(np.vstack([centred, np.zeros((2, d))]), full_matrices=False)
            share = scales**2 / ((scales**2).sum() or 1.0)
            signs = np.sign(axes[np.arange(2), np.abs(axes[:2]).argmax(axis=1)])  # one of the two mirror images
            basis = (axes[:2] * signs[:, None]).T
            labels = tuple(f"principal axis {r + 1} of {d} ({share[r]:.0%} of the spread)" for r in range(2))
        if unit != 1.0:
            labels = tuple(f"{label}, in units of {unit:g}" if label else "" for label in labels)
        shown = cls(basis, labels, np.zeros(0), np.zeros(0), d, 1.0)(points)
        low, high = shown.min(axis=0), shown.max(axis=0)
        spread = float((high - low).max())
        if stretch and d in (2, 3) and spread > UNEQUAL * float((high - low).min()) > 0:
            pads = 0.08 * (high - low)
            return cls(basis, labels, low - pads, high + pads, d, unit, equal=False)
        pad = 0.08 * spread if spread > 1e-9 * size / unit else 0.5 * size / unit
        return cls(basis, labels, low - pad, high + pad, d, unit)

    @classmethod
    def of_trajectory(cls, trajectory: Trajectory) -> "Projection":
        """Choose axes for all layers or times and all real tokens of one cloud; on the sphere for the whole of it."""
        tokens = trajectory.drawn[:, trajectory.mask].astype(np.float64)
        if not isinstance(trajectory, SmoothTrajectory):
            return cls.of(tokens)
        tokens, d = tokens[: trajectory.reached], tokens.shape[-1]
        if isinstance(trajectory.rule, Sphere) and d <= 3:
            tokens = np.vstack([tokens.reshape(-1, d), np.eye(d), -np.eye(d)])
        rescaled = not trajectory.rule.continuous or trajectory.rescaled is not None
        return cls.of(tokens, letter="z" if rescaled else "x", stretch=True)

    @property
    def dimension(self) -> int:
        """Of the picture: 3 for d = 3, else 2."""
        return 3 if self.source == 3 else 2

    def __call__(self, tokens: FloatArray) -> FloatArray:
        """Coordinates in the picture, shape (..., 2 or 3)."""
        tokens = tokens / self.unit
        if self.source == 1:
            return np.concatenate([tokens, np.zeros_like(tokens)], axis=-1)
        return tokens if self.basis is None else tokens @ self.basis

    def label(self, ax: Any) -> None:
        """Name the axes and set their limits and aspect."""
        ax.set_xlabel(self.labels[0])
        ax.set_ylabel(self.labels[1])
        ax.set_xlim(self.low[0], self.high[0])
        ax.set_ylim(self.low[1], self.high[1])
        if self.dimension == 3:
            ax.set_zlabel(self.labels[2])
            ax.set_zlim(self.low[2], self.high[2])
            ax.set_box_aspect(self.high - self.low if self.equal else (1, 1, 1))
        else:
            ax.set_aspect("equal" if self.equal else "auto")
        ax.locator_params(nbins=4 if self.dimension == 3 else 6)  # more labels than that run into each other
        if self.source == 1:
            ax.set_yticks([])
