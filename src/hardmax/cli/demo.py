"""`hardmax demo`."""

from pathlib import Path
from typing import Annotated

from hardmax.cli import output
from hardmax.cli.options import option


def demo(out: Annotated[Path, option("--out", "Folder for the report.")] = Path("demo")) -> None:
    """Everything at a glance: a self-contained HTML report."""
    from hardmax.figures.demo import demo as report

    path = out / "index.html"
    output.save_text(report(), path)
    output.say(f"Wrote {path}. Open it in a browser; it needs no network.")
