"""Report of `hardmax demo`: the inputs of Figure 2, three value matrices, chosen
leaders, two reviews.
"""

from collections.abc import Callable
from functools import partial
from importlib.util import find_spec

from markupsafe import Markup

import hardmax as hm
from hardmax._types import FloatArray, Progress
from hardmax.configurations import PAPER_CONFIGURATIONS
from hardmax.draw.control import plot_control
from hardmax.draw.pages import (
    Picture,
    Section,
    Table,
    make_flow_section,
    make_hardmax_section,
    render,
)
from hardmax.draw.text_page import EXAMPLES, view_explanation
from hardmax.figures.hardmax_rule import compute_clusters

VERIFY = Markup(
    "<code>hardmax verify triangle</code> prints the reason of each verdict."
)


def demo(progress: Progress | None = None) -> str:
    """Return the report as HTML, without the sections whose optional packages are
    missing.
    """
    control = all(map(find_spec, ("cvxpy", "clarabel")))
    reviews = all(map(find_spec, ("sklearn", "safetensors", "simplemma")))
    runs = compute_clusters()
    about = {name: PAPER_CONFIGURATIONS[name].__doc__ or "" for name in runs}
    makers: list[Callable[[], Section]] = [
        *(
            partial(make_hardmax_section, _title(name), about[name], run, brief=True)
            for name, run in runs.items()
        ),
        partial(_theorems_section, runs),
        partial(_values_section, "Self-attention with V = I", hm.matrix("identity")),
        partial(
            _values_section, "Self-attention with positive V", hm.matrix("paper-2d")
        ),
        partial(
            _values_section,
            "Self-attention with V = diag(1, 1, -1/2)",
            hm.matrix("paper-product"),
        ),
        *([_control_section] if control else []),
        *(
            partial(_review_section, title, text)
            for title, text in EXAMPLES.items()
            if reviews
        ),
    ]
    sections = []
    for make in makers:
        sections.append(make())
        if progress is not None:
            progress(len(sections), len(makers))
    intro = (
        "Layer after layer, each token moves towards the tokens with the largest"
        " projection on its own direction. They gather around leaders, and every limit"
        " of the first four inputs, those of Figure 2 of arXiv 2407.01602 with alpha ="
        " 1/2 and A = I, is proved. Then softmax attention in continuous time, arXiv"
        " 2305.05465: the spectrum of the value matrix V determines the limit of the"
        " tokens. "
        + ("Leaders depend on A, so A can be chosen. " if control else "")
        + (
            "Then two reviews, and the explanations of a classifier built on hardmax. "
            if reviews
            else ""
        )
        + "To move tokens yourself, run hardmax app."
    )
    return render(
        "report",
        title="Tokens gathering around their leaders",
        intro=intro,
        sections=sections,
    )


def _title(name: str) -> str:
    return name.replace("-", " ").capitalize()


def _theorems_section(runs: dict[str, hm.HardmaxTrajectory]) -> Section:
    """Return a section with a row per statement and a column per input."""
    rows = []
    for first, *others in zip(*map(hm.theorems.check, runs.values()), strict=True):
        outcomes = [
            Markup('<span class="verdict {0}">{0}</span>').format(v.outcome)
            for v in (first, *others)
        ]
        rows.append(
            [
                Markup("{}<br><small>{}</small>").format(first.name, first.statement),
                *outcomes,
            ]
        )
    return Section(
        "Every theorem on these four",
        VERIFY,
        table=Table(("statement", *map(_title, runs)), rows),
    )


def _values_section(title: str, V: FloatArray, *, horizon: float = 15.0) -> Section:
    """Return a section on Gaussian tokens under self-attention with value matrix V,
    until lambda t = horizon.
    """
    tokens = 2 * hm.configuration("gaussian", n=30, d=len(V), seed=3)
    time = horizon / abs(hm.classify(V=V).eigenvalues[0].real)
    return make_flow_section(
        title, hm.simulate(tokens, hm.SelfAttention(V=V), times=time), brief=True
    )


def _control_section() -> Section:
    title = "Choosing leaders"
    about = (
        "Two tokens that follow others where A = I, and the matrix A of largest margin"
        " under which both lead."
    )
    caption = (
        "Rings mark the requested leaders. Each of their lines bounds the half-space"
        " that attracts them: they lead if no token lies beyond. The dashed ellipse is"
        " a level set of the inner product."
    )
    result = hm.control.choose_A(hm.configuration("ball", n=50), leaders=(45, 47))
    picture = Picture.of(plot_control(result), f"{title}: before and after", caption)
    return Section(title, about, result.status, pictures=[picture])


def _review_section(title: str, text: str) -> Section:
    caption = (
        "The paper's model with one head in two dimensions: words gather around"
        " leaders. The cross is the mean of all words; its side of the dashed line is"
        " the predicted class."
    )
    plane = hm.pretrained("imdb-2d").explain(text).plot(kind="plane")
    explanation = view_explanation(
        hm.pretrained("imdb").explain(text), words=8, heads=1
    )
    return Section(
        title,
        explanation=explanation,
        pictures=[Picture.of(plane, f"{title}: the plane", caption)],
    )
