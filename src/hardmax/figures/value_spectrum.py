"""Figures of arXiv 2305.05465 on the limits of self-attention, which the spectrum of V
determines.
"""

from typing import Any, NamedTuple

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure
from mpl_toolkits.mplot3d.art3d import Poly3DCollection

from hardmax import Polytope, SelfAttention, SmoothTrajectory, matrix, simulate
from hardmax._types import FloatArray, IntArray
from hardmax.draw import style
from hardmax.draw.flows import is_leader, make_flow_legend, rank_clusters
from hardmax.draw.projection import Projection
from hardmax.draw.style import COLOURS, EDGE, add_legend, cluster_colours, draw_lines
from hardmax.draw.tokens import plot_tokens
from hardmax.figures.shared import label_near_points, paper_figure

N_TOKENS = {2: 40, 3: 25}  # number of tokens by dimension
TIMES = np.linspace(0, 10, 201)
POLYTOPE_SHOWN = (0, 10, 30, 200)  # indices of TIMES
MATRICES = {
    "d = 2": matrix("paper-2d"),
    "d = 3, other eigenvalues with negative real part": matrix("paper-3d"),
    "d = 3, other eigenvalues with positive real part": matrix("paper-3d-positive"),
}
SEEDS = (5, 2, 2)
HYPERPLANE_LEGEND = (
    "stars lead at the end; colours: clusters at the end; planes and lines: limits of"
    " the tokens"
)
MERGE_LEVELS = 1e-3  # values closer than this part of the spread count as one
CODIMENSION_V = matrix("paper-codimension")
CODIMENSION_TIMES = np.linspace(0, 12, 121)  # later, rounding would decide attention
MERGE_LINES = (
    0.2  # points of the plane closer than this part of the initial spread count as one
)
CODIMENSION_TITLE = """Conjecture: tokens gather on parallel lines when two of three eigenvalues are positive
t = {:g}, not yet settled: scatter of $\\varphi_2 \\cdot z$ within a group up to {:.2g}"""
PRODUCT_V = np.diag([1.0, 1.0, -0.5])
# index of the time of the picture in 3-D, t = 3: later the third coordinate is far away
SOLID = 60
PRODUCT_LEGEND = (
    "stars lead at the end; colours and shaded: clusters and hull of $(z_1, z_2)$ at"
    " the end"
)
MERGE_CORNERS = (
    1e-2  # points of the plane closer than this part of the spread count as one
)
D = 128
COORDINATE_TIMES = np.linspace(0, 4, 81)  # 4 is about 27 / lambda_1
DENSITY = (
    0.1  # part of the entries of V that are not 0, before its eigenvalues are changed
)
N_SHOWN = 3  # coordinates of each sign that are drawn token by token
SIGNS = {1: ("positive", style.BLUE), -1: ("negative", style.ORANGE)}


def compute_polytope() -> dict[int, SmoothTrajectory]:
    """Simulate tokens uniform in [-5, 5]^d under V = I, Q^T K = I, for each d."""
    starts = {
        d: np.random.default_rng(1).uniform(-5, 5, (n, d)) for d, n in N_TOKENS.items()
    }
    return {
        d: simulate(tokens, SelfAttention(), times=TIMES)
        for d, tokens in starts.items()
    }


@paper_figure(
    "polytope_2d3d",
    "arXiv 2305.05465: V = I, tokens converge to vertices of a polytope",
    compute_polytope,
)
def draw_polytope(rows: dict[int, SmoothTrajectory]) -> Figure:
    """Draw a row per dimension and a column per time, with the hull of the tokens in
    the last column.
    """
    figure = plt.figure(figsize=(13, 7.2))
    figure.subplots_adjust(
        left=0.04, right=0.955, bottom=0.08, top=0.94, wspace=0.16, hspace=0.18
    )
    found = {d: rank_clusters(trajectory) for d, trajectory in rows.items()}
    for row, (d, trajectory) in enumerate(rows.items()):
        projection = Projection.of_trajectory(trajectory)
        for column, k in enumerate(POLYTOPE_SHOWN):
            place = row * len(POLYTOPE_SHOWN) + column + 1
            ax: Any = figure.add_subplot(
                len(rows),
                len(POLYTOPE_SHOWN),
                place,
                projection="3d" if d == 3 else None,
            )
            plot_tokens(trajectory, k, ax=ax, projection=projection, clusters=found[d])
            ax.set_title(f"t = {TIMES[k]:g}" if row == 0 else "", fontsize=13)
            ax.tick_params(labelsize=8)
            if d == 2 and column:
                ax.set_ylabel("")
    add_legend(
        figure,
        make_flow_legend(np.concatenate(list(found.values())), stars=True, hull=True),
        fontsize=11,
    )
    return figure


class Panel(NamedTuple):
    """A trajectory, the functional phi_1 with phi_1 V = lambda_1 phi_1, its values, and
    groups of equal values.
    """

    trajectory: SmoothTrajectory
    phi: FloatArray  # (d,), of length 1, with positive sum
    values: FloatArray  # (times, n)
    planes: IntArray  # (n,) label of the plane of each token, from the lowest value up

    @property
    def levels(self) -> FloatArray:
        """The values at the end, one for each plane."""
        return np.array(
            [
                self.values[-1, self.planes == g].mean()
                for g in range(self.planes.max() + 1)
            ]
        )


def compute_hyperplanes() -> dict[str, Panel]:
    """Simulate twenty tokens uniform in [-5, 5]^d for each V, with Q^T K = I."""
    panels = {}
    for (name, V), seed in zip(MATRICES.items(), SEEDS, strict=True):
        tokens = np.random.default_rng(seed).uniform(-5, 5, (20, len(V)))
        trajectory = simulate(tokens, SelfAttention(V=V), times=TIMES)
        eigenvalues, left = np.linalg.eig(np.array(V).T)
        phi = left[:, eigenvalues.real.argmax()].real
        phi = np.asarray(phi / np.linalg.norm(phi) * np.sign(phi.sum()))
        values = trajectory.rescaled @ phi
        order = np.argsort(values[-1])
        steps = np.diff(values[-1, order]) > MERGE_LEVELS * np.ptp(values[-1])
        planes = np.empty(20, np.intp)
        planes[order] = np.concatenate([[0], np.cumsum(steps)])
        panels[name] = Panel(trajectory, phi, values, planes)
    return panels


@paper_figure(
    "hyperplanes_2d3d",
    "arXiv 2305.05465: tokens converge to parallel hyperplanes",
    compute_hyperplanes,
)
def draw_hyperplanes(panels: dict[str, Panel]) -> Figure:
    """Draw tokens at the end on their hyperplanes, and below phi_1 . z_i in time."""
    layout = style.padded_layout()
    layout.set(
        rect=(0, 0, 0.97, 1)
    )  # constrained layout does not measure the label of the z axis
    figure = plt.figure(figsize=(13, 7.8), layout=layout)
    grid = figure.add_gridspec(2, len(panels), height_ratios=(1.75, 1))
    for column, (name, panel) in enumerate(panels.items()):
        ax: Any = figure.add_subplot(
            grid[0, column], projection="3d" if len(panel.phi) == 3 else None
        )
        plot_tokens(panel.trajectory, ax=ax, clusters=panel.planes)
        ax.set_title(
            f"{name}, t = {TIMES[-1]:g}".replace(" with ", "\nwith "), fontsize=12
        )
        Z = panel.trajectory.drawn[-1]
        span = 0.75 * np.linalg.norm(Z - Z.mean(axis=0), axis=1).max()
        for level, colour in zip(panel.levels, COLOURS, strict=False):
            foot = Z.mean(axis=0) + (level - Z.mean(axis=0) @ panel.phi) * panel.phi
            line = {"color": colour, "alpha": 0.25, "lw": 6, "zorder": 0}
            plane = {
                "facecolors": colour,
                "edgecolors": colour,
                "alpha": 0.16,
                "linewidths": 0.6,
            }
            style.draw_hyperplane(
                ax, foot, panel.phi, span=span, line=line, plane=plane
            )
        if len(panel.phi) == 3:
            _look_from_the_side(ax, panel.phi)
        else:
            ax.locator_params(axis="x", nbins=4)
        below = figure.add_subplot(grid[1, column])
        for curve, colour in zip(
            panel.values.T, cluster_colours(panel.planes), strict=True
        ):
            below.plot(TIMES, curve, color=colour, lw=1.1)
        below.set(xlabel="t", xlim=(0, TIMES[-1]))
        below.set_ylabel(
            r"$\varphi_1 \cdot z_i(t)$" if column == 0 else "", fontsize=12
        )
        below.spines[["top", "right"]].set_visible(False)
    add_legend(figure, HYPERPLANE_LEGEND, fontsize=11)
    return figure


def _look_from_the_side(ax: Any, phi: FloatArray) -> None:
    """Turn 3-D axes so that planes with normal phi are seen nearly from the side."""
    limits = np.array([ax.get_xlim(), ax.get_ylim(), ax.get_zlim()])
    ax.set_box_aspect(
        np.ptp(limits, axis=1), zoom=1.0
    )  # from the side there is more room
    side = np.cross(phi, [0, 0, 1.0])
    side /= np.linalg.norm(side)
    view = side + 0.3 * np.cross(side, phi) + 0.12 * phi
    view /= np.linalg.norm(view)
    ax.set_proj_type("ortho")  # parallel planes look parallel
    ax.view_init(
        elev=np.degrees(np.arcsin(view[2])),
        azim=np.degrees(np.arctan2(view[1], view[0])),
    )


class Codimension(NamedTuple):
    """A trajectory, its tokens in the eigenbasis of V (largest eigenvalue first), and
    the line each token ends on.
    """

    trajectory: SmoothTrajectory
    eigenvalues: FloatArray  # (3,)
    coordinates: FloatArray  # (times, n, 3), phi_r . z
    lines: IntArray  # (n,) label of the line of each token

    @property
    def scatter(self) -> float:
        """The largest range of phi_2 . z among the tokens of one line at the end."""
        return max(
            float(np.ptp(self.coordinates[-1, self.lines == g, 1]))
            for g in np.unique(self.lines)
        )


def compute_codimension() -> Codimension:
    """Simulate twenty tokens uniform in [-5, 5]^3 under the paper's V, with Q^T K = I."""
    rule = SelfAttention(V=CODIMENSION_V)
    trajectory = simulate(
        np.random.default_rng(1).uniform(-5, 5, (20, 3)), rule, times=CODIMENSION_TIMES
    )
    eigenvalues, vectors = np.linalg.eigh(CODIMENSION_V)
    coordinates = trajectory.rescaled @ vectors[:, ::-1]
    plane = coordinates[..., :2]
    lines = label_near_points(plane[-1], MERGE_LINES * np.ptp(plane[0], axis=0).max())
    return Codimension(trajectory, eigenvalues[::-1], coordinates, lines)


@paper_figure(
    "codimension_k",
    "arXiv 2305.05465: conjecture, lines of codimension 2",
    compute_codimension,
)
def draw_codimension(result: Codimension) -> Figure:
    """Draw the coordinates of the positive eigenvalues at the start and at the end,
    then all three.
    """
    names = [
        rf"$\varphi_{r} \cdot z$  ($\lambda_{r}$ = {x:.2f})"
        for r, x in enumerate(result.eigenvalues, 1)
    ]
    figure = plt.figure(figsize=(13.5, 5.6))
    figure.subplots_adjust(left=0.05, right=0.94, bottom=0.15, top=0.81, wspace=0.2)
    figure.suptitle(
        CODIMENSION_TITLE.format(CODIMENSION_TIMES[-1], result.scatter), fontsize=13
    )
    plane, colours = result.coordinates[..., :2], cluster_colours(result.lines)
    low, high, pad = (
        plane.min(axis=(0, 1)),
        plane.max(axis=(0, 1)),
        0.06 * np.ptp(plane),
    )
    dots: dict[str, Any] = {
        "s": style.SIZE,
        "c": colours,
        "edgecolors": EDGE,
        "linewidths": 0.6,
    }
    for place, k in ((1, 0), (2, len(CODIMENSION_TIMES) - 1)):
        ax: Any = figure.add_subplot(1, 3, place)
        for i, colour in enumerate(colours):
            ax.plot(*plane[: k + 1, i].T, color=colour, lw=0.8, alpha=0.6)
        ax.scatter(*plane[k].T, zorder=3, **dots)
        ax.set(
            xlim=(low[0] - pad, high[0] + pad),
            ylim=(low[1] - pad, high[1] + pad),
            aspect="equal",
        )
        ax.set(xlabel=names[0], ylabel=names[1])
        ax.set_title(f"t = {CODIMENSION_TIMES[k]:g}", fontsize=12)
    solid: Any = figure.add_subplot(1, 3, 3, projection="3d")
    end = result.coordinates[-1]
    reach = 1.15 * np.abs(end[:, 2]).max()
    for g in np.unique(result.lines):
        foot = end[result.lines == g, :2].mean(axis=0)
        solid.plot(
            *np.repeat(foot[:, None], 2, axis=1),
            [-reach, reach],
            color=style.GREY,
            lw=1.2,
        )
    solid.scatter(*end.T, depthshade=False, **dots)
    solid.set(xlabel=names[0], ylabel=names[1], zlabel=names[2], zlim=(-reach, reach))
    solid.locator_params(nbins=4)
    solid.xaxis.labelpad, solid.yaxis.labelpad, solid.zaxis.labelpad = 8, 10, 12
    solid.tick_params(axis="z", pad=5)
    solid.set_title(f"t = {CODIMENSION_TIMES[-1]:g}", fontsize=12)
    solid.view_init(elev=18, azim=-60)
    solid.set_box_aspect((1, 1, 1), zoom=1.05)
    add_legend(figure, "colours: the line on which a token ends", fontsize=11)
    return figure


def compute_product() -> tuple[SmoothTrajectory, IntArray]:
    """Simulate 25 tokens uniform in [-5, 5]^3, and label those that share (z_1, z_2) at
    the end.
    """
    trajectory = simulate(
        np.random.default_rng(3).uniform(-5, 5, (25, 3)),
        SelfAttention(V=PRODUCT_V),
        times=TIMES,
    )
    plane = trajectory.rescaled[-1, :, :2]
    return trajectory, label_near_points(plane, MERGE_CORNERS * np.ptp(plane))


@paper_figure(
    "product_polytope_subspace",
    "arXiv 2305.05465: tokens on a polytope times a subspace",
    compute_product,
)
def draw_product(data: tuple[SmoothTrajectory, IntArray]) -> Figure:
    """Draw the prism in 3-D while it forms, and its base polygon at the end, with the
    final leaders as stars.
    """
    trajectory, corners = data
    figure = plt.figure(figsize=(11.5, 6.4))
    figure.subplots_adjust(left=0.0, right=0.97, bottom=0.13, top=0.93, wspace=0.12)
    early, plane = trajectory.rescaled[: SOLID + 1], trajectory.rescaled[..., :2]
    base = Polytope(plane[-1])
    solid: Any = figure.add_subplot(1, 2, 1, projection="3d")
    plot_tokens(
        trajectory, SOLID, ax=solid, clusters=corners, projection=Projection.of(early)
    )
    outline, reach = base.vertices[base.outline], 1.05 * np.abs(early[-1, :, 2]).max()
    sides = zip(outline, np.roll(outline, -1, axis=0), strict=True)
    walls = [[(*a, -reach), (*b, -reach), (*b, reach), (*a, reach)] for a, b in sides]
    wall = {
        "facecolors": style.SHADE,
        "edgecolors": "#8899AA",
        "alpha": 0.15,
        "linewidths": 0.6,
    }
    solid.add_collection3d(Poly3DCollection(walls, **wall))
    solid.set_zlim(-reach, reach)
    solid.view_init(elev=22, azim=-58)
    solid.set_box_aspect((1, 1, 1.25), zoom=1.05)
    solid.set_title(f"t = {TIMES[SOLID]:g}", fontsize=12)
    ax: Any = figure.add_subplot(1, 2, 2)
    Projection.of(plane).label(ax)
    style.shade_polytope(ax, base)
    colours = np.array(cluster_colours(corners))
    draw_lines(ax, plane.swapaxes(0, 1), colours.tolist(), linewidths=0.8, alpha=0.6)
    stars = is_leader(
        trajectory, len(TIMES) - 1
    )  # one per vertex, drawn above the others
    look = {
        "s": 3.2 * style.SIZE,
        "c": colours[stars],
        "marker": "*",
        "edgecolors": EDGE,
        "linewidths": 0.6,
    }
    ax.scatter(*plane[-1, stars].T, zorder=3, **look)
    ax.set_title(f"the leading eigenspace, t = {TIMES[-1]:g}", fontsize=12)
    add_legend(figure, PRODUCT_LEGEND, fontsize=11)
    return figure


def compute_coordinates() -> tuple[FloatArray, FloatArray]:
    """Return the eigenvalues of a sparse random symmetric V, all of modulus above 1,
    and rescaled tokens in its basis.

    The 128 tokens are uniform in [-1/2, 1/2]^128; their coordinates have the shape
    (times, n, d).
    """
    rng = np.random.default_rng(0)
    sparse = rng.uniform(size=(D, D)) * (rng.uniform(size=(D, D)) < DENSITY)
    eigenvalues, vectors = np.linalg.eigh((sparse + sparse.T) / 2)
    small = np.abs(eigenvalues) <= 1
    eigenvalues[small] = np.sign(eigenvalues[small]) * rng.uniform(
        1, 2, int(small.sum())
    )
    V = (vectors * eigenvalues) @ vectors.T
    tokens = rng.uniform(-0.5, 0.5, (D, D))
    rule = SelfAttention(V=(V + V.T) / 2)
    trajectory = simulate(tokens, rule, times=COORDINATE_TIMES, rtol=1e-6, atol=1e-8)
    return eigenvalues, trajectory.rescaled @ vectors


@paper_figure(
    "coordinates_128",
    "arXiv 2305.05465: coordinates in the eigenbasis of V, d = 128",
    compute_coordinates,
)
def draw_coordinates(result: tuple[FloatArray, FloatArray]) -> Figure:
    """Draw three coordinates of each sign in time, and on the right the mean modulus of
    all coordinates.
    """
    eigenvalues, coordinates = result
    figure = plt.figure(figsize=(13.5, 6.2), layout="constrained")
    grid = figure.add_gridspec(2, N_SHOWN + 2)
    sizes: Any = figure.add_subplot(grid[:, N_SHOWN:])
    start, end = np.abs(coordinates[[0, -1]]).mean(axis=1)  # (d,) each
    circle = {"s": 14, "c": "white", "edgecolors": EDGE, "linewidths": 0.6}
    sizes.scatter(eigenvalues, start, label="t = 0, all alike", **circle)
    for line, (sign, (name, colour)) in enumerate(SIGNS.items()):
        rows = np.flatnonzero(sign * eigenvalues > 0)
        label = f"t = {COORDINATE_TIMES[-1]:g}, the {len(rows)} with {name} eigenvalue"
        dots: dict[str, Any] = {
            "s": 26,
            "c": colour,
            "edgecolors": EDGE,
            "linewidths": 0.4,
        }
        sizes.scatter(eigenvalues[rows], end[rows], label=label, **dots)
        order = rows[np.argsort(-np.abs(eigenvalues[rows]))]
        for column, r in enumerate(
            order[np.linspace(0, len(order) - 1, N_SHOWN).round().astype(int)]
        ):
            ax, values = (
                figure.add_subplot(grid[line, column]),
                coordinates[..., r],
            )  # (times, n)
            times = np.broadcast_to(COORDINATE_TIMES[:, None], values.shape)
            paths = np.stack([times, values], axis=-1).swapaxes(0, 1)  # (n, times, 2)
            draw_lines(ax, paths, colour, linewidths=0.6, alpha=0.35)
            ax.set(
                xlabel="t",
                xlim=(0, COORDINATE_TIMES[-1]),
                ylim=np.array([-1.05, 1.05]) * np.abs(values).max(),
            )
            ax.set_title(rf"$\lambda_r$ = {eigenvalues[r]:.2f}", fontsize=11)
            ax.spines[["top", "right"]].set_visible(False)
            if column == 0:
                ax.set_ylabel(
                    rf"$\varphi_r \cdot z_i$, {name} $\lambda_r$", fontsize=11
                )
    sizes.set(
        xlabel=r"eigenvalue $\lambda_r$",
        ylabel=r"mean over tokens of $|\varphi_r \cdot z_i|$",
        yscale="log",
    )
    sizes.set_title(
        f"all {len(eigenvalues)} coordinates: the negative grow", fontsize=11
    )
    sizes.legend(frameon=False, fontsize=10)
    sizes.spines[["top", "right"]].set_visible(False)
    return figure
