"""Parts of self-contained HTML pages: nothing in them is loaded from anywhere."""

import base64
import io
from html import escape
from typing import Any

import hardmax

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
.text { font-size: 1.1rem; line-height: 1.9; white-space: pre-wrap; }
.text span { border-radius: .2rem; padding: .1rem 0; }
"""


def shell(title: str, body: str) -> str:
    """A whole page around a body."""
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>{STYLE}</style></head>\n'
        f"<body><h1>{escape(title)}</h1>\n{body}\n"
        f"<p class=other>Made by hardmax {escape(hardmax.__version__)}.</p></body></html>\n"
    )


def picture(figure: Any, alternative: str, caption: str, *, width: int = 0) -> str:
    """A figure as SVG inside the page; the figure is closed."""
    import matplotlib.pyplot as plt

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


def table(head: list[str], rows: list[list[str]]) -> str:
    """A table of cells that are HTML already."""
    cells = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
    names = "".join(f"<th>{name}</th>" for name in head)
    return f"<div class=wide><table><thead><tr>{names}</tr></thead><tbody>{cells}</tbody></table></div>"
