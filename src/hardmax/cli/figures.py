"""`hardmax demo` and `hardmax reproduce`: a report, and the figures of the papers."""

from pathlib import Path
from typing import Annotated

import typer

from hardmax._errors import MissingExtra, ParameterError, did_you_mean
from hardmax._files import check_ending, check_writable
from hardmax.cli import output
from hardmax.cli.options import option


def demo(
    out: Annotated[
        Path, option("--out", "Folder for the report, or a file that ends in .html.")
    ] = Path("demo"),
) -> None:
    """Write a report of the main results: one HTML file that needs no network."""
    from hardmax.figures.demo import demo as make_report

    path = out
    if (
        out.suffix[1:].isalpha() and not out.is_dir()
    ):  # a name such as x.csv is not meant as a folder
        check_ending(out, [".html"], "out")
    else:
        check_writable(out, folder=True)
        path = out / "index.html"
    check_writable(path)
    with output.progress_bar("Sections") as progress:
        page = make_report(progress)
    output.save_text(page, path)
    output.say(f"Wrote {path}. Open it in a browser; it needs no network.")


def reproduce(
    name: Annotated[
        str, typer.Argument(metavar="FIGURE", help='A name from --list, or "all".')
    ] = "all",
    out: Annotated[Path, option("--out", "Folder for the files.")] = Path("figures"),
    file_format: Annotated[
        str, option("--format", "File format: png, svg or pdf.")
    ] = "png",
    show_list: Annotated[bool, option("--list", "List the figures and exit.")] = False,
) -> None:
    """Compute and draw the figures of the papers."""
    from hardmax.figures import FIGURES

    if show_list:
        width = max(map(len, FIGURES))
        for key, figure in FIGURES.items():
            output.say(f"{key:{width}}   {figure.title}")
        return
    if name not in (*FIGURES, "all"):
        must = f"be one of {', '.join(FIGURES)}, or all"
        raise ParameterError(
            "name",
            must,
            f"{name!r}",
            did_you_mean(name, FIGURES, "See hardmax reproduce --list."),
        )
    if f".{file_format}" not in output.PICTURES:
        advice = (
            "For a movie or a page, use hardmax simulate with --out FILE.gif, FILE.mp4"
            " or FILE.html."
        )
        raise ParameterError(
            "file_format", "be png, svg or pdf", f"{file_format!r}", advice
        )
    check_writable(out, folder=True)
    for key in FIGURES if name == "all" else [name]:
        figure = FIGURES[key]
        path = out / f"{figure.file}.{file_format}"
        try:
            output.save_figure(figure.draw(figure.compute()), path)
            output.say_written([path])
        except MissingExtra as missing:
            if name != "all":
                raise
            output.note(f"Skipped {key}. {missing}")
