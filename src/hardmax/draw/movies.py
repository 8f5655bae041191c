"""Movies of a trajectory: GIF through Pillow, MP4 through ffmpeg."""

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from io import BytesIO
from os import PathLike
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
from matplotlib import animation
from matplotlib.figure import Figure
from PIL import Image

from hardmax._errors import InputError, MissingExtra
from hardmax._files import check_ending, written_whole
from hardmax.draw.flows import add_legend, color_groups, has_shrinking_hull, leads, legend_line, plot_flow, position
from hardmax.draw.projection import Projection
from hardmax.draw.tokens import Palette, new_axes, plot_tokens
from hardmax.trajectories.base import Trajectory
from hardmax.trajectories.hardmax import HardmaxTrajectory

SUFFIXES = (".gif", ".mp4")
MOST_FRAMES = 120  # of a flow


@dataclass(frozen=True, eq=False)
class Scene:
    """A figure, how to draw one frame into it, and what is passed for each frame."""

    figure: Figure
    draw: Callable[..., None]
    frames: Sequence[tuple[Any, ...]]


def movie(
    trajectory: Trajectory,
    path: str | PathLike[str],
    *,
    steps: int = 4,
    fps: int = 12,
    progress: Callable[[int, int], None] | None = None,
    overlay: Callable[[Any], None] | None = None,
) -> None:
    """Film one cloud from layer 0 to the last, or over the saved times.

    Between two layers tokens glide along the straight line that the layer moves them, in `steps` frames, so that the
    eye can follow; whole layers are what is computed. A `SmoothTrajectory` has a frame for each saved layer or time, at
    most 120 of them evenly chosen. The file is written whole or not at all.

    Parameters
    ----------
    trajectory : Trajectory
        Of one cloud, simulated with save="all".
    path : path ending in .gif or .mp4
    steps, fps : int
        Frames a layer, and frames a second.
    progress : callable, optional
        Called with (frames done, frames in all).
    overlay : callable, optional
        Called with the axes after each frame, to draw more into it.
    """
    check_ending(path, SUFFIXES)
    trajectory.single("movie(trajectory[b], path)")
    projection = Projection.of_trajectory(trajectory)
    draw, frames = (
        _hardmax_frames(trajectory, projection, steps)
        if isinstance(trajectory, HardmaxTrajectory)
        else _flow_frames(trajectory, projection)
    )
    ax = new_axes(projection)
    if not isinstance(trajectory, HardmaxTrajectory):
        add_legend(ax.figure, _legend_of(trajectory, [frame[0] for frame in frames]))

    def redraw(*frame: Any) -> None:
        ax.clear()
        draw(ax, *frame)
        if overlay is not None:
            overlay(ax)

    film(Scene(ax.figure, redraw, frames), path, fps=fps, progress=progress)


def film(
    scene: Scene, path: str | PathLike[str], *, fps: int = 12, progress: Callable[[int, int], None] | None = None
) -> None:
    """Film a scene: any figure that can be drawn frame by frame. The file is written whole or not at all.

    Parameters
    ----------
    scene : Scene
    path : path ending in .gif or .mp4
    fps : int
        Frames a second.
    progress : callable, optional
        Called with (frames done, frames in all).
    """
    figure, frames = scene.figure, [*scene.frames, *[scene.frames[-1]] * (fps - 1)]  # the end stays for a second
    writer = _writer(check_ending(path, SUFFIXES), fps)
    try:
        scene.draw(*frames[0])
        figure.draw_without_rendering()
        figure.set_layout_engine("none")  # laid out once; doing it for every frame takes most of the time
        with written_whole(path) as temporary, writer.saving(figure, str(temporary), 100):
            for done, frame in enumerate(frames, 1):
                scene.draw(*frame)
                writer.grab_frame()
                if progress is not None:
                    progress(done, len(frames))
    finally:
        plt.close(figure)


def even_frames(last: int) -> list[tuple[int]]:
    """Positions 0 to `last`, at most 120 of them evenly chosen, a frame each."""
    return [(k,) for k in np.unique(np.linspace(0, last, min(last + 1, MOST_FRAMES)).round().astype(int)).tolist()]


def _hardmax_frames(
    trajectory: HardmaxTrajectory, projection: Projection, steps: int
) -> tuple[Callable[..., None], list[tuple[int, float]]]:
    """How to draw a frame (layer, part of the way to the next), and all frames."""
    if len(trajectory.saved) <= trajectory.layers:
        raise InputError('A movie needs every layer. Got the last alone. Simulate with save="all".')
    palette = Palette(trajectory)

    def draw(ax: Any, k: int, glide: float) -> None:
        shown = trajectory if glide == 0 else _between(trajectory, k, glide)
        plot_tokens(shown, k, ax=ax, palette=palette, projection=projection, polytope=k == trajectory.layers)

    return draw, [(k, s / steps) for k in range(trajectory.layers) for s in range(steps)] + [(trajectory.layers, 0.0)]


def _flow_frames(trajectory: Any, projection: Projection) -> tuple[Callable[..., None], list[tuple[int]]]:
    """How to draw a frame (position), and at most 120 frames."""
    if len(trajectory.saved) < 2:
        raise InputError('A movie needs several layers or times. Got the last alone. Simulate with save="all".')
    groups = color_groups(trajectory)
    last = position(trajectory, -1)

    def draw(ax: Any, k: int) -> None:
        plot_flow(trajectory, k, ax=ax, projection=projection, groups=groups)

    return draw, even_frames(last)


def _legend_of(trajectory: Any, positions: list[int]) -> str:
    """One line for the whole film."""
    real = trajectory.mask
    stars = any(leads(trajectory, k)[real].any() for k in positions)
    return legend_line(color_groups(trajectory)[real], stars=stars, hull=has_shrinking_hull(trajectory))


def _between(trajectory: HardmaxTrajectory, k: int, glide: float) -> HardmaxTrajectory:
    """The same trajectory with the tokens of layer k a part of the way to the next."""
    tokens = trajectory.array.copy()
    tokens[k] += (glide * (tokens[k + 1] - tokens[k])).astype(tokens.dtype)
    return replace(trajectory, tokens=tokens)


def _writer(suffix: str, fps: int) -> Any:
    """A Matplotlib writer for the ending."""
    if suffix == ".gif":
        return OnePalette(fps=fps)
    mpl.rcParams["animation.ffmpeg_path"] = find_ffmpeg()
    return animation.FFMpegWriter(fps=fps, extra_args=["-pix_fmt", "yuv420p"])


class OnePalette(animation.PillowWriter):
    """A GIF whose frames share one palette, taken from its first and last: a colour means the same in all of them."""

    def setup(self, *figure_and_file: Any, **options: Any) -> None:
        """Begin without frames."""
        super().setup(*figure_and_file, **options)
        self.frames: list[Image.Image] = []

    def grab_frame(self, **options: Any) -> None:
        """Keep the figure as it is now."""
        buffer = BytesIO()
        self.fig.savefig(buffer, format="rgba", dpi=self.dpi, **options)
        self.frames.append(Image.frombytes("RGBA", self.frame_size, buffer.getvalue()).convert("RGB"))

    def finish(self) -> None:
        """Quantise all frames alike, then write."""
        frames, (width, height) = self.frames, self.frames[0].size
        both = Image.new("RGB", (2 * width, height))
        both.paste(frames[0], (0, 0))
        both.paste(frames[-1], (width, 0))
        palette = both.quantize(256, method=Image.Quantize.MAXCOVERAGE, kmeans=4, dither=Image.Dither.NONE)
        first, *rest = [frame.quantize(palette=palette, dither=Image.Dither.NONE) for frame in frames]
        first.save(self.outfile, save_all=True, append_images=rest, duration=int(1000 / self.fps), loop=0, disposal=2)


def find_ffmpeg() -> str:
    """Path of an ffmpeg: the machine's own, else the one that the `movies` extra brings."""
    found = shutil.which("ffmpeg")
    if found:
        return found
    try:
        import imageio_ffmpeg
    except ImportError:
        raise MissingExtra("An MP4 movie", "ffmpeg (or a .gif instead)", "movies") from None
    return str(imageio_ffmpeg.get_ffmpeg_exe())
