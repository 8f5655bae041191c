"""`hardmax study`."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from hardmax._errors import ParameterError, needed_for
from hardmax.cli import output, texts
from hardmax.cli.options import option

STUDIES = ("paper", "ablations", "small")


def study(
    name: Annotated[str, typer.Argument(metavar="NAME", help="paper, ablations or small.", show_default=False)],
    out: Annotated[Path, option("--out", "JSON file for the rows; others in it are kept.", metavar="FILE")],
    source: texts.DataSource = None,
    only: Annotated[
        list[str] | None, option("--only", "This row alone; may be given several times.", metavar="ROW")
    ] = None,
    seed: Annotated[int, option("--seed", "Seed of the split and the training.")] = 0,
    device: Annotated[str, option("--device", "cpu, cuda, or auto.")] = "auto",
) -> None:
    """Train the models behind the tables of the docs on IMDb: the paper's for several d, what each part is worth, and
    files of every size against other methods.

    A row takes seconds to some minutes. Each is written when it is done.
    """
    with needed_for("`hardmax study`", None, "text"):
        from hardmax.text.studies import names_of, rows_of

    if name not in STUDIES:
        raise ParameterError("name", f"be one of {', '.join(STUDIES)}", f"{name!r}")
    unknown = [row for row in only or [] if row not in names_of(name)]
    if unknown:
        raise ParameterError("only", f"be one of {', '.join(names_of(name))}", f"{unknown[0]!r}")
    output.check_files([out], (".json",))
    splits = texts.imdb(source, ratings=name == "small")
    for row in rows_of(name, splits, only=only or (), seed=seed, device=device):
        add_row(out, row)
        output.say(f"{label_of(row)}: accuracy {row['accuracy']:.4f}, {row['seconds']:.0f} s")


def add_row(path: Path, row: dict[str, Any]) -> None:
    """Put a row into a file, in the place of one of the same name and seed."""
    rows = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
    kept = [old for old in rows if (label_of(old), old["seed"]) != (label_of(row), row["seed"])]
    output.save_text(json.dumps([*kept, row], indent=1), path)


def label_of(row: dict[str, Any]) -> str:
    """The name of a row."""
    return str(row["variant"]) if "variant" in row else f"{row['d']} {row['start']}"
