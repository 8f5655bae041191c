"""What shows itself in a notebook: pages, movies, and figures that are shown once."""

from base64 import b64encode
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial, wraps
from html import escape
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec

from hardmax._errors import ParameterError
from hardmax._files import check_ending, save_text, written_whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure

HTML = (".html", ".htm")
HEIGHT = 820  # of a page in a notebook, in pixels
Parameters = ParamSpec("Parameters")


class Page(str):
    """A page of HTML: a string that prints as a sentence, and that a notebook shows as the page it is.

    `str(page)` is the HTML, and `page.save(path)` writes it.

    Examples
    --------
    >>> import hardmax as hm
    >>> trajectory = hm.simulate(hm.configuration("triangle"), hm.Hardmax(0.5), layers=4)
    >>> page = hm.interactive(trajectory)
    >>> str(page)[:15].lower()
    '<!doctype html>'
    """

    def __repr__(self) -> str:
        return f"<Page of {len(self) / 1e3:,.0f} kB: page.save('page.html') writes it>"

    __str__ = str.__str__

    def _repr_html_(self) -> str:
        frame = f'width="100%" height="{HEIGHT}" style="border: 0" sandbox="allow-scripts"'
        return f'<iframe {frame} srcdoc="{escape(self)}"></iframe>'

    def save(self, path: str | PathLike[str]) -> None:
        """Write it to a .html file at `path`, whole or not at all."""
        check_ending(path, HTML)
        save_text(str(self), path)


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
        if check_ending(path, (".gif", ".mp4")) != self.ending:
            advice = f"Make the movie anew: movie(trajectory, '{Path(path).name}')."
            raise ParameterError("path", f"end in {self.ending}, as this movie is one", repr(str(path)), advice)
        with written_whole(path) as temporary:
            temporary.write_bytes(self.data)


def shows_once(plot: Callable[Parameters, "Figure"]) -> Callable[Parameters, "Figure"]:
    """Decorate a function that returns a figure so that a notebook shows it once.

    A notebook shows the value of a cell, and then all figures that Matplotlib has open: the same one twice.
    """

    @wraps(plot)
    def once(*given: Parameters.args, **options: Parameters.kwargs) -> "Figure":
        figure = plot(*given, **options)
        figure._ipython_display_ = partial(_show, figure)  # type: ignore[attr-defined]
        return figure

    return once


def _show(figure: Any) -> None:
    """Show a figure as the value of a cell, and close it where open figures are shown after the cell."""
    import matplotlib.pyplot as plt
    from IPython.display import display

    mine = figure.__dict__.pop("_ipython_display_")
    try:
        display(figure)
    finally:
        figure._ipython_display_ = mine
    if "inline" in plt.get_backend():
        plt.close(figure)
