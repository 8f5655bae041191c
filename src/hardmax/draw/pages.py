"""HTML: pages and reports of trajectories, and the cards that notebooks show.

Templates are in `templates/`. A page is one file: nothing is loaded from another host.
"""

import base64
import io
import re
from collections.abc import Mapping, Sequence
from functools import cache
from html import escape
from importlib.util import find_spec
from os import PathLike
from typing import Any, NamedTuple, cast

import matplotlib.pyplot as plt
import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from matplotlib.figure import Figure

from hardmax._display import format_point
from hardmax._errors import needed_for
from hardmax._files import check_ending, save_text
from hardmax._types import AnyArray
from hardmax._version import __version__
from hardmax.draw.flows import expectation_line
from hardmax.draw.player import player_parts
from hardmax.draw.projection import Projection
from hardmax.draw.style import shows_once
from hardmax.draw.tokens import check_trajectory, limit_colours, plot_layers, plot_limit, plot_tokens
from hardmax.limit import Limit
from hardmax.theorems import Verdict, check, limit_of
from hardmax.trajectories.base import Trajectory
from hardmax.trajectories.hardmax import HardmaxTrajectory
from hardmax.trajectories.smooth import SmoothTrajectory

HTML = (".html", ".htm")
HEIGHT = 820  # of a page in a notebook, in pixels
MOST_SHAPES = 3_000  # of a collection, beyond which its SVG would be megabytes
DOTS = 200  # an inch, of an image in its place
CARD_ROWS, PAGE_ROWS = 12, 40  # of a table of limit points
MOST_LEADERS = 12  # in a card
POINTS = ("point", "what it is", "since layer", "tokens")
LIMIT = "From every token to its limit: here stars lead, and squares are convex combinations of leaders."
RESCALED = Markup("Rescaled tokens z = e<sup>-tV</sup> x")


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


@cache
def _templates() -> Environment:
    space: dict[str, Any] = {"trim_blocks": True, "lstrip_blocks": True, "keep_trailing_newline": True}
    return Environment(loader=PackageLoader("hardmax.draw"), autoescape=True, undefined=StrictUndefined, **space)


def render(template: str, *, title: str, **values: object) -> str:
    """A whole page: a template, its heading and what it says; strings are escaped, save those marked as HTML."""
    return _templates().get_template(f"{template}.html.j2").render(title=title, version=__version__, **values)


class Picture(NamedTuple):
    """A picture inside a page: its bytes as an address, words for those who cannot see it, and a caption."""

    source: str
    alternative: str
    caption: str
    width: int = 0  # in rem; as wide as fits if 0

    @classmethod
    def of(cls, figure: Figure, alternative: str, caption: str, *, width: int = 0) -> "Picture":
        """A figure as SVG, in which very many markers or lines are one image; the figure is closed."""
        for collection in (drawn for ax in figure.axes for drawn in ax.collections):
            if max(len(collection.get_paths()), len(np.asarray(collection.get_offsets()))) > MOST_SHAPES:
                collection.set_rasterized(True)
        buffer = io.BytesIO()
        with plt.rc_context({"svg.hashsalt": "hardmax"}):  # the same bytes on every run
            figure.savefig(buffer, format="svg", dpi=DOTS, metadata={"Date": None})
        plt.close(figure)
        data = base64.b64encode(buffer.getvalue()).decode()
        return cls(f"data:image/svg+xml;base64,{data}", alternative, caption, width)


def interactive(trajectory: Trajectory, path: str | PathLike[str] | None = None, *, title: str = "") -> Page:
    """Make a page that plays one cloud in the browser.

    It has a play button and a slider over at most 60 saved layers or times, tails, and the hull at the end for rules
    whose hull never grows. Pointing at a token shows its number, its cluster and whom it follows at the end. Leaders
    are stars, in 3-D diamonds. Above stands what happened and, for self-attention, what `classify` expects.

    Parameters
    ----------
    trajectory : Trajectory
        Of one cloud, under any rule.
    path : path ending in .html or .htm, optional
        Where to write the page, whole or not at all.
    title : str
        Heading; the rule if not given.

    Returns
    -------
    Page
        It shows itself in a notebook. `page.save(path)` writes it, and `str(page)` is its HTML, some megabytes.

    Raises
    ------
    ParameterTypeError
        If it is not a trajectory.
    InputError
        If it is that of a batch.
    ParameterError
        If `path` has another ending.
    MissingExtra
        If Plotly is not installed.

    Examples
    --------
    >>> import hardmax as hm
    >>> trajectory = hm.simulate(hm.configuration("triangle"), hm.Hardmax(0.5), layers=8)
    >>> page = hm.interactive(trajectory, title="Three leaders")
    >>> "Three leaders" in page
    True
    """
    with needed_for("`hardmax.interactive`", "Plotly", "app"):
        import plotly.graph_objects  # noqa: F401
    check_trajectory(trajectory)
    if path is not None:
        check_ending(path, HTML)
    trajectory.refuse_batch("interactive(trajectory[b])")
    page = render(
        "player",
        title=title or repr(trajectory.rule),
        status=trajectory.status,
        expectation=expectation_line(trajectory),
        player=player_parts(trajectory),
    )
    if path is not None:
        save_text(page, path)
    return Page(page)


class Table(NamedTuple):
    """Names of columns, and rows."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]


class Section(NamedTuple):
    """One input and what is said and shown of it, in this order; what is empty is left out."""

    title: str
    about: str = ""
    status: str = ""
    player: Mapping[str, str] | None = None  # from `player_parts`
    explanation: Mapping[str, object] | None = None  # from `explanation_parts`
    pictures: Sequence[Picture] = ()
    table: Table | None = None  # beside pictures that are not as wide as the page
    verdicts: Sequence[Verdict] | None = None

    @property
    def anchor(self) -> str:
        """What the contents of a page link to."""
        return re.sub(r"\W+", "-", self.title.lower()).strip("-")


def hardmax_section(
    title: str, about: str, trajectory: HardmaxTrajectory, end: Limit | None = None, *, brief: bool = False
) -> Section:
    """Layers, limit and every theorem; without normalisation there is no limit, else it is found if not given.

    Layers are played where Plotly is installed. A brief section has a row of them instead, and no verdicts.
    """
    if end is None and trajectory.rule.normalize:
        end = limit_of(trajectory)
    view = Projection.of_trajectory(trajectory)
    player = None if brief else _player(trajectory)
    pictures = []
    if player is None:
        pictures.append(Picture.of(plot_layers(trajectory, projection=view), f"{title}: layers", ""))
    if end is not None:
        figure = cast(Figure, plot_limit(end, trajectory.array[0], projection=view).figure)
        pictures.append(Picture.of(figure, f"{title}: limit", LIMIT, width=16 if brief else 24))
    points = None if end is None else Table(POINTS, _marked_points(end))
    verdicts = None if brief else check(trajectory)
    return Section(title, about, (end or trajectory).status, player, None, pictures, points, verdicts)


def smooth_section(title: str, trajectory: SmoothTrajectory, *, brief: bool = False) -> Section:
    """What to expect, what is seen, and the theorems that speak of it; a brief section has a row of pictures."""
    what = RESCALED if trajectory.shows_rescaled else f"Tokens {trajectory.letter}"
    player = None if brief else _player(trajectory)
    pictures = [Picture.of(plot_layers(trajectory), f"{title}: times", what + ".")] if player is None else []
    answered = [v for v in check(trajectory) if v.outcome in ("holds", "fails", "undecided")]
    return Section(title, expectation_line(trajectory), trajectory.status, player, pictures=pictures, verdicts=answered)


def verdicts_table(checked: Mapping[str, Sequence[Verdict]]) -> Table:
    """What was found of each statement on several inputs, which have the same statements: one column each."""
    rows = []
    for verdicts in zip(*checked.values(), strict=True):
        first = verdicts[0]
        outcomes = [Markup('<span class="verdict {0}">{0}</span>').format(v.outcome) for v in verdicts]
        rows.append([Markup("{}<br><small>{}</small>").format(first.name, first.statement), *outcomes])
    return Table(("statement", *checked), rows)


def trajectory_page(trajectory: HardmaxTrajectory | SmoothTrajectory, title: str, end: Limit | None = None) -> str:
    """A page on one trajectory, as a string of HTML: a player or pictures, limit and verdicts.

    Parameters
    ----------
    trajectory : HardmaxTrajectory or SmoothTrajectory
        Of one cloud.
    title : str
        The heading.
    end : Limit, optional
        Its limit, if it is known already.

    Returns
    -------
    str
        HTML that needs no network.

    Raises
    ------
    InputError
        If it is that of a batch.

    Examples
    --------
    >>> import hardmax as hm
    >>> trajectory = hm.simulate(hm.configuration("triangle"), hm.Hardmax(0.5), layers=4)
    >>> "Three leaders" in hm.draw.trajectory_page(trajectory, "Three leaders")
    True
    """
    section = (
        hardmax_section(title, trajectory.status, trajectory, end)
        if isinstance(trajectory, HardmaxTrajectory)
        else smooth_section(title, trajectory)
    )
    return render("report", title=f"hardmax: {title}", intro=repr(trajectory.rule), sections=[section])


def _player(trajectory: HardmaxTrajectory | SmoothTrajectory) -> Mapping[str, str] | None:
    """The player, where Plotly is installed and there is something to play."""
    return player_parts(trajectory) if find_spec("plotly") and len(trajectory.saved) > 1 else None


def _marked_points(end: Limit) -> list[Sequence[str]]:
    """The table of limit points, each with its mark in the pictures."""
    rows, colours = limit_points(end, PAGE_ROWS), limit_colours(end)
    mark = Markup('<span style="color:{}">{}</span> {}')
    marked = [
        (mark.format(colour, "★" if p < len(end.leaders) else "■", row[0]), *row[1:])
        for p, (row, colour) in enumerate(zip(rows, colours[:PAGE_ROWS], strict=False))
    ]
    return [*marked, *rows[len(marked) :]]


def limit_points(limit: Limit, most: int) -> list[tuple[str, str, str, str]]:
    """Return rows of a table of the set S: the point, what it is, since which layer, how many tokens tend to it."""
    rows = []
    for p, point in enumerate(limit.points[:most]):
        tokens = np.flatnonzero(limit.clusters == p)
        if p < len(limit.leaders):
            what, since = f"leader {limit.leaders[p]}", str(limit.emerged[p])
        else:
            weights = limit.weights[tokens[0]]
            terms = [f"{w:.3g} x leader {i}" for w, i in zip(weights, limit.leaders, strict=True) if w > 0]
            what, since = " + ".join(terms) or "no combination of leaders", ""
        rows.append((format_point(point), what, since, str(len(tokens))))
    if len(limit.points) > most:
        rows.append(("...", f"and {len(limit.points) - most} more", "", ""))
    if (limit.clusters < 0).any():
        rows.append(("", "undecided", "", str(int((limit.clusters < 0).sum()))))
    return rows


@shows_once
def trajectory_figure(trajectory: Trajectory, k: int | None = None, **options: Any) -> Figure:
    """Some layers or times side by side, or the one that k names."""
    trajectory.refuse_batch("trajectory[b].plot()")
    if k is None:
        return plot_layers(trajectory, **options)
    return cast(Figure, plot_tokens(trajectory, k, **options).figure)


@shows_once
def limit_figure(limit: Limit, **options: Any) -> Figure:
    """From every token a line to its limit."""
    return cast(Figure, plot_limit(limit, **options).figure)


def card(
    sentence: str = "",
    *,
    facts: dict[str, object] | None = None,
    head: Sequence[str] = (),
    rows: Sequence[Sequence[object]] = (),
    verdicts: Sequence[Verdict] = (),
    explanation: dict[str, object] | None = None,
) -> str:
    """A piece of HTML: a sentence, facts by name, a table, verdicts, or the parts of an explanation."""
    shown: dict[str, object] = {"facts": facts, "head": head, "rows": rows, "verdicts": verdicts}
    return render("card", title=sentence, explanation=explanation, **shown)


def trajectory_card(trajectory: Trajectory) -> str:
    """What ran and what came of it."""
    first, last = trajectory.label(0), trajectory.label(len(trajectory.saved) - 1)
    facts: dict[str, object] = {"rule": repr(trajectory.rule), "saved": f"{len(trajectory.saved)}, {first} to {last}"}
    facts["tokens"] = " by ".join(map(str, trajectory.array.shape[1:]))
    if not trajectory.batched and trajectory.rule.attends:
        facts["leaders"] = _listed(trajectory.leaders)
    return card(trajectory.status, facts=facts)


def _listed(numbers: AnyArray) -> str:
    shown = ", ".join(map(str, numbers[:MOST_LEADERS])) or "none"
    return f"{shown}, and {len(numbers) - MOST_LEADERS} more" if len(numbers) > MOST_LEADERS else shown


def limit_card(limit: Limit) -> str:
    """The proof in a sentence, and the points where tokens end."""
    return card(
        limit.status, head=("point", "what it is", "since layer", "tokens"), rows=limit_points(limit, CARD_ROWS)
    )


def verdicts_card(verdicts: Sequence[Verdict]) -> str:
    """A table of verdicts."""
    return card(verdicts=verdicts)
