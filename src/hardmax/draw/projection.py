"""Axes of pictures: the map of tokens to two or three coordinates, with labels, limits
and ticks.

Tokens are drawn in their coordinates for d <= 3, else in two principal axes. Rescaled
tokens of self-attention converge in the leading directions of V and may grow without
bound in the others. If the others are more than ten times as wide, the axes are the
leading directions and their orthogonal complement, and the wide axes are logarithmic
beyond the size of the leading ones.
"""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy.linalg import qr

from hardmax._errors import InputError
from hardmax._types import FloatArray
from hardmax.flows.classify import classify_values
from hardmax.rules.self_attention import SelfAttention
from hardmax.rules.sphere import Sphere
from hardmax.trajectories.base import Trajectory
from hardmax.trajectories.smooth import SmoothTrajectory

MAX_RATIO = {2: 20.0, 3: 3.0}  # of the spreads of two coordinates on one scale, by d
# of other directions relative to the leading ones, before the axes follow the leading
# ones
MAX_WIDTH = 10.0
PAD = 0.08  # margin on each side, as a part of the spread
ZOOM = 1.03  # of a 3-D box; with a larger one the axis labels are cut off


@dataclass(frozen=True, eq=False)
class Projection:
    """A map of tokens to the 2 or 3 coordinates of a picture, with the labels and
    limits of its axes.

    `of` and `of_trajectory` construct one; pictures that share it have the same axes.

    Attributes
    ----------
    basis : (source, 2 or 3) array or None
        Columns are the axes; None for the coordinates themselves.
    labels : tuple of str
        Labels of the axes.
    source : int
        The dimension of the tokens.
    unit : float
        Power of ten by which tokens far from 1 are divided.
    equal : bool
        Whether all axes have one scale.
    log_beyond : array or None
        For each axis the value beyond which it is logarithmic, 0 for linear axes.
    low, high : (2,) or (3,) arrays
        Limits of the axes.

    Examples
    --------
    >>> import hardmax as hm
    >>> trajectory = hm.simulate(hm.configuration("triangle"), hm.Hardmax(0.5), layers=8)
    >>> projection = hm.draw.Projection.of_trajectory(trajectory)
    >>> projection.dimension, projection.labels
    (2, ('$z_{1}$', '$z_{2}$'))
    """

    basis: FloatArray | None
    labels: tuple[str, ...]
    source: int
    unit: float = 1.0
    equal: bool = True
    log_beyond: FloatArray | None = None
    low: FloatArray = field(default_factory=lambda: np.zeros(0))
    high: FloatArray = field(default_factory=lambda: np.zeros(0))

    @classmethod
    def of(
        cls, tokens: FloatArray, *, letter: str = "z", stretch: bool = False
    ) -> "Projection":
        """Return axes for tokens of shape (..., d), all layers at once.

        With `stretch`, coordinates have separate scales if their spreads differ more
        than 20 times, in 3-D 3 times.
        """
        points = tokens.reshape(-1, tokens.shape[-1])
        d = points.shape[1]
        size = float(np.abs(points).max()) or 1.0
        if not np.isfinite(size):
            raise InputError(
                "Tokens must be finite to be drawn. Got infinities: without"
                " normalisation they left the range of floats. Simulate fewer layers,"
                " or with `normalize=True`."
            )
        unit = 1.0 if 1e-100 < size < 1e100 else 10.0 ** int(np.floor(np.log10(size)))
        points = points / unit
        basis, labels = None, tuple(f"${letter}_{{{r + 1}}}$" for r in range(d))
        if d == 1:
            labels = (f"${letter}$", "")
        elif d > 3:
            centred = (points - points.mean(axis=0)) / (size / unit)
            _, scales, axes = np.linalg.svd(
                np.vstack([centred, np.zeros((2, d))]), full_matrices=False
            )
            share = scales**2 / ((scales**2).sum() or 1.0)
            signs = np.sign(
                axes[np.arange(2), np.abs(axes[:2]).argmax(axis=1)]
            )  # a fixed sign of each axis
            basis = (axes[:2] * signs[:, None]).T
            labels = tuple(
                f"principal axis {r + 1} of {d} ({share[r]:.0%} of the spread)"
                for r in range(2)
            )
        if unit != 1.0:
            labels = tuple(
                f"{label}, in units of {unit:g}" if label else "" for label in labels
            )
        view = cls(basis, labels, d, unit)
        spreads = np.ptp(view(tokens.reshape(-1, d)), axis=0)
        spread = float(spreads.max())
        if (
            stretch
            and d in MAX_RATIO
            and spread > MAX_RATIO[d] * float(spreads.min()) > 0
        ):
            return replace(view, equal=False).fit_limits(tokens, PAD * spreads)
        return view.fit_limits(
            tokens, PAD * spread if spread > 1e-9 * size / unit else 0.5 * size / unit
        )

    @classmethod
    def of_trajectory(cls, trajectory: Trajectory) -> "Projection":
        """Return axes for all layers or times of a trajectory; for `Sphere`, axes that
        contain the sphere.
        """
        tokens = trajectory.drawn[:, trajectory.mask].astype(np.float64)
        if not isinstance(trajectory, SmoothTrajectory):
            return cls.of(tokens)
        if not trajectory.reached:
            raise InputError(
                "Tokens must be finite to be drawn. Got none at the saved times. Save"
                " earlier times."
            )
        tokens, d = tokens[: trajectory.reached], tokens.shape[-1]
        if isinstance(trajectory.rule, Sphere) and d <= 3:
            tokens = np.vstack([tokens.reshape(-1, d), np.eye(d), -np.eye(d)])
        along = None
        if trajectory.gathering is not trajectory.drawn and isinstance(
            trajectory.rule, SelfAttention
        ):
            gathering = classify_values(
                trajectory.rule, d
            ).dual  # (d, k): the directions that converge
            along = cls._along_leading(
                tokens.reshape(-1, d), gathering, trajectory.letter
            )
        return along or cls.of(tokens, letter=trajectory.letter, stretch=True)

    @classmethod
    def _along_leading(
        cls, points: FloatArray, gathering: FloatArray, letter: str
    ) -> "Projection | None":
        """Return axes along the leading directions and orthogonal to them if the latter
        are far wider, else None.
        """
        d = points.shape[1]
        leading, free = parts = (
            _orthonormal(gathering),
            _orthonormal(gathering, complement=True),
        )
        width = float(np.ptp(points @ leading, axis=0).max())
        if (
            not free.shape[1]
            or float(np.ptp(points @ free, axis=0).max()) <= MAX_WIDTH * width
        ):
            return None
        if (
            d == 3 and np.abs(free).max(axis=0).min() < 1 - 1e-9
        ):  # not coordinate axes: the widest direction first
            parts = leading, _widest(points, free, free.shape[1])
        elif (
            d > 3
        ):  # two axes: both leading, or one of each kind if only one direction leads
            drawn = leading if leading.shape[1] <= 2 else _widest(points, leading, 2)
            parts = drawn, _widest(points, free, 2 - drawn.shape[1])
        basis = np.hstack(parts)
        words = (
            ("leading", "free") if d == 3 else ("leading direction", "free direction")
        )  # shorter for three axes
        labels = [
            f"{word} {r + 1}" if M.shape[1] > 1 else word
            for word, M, drawn in zip(words, (leading, free), parts, strict=True)
            for r in range(drawn.shape[1])
        ]
        axis = np.abs(basis).argmax(axis=0)
        aligned = np.abs(basis).max(axis=0) > 1 - 1e-9
        labels = [
            f"${letter}_{{{r + 1}}}$" if a else label
            for r, a, label in zip(axis, aligned, labels, strict=True)
        ]
        if aligned.all():
            order = np.argsort(axis)
            basis, labels = basis[:, order], [labels[r] for r in order]
        wide = np.ptp(points @ basis, axis=0) > MAX_WIDTH * width
        size = float(f"{np.abs(points @ leading).max() or 1.0:.0e}")
        labels = [f"{label} (d = {d})" for label in labels] if d > 3 else labels
        labels = [
            f"{label}, log beyond {size:g}" if far else label
            for label, far in zip(labels, wide, strict=True)
        ]
        view = cls(basis, tuple(labels), d, equal=False, log_beyond=size * wide)
        spreads = np.ptp(view(points), axis=0)
        return view.fit_limits(points, PAD * np.where(spreads > 0, spreads, size))

    def fit_limits(self, tokens: FloatArray, pad: FloatArray | float) -> "Projection":
        """Return the same projection with limits around tokens of shape (..., d)."""
        points = self(tokens.reshape(-1, self.source))
        return replace(
            self, low=points.min(axis=0) - pad, high=points.max(axis=0) + pad
        )

    @property
    def dimension(self) -> int:
        """Number of coordinates of the picture: 2 or 3."""
        return len(self.labels)

    def __call__(self, tokens: FloatArray) -> FloatArray:
        """Return coordinates in the picture, shape (..., 2 or 3)."""
        tokens = tokens / self.unit
        if self.source == 1:
            return np.concatenate([tokens, np.zeros_like(tokens)], axis=-1)
        points = tokens if self.basis is None else tokens @ self.basis
        if self.log_beyond is None:
            return points
        size = np.where(self.log_beyond > 0, self.log_beyond, 1.0)
        return np.where(self.log_beyond > 0, size * np.arcsinh(points / size), points)

    def ticks(self, r: int) -> dict[float, float] | None:
        """Return ticks of a logarithmic axis, {position: number}, at 0 and some powers
        of ten; None for linear axes.
        """
        size = 0.0 if self.log_beyond is None else float(self.log_beyond[r])
        if not size:
            return None
        low, high = size * np.sinh(np.array([self.low[r], self.high[r]]) / size)
        reach = np.log10(max(abs(low), abs(high)))
        middle = (reach + np.log10(size)) / 2  # roughly the middle of the axis
        exponents = np.floor([middle, reach] if 10**middle > 4 * size else [reach])
        powers = 10.0 ** np.unique(exponents)
        numbers = [x for x in (*-powers[::-1], 0.0, *powers) if low <= x <= high]
        return {float(size * np.arcsinh(x / size)): float(x) for x in numbers}

    def label(self, ax: Any) -> None:
        """Set labels, limits, ticks and aspect of the axes."""
        ax.locator_params(
            nbins=4 if self.dimension == 3 else 6
        )  # more labels would overlap
        for r, letter in enumerate("xyz"[: self.dimension]):
            ax.set(
                **{
                    f"{letter}label": self.labels[r],
                    f"{letter}lim": (self.low[r], self.high[r]),
                }
            )
            ticks = self.ticks(r)
            if ticks is not None:
                getattr(ax, f"set_{letter}ticks")(
                    list(ticks), [_power(x) for x in ticks.values()]
                )
        if self.dimension == 3:
            sides = self.high - self.low if self.equal else np.ones(3)
            flat = np.linalg.norm(sides) / (
                np.sqrt(3) * sides.max()
            )  # Matplotlib would enlarge a flat box
            ax.set_box_aspect(sides, zoom=ZOOM * flat)
            ax.zaxis.labelpad = 5
            if self.log_beyond is not None:
                for axis in (ax.xaxis, ax.yaxis, ax.zaxis):
                    axis.label.set_size(8)  # long labels
        else:
            ax.set_aspect("equal" if self.equal else "auto")
        if self.source == 1:
            ax.set_yticks([])


def _orthonormal(M: FloatArray, *, complement: bool = False) -> FloatArray:
    """Return an orthonormal basis of the column space or its complement; coordinate
    axes if they span it.
    """
    Q = np.linalg.qr(M)[0]
    onto = np.eye(len(M)) - Q @ Q.T if complement else Q @ Q.T
    count = len(M) - Q.shape[1] if complement else Q.shape[1]
    basis = qr(onto, pivoting=True)[0][:, :count]
    largest = np.abs(basis).argmax(axis=0)
    basis = basis * np.sign(basis[largest, np.arange(count)])
    return np.asarray(basis[:, np.argsort(largest, kind="stable")])


def _widest(points: FloatArray, M: FloatArray, count: int) -> FloatArray:
    """Return the principal axes of points within the column space of M."""
    within = points @ M
    axes = np.linalg.svd(
        (within - within.mean(axis=0)) / (np.abs(within).max() or 1.0),
        full_matrices=False,
    )[2]
    return np.asarray(M @ axes[:count].T)


def _power(x: float) -> str:
    return f"${'-' if x < 0 else ''}10^{{{round(np.log10(abs(x)))}}}$" if x else "0"
