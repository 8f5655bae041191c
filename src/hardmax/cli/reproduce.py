"""`hardmax reproduce`."""

from pathlib import Path
from typing import Annotated

import typer

from hardmax._errors import MissingExtra, ParameterError, did_you_mean
from hardmax._files import check_writable
from hardmax.cli import output
from hardmax.cli.options import option


def reproduce(
    name: Annotated[str, typer.Argument(metavar="FIGURE", help='A name from --list, or "all".')] = "all",
    out: Annotated[Path, option("--out", "Folder for the files.")] = Path("figures"),
    file_format: Annotated[str, option("--format", "File format: png, svg or pdf.")] = "png",
    show_list: Annotated[bool, option("--list", "List the figures and exit.")] = False,
) -> None:
    """Compute and draw the figures of the papers."""
    from hardmax.figures import FIGURES

    if show_list:
        width = max(map(len, FIGURES))
        for key, module in FIGURES.items():
            output.say(f"{key:{width}}   {module.TITLE}")
        return
    if name not in (*FIGURES, "all"):
        must = f"be one of {', '.join(FIGURES)}, or all"
        raise ParameterError("name", must, f"{name!r}", did_you_mean(name, FIGURES, "See hardmax reproduce --list."))
    if f".{file_format}" not in output.PICTURES:
        advice = "For a movie or a page, use hardmax simulate with --out FILE.gif, FILE.mp4 or FILE.html."
        raise ParameterError("file_format", "be png, svg or pdf", f"{file_format!r}", advice)
    check_writable(out, folder=True)
    for key in FIGURES if name == "all" else [name]:
        module = FIGURES[key]
        path = out / f"{module.__name__.rsplit('.', 1)[-1]}.{file_format}"
        try:
            output.save_figure(module.draw(module.compute()), path)
        except MissingExtra as missing:
            if name != "all":
                raise
            output.note(f"Skipped {key}. {missing}")
            continue
        output.say(f"Wrote {path}")
