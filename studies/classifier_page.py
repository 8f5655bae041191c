"""Tables of the classifier: recorded studies, and every hyperparameter. `python -m
studies.pages` fills the pages.
"""

from collections.abc import Sequence
from dataclasses import fields

from hardmax.figures.shared import PAPER_BEST, Row, by_start
from hardmax.text.parameters import MODEL, RUN, TRAINING, Parameters, type_name


def paper_cells(row: Row) -> list[str]:
    """One line of Table 1, with what the paper reports for that d and how long it takes
    until all is decided.
    """
    led = row["leaders"]
    return [
        str(row["d"]),
        f"{row['accuracy']:.4f}",
        f"{PAPER_BEST[row['d']]:.3f}",
        f"{row['alpha']:.3f}",
        f"{led['average']:.1f} ± {led['deviation']:.1f}",
        f"{led['min']:.0f} to {led['max']:.0f}",
        f"{led['initial']:.1%}",
        decided(row),
    ]


PAPER_COLUMNS = (
    *(
        "d",
        "accuracy",
        "paper",
        "alpha after training",
        "leaders of a text",
        "from, to",
        "leaders since layer 0",
    ),
    "layers until decided (median, most)",
)
EXPLANATION_COLUMNS = (
    *(
        "method",
        "comprehensiveness",
        "sufficiency",
        "a text",
        "the same words again",
        "error of the sum",
    ),
    "AUPRC, F1 with people",
)
ABLATION_COLUMNS = (
    "variant",
    "accuracy",
    "leaders of a text and head",
    "layers until decided (median, most)",
)


def paper_table(rows: Sequence[Row]) -> str:
    """Table 1 of arXiv 2407.01602 with our models, a part for each start of alpha."""
    lines = _head(PAPER_COLUMNS)
    for start, some in by_start(rows).items():
        lines.append(f"| **{start}** |{' |' * (len(PAPER_COLUMNS) - 1)}")
        lines += [_line(paper_cells(row)) for row in some]
    return "\n".join(lines)


def ablation_cells(row: Row) -> list[str]:
    """One line of the ablation table; leaders where the variant has any."""
    led = row.get("leaders")
    counts = "" if led is None else f"{led['average']:.1f} ± {led['deviation']:.1f}"
    return [row["variant"], f"{row['accuracy']:.4f}", counts, decided(row)]


def ablation_table(rows: Sequence[Row]) -> str:
    """What each part of the model is worth."""
    return "\n".join(
        _head(ABLATION_COLUMNS) + [_line(ablation_cells(row)) for row in rows]
    )


def explanation_table(found: Row) -> str:
    """How faithful explanations are, ours and others."""
    people = {row["method"]: row for row in found["agreement"]}
    lines = _head(EXPLANATION_COLUMNS)
    for row in found["rows"]:
        marked = people.get(row["method"])
        cells = [
            row["method"],
            f"{row['comprehensiveness']:.3f}",
            f"{row['sufficiency']:.4f}",
            _milliseconds(row["seconds"]),
            f"{row['same_again']:.2f}",
            "" if row["exact"] is None else f"{row['exact']:.0e}",
            "" if marked is None else f"{marked['auprc']:.3f}, {marked['f1']:.3f}",
        ]
        lines.append(_line(cells))
    return "\n".join(lines)


def _milliseconds(seconds: float) -> str:
    """Three digits, without powers of ten."""
    value = 1000 * seconds
    return f"{value:,.0f} ms" if value >= 100 else f"{value:.2g} ms"


def decided(row: Row) -> str:
    """The layer by which every token of a text has a single leader: the median and the
    most, where it was reached.
    """
    if row.get("decided_median") is None:
        return ""
    left = f"; {row['undecided']:.1%} never" if row["undecided"] > 0 else ""
    return f"{row['decided_median']:.0f}, {row['decided_most']}{left}"


def settings_table() -> str:
    """Every setting with its type, its default and its sentence."""
    lines = [_line(("parameter", "type", "default", "")), "|---|---|---|---|"]
    for title in (MODEL, TRAINING, RUN):
        lines.append(f"| **{title}** | | | |")
        for each in (
            one for one in fields(Parameters) if one.metadata["group"] == title
        ):
            cells = (
                f"`{each.name}`",
                type_name(each),
                f"`{each.default!r}`",
                each.metadata["about"],
            )
            lines.append(_line(cells))
    return "\n".join(lines)


def _head(columns: Sequence[str]) -> list[str]:
    return [_line(columns), f"|---|{'---:|' * (len(columns) - 1)}"]


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
