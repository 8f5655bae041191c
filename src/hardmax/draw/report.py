"""Reports of trajectories as self-contained pages: what happened, pictures, limit points and verdicts."""

import re
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import NamedTuple, cast

from markupsafe import Markup
from matplotlib.figure import Figure

from hardmax.draw.flows import expectation_line
from hardmax.draw.html import Picture, limit_points, render
from hardmax.draw.pages import player_parts
from hardmax.draw.projection import Projection
from hardmax.draw.text_page import ExplanationView
from hardmax.draw.tokens import limit_colours, plot_layers, plot_limit
from hardmax.limit import Limit
from hardmax.theorems import Verdict, check, limit_of
from hardmax.trajectories.hardmax import HardmaxTrajectory
from hardmax.trajectories.smooth import SmoothTrajectory

MOST_POINTS = 40  # rows of a table
POINTS = ("point", "what it is", "since layer", "tokens")
LIMIT = "From every token to its limit: here stars lead, and squares are convex combinations of leaders."
RESCALED = Markup("Rescaled tokens z = e<sup>-tV</sup> x")


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
    explanation: ExplanationView | None = None
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
    rows, colours = limit_points(end, MOST_POINTS), limit_colours(end)
    mark = Markup('<span style="color:{}">{}</span> {}')
    marked = [
        (mark.format(colour, "★" if p < len(end.leaders) else "■", row[0]), *row[1:])
        for p, (row, colour) in enumerate(zip(rows, colours[:MOST_POINTS], strict=False))
    ]
    return [*marked, *rows[len(marked) :]]
