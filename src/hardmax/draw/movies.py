"""Movies of a trajectory: GIF through Pillow, MP4 through ffmpeg."""

import shutil
from base64 import b64encode
from collections.abc import Callable
from dataclasses import dataclass, replace
from html import escape
from io import BytesIO
from os import PathLike
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
from matplotlib import animation
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from PIL import Image

from hardmax._errors import InputError, ParameterError, needed_for
from hardmax._files import check_ending, written_whole
from hardmax._types import AnyArray, Progress
from hardmax._validation import check_count
from hardmax.draw.flows import find_index
from hardmax.draw.projection import Projection
from hardmax.draw.style import add_legend, prepare_axes
from hardmax.draw.tokens import Palette, check_trajectory, plot_tokens, share_colours
from hardmax.trajectories.base import Trajectory
from hardmax.trajectories.hardmax import HardmaxTrajectory

ENDINGS = (".gif", ".mp4")
MAX_FRAMES = 120  # of a flow


@dataclass(frozen=True, repr=False)
class Movie:
    """A movie that a notebook plays.

    Attributes
    ----------
    data : bytes
        Content of the file.
    ending : ".gif" or ".mp4"
        The format.

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

    def __repr__(self) -> str:
        return (
            f"<Movie of {len(self.data) / 1e3:,.0f} kB:"
            f" movie.save('movie{self.ending}') writes it>"
        )

    def _repr_html_(self) -> str:
        code = b64encode(self.data).decode()
        if self.ending == ".gif":
            return (
                f'<img alt="{escape(repr(self))}" src="data:image/gif;base64,{code}">'
            )
        return (
            "<video controls autoplay loop muted"
            f' src="data:video/mp4;base64,{code}"></video>'
        )

    def save(self, path: str | PathLike[str]) -> None:
        """Write the movie atomically to `path`, which must have its ending."""
        if check_ending(path, ENDINGS) != self.ending:
            advice = f"Use movie(trajectory, '{Path(path).name}')."
            raise ParameterError(
                "path",
                f"end in {self.ending}, as this movie is one",
                repr(str(path)),
                advice,
            )
        with written_whole(path) as temporary:
            temporary.write_bytes(self.data)


def movie(
    trajectory: Trajectory,
    path: str | PathLike[str] | None = None,
    *,
    steps: int = 4,
    fps: int = 12,
    progress: Progress | None = None,
    palette: Palette | AnyArray | None = None,
    overlay: Callable[[Axes], None] | None = None,
) -> Movie:
    """Make a movie of one trajectory from layer 0 to the last, or over the saved times.

    Between two layers tokens are interpolated linearly, in `steps` frames per layer. A
    `SmoothTrajectory` has one frame per saved layer or time, at most 120 at equal
    distances. The file is written atomically.

    Parameters
    ----------
    trajectory : Trajectory
        Trajectory of one token set, simulated with save="all".
    path : path ending in .gif or .mp4, optional
        Output file.
    steps : int
        Frames per layer.
    fps : int
        Frames per second.
    progress : callable, optional
        Called with the number of written frames and the total.
    palette : Palette, or (n,) array of str, optional
        Colours of tokens under hardmax; under other rules the colour of each token.
    overlay : callable, optional
        Called with the axes after each frame, to add to it.

    Returns
    -------
    Movie
        A GIF if no path is given.

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
    trajectory = check_trajectory(trajectory)
    steps, fps = check_count(steps, "steps", least=1), check_count(fps, "fps", least=1)
    trajectory.refuse_batch("movie(trajectory[b], path)")
    frames: list[Any]
    if isinstance(trajectory, HardmaxTrajectory):
        last = trajectory.layers
        frames = [k + s / steps for k in range(last) for s in range(steps)] + [last]
    else:
        last, frames = 1, choose_frames(find_index(trajectory, -1))
    if len(trajectory.saved) <= last:
        raise InputError(
            "A movie needs all layers, or several times. Got only the last. Simulate"
            ' with `save="all"`.'
        )
    projection = Projection.of_trajectory(trajectory)
    shared, legend = share_colours(trajectory, frames, projection, palette)
    frames += frames[-1:] * (fps - 1)  # the last frame is shown for a second
    ax = prepare_axes(projection)
    add_legend(ax.figure, legend)

    def draw(frame: float) -> None:
        ax.clear()
        plot_tokens(
            _interpolate(trajectory, frame),
            int(frame),
            ax=ax,
            projection=projection,
            **shared,
        )
        if overlay is not None:
            overlay(ax)

    with TemporaryDirectory() as folder:
        file = Path(folder) / "movie.gif" if path is None else Path(path)
        try:
            _write_frames(ax.figure, draw, frames, file, fps, progress)
        finally:
            plt.close(ax.figure)
        return Movie(file.read_bytes(), file.suffix.lower())


def _write_frames(
    figure: Figure,
    draw: Callable[[Any], None],
    frames: list[Any],
    path: Path,
    fps: int,
    progress: Progress | None,
) -> None:
    """Write a .gif or .mp4 file atomically."""
    writer: animation.AbstractMovieWriter = SharedPaletteWriter(fps=fps)
    if path.suffix.lower() == ".mp4":
        mpl.rcParams["animation.ffmpeg_path"] = find_ffmpeg()
        writer = animation.FFMpegWriter(fps=fps, extra_args=["-pix_fmt", "yuv420p"])
    draw(frames[0])
    figure.draw_without_rendering()
    figure.set_layout_engine(
        "none"
    )  # one layout for all frames: it would take most of the time
    with written_whole(path) as temporary, writer.saving(figure, str(temporary), 100):
        for done, frame in enumerate(frames, 1):
            draw(frame)
            writer.grab_frame()
            if progress is not None:
                progress(done, len(frames))


def choose_frames(last: int, most: int = MAX_FRAMES) -> list[int]:
    """Return indices from 0 to `last`, at most `most` at equal distances."""
    return [
        int(k) for k in np.unique(np.linspace(0, last, min(last + 1, most)).round())
    ]


def _interpolate(trajectory: Trajectory, frame: float) -> Trajectory:
    """Return the trajectory with tokens at layer k = int(frame) moved a part frame - k
    of the way to layer k + 1.
    """
    k = int(frame)
    if frame == k:
        return trajectory
    tokens = trajectory.array.copy()
    tokens[k] += ((frame - k) * (tokens[k + 1] - tokens[k])).astype(tokens.dtype)
    return replace(trajectory, tokens=tokens)


class SharedPaletteWriter(animation.PillowWriter):
    """Write a GIF whose frames share the palette of the first and last frame, so that
    colours stay the same.
    """

    def setup(self, *figure_and_file: Any, **options: Any) -> None:
        super().setup(*figure_and_file, **options)
        self.frames: list[Image.Image] = []

    def grab_frame(self, **options: Any) -> None:
        buffer = BytesIO()
        self.fig.savefig(buffer, format="rgba", dpi=self.dpi, **options)
        self.frames.append(
            Image.frombytes("RGBA", self.frame_size, buffer.getvalue()).convert("RGB")
        )

    def finish(self) -> None:
        """Quantise all frames with one palette, then write."""
        frames, (width, height) = self.frames, self.frames[0].size
        both = Image.new("RGB", (2 * width, height))
        both.paste(frames[0], (0, 0))
        both.paste(frames[-1], (width, 0))
        palette = both.quantize(
            256, method=Image.Quantize.MAXCOVERAGE, kmeans=4, dither=Image.Dither.NONE
        )
        first, *rest = [
            frame.quantize(palette=palette, dither=Image.Dither.NONE)
            for frame in frames
        ]
        first.save(
            self.outfile,
            save_all=True,
            append_images=rest,
            duration=int(1000 / self.fps),
            loop=0,
            disposal=2,
        )


def find_ffmpeg() -> str:
    """Return the path of ffmpeg: the installed one, else that of the `movies` extra."""
    found = shutil.which("ffmpeg")
    if found:
        return found
    with needed_for("An MP4 movie", "ffmpeg (or a .gif instead)", "movies"):
        import imageio_ffmpeg
    return str(imageio_ffmpeg.get_ffmpeg_exe())
