"""A self-contained HTML page: pictures inside it, nothing loaded from anywhere."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from html import escape
from importlib.util import find_spec
from typing import Any

import hardmax as hm
from hardmax.draw.html import picture, shell, table
from hardmax.draw.projection import Projection
from hardmax.draw.tokens import LAYERS, plot_layers, plot_limit
from hardmax.flows.spectrum import expectation_of
from hardmax.inputs import PAPER_CLOUDS
from hardmax.limits import limit_points

REVIEWS = {  # written for this report
    "A review that praises": (
        "I went in expecting very little and came out smiling. The story takes its time, but the two leads are "
        "wonderful together, the music is lovely, and the last scene moved me to tears. Not perfect, and a little slow "
        "in the middle, yet one of the best films I have seen this year."
    ),
    "A review that does not": (
        "What a waste of a good cast. The plot makes no sense, the jokes fall flat, and after an hour I was bored and "
        "looking at my watch. The photography is beautiful, I admit, but it cannot save a script this lazy. Avoid it."
    ),
}


@dataclass(frozen=True, eq=False)
class Section:
    """One input and everything the library says of it."""

    title: str
    about: str
    trajectory: hm.HardmaxTrajectory
    limit: hm.Limit | None  # without normalisation there is none
    verdicts: list[hm.theorems.Verdict]

    @classmethod
    def of(cls, title: str, about: str, trajectory: hm.HardmaxTrajectory, end: hm.Limit | None = None) -> "Section":
        """Check every theorem, and find the limit of the trajectory's input unless it is given."""
        if end is None and trajectory.rule.normalize:
            end = hm.theorems.limit_of(trajectory)
        return cls(title, about, trajectory, end, hm.theorems.check(trajectory))

    def to_html(self) -> str:
        """This section as HTML."""
        parts = [f"<h2>{escape(self.title)}</h2>", f"<p>{escape(self.about)}</p>" if self.about else ""]
        parts += [f'<p class="status">{escape((self.limit or self.trajectory).status)}</p>']
        caption = (
            "Stars lead (C<sub>i</sub> = {i}); circles have the colour of whom they follow. Shaded: the polytope K."
        )
        view = Projection.of_trajectory(self.trajectory)
        parts += [picture(plot_layers(self.trajectory, projection=view), f"{self.title}: layers", caption)]
        if self.limit is not None:
            figure = plot_limit(self.limit, self.trajectory.array[0], projection=view).figure
            caption = "From every token to its limit. Stars are leaders, diamonds convex combinations of leaders."
            parts += [picture(figure, f"{self.title}: limit", caption, width=26), _limit_table(self.limit)]
        return "\n".join([*parts, _verdict_table(self.verdicts)])


@dataclass(frozen=True, eq=False)
class SmoothSection:
    """Tokens under a smooth rule: what to expect, what is seen, and the theorems that speak of it."""

    title: str
    trajectory: hm.SmoothTrajectory

    @classmethod
    def of_values(cls, title: str, V: Any, *, horizon: float = 15.0) -> "SmoothSection":
        """Gaussian tokens under self-attention with a value matrix until lambda t = horizon."""
        tokens = 2 * hm.configuration("gaussian", n=30, d=len(V), seed=3)
        time = horizon / abs(hm.classify(V=V).eigenvalues[0].real)
        return cls(title, hm.simulate(tokens, hm.SelfAttention(V=V), times=time))

    def to_html(self) -> str:
        """This section as HTML."""
        rule, letter = self.trajectory.rule, self.trajectory.letter
        what = "Rescaled tokens z = e<sup>-tV</sup> x" if self.trajectory.shows_rescaled else f"Tokens {letter}"
        caption = f"{what}, coloured by where they end; stars attend to themselves."
        parts = [f"<h2>{escape(self.title)}</h2>", f'<p class="status">{escape(self.trajectory.status)}</p>']
        if isinstance(rule, hm.SelfAttention) and rule.has_constant_values:
            parts.insert(1, f"<p>{escape(repr(expectation_of(rule, self.trajectory.array.shape[-1])))}</p>")
        parts.append(picture(plot_layers(self.trajectory), f"{self.title}: times", caption))
        answered = [v for v in hm.theorems.check(self.trajectory) if v.outcome in ("holds", "fails", "undecided")]
        parts.append(_verdict_table(answered) if answered else "<p>No theorem speaks of this run.</p>")
        return "\n".join(parts)


@dataclass(frozen=True, eq=False)
class ReviewSection:
    """A review, the answer of the shipped classifier, and why."""

    title: str
    text: str

    def to_html(self) -> str:
        """This section as HTML: the explanation, and the dynamics of the model in the plane."""
        from hardmax.draw.text_page import explanation_section

        explained = hm.pretrained("imdb").explain(self.text)
        plane = hm.pretrained("imdb-2d").explain(self.text)
        caption = (
            "The paper's model with one head in the plane: words gather around their leaders. The cross is the mean of "
            "all words; its side of the dashed line is the answer."
        )
        picture_of_plane = picture(plane.plot(kind="plane"), f"{self.title}: the plane", caption)
        body = explanation_section(explained, level=3)
        return f"<h2>{escape(self.title)}</h2>\n{body}\n{picture_of_plane}"


@dataclass(frozen=True, eq=False)
class ControlSection:
    """Tokens that are made to lead, before and after."""

    title: str
    about: str
    tokens: Any
    leaders: tuple[int, ...]

    def to_html(self) -> str:
        """This section as HTML."""
        from hardmax.draw.control import plot_control

        result = hm.control.choose_A(self.tokens, leaders=self.leaders)
        caption = (
            "Rings mark the tokens that were asked to lead. Each of their lines bounds what attracts them: they lead "
            "where nothing lies beyond. The dashed ellipse is a level set of the inner product."
        )
        parts = [f"<h2>{escape(self.title)}</h2>", f"<p>{escape(self.about)}</p>"]
        parts += [f'<p class="status">{escape(result.status)}</p>']
        return "\n".join([*parts, picture(plot_control(result), f"{self.title}: before and after", caption)])


AnySection = Section | SmoothSection | ControlSection | ReviewSection


def page(title: str, intro: str, sections: Sequence[AnySection]) -> str:
    """The whole page as one string."""
    body = "\n".join(section.to_html() for section in sections)
    return shell(title, f"<p>{escape(intro)}</p>\n{body}")


def demo() -> str:
    """The report of `hardmax demo`: the inputs of Figure 2, three value matrices, chosen leaders, two reviews."""
    rule = hm.Hardmax(Fraction(1, 2))
    sections: list[AnySection] = [
        Section.of(
            name.replace("-", " ").capitalize(),
            make.__doc__ or "",
            hm.simulate(hm.configuration(name), rule, layers=LAYERS[-1]),
        )
        for name, make in PAPER_CLOUDS.items()
    ]
    sections += [
        SmoothSection.of_values("Self-attention with V = I", hm.matrix("identity")),
        SmoothSection.of_values("Self-attention with positive V", hm.matrix("paper-2d")),
        SmoothSection.of_values("Self-attention with V = diag(1, 1, -1/2)", hm.matrix("paper-product"), horizon=5),
    ]
    control, reviews = _control(), _reviews()
    sections += [*control, *reviews]
    intro = (
        "Layer after layer, each token moves towards the tokens with the largest projection on its own direction. They "
        "gather around leaders, and every limit of the first four inputs, those of Figure 2 of arXiv 2407.01602 with "
        "alpha = 1/2 and A = I, is proved, not guessed. Then softmax attention in continuous time, arXiv 2305.05465: "
        "the spectrum of the value matrix V decides where tokens end. "
        + ("Who leads depends on A, so A can be chosen. " if control else "")
        + ("Last, two reviews and what a classifier built on hardmax says of them." if reviews else "")
    )
    return page("Tokens gathering around their leaders", intro, sections)


def _control() -> list[ControlSection]:
    """Two tokens that do not lead with A = I, where the solver is installed."""
    if find_spec("cvxpy") is None or find_spec("clarabel") is None:
        return []
    about = "Two tokens that follow others where A = I, and the matrix A of largest margin under which both lead."
    return [ControlSection("Choosing who leads", about, hm.configuration("ball", n=50), (45, 47))]


def _reviews() -> list[ReviewSection]:
    """Two reviews, where what the classifier needs is installed."""
    if any(find_spec(name) is None for name in ("sklearn", "safetensors", "simplemma")):
        return []
    return [ReviewSection(title, text) for title, text in REVIEWS.items()]


def _limit_table(limit: hm.Limit) -> str:
    head = ["point", "what it is", "since layer", "tokens that end there"]
    return table(head, [list(map(escape, row)) for row in limit_points(limit, 40)])


def _verdict_table(verdicts: list[hm.theorems.Verdict]) -> str:
    rows = []
    for v in verdicts:
        mark = v.outcome if v.outcome in ("holds", "fails") else "other"
        outcome = f'<span class="{mark}">{v.outcome}</span>'
        rows.append([escape(v.name), outcome, f"{escape(v.reason)}<br><small>{escape(v.statement)}</small>"])
    return table(["statement", "verdict", "found"], rows)
