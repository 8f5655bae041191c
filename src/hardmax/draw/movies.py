"""Movies of a trajectory: GIF through Pillow, MP4 through ffmpeg."""

import shutil
from base64 import b64encode
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from html import escape
from io import BytesIO
from os import PathLike
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple, TypeAlias, cast

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
from matplotlib import animation
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from PIL import Image

from hardmax._errors import InputError, ParameterError, needed_for
from hardmax._files import check_ending, written_whole
from hardmax._validation import check_count
from hardmax.draw.flows import clusters_by_size, legend_of, plot_flow, position
from hardmax.draw.projection import Projection
from hardmax.draw.style import add_legend, new_axes
from hardmax.draw.tokens import Palette, check_trajectory, legend_line, plot_tokens, shown_rows
from hardmax.trajectories.base import Trajectory
from hardmax.trajectories.hardmax import HardmaxTrajectory
from hardmax.trajectories.smooth import SmoothTrajectory

ENDINGS = (".gif", ".mp4")
MOST_FRAMES = 120  # of a flow

Progress: TypeAlias = Callable[[int, int], None]  # called with (frames done, frames in all)


@dataclass(frozen=True, repr=False)
class Movie:
    """A movie that a notebook plays.

    Attributes
    ----------
    data : bytes
        The file.
    ending : ".gif" or ".mp4"
        What it is.

    Examples
    --------
    >>> import hardmax as hm
    >>> trajectory = hm.simulate(hm.configuration("triangle"), hm.Hardmax(0.5), layers=1)
    >>> movie = hm.draw.movie(trajectory, steps=1)
    >>> movie.save("gathering.mp4")
    Traceback (most recent call last):
    hardmax.ParameterError: `path` must end in .gif, as this movie is one. Got 'gathering.mp4'. ...
    """

    data: bytes
    ending: str

    @classmethod
    def of(cls, path: str | PathLike[str]) -> "Movie":
        """The movie that the file at `path` holds."""
        return cls(Path(path).read_bytes(), Path(path).suffix.lower())

    def __repr__(self) -> str:
        return f"<Movie of {len(self.data) / 1e3:,.0f} kB: movie.save('movie{self.ending}') writes it>"

    def _repr_html_(self) -> str:
        code = b64encode(self.data).decode()
        if self.ending == ".gif":
            return f'<img alt="{escape(repr(self))}" src="data:image/gif;base64,{code}">'
        return f'<video controls autoplay loop muted src="data:video/mp4;base64,{code}"></video>'

    def save(self, path: str | PathLike[str]) -> None:
        """Write it to `path`, which must have its ending, whole or not at all."""
        if check_ending(path, ENDINGS) != self.ending:
            advice = f"Make the movie anew: movie(trajectory, '{Path(path).name}')."
            raise ParameterError("path", f"end in {self.ending}, as this movie is one", repr(str(path)), advice)
        with written_whole(path) as temporary:
            temporary.write_bytes(self.data)


class Scene(NamedTuple):
    """A figure that can be drawn frame by frame: how to draw a position into its empty axes, and the positions."""

    figure: Figure
    draw_into_empty: Callable[[Any], object]
    frames: Sequence[float]  # between two layers tokens are on their way

    def draw(self, frame: float) -> None:
        for ax in self.figure.axes:
            ax.clear()
        self.draw_into_empty(frame)

    def movie(self, path: str | PathLike[str], *, fps: int = 12, progress: Progress | None = None) -> None:
        """Write all frames to a .gif or .mp4 file, whole or not at all, and close the figure."""
        writer = _writer(check_ending(path, ENDINGS), fps)
        frames = [*self.frames, *[self.frames[-1]] * (fps - 1)]  # the end stays for a second
        try:
            self.draw(frames[0])
            self.figure.draw_without_rendering()
            self.figure.set_layout_engine("none")  # laid out once; doing it for every frame takes most of the time
            with written_whole(path) as temporary, writer.saving(self.figure, str(temporary), 100):
                for done, frame in enumerate(frames, 1):
                    self.draw(frame)
                    writer.grab_frame()
                    if progress is not None:
                        progress(done, len(frames))
        finally:
            plt.close(self.figure)


def movie(
    trajectory: Trajectory,
    path: str | PathLike[str] | None = None,
    *,
    steps: int = 4,
    fps: int = 12,
    progress: Progress | None = None,
    palette: Palette | None = None,
    overlay: Callable[[Axes], None] | None = None,
) -> Movie:
    """Make a movie of one cloud from layer 0 to the last, or over the saved times.

    Between two layers tokens glide along the straight line that the layer moves them, in `steps` frames, so that the
    eye can follow; whole layers are what is computed. A `SmoothTrajectory` has a frame for each saved layer or time, at
    most 120 of them evenly chosen. The file is written whole or not at all.

    Parameters
    ----------
    trajectory : Trajectory
        Of one cloud, simulated with save="all".
    path : path ending in .gif or .mp4, optional
        Where to write it, whole or not at all.
    steps : int
        Frames a layer.
    fps : int
        Frames a second.
    progress : callable, optional
        Called with (frames done, frames in all).
    palette : Palette, optional
        Colours of tokens under hardmax.
    overlay : callable, optional
        Called with the axes after each frame, to draw more into it.

    Returns
    -------
    Movie
        It plays in a notebook, and `movie.save(path)` writes it; a GIF if no path is given.

    Raises
    ------
    ParameterTypeError
        If it is not a trajectory.
    InputError
        If it is that of a batch, or holds one layer alone.
    ParameterError
        If `path` has another ending, or a number is not positive.
    MissingExtra
        If an MP4 is asked for and there is no ffmpeg.

    Examples
    --------
    >>> import hardmax as hm
    >>> trajectory = hm.simulate(hm.configuration("triangle"), hm.Hardmax(0.5), layers=1)
    >>> movie = hm.draw.movie(trajectory, steps=1)
    >>> movie.ending, movie.data[:6]
    ('.gif', b'GIF89a')
    """
    if path is not None:
        check_ending(path, ENDINGS)
    check_trajectory(trajectory)
    steps, fps = check_count(steps, "steps", least=1), check_count(fps, "fps", least=1)
    trajectory.refuse_batch("movie(trajectory[b], path)")
    projection = Projection.of_trajectory(trajectory)
    draw, frames, legend = (
        _hardmax_frames(trajectory, projection, steps, palette or Palette(trajectory))
        if isinstance(trajectory, HardmaxTrajectory)
        else _flow_frames(cast(SmoothTrajectory, trajectory), projection)
    )
    ax = new_axes(projection)
    if legend:
        add_legend(ax.figure, legend)

    def draw_frame(frame: float) -> None:
        draw(ax, frame)
        if overlay is not None:
            overlay(ax)

    with TemporaryDirectory() as folder:
        file = Path(folder) / "movie.gif" if path is None else path
        Scene(ax.figure, draw_frame, frames).movie(file, fps=fps, progress=progress)
        return Movie.of(file)


def even_frames(last: int, most: int = MOST_FRAMES) -> list[int]:
    """Positions 0 to `last`, at most so many of them evenly chosen."""
    return [int(k) for k in np.unique(np.linspace(0, last, min(last + 1, most)).round())]


Frames: TypeAlias = tuple[Callable[[Axes, Any], object], Sequence[float], str]  # how to draw one, all, and a legend


def _hardmax_frames(trajectory: HardmaxTrajectory, projection: Projection, steps: int, palette: Palette) -> Frames:
    """Layers, and between them parts of the way to the next: 2.25 is a quarter of the way from layer 2 to 3."""
    if len(trajectory.saved) <= trajectory.layers:
        raise InputError('A movie needs every layer. Got the last alone. Simulate with `save="all"`.')

    def draw(ax: Axes, frame: float) -> None:
        k, between = int(frame), trajectory
        if frame > k:
            tokens = trajectory.array.copy()
            tokens[k] += ((frame - k) * (tokens[k + 1] - tokens[k])).astype(tokens.dtype)
            between = replace(trajectory, tokens=tokens)
        plot_tokens(between, k, ax=ax, palette=palette, projection=projection, polytope=k == trajectory.layers)

    frames = [k + s / steps for k in range(trajectory.layers) for s in range(steps)] + [trajectory.layers]
    shown = len(shown_rows(trajectory, projection))
    return draw, frames, legend_line(trajectory, palette, shown, shaded=len(trajectory.leaders) > 0)


def _flow_frames(trajectory: SmoothTrajectory, projection: Projection) -> Frames:
    if len(trajectory.saved) < 2:
        raise InputError('A movie needs several layers or times. Got the last alone. Simulate with `save="all"`.')
    clusters, frames = clusters_by_size(trajectory), even_frames(position(trajectory, -1))
    draw = partial(plot_flow, trajectory, projection=projection, clusters=clusters)
    return lambda ax, k: draw(k, ax=ax), frames, legend_of(trajectory, frames)


def _writer(ending: str, fps: int) -> animation.AbstractMovieWriter:
    if ending == ".gif":
        return OnePalette(fps=fps)
    mpl.rcParams["animation.ffmpeg_path"] = find_ffmpeg()
    return animation.FFMpegWriter(fps=fps, extra_args=["-pix_fmt", "yuv420p"])


class OnePalette(animation.PillowWriter):
    """A GIF whose frames share one palette, taken from its first and last: a colour means the same in all of them."""

    def setup(self, *figure_and_file: Any, **options: Any) -> None:
        super().setup(*figure_and_file, **options)
        self.frames: list[Image.Image] = []

    def grab_frame(self, **options: Any) -> None:
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
    with needed_for("An MP4 movie", "ffmpeg (or a .gif instead)", "movies"):
        import imageio_ffmpeg
    return str(imageio_ffmpeg.get_ffmpeg_exe())
