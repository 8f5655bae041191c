"""`hardmax reproduce`."""

from pathlib import Path
from typing import Annotated

import typer

from hardmax.cli import output


def reproduce(
    name: Annotated[str, typer.Argument(metavar="FIGURE", help='A name from --list, or "all".')] = "all",
    out: Annotated[Path, typer.Option("--out", help="Folder for the files.")] = Path("figures"),
    file_format: Annotated[str, typer.Option("--format", help="png, svg or pdf.")] = "png",
    show_list: Annotated[bool, typer.Option("--list", help="Name the figures and stop.")] = False,
) -> None:
    """Draw figures of the papers, computed anew."""
    from hardmax.figures import FIGURES

    if show_list:
        for key, module in FIGURES.items():
            output.say(f"{key}   {module.TITLE}")
        return
    if name not in (*FIGURES, "all"):
        raise ValueError(
            f"FIGURE must be one of {', '.join(FIGURES)}, or all. Got {name!r}. See hardmax reproduce --list."
        )
    if f".{file_format}" not in output.PICTURES:
        raise ValueError(f"`--format` must be png, svg or pdf. Got {file_format!r}. Use pdf for a paper.")
    for key in FIGURES if name == "all" else [name]:
        module = FIGURES[key]
        path = out / f"{module.__name__.rsplit('.', 1)[-1]}.{file_format}"
        output.save_figure(module.draw(module.compute()), path)
        output.say(f"Wrote {path}")
