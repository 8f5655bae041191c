"""Results in a notebook: cards that say what they are, and the pictures of their method `plot`."""

from collections.abc import Sequence
from typing import Any, cast

from matplotlib.figure import Figure

from hardmax._types import AnyArray
from hardmax.draw.html import limit_points, render
from hardmax.draw.shown import shows_once
from hardmax.draw.text_page import ExplanationView
from hardmax.draw.tokens import plot_layers, plot_limit, plot_tokens
from hardmax.limit import Limit
from hardmax.theorems.verdict import Verdict
from hardmax.trajectories.base import Trajectory

MOST_POINTS, MOST_LEADERS = 12, 12


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
    explanation: ExplanationView | None = None,
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
        limit.status, head=("point", "what it is", "since layer", "tokens"), rows=limit_points(limit, MOST_POINTS)
    )


def verdicts_card(verdicts: Sequence[Verdict]) -> str:
    """A table of verdicts."""
    return card(verdicts=verdicts)
