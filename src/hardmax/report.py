"""A self-contained HTML page: pictures inside it, nothing loaded from anywhere."""

import base64
import io
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from html import escape
from typing import Any

import matplotlib.pyplot as plt

import hardmax as hm
from hardmax.configurations import PAPER
from hardmax.plotting import LAYERS, plot_layers, plot_limit
from hardmax.projection import Projection
from hardmax.sentences import limit_points

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; color: #222; }
h1, h2 { line-height: 1.2; } h2 { margin-top: 3rem; border-top: 1px solid #ccc; padding-top: 1.5rem; }
img { max-width: 100%; height: auto; } figure { margin: 1rem 0; }
.wide { overflow-x: auto; } small { color: #666; } figcaption { color: #555; font-size: .9rem; }
table { border-collapse: collapse; margin: 1rem 0; font-size: .92rem; }
th, td { text-align: left; padding: .25rem .8rem .25rem 0; border-bottom: 1px solid #ddd; vertical-align: top; }
td:nth-child(-n+2) { white-space: nowrap; }
.status { background: #eef3f8; padding: .6rem .9rem; border-left: 4px solid #0072b2; }
.holds { color: #00654a; font-weight: 600; } .fails { color: #b23a00; font-weight: 600; } .other { color: #666; }
"""


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
        parts += [_picture(plot_layers(self.trajectory, projection=view), f"{self.title}: layers", caption)]
        if self.limit is not None:
            figure = plot_limit(self.limit, self.trajectory.array[0], projection=view).figure
            caption = "From every token to its limit. Stars are leaders, diamonds convex combinations of leaders."
            parts += [_picture(figure, f"{self.title}: limit", caption, width=26), _limit_table(self.limit)]
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
        time = horizon / abs(hm.classify(V).eigenvalues[0].real)
        return cls(title, hm.simulate(tokens, hm.SelfAttention(V=V), times=time))

    def to_html(self) -> str:
        """This section as HTML."""
        rule, letter = self.trajectory.rule, self.trajectory.letter
        what = "Rescaled tokens z = e<sup>-tV</sup> x" if self.trajectory.shows_rescaled else f"Tokens {letter}"
        caption = f"{what}, coloured by where they end; stars attend to themselves."
        parts = [f"<h2>{escape(self.title)}</h2>", f'<p class="status">{escape(self.trajectory.status)}</p>']
        if isinstance(rule, hm.SelfAttention) and rule.has_constant_values:
            expected = hm.classify(
                rule.value_matrix(self.trajectory.array.shape[-1]), rule.Q, rule.K, causal=rule.causal
            )
            parts.insert(1, f"<p>{escape(repr(expected))}</p>")
        parts.append(_picture(plot_layers(self.trajectory), f"{self.title}: times", caption))
        answered = [v for v in hm.theorems.check(self.trajectory) if v.outcome in ("holds", "fails", "undecided")]
        parts.append(_verdict_table(answered) if answered else "<p>No theorem speaks of this run.</p>")
        return "\n".join(parts)


def page(title: str, intro: str, sections: Sequence[Section | SmoothSection]) -> str:
    """The whole page as one string."""
    body = "\n".join(section.to_html() for section in sections)
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>{STYLE}</style></head>\n'
        f"<body><h1>{escape(title)}</h1><p>{escape(intro)}</p>\n{body}\n"
        f"<p class=other>Made by hardmax {escape(hm.__version__)}.</p></body></html>\n"
    )


def demo() -> str:
    """The report of `hardmax demo`: the four configurations of Figure 2 and three value matrices, with verdicts."""
    rule = hm.Hardmax(Fraction(1, 2))
    sections: list[Section | SmoothSection] = [
        Section.of(
            name.replace("-", " ").capitalize(),
            make.__doc__ or "",
            hm.simulate(hm.configuration(name), rule, layers=LAYERS[-1]),
        )
        for name, make in PAPER.items()
    ]
    sections += [
        SmoothSection.of_values("Self-attention with V = I", hm.matrix("identity")),
        SmoothSection.of_values("Self-attention with positive V", hm.matrix("paper-2d")),
        SmoothSection.of_values("Self-attention with V = diag(1, 1, -1/2)", hm.matrix("paper-product"), horizon=5),
    ]
    intro = (
        "Layer after layer, each token moves towards the tokens with the largest projection on its own direction. They "
        "gather around leaders, and every limit of the first four inputs, those of Figure 2 of arXiv 2407.01602 with "
        "alpha = 1/2 and A = I, is proved, not guessed. Then softmax attention in continuous time, arXiv 2305.05465: "
        "the spectrum of the value matrix V decides where tokens end."
    )
    return page("Tokens gathering around their leaders", intro, sections)


def _picture(figure: Any, alternative: str, caption: str, *, width: int = 0) -> str:
    buffer = io.BytesIO()
    with plt.rc_context({"svg.hashsalt": "hardmax"}):  # the same bytes on every run
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    plt.close(figure)
    data = base64.b64encode(buffer.getvalue()).decode()
    size = f' style="width:{width}rem"' if width else ""
    return (
        f'<figure><img{size} alt="{escape(alternative)}" src="data:image/svg+xml;base64,{data}">'
        f"<figcaption>{caption}</figcaption></figure>"
    )


def _table(head: list[str], rows: list[list[str]]) -> str:
    cells = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
    names = "".join(f"<th>{name}</th>" for name in head)
    return f"<div class=wide><table><thead><tr>{names}</tr></thead><tbody>{cells}</tbody></table></div>"


def _limit_table(limit: hm.Limit) -> str:
    head = ["point", "what it is", "since layer", "tokens that end there"]
    return _table(head, [list(map(escape, row)) for row in limit_points(limit, 40)])


def _verdict_table(verdicts: list[hm.theorems.Verdict]) -> str:
    rows = []
    for v in verdicts:
        mark = v.outcome if v.outcome in ("holds", "fails") else "other"
        outcome = f'<span class="{mark}">{v.outcome}</span>'
        rows.append([escape(v.name), outcome, f"{escape(v.reason)}<br><small>{escape(v.statement)}</small>"])
    return _table(["statement", "verdict", "found"], rows)
