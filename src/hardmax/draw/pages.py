"""HTML: pages and reports of trajectories, and the cards that notebooks show.

Templates are in `templates/`. A page is one file: nothing is loaded from another host.
"""

import base64
import io
import re
from collections.abc import Mapping, Sequence
from functools import cache
from html import escape
from os import PathLike
from typing import Any, NamedTuple, cast

import matplotlib.pyplot as plt
import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from matplotlib.figure import Figure

from hardmax._display import format_point
from hardmax._errors import ParameterError
from hardmax._files import check_ending, save_text
from hardmax._types import AnyArray
from hardmax._version import __version__
from hardmax.draw.flows import describe_expected_limit
from hardmax.draw.player import embed_certificate, make_player
from hardmax.draw.projection import Projection
from hardmax.draw.style import shows_once
from hardmax.draw.text_page import ExplanationView
from hardmax.draw.tokens import (
    Palette,
    check_trajectory,
    choose_limit_colours,
    plot_layers,
    plot_limit,
    plot_tokens,
)
from hardmax.theorems import Verdict, check
from hardmax.trajectories.base import Trajectory
from hardmax.trajectories.hardmax import HardmaxTrajectory
from hardmax.trajectories.limit import Limit
from hardmax.trajectories.smooth import SmoothTrajectory

HTML = (".html", ".htm")
HEIGHT = 820  # of a page in a notebook, in pixels
MAX_SHAPES = 3_000  # of a collection in SVG; larger ones become a raster image
DPI = 200  # of the raster image in its place
MAX_CARD_ROWS, MAX_PAGE_ROWS = 12, 40  # of a table of limit points
MAX_LEADERS = 12  # in a card
POINTS = ("point", "what it is", "since layer", "tokens")
LIMIT = (
    "From every token to its limit: here stars lead, and squares are convex"
    " combinations of leaders."
)
RESCALED = Markup("Rescaled tokens z = e<sup>-tV</sup> x")


class Page(str):
    """A page of HTML: a string that a notebook shows as a page, with a short `repr`.

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

    def _repr_html_(self) -> str:
        frame = (
            f'width="100%" height="{HEIGHT}" style="border: 0" sandbox="allow-scripts"'
        )
        return f'<iframe {frame} srcdoc="{escape(self)}"></iframe>'

    def save(self, path: str | PathLike[str]) -> None:
        """Write the page atomically to a .html file."""
        check_ending(path, HTML)
        save_text(str(self), path)


@cache
def _templates() -> Environment:
    space: dict[str, Any] = {
        "trim_blocks": True,
        "lstrip_blocks": True,
        "keep_trailing_newline": True,
    }
    return Environment(
        loader=PackageLoader("hardmax.draw"),
        autoescape=True,
        undefined=StrictUndefined,
        **space,
    )


def render(template: str, *, title: str, **values: object) -> str:
    """Return a page from a template; strings are escaped unless they are `Markup`."""
    return (
        _templates()
        .get_template(f"{template}.html.j2")
        .render(title=title, version=__version__, **values)
    )


class Picture(NamedTuple):
    """A picture inside a page: a data URL, an alternative text, and a caption."""

    source: str
    alternative: str
    caption: str
    width: int = 0  # in rem; 0 is the width of the page

    @classmethod
    def of(
        cls, figure: Figure, alternative: str, caption: str, *, width: int = 0
    ) -> "Picture":
        """Return a figure as SVG, with large collections as raster images, and close
        the figure.
        """
        for collection in (drawn for ax in figure.axes for drawn in ax.collections):
            if (
                max(
                    len(collection.get_paths()),
                    len(np.asarray(collection.get_offsets())),
                )
                > MAX_SHAPES
            ):
                collection.set_rasterized(True)
        buffer = io.BytesIO()
        with plt.rc_context({"svg.hashsalt": "hardmax"}):  # the same bytes on every run
            figure.savefig(buffer, format="svg", dpi=DPI, metadata={"Date": None})
        plt.close(figure)
        data = base64.b64encode(buffer.getvalue()).decode()
        return cls(f"data:image/svg+xml;base64,{data}", alternative, caption, width)


def interactive(
    trajectory: Trajectory, path: str | PathLike[str] | None = None, *, title: str = ""
) -> Page:
    """Make a page that animates one trajectory in the browser.

    It has a play button, a slider over at most 60 saved layers or times, and the hull
    at the end for rules under which the hull never grows. The tooltip of a token shows
    its index, its cluster and the token it follows at the end.

    Parameters
    ----------
    trajectory : Trajectory
        Trajectory of one token set, under any rule.
    path : path ending in .html or .htm, optional
        Output file, written atomically.
    title : str
        Heading; by default the rule.

    Returns
    -------
    Page

    Examples
    --------
    >>> import hardmax as hm
    >>> trajectory = hm.simulate(hm.configuration("triangle"), hm.Hardmax(0.5), layers=8)
    >>> page = hm.interactive(trajectory, title="Three leaders")
    >>> "Three leaders" in page
    True
    """
    check_trajectory(trajectory)
    if path is not None:
        check_ending(path, HTML)
    trajectory.refuse_batch("interactive(trajectory[b])")
    page = render(
        "player",
        title=title or repr(trajectory.rule),
        status=trajectory.status,
        expectation=describe_expected_limit(trajectory),
        player=make_player(trajectory),
    )
    if path is not None:
        save_text(page, path)
    return Page(page)


class Table(NamedTuple):
    """Column names and rows."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]


class Section(NamedTuple):
    """A section of a report; parts that are empty are not shown."""

    title: str
    about: str = ""
    status: str = ""
    player: Mapping[str, str] | None = None  # from `make_player`
    explanation: ExplanationView | None = None
    pictures: Sequence[Picture] = ()
    table: Table | None = None  # beside pictures that are not as wide as the page
    verdicts: Sequence[Verdict] | None = None
    proof: Markup | None = None  # from `embed_certificate`

    @property
    def anchor(self) -> str:
        """The id that the table of contents links to."""
        return re.sub(r"\W+", "-", self.title.lower()).strip("-")


def make_hardmax_section(
    title: str,
    about: str,
    trajectory: HardmaxTrajectory,
    end: Limit | None = None,
    *,
    brief: bool = False,
    palette: Palette | None = None,
) -> Section:
    """Return a section with layers, limit and verdicts; a brief one has a row of
    layers, and no verdicts.
    """
    if end is None:
        end = trajectory.limit() if trajectory.rule.normalize else None
    elif trajectory.saved[0] == 0 and not np.array_equal(
        end.start, trajectory.array[0], equal_nan=True
    ):
        raise ParameterError(
            "end",
            "be the limit of the trajectory",
            "that of other tokens",
            "Leave it out.",
        )
    view = Projection.of_trajectory(trajectory)
    player = (
        None
        if brief or len(trajectory.saved) == 1
        else make_player(trajectory, palette)
    )
    pictures = []
    if player is None:
        pictures.append(
            Picture.of(plot_layers(trajectory, projection=view), f"{title}: layers", "")
        )
    if end is not None:
        figure = cast(Figure, plot_limit(end, projection=view, palette=palette).figure)
        pictures.append(
            Picture.of(figure, f"{title}: limit", LIMIT, width=16 if brief else 24)
        )
    points = None if end is None else Table(POINTS, _mark_points(end, palette))
    verdicts = None if brief else check(trajectory)
    proof = None if end is None else embed_certificate(end)
    return Section(
        title,
        about,
        (end or trajectory).status,
        player,
        None,
        pictures,
        points,
        verdicts,
        proof,
    )


def make_flow_section(
    title: str,
    trajectory: SmoothTrajectory,
    *,
    brief: bool = False,
    palette: AnyArray | None = None,
) -> Section:
    """Return a section with the expected limit, the tokens in time and verdicts; a
    brief one has a row of pictures.
    """
    what = RESCALED if trajectory.shows_rescaled else f"Tokens {trajectory.letter}"
    player = (
        None
        if brief or len(trajectory.saved) == 1
        else make_player(trajectory, palette)
    )
    pictures = (
        [Picture.of(plot_layers(trajectory), f"{title}: times", what + ".")]
        if player is None
        else []
    )
    answered = [
        v for v in check(trajectory) if v.outcome in ("holds", "fails", "undecided")
    ]
    return Section(
        title,
        describe_expected_limit(trajectory),
        trajectory.status,
        player,
        pictures=pictures,
        verdicts=answered,
    )


def trajectory_page(
    trajectory: Trajectory, title: str, end: Limit | None = None, *, palette: Any = None
) -> str:
    """Return a report of one trajectory: an animation or pictures, its limit, and
    verdicts; `palette` as in `movie`.
    """
    trajectory = check_trajectory(trajectory)
    if isinstance(trajectory, HardmaxTrajectory):
        section = make_hardmax_section(
            title, trajectory.status, trajectory, end, palette=palette
        )
    else:
        section = make_flow_section(title, trajectory, palette=palette)
    return render(
        "report",
        title=f"hardmax: {title}",
        intro=repr(trajectory.rule),
        sections=[section],
    )


def _mark_points(end: Limit, palette: Palette | None) -> list[Sequence[str]]:
    """Return the rows of limit points, each with its marker in the pictures."""
    rows: list[Any] = list_limit_points(end, MAX_PAGE_ROWS)
    mark = Markup('<span style="color:{}">{}</span> {}')
    for p, colour in enumerate(choose_limit_colours(end, palette)[:MAX_PAGE_ROWS]):
        rows[p] = (
            mark.format(colour, "★" if p < len(end.leaders) else "■", rows[p][0]),
            *rows[p][1:],
        )
    return rows


def list_limit_points(limit: Limit, most: int) -> list[tuple[str, str, str, str]]:
    """Return the rows of a table of the set S, with the columns POINTS."""
    rows = []
    for p, point in enumerate(limit.points[:most]):
        tokens = np.flatnonzero(limit.clusters == p)
        if p < len(limit.leaders):
            what, since = f"leader {limit.leaders[p]}", str(limit.emerged[p])
        else:
            weights = limit.weights[tokens[0]]
            terms = [
                f"{w:.3g} x leader {i}"
                for w, i in zip(weights, limit.leaders, strict=True)
                if w > 0
            ]
            what, since = " + ".join(terms) or "no combination of leaders", ""
        rows.append((format_point(point), what, since, str(len(tokens))))
    if len(limit.points) > most:
        rows.append(("...", f"and {len(limit.points) - most} more", "", ""))
    if (limit.clusters < 0).any():
        rows.append(("", "undecided", "", str(int((limit.clusters < 0).sum()))))
    return rows


@shows_once
def trajectory_figure(
    trajectory: Trajectory, k: int | None = None, **options: Any
) -> Figure:
    """Draw some layers or times side by side, or layer k."""
    trajectory.refuse_batch("trajectory[b].plot()")
    if k is None:
        return plot_layers(trajectory, **options)
    return cast(Figure, plot_tokens(trajectory, k, **options).figure)


@shows_once
def limit_figure(limit: Limit, **options: Any) -> Figure:
    """Draw a limit."""
    return cast(Figure, plot_limit(limit, **options).figure)


def card(
    sentence: str = "",
    *,
    facts: dict[str, object] | None = None,
    head: Sequence[str] = (),
    rows: Sequence[Sequence[object]] = (),
    verdicts: Sequence[Verdict] = (),
    explanation: ExplanationView | None = None,
) -> str:
    """Return HTML for a notebook: a sentence, facts by name, a table, verdicts, or the
    parts of an explanation.
    """
    shown: dict[str, object] = {
        "facts": facts,
        "head": head,
        "rows": rows,
        "verdicts": verdicts,
    }
    return render("card", title=sentence, explanation=explanation, **shown)


def trajectory_card(trajectory: Trajectory) -> str:
    """Return the card of a trajectory: status, rule, saved layers, shape and leaders."""
    first, last = trajectory.label(0), trajectory.label(len(trajectory.saved) - 1)
    facts: dict[str, object] = {
        "rule": repr(trajectory.rule),
        "saved": f"{len(trajectory.saved)}, {first} to {last}",
    }
    facts["tokens"] = " by ".join(map(str, trajectory.array.shape[1:]))
    if not trajectory.batched and trajectory.rule.attends:
        more, shown = (
            len(trajectory.leaders) - MAX_LEADERS,
            ", ".join(map(str, trajectory.leaders[:MAX_LEADERS])),
        )
        facts["leaders"] = f"{shown}, and {more} more" if more > 0 else shown or "none"
    return card(trajectory.status, facts=facts)


def limit_card(limit: Limit) -> str:
    """Return the card of a limit: its status and the limit points."""
    return card(limit.status, head=POINTS, rows=list_limit_points(limit, MAX_CARD_ROWS))
