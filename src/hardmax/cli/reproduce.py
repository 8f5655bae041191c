"""`hardmax reproduce` and `hardmax demo`."""

from pathlib import Path
from types import ModuleType
from typing import Annotated, Any

import typer

from hardmax import draw
from hardmax._errors import MissingExtra, ParameterError, did_you_mean
from hardmax._files import check_ending, check_writable
from hardmax.cli import output
from hardmax.cli.options import option

MOVING = (*output.MOVIES, ".html")


def reproduce(
    name: Annotated[str, typer.Argument(metavar="FIGURE", help='A name from --list, or "all".')] = "all",
    out: Annotated[Path, option("--out", "Folder for the files.")] = Path("figures"),
    file_format: Annotated[
        str,
        option("--format", "png, svg or pdf; for figures of tokens on their way also gif, mp4 or html, to play them."),
    ] = "png",
    show_list: Annotated[bool, option("--list", "Name the figures and stop.")] = False,
) -> None:
    """Draw figures of the papers, computed anew."""
    from hardmax.figures import FIGURES

    if show_list:
        width = max(map(len, FIGURES))
        for key, module in FIGURES.items():
            output.say(f"{key:{width}}   {module.TITLE}")
        return
    if name not in (*FIGURES, "all"):
        must = f"be one of {', '.join(FIGURES)}, or all"
        raise ParameterError("name", must, f"{name!r}", did_you_mean(name, FIGURES, "See hardmax reproduce --list."))
    ending = f".{file_format}"
    if ending not in (*output.PICTURES, *MOVING):
        advice = "Use pdf for a paper; figures of tokens on their way can also be gif, mp4 or html."
        raise ParameterError("file_format", "be png, svg or pdf", f"{file_format!r}", advice)
    fitting = [key for key, module in FIGURES.items() if _can_be(module, ending)]
    if name not in (*fitting, "all"):
        raise ParameterError(
            f"file_format={file_format!r}",
            f"go with a figure that can be played: {', '.join(fitting)}",
            f"{name!r}",
            "Use png, svg or pdf.",
        )
    check_writable(out, folder=True)
    for key in fitting if name == "all" else [name]:
        path = out / f"{FIGURES[key].__name__.rsplit('.', 1)[-1]}{ending}"
        try:
            _write(FIGURES[key], path)
        except MissingExtra as missing:
            if name != "all":
                raise
            output.note(f"Left out {key}. {missing}")
            continue
        played = getattr(FIGURES[key], "PLAYED", "") if ending in MOVING else ""
        output.say(f"Wrote {path}{played and f' ({played})'}")
    if name == "all" and len(fitting) < len(FIGURES):
        still = ", ".join(key for key in FIGURES if key not in fitting)
        output.note(f"Left out {still}, which cannot be played. Draw them with --format png.")


def _can_be(module: ModuleType, ending: str) -> bool:
    """Whether a figure can be drawn, filmed, or played in a page: there tokens alone are shown."""
    filmed = ending in output.MOVIES and hasattr(module, "scene")
    return ending in output.PICTURES or filmed or hasattr(module, "movie_of")


def _write(module: ModuleType, path: Path) -> None:
    numbers = module.compute()
    played = getattr(module, "PLAYED", "")

    def film(path: Path, **more: Any) -> None:
        if hasattr(module, "scene"):
            module.scene(numbers).movie(path, **more)
        else:
            draw.movie(module.movie_of(numbers), path, **more)

    def page() -> str:
        return draw.interactive(module.movie_of(numbers), title=module.TITLE + (played and f" (here {played})"))

    output.write([path], figure=lambda: module.draw(numbers), film=film, page=page)


def demo(
    out: Annotated[Path, option("--out", "Folder for the report, or a page that ends in .html.")] = Path("demo"),
) -> None:
    """Everything at a glance: a self-contained HTML report."""
    from hardmax.figures.demo import demo as report

    if out.suffix[1:].isalpha() and not out.is_dir():  # no folder is called x.csv
        check_ending(out, [".html"], "out")
        path = out
    else:
        check_writable(out, folder=True)
        path = out / "index.html"
    check_writable(path)
    with output.progress_bar("Sections") as progress:
        page = report(progress)
    output.save_text(page, path)
    output.say(f"Wrote {path}. Open it in a browser; it needs no network.")
