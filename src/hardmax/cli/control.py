"""`hardmax control`."""

import json as json_format
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from hardmax._errors import ParameterError
from hardmax._files import written_whole
from hardmax.cli import options, output
from hardmax.cli.rules import read_steps

MATRICES = (".npy", ".csv")
MOST_CLASHES, MOST_NAMED = 8, 100
FEW_TOKENS = 1000  # for which it takes seconds to know who can lead

Leaders = Annotated[
    str, typer.Option("--leaders", metavar="0,5", help="Tokens that shall lead. Without it: which tokens can lead.")
]
Followers = Annotated[
    str, typer.Option("--followers", metavar="7:0,8:5", help="Tokens that shall follow, each with its leader.")
]


def control(
    tokens: options.Input,
    leaders: Leaders = "",
    followers: Followers = "",
    only: Annotated[bool, typer.Option("--only", help="Those leaders and no others: all decided at layer 0.")] = False,
    at_limit: Annotated[
        bool, typer.Option("--limit", help="Those leaders and no others in the end; a search, verified by the limit.")
    ] = False,
    prefer: Annotated[str, typer.Option("--prefer", help="margin, or identity: the A closest to it.")] = "margin",
    margin: Annotated[float | None, typer.Option("--margin", help="What --prefer identity keeps.")] = None,
    condition: Annotated[
        float | None, typer.Option("--condition", help="Condition number of A at most.", show_default="100, else 1e6")
    ] = None,
    alpha: Annotated[
        str, typer.Option("--alpha", help="Step, for --limit also several to choose from: 0.1,0.5.")
    ] = "0.5",
    attempts: Annotated[int, typer.Option("--attempts", help="Random starts of --only.")] = 10,
    evaluations: Annotated[int, typer.Option("--evaluations", help="Limits that --limit computes at most.")] = 500,
    picture: Annotated[
        bool, typer.Option("--picture/--no-picture", help="A picture before and after, beside a matrix in --out.")
    ] = True,
    n: options.N = None,
    d: options.D = None,
    seed: options.Seed = 0,
    cloud: options.Cloud = None,
    json: options.Json = False,
    out: options.Out = None,
) -> None:
    """Choose A so that chosen tokens lead and chosen tokens follow them.

    Exit code 1 when there is no such A, or none was found. --out writes the matrix (.npy, .csv) with a picture beside
    it, a picture (.png, .svg, .pdf) or the result (.json).
    """
    from hardmax.control import choose_A, steer

    files = output.check_endings(out, (*MATRICES, *output.PICTURES, ".json"))
    points = options.read_tokens(tokens, n=n, d=d, seed=seed, exact=False, cloud=cloud, single=True)
    given = read_steps(alpha)
    steps = given if isinstance(given, list) else [given]
    if not leaders:
        _who_can(points, json, files, followers)
        return
    if at_limit and (only or prefer != "margin" or margin is not None):
        raise ParameterError(
            "--limit",
            (
                "go without --only, --prefer and --margin: it asks for those leaders and no others already, "
                "and takes the first A that does it"
            ),
            "one of them",
            "Leave it out.",
        )
    wanted: dict[str, Any] = {"leaders": _numbers(leaders), "followers": _targets(followers), "seed": seed}
    if at_limit:
        with output.progress_bar("Limits") as progress:
            more: dict[str, Any] = {"condition": 1e4 if condition is None else condition, "progress": progress}
            result = steer(points, **wanted, alpha=steps, evaluations=evaluations, **more)
    else:
        choice: dict[str, Any] = {"prefer": prefer, "margin": margin, "condition": condition, "attempts": attempts}
        with output.progress_bar("Choices") as progress:
            result = choose_A(points, **wanted, only=only, progress=progress, **choice)
    able = [path for path in files if result.found or path.suffix.lower() == ".json"]
    written = dict.fromkeys(name for path in able for name in _write(result, path, steps[0], picture, files))
    if json:
        print(result.to_json())
    else:
        _report(result)
        for path in written:
            output.say(f"Wrote {path}")
        for path in (path for path in files if path not in written):
            output.say(f"Did not write {path}: there is no A.")
    if not result.found:
        raise typer.Exit(1)


def _numbers(text: str) -> list[int]:
    try:
        numbers = [int(part) for part in text.replace(" ", ",").split(",") if part]
    except ValueError:
        numbers = []
    if not numbers:
        raise ParameterError("--leaders", "be token numbers, such as 0,5", f"{text!r}")
    return numbers


def _targets(text: str) -> dict[int, int]:
    """Pairs such as 7:0, each token once."""
    found: dict[int, int] = {}
    for part in text.replace(" ", ",").split(","):
        if not part:
            continue
        try:
            token, leader = (int(number) for number in part.split(":"))
        except ValueError:
            raise ParameterError("--followers", "be pairs token:leader, such as 7:0,8:5", f"{part!r}") from None
        if found.setdefault(token, leader) != leader:
            raise ParameterError(
                "--followers", "give each token one leader", f"{token}:{found[token]} and {token}:{leader}", "Drop one."
            )
    return found


def _who_can(points: Any, json: bool, files: list[Path], followers: str) -> None:
    """Theorem 5 for every token."""
    from hardmax.control import can_lead

    if followers or any(path.suffix.lower() != ".json" for path in files):
        raise ParameterError(
            "--leaders", "be given for --followers, a matrix or a picture", "none", "Name some, such as 0,5."
        )
    with output.progress_bar("Tokens") as progress:
        able = can_lead(points, progress=progress)
    numbers = np.flatnonzero(able)
    text = json_format.dumps({"can_lead": numbers.tolist(), "tokens": len(able)})
    for path in files:
        output.save_text(text, path)
    if json:
        print(text)
        return
    output.say(f"{len(numbers)} of {len(able)} tokens can lead at layer 0 for some A (Theorem 5): {_few(numbers)}")
    output.say("Choose some with --leaders, such as --leaders " + ",".join(map(str, numbers[:2])))


def _few(numbers: Any) -> str:
    return ", ".join(map(str, numbers[:MOST_NAMED])) + (", ..." if len(numbers) > MOST_NAMED else "")


def _write(result: Any, path: Path, alpha: Any, picture: bool, files: list[Path]) -> list[Path]:
    """One file by its ending, and beside a matrix its picture; returns what was written."""
    ending = path.suffix.lower()
    if ending == ".json":
        output.save_text(result.to_json(), path)
        return [path]
    if ending in output.PICTURES:
        _draw(result, path, alpha)
        return [path]
    with written_whole(path) as temporary:
        if ending == ".npy":
            with temporary.open("wb") as file:
                np.save(file, result.A)
        else:
            np.savetxt(temporary, result.A, delimiter=",")
    beside = path.with_suffix(".png")
    first = next(other for other in files if other.with_suffix(".png") == beside)
    if not picture or first != path:  # another file has it, or is it
        return [path]
    _draw(result, beside, alpha)
    return [path, beside]


def _draw(result: Any, path: Path, alpha: Any) -> None:
    from hardmax.draw.control import plot_control

    output.save_figure(plot_control(result, alpha=result.alpha or alpha), path)


def _report(result: Any) -> None:
    output.say(result.status)
    for clash in result.conflict[:MOST_CLASHES]:
        output.say(f"  {clash}")
    if result.cannot_lead and len(result.tokens) <= FEW_TOKENS:
        output.say(f"Tokens that can lead for some A: {_few(result.can_lead)}")
    if result.A is not None and len(result.A) <= 6:
        grid = output.table("A", *[""] * len(result.A))
        for row in result.A:
            grid.add_row(*(f"{x:.4g}" for x in row))
        output.console().print(grid)
