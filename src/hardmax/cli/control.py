"""`hardmax control`."""

import json as json_format
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import typer

import hardmax as hm
from hardmax._errors import ParameterError
from hardmax._files import written_whole
from hardmax._types import AnyArray, IntArray
from hardmax.cli import options, output
from hardmax.cli.options import option
from hardmax.cli.rules import read_steps

if TYPE_CHECKING:
    from hardmax.control.request import ControlResult

MATRICES = (".npy", ".csv")
MOST_CLASHES, MOST_NAMED = 8, 100
FEW_TOKENS = 1000  # for which it takes seconds to know who can lead


@options.with_options
def control(
    *,
    context: typer.Context,
    leaders: Annotated[
        str, option("--leaders", "Tokens that shall lead. Without it: which tokens can lead.", metavar="0,5")
    ] = "",
    followers: Annotated[
        str, option("--followers", "Tokens that shall follow, each with its leader.", metavar="7:0,8:5")
    ] = "",
    only: Annotated[bool, option("--only", "Those leaders and no others: all decided at layer 0.")] = False,
    steer: Annotated[
        bool, option("--limit", "Those leaders and no others in the end; a search, verified by the limit.")
    ] = False,
    prefer: Annotated[str, option("--prefer", "margin, or identity: the A closest to it.")] = "margin",
    margin: Annotated[float | None, option("--margin", "What --prefer identity keeps.")] = None,
    condition: Annotated[
        float | None, option("--condition", "Condition number of A at most.", show_default="100, else 1e6")
    ] = None,
    alpha: Annotated[str, option("--alpha", "Step, for --limit also several to choose from: 0.1,0.5.")] = "0.5",
    attempts: Annotated[int, option("--attempts", "Random starts of --only.")] = 10,
    evaluations: Annotated[int, option("--evaluations", "Limits that --limit computes at most.")] = 500,
    picture: Annotated[
        bool, option("--picture/--no-picture", "A picture before and after, beside a matrix in --out.")
    ] = True,
    cloud: options.TokenOptions,
    json: options.Json = False,
    out: options.Out = None,
) -> None:
    """Choose A so that chosen tokens lead and chosen tokens follow them.

    Exit code 1 when there is no such A, or none was found. --out writes the matrix (.npy, .csv) with a picture beside
    it, a picture (.png, .svg, .pdf) or the result (.json).
    """
    files = output.check_files(out, (*MATRICES, *output.PICTURES, ".json"), read=cloud.tokens)
    tokens, steps = cloud.read_tokens(), read_steps(alpha)
    for name, needs, met in (
        ("attempts", "--only", only),
        ("evaluations", "--limit", steer),
        ("margin", "--prefer identity", prefer == "identity"),
    ):
        if options.was_given(context, name) and not met:
            raise ParameterError(name, f"go with {needs}", "it without", "Leave it out.")
    if not leaders:
        asked = followers or only or steer
        if asked or any(path.suffix.lower() != ".json" for path in files):
            must = "be given for --followers, --only, --limit, a matrix or a picture"
            raise ParameterError("leaders", must, "none", "Name some, such as 0,5.")
        _say_who_can_lead(tokens, json, files)
        return
    if steer and (only or prefer != "margin" or margin is not None):
        must = (
            "go without --only, --prefer and --margin: it asks for those leaders and no others already, and takes the "
            "first A that does it"
        )
        raise ParameterError("steer", must, "one of them", "Leave it out.")
    if len(steps) > 1 and not steer:
        must, got = "be one step, unless --limit has several to choose from", f"{len(steps)}"
        raise ParameterError("alpha", must, got, "Name one, or add --limit.")
    if not all(step > 0 for step in steps):
        raise ParameterError("alpha", "be positive", f"{alpha!r}", "Try 0.5.")
    wanted = {"leaders": numbers_of(leaders), "followers": _pairs(followers), "seed": cloud.seed}
    if steer:
        most = 1e4 if condition is None else condition
        with output.progress_bar("Limits") as progress:
            search = {"alpha": steps, "evaluations": evaluations, "condition": most, "progress": progress}
            result = hm.control.steer(tokens, **wanted, **search)
    else:
        choice = {"only": only, "prefer": prefer, "margin": margin, "condition": condition, "attempts": attempts}
        with output.progress_bar("Choices") as progress:
            result = hm.control.choose_A(tokens, **wanted, **choice, progress=progress)
    beside = [path.with_suffix(".png") for path in files if picture and path.suffix.lower() in MATRICES]
    writable = [*files, *beside] if result.found else [path for path in files if path.suffix.lower() == ".json"]
    for path in dict.fromkeys(writable):
        _write(result, path, steps[0])
    if json:
        print(result.to_json())
    else:
        _report(result)
        output.say_written(dict.fromkeys(writable))
        for path in files:
            if path not in writable:
                output.say(f"Did not write {path}: there is no A.")
    if not result.found:
        raise typer.Exit(1)


def numbers_of(text: str, name: str = "leaders") -> list[int]:
    """Numbers of tokens, such as 0,5."""
    try:
        numbers = [int(part) for part in _parts(text)]
    except ValueError:
        numbers = []
    if not numbers:
        raise ParameterError(name, "be token numbers, such as 0,5", f"{text!r}")
    return numbers


def _pairs(text: str) -> dict[int, int]:
    found: dict[int, int] = {}
    for part in _parts(text):
        try:
            token, leader = (int(number) for number in part.split(":"))
        except ValueError:
            raise ParameterError("followers", "be pairs token:leader, such as 7:0,8:5", f"{part!r}") from None
        if found.setdefault(token, leader) != leader:
            got = f"{token}:{found[token]} and {token}:{leader}"
            raise ParameterError("followers", "give each token one leader", got, "Drop one.")
    return found


def _parts(text: str) -> list[str]:
    return text.replace(",", " ").split()


def _say_who_can_lead(tokens: AnyArray, json: bool, files: list[Path]) -> None:
    """Theorem 5 for every token."""
    with output.progress_bar("Tokens") as progress:
        able = hm.control.can_lead(tokens, progress=progress)
    numbers = np.flatnonzero(able)
    text = json_format.dumps({"can_lead": numbers.tolist(), "tokens": len(able)})
    for path in files:
        output.save_text(text, path)
    if json:
        print(text)
        return
    output.say(f"{len(numbers)} of {len(able)} tokens can lead at layer 0 for some A (Theorem 5): {_few(numbers)}")
    output.say("Choose some with --leaders, such as --leaders " + ",".join(map(str, numbers[:2])))


def _few(numbers: IntArray) -> str:
    return ", ".join(map(str, numbers[:MOST_NAMED])) + (", ..." if len(numbers) > MOST_NAMED else "")


def _write(result: "ControlResult", path: Path, alpha: float | Fraction) -> None:
    ending = path.suffix.lower()
    if ending not in MATRICES:
        picture = partial(hm.draw.plot_control, result, alpha=result.alpha or alpha)
        output.write([path], text=result.to_json, figure=picture)
    elif result.A is not None:
        with written_whole(path) as temporary, temporary.open("wb") as file:
            np.save(file, result.A) if ending == ".npy" else np.savetxt(file, result.A, delimiter=",")


def _report(result: "ControlResult") -> None:
    output.say_status(result.status)
    for clash in result.conflict[:MOST_CLASHES]:
        output.say(f"  {clash}")
    if result.cannot_lead and len(result.tokens) <= FEW_TOKENS:
        output.say(f"Tokens that can lead for some A: {_few(result.can_lead)}")
    if result.A is not None and len(result.A) <= 6:
        grid = output.table("A", *[""] * len(result.A))
        for row in result.A:
            grid.add_row(*(f"{x:.4g}" for x in row))
        output.show(grid)
