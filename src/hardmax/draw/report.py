"""Reports of trajectories as self-contained pages: what happened, pictures, limit points and verdicts."""

from collections.abc import Sequence
from typing import NamedTuple, cast

from markupsafe import Markup
from matplotlib.figure import Figure

from hardmax.draw.flows import expectation_line
from hardmax.draw.html import Picture, render
from hardmax.draw.projection import Projection
from hardmax.draw.tokens import plot_layers, plot_limit
from hardmax.limits import Limit, limit_points
from hardmax.theorems import Verdict, check, limit_of
from hardmax.trajectories.hardmax import HardmaxTrajectory
from hardmax.trajectories.smooth import SmoothTrajectory

MOST_POINTS = 40  # rows of a table
LAYERS = Markup(
    "Stars lead (C<sub>i</sub> = {i}); circles have the colour of whom they follow. Shaded: the polytope K."
)
LIMIT = "From every token to its limit. Stars are leaders, diamonds convex combinations of leaders."
RESCALED = Markup("Rescaled tokens z = e<sup>-tV</sup> x")


class Section(NamedTuple):
    """One input and what is said and shown of it, in this order; what is empty is left out."""

    title: str
    about: str = ""
    status: str = ""
    explanation: dict[str, object] | None = None  # from `explanation_parts`
    pictures: Sequence[Picture] = ()
    points: Sequence[Sequence[str]] = ()  # rows of a table of limit points
    verdicts: Sequence[Verdict] | None = None


def hardmax_section(title: str, about: str, trajectory: HardmaxTrajectory, end: Limit | None = None) -> Section:
    """Layers, limit and every theorem; without normalisation there is no limit, else it is found if not given."""
    if end is None and trajectory.rule.normalize:
        end = limit_of(trajectory)
    view = Projection.of_trajectory(trajectory)
    pictures = [Picture.of(plot_layers(trajectory, projection=view), f"{title}: layers", LAYERS)]
    if end is not None:
        figure = cast(Figure, plot_limit(end, trajectory.array[0], projection=view).figure)
        pictures.append(Picture.of(figure, f"{title}: limit", LIMIT, width=26))
    points = () if end is None else limit_points(end, MOST_POINTS)
    return Section(title, about, (end or trajectory).status, None, pictures, points, check(trajectory))


def smooth_section(title: str, trajectory: SmoothTrajectory) -> Section:
    """What to expect, what is seen, and the theorems that speak of it."""
    what = RESCALED if trajectory.shows_rescaled else f"Tokens {trajectory.letter}"
    caption = what + ", coloured by where they end; stars attend to themselves."
    pictures = [Picture.of(plot_layers(trajectory), f"{title}: times", caption)]
    answered = [v for v in check(trajectory) if v.outcome in ("holds", "fails", "undecided")]
    return Section(title, expectation_line(trajectory), trajectory.status, None, pictures, (), answered)


def trajectory_page(trajectory: HardmaxTrajectory | SmoothTrajectory, title: str, end: Limit | None = None) -> str:
    """A page on one trajectory: pictures, limit and verdicts."""
    section = (
        hardmax_section(title, trajectory.status, trajectory, end)
        if isinstance(trajectory, HardmaxTrajectory)
        else smooth_section(title, trajectory)
    )
    return render("report", title=f"hardmax: {title}", intro=repr(trajectory.rule), sections=[section])
