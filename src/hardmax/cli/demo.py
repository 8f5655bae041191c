"""`hardmax demo`."""

from pathlib import Path
from typing import Annotated

from hardmax._files import check_ending, check_writable
from hardmax.cli import output
from hardmax.cli.options import option


def demo(
    out: Annotated[Path, option("--out", "Folder for the report, or a file that ends in .html.")] = Path("demo"),
) -> None:
    """Write a report of the main results: one HTML file that needs no network."""
    from hardmax.figures.demo import demo as make_report

    if out.suffix[1:].isalpha() and not out.is_dir():  # a name such as x.csv is not meant as a folder
        check_ending(out, [".html"], "out")
        path = out
    else:
        check_writable(out, folder=True)
        path = out / "index.html"
    check_writable(path)
    with output.progress_bar("Sections") as progress:
        page = make_report(progress)
    output.save_text(page, path)
    output.say(f"Wrote {path}. Open it in a browser; it needs no network.")
