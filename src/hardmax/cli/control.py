"""`hardmax control`."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import typer

import hardmax as hm
from hardmax._errors import ParameterError
from hardmax._files import written_whole
from hardmax._types import AnyArray, IntArray
from hardmax._validation import check_alpha
from hardmax.cli import options, output
from hardmax.cli.options import option, parse_indices, parse_steps
from hardmax.trajectories.storage import to_json

if TYPE_CHECKING:
    from hardmax.control.request import ControlResult

MATRIX_ENDINGS = (".npy", ".csv")
MAX_CONFLICTS, MAX_INDICES = 8, 100  # printed
MAX_CAN_LEAD = 1000  # tokens: `can_lead` of more takes longer than seconds


@options.with_options
def control(
    *,
    context: typer.Context,
    leaders: Annotated[
        str,
        option(
            "--leaders",
            "Indices of the tokens to lead. Default: list the tokens that can.",
            metavar="0,5",
        ),
    ] = "",
    followers: Annotated[
        str,
        option(
            "--followers",
            "Pairs token:leader of tokens to follow a leader at layer 0.",
            metavar="7:0,8:5",
        ),
    ] = "",
    only: Annotated[bool, option("--only", "No other leaders at layer 0.")] = False,
    steer: Annotated[
        bool,
        option(
            "--limit",
            "No other leaders in the limit: search for A, and verify each candidate by"
            " its limit.",
        ),
    ] = False,
    prefer: Annotated[
        str,
        option(
            "--prefer",
            "margin: the A with the largest margin; identity: the A closest to the"
            " identity.",
        ),
    ] = "margin",
    margin: Annotated[
        float | None, option("--margin", "Margin to keep with --prefer identity.")
    ] = None,
    condition: Annotated[
        float | None,
        option(
            "--condition",
            "Maximum condition number of A. Default: 100, then 1e6; with --limit 1e4.",
        ),
    ] = None,
    alpha: Annotated[
        str,
        option(
            "--alpha", "Step size; with --limit a list to choose from, such as 0.1,0.5."
        ),
    ] = "0.5",
    attempts: Annotated[
        int, option("--attempts", "Number of random starts of --only.")
    ] = 10,
    evaluations: Annotated[
        int, option("--evaluations", "Maximum number of limits that --limit computes.")
    ] = 500,
    picture: Annotated[
        bool,
        option("--picture/--no-picture", "Draw a picture beside a matrix in --out."),
    ] = True,
    source: options.TokenOptions,
    json: options.Json = False,
    out: options.Out = None,
) -> None:
    """Choose the matrix A so that given tokens lead and given tokens follow them.

    --out writes the matrix (.npy, .csv) and a picture beside it, only a picture (.png,
    .svg, .pdf), or the result (.json). Exit code 1 if no such A exists or none was
    found.
    """
    files = output.check_files(
        out, (*MATRIX_ENDINGS, *output.PICTURES, ".json"), read=source.tokens
    )
    tokens, steps = source.read_tokens(), parse_steps(alpha)
    needs = {"attempts": ("--only", only), "evaluations": ("--limit", steer)}
    options.check_needs(
        context, needs | {"margin": ("--prefer identity", prefer == "identity")}
    )
    if not leaders:
        if (
            followers
            or only
            or steer
            or any(path.suffix.lower() != ".json" for path in files)
        ):
            must = "be given for --followers, --only, --limit, a matrix or a picture"
            raise ParameterError(
                "leaders", must, "none", "Add --leaders, such as --leaders 0,5."
            )
        _print_can_lead(tokens, json, files)
        return
    if steer and (only or prefer != "margin" or margin is not None):
        must = (
            "go without --only, --prefer and --margin, as it takes the first A without"
            " other leaders"
        )
        raise ParameterError("steer", must, "one of them", "Leave it out.")
    if len(steps) > 1 and not steer:
        raise ParameterError(
            "alpha",
            "be one step size without --limit",
            len(steps),
            "Pass one, or add --limit.",
        )
    check_alpha(steps)
    wanted = {
        "leaders": parse_indices(leaders),
        "followers": _parse_pairs(followers),
        "seed": source.seed,
    }
    with output.progress_bar("Limits" if steer else "Attempts") as progress:
        if steer:
            most = 1e4 if condition is None else condition
            search = {"alpha": steps, "evaluations": evaluations, "condition": most}
            result = hm.control.steer(tokens, **wanted, **search, progress=progress)
        else:
            choice = {
                "only": only,
                "prefer": prefer,
                "margin": margin,
                "condition": condition,
                "attempts": attempts,
            }
            result = hm.control.choose_A(tokens, **wanted, **choice, progress=progress)
    beside = [
        path.with_suffix(".png")
        for path in files
        if picture and path.suffix.lower() in MATRIX_ENDINGS
    ]
    writable = (
        [*files, *beside]
        if result.found
        else [path for path in files if path.suffix.lower() == ".json"]
    )
    plot = partial(hm.draw.plot_control, result, alpha=result.alpha or steps[0])
    for path in dict.fromkeys(writable):
        if path.suffix.lower() in MATRIX_ENDINGS:
            _save_matrix(np.asarray(result.A), path)
        else:
            output.write([path], result, plot=plot)
    if json:
        print(result.to_json())
    else:
        _print_result(result)
        output.say_written(dict.fromkeys(writable))
        for path in files:
            if path not in writable:
                output.say(f"Did not write {path}: there is no A.")
    if not result.found:
        raise typer.Exit(1)


def _parse_pairs(text: str) -> dict[int, int]:
    found: dict[int, int] = {}
    for part in text.replace(",", " ").split():
        try:
            token, leader = (int(number) for number in part.split(":"))
        except ValueError:
            raise ParameterError(
                "followers", "be pairs token:leader, such as 7:0,8:5", f"{part!r}"
            ) from None
        if found.setdefault(token, leader) != leader:
            got = f"{token}:{found[token]} and {token}:{leader}"
            raise ParameterError(
                "followers", "give each token one leader", got, "Drop one."
            )
    return found


def _print_can_lead(tokens: AnyArray, json: bool, files: list[Path]) -> None:
    with output.progress_bar("Tokens") as progress:
        able = hm.control.can_lead(tokens, progress=progress)
    numbers = np.flatnonzero(able)
    text = to_json("hardmax-can-lead-1", {"can_lead": numbers, "tokens": len(able)})
    for path in files:
        output.save_text(text, path)
    if json:
        print(text)
        return
    some = f"{len(numbers)} of {len(able)} tokens"
    output.say(
        f"{some} can lead at layer 0 for some A (Theorem 5): {_format_indices(numbers)}"
    )
    output.say(
        "Choose leaders with --leaders, such as --leaders "
        + ",".join(map(str, numbers[:2]))
    )


def _format_indices(numbers: IntArray) -> str:
    return ", ".join(map(str, numbers[:MAX_INDICES])) + (
        ", ..." if len(numbers) > MAX_INDICES else ""
    )


def _save_matrix(A: AnyArray, path: Path) -> None:
    with written_whole(path) as temporary, temporary.open("wb") as file:
        (
            np.save(file, A)
            if path.suffix.lower() == ".npy"
            else np.savetxt(file, A, delimiter=",")
        )


def _print_result(result: "ControlResult") -> None:
    output.say_status(result.status)
    for clash in result.conflict[:MAX_CONFLICTS]:
        output.say(f"  {clash}")
    if result.cannot_lead and len(result.tokens) <= MAX_CAN_LEAD:
        output.say(
            f"Tokens that can lead for some A: {_format_indices(result.can_lead)}"
        )
    if result.A is not None and len(result.A) <= 6:
        rows = [[f"{x:.4g}" for x in row] for row in result.A]
        output.show_table("A", *[""] * len(rows), rows=rows)
