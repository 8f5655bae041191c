"""The `hardmax` command."""

import io
import shlex
import sys
import traceback
from collections.abc import Callable
from typing import Annotated, Any

import typer

from hardmax import __version__
from hardmax._errors import InputError, MissingExtra
from hardmax.cli import output
from hardmax.cli.app import app as open_app
from hardmax.cli.check_certificate import check_certificate
from hardmax.cli.cluster import cluster
from hardmax.cli.compile import compile as compile_ahead
from hardmax.cli.control import control
from hardmax.cli.evaluate import evaluate
from hardmax.cli.explain import explain
from hardmax.cli.figures import demo, reproduce
from hardmax.cli.inspect import inspect
from hardmax.cli.options import NUMBERS
from hardmax.cli.predict import predict
from hardmax.cli.simulate import limit, simulate, verify
from hardmax.cli.sweep import app as sweep
from hardmax.cli.train import train

COMMANDS: dict[Callable[..., None], str] = {  # with an example for the help
    open_app: "hardmax app --model imdb",
    demo: "hardmax demo --out demo",
    simulate: "hardmax simulate triangle --layers 8 --out triangle.gif",
    limit: "hardmax limit triangle --out triangle.png",
    check_certificate: "hardmax check-certificate triangle.json",
    verify: "hardmax verify gaussian --n 50 --d 3 --out verdicts.json",
    control: "hardmax control gaussian --n 20 --leaders 3,6 --out A.npy",
    cluster: "hardmax cluster points.csv --clusters 3 --out clusters.csv",
    reproduce: "hardmax reproduce fig2 --out figures",
    inspect: (
        'hardmax inspect minilm "The capital of France is Paris." --out inspection.png'
    ),
    train: "hardmax train reviews.csv --text review --label sentiment --out my-model",
    predict: "hardmax predict --file reviews.csv --model my-model --out answers.csv",
    explain: (
        'hardmax explain "A wonderful film, but far too long." --out explanation.html'
    ),
    evaluate: "hardmax evaluate reviews.csv --model my-model",
    compile_ahead: "hardmax compile",
}
BAD_INPUT, BUG, CLOSED_PIPE = 2, 70, 141

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    epilog="Try: hardmax demo, then hardmax limit triangle --out triangle.png",
)
for command, example in COMMANDS.items():
    app.command(command.__name__.replace("_", "-"), epilog=f"Try: {example}")(command)
app.add_typer(sweep, name="sweep")


def _version(wanted: bool) -> None:
    if wanted:
        print(f"hardmax {__version__}")
        raise typer.Exit()


@app.callback()
def about(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    """Simulate attention as a dynamical system, prove where tokens converge, and train
    text classifiers built on it.

    In a hardmax layer each token z attends to the tokens whose inner product with A z
    is largest, and moves towards their mean. A token that attends only to itself is a
    leader. Argmax sets are exact. TOKENS is a CSV or .npy file with one token per row,
    or the name of a configuration such as triangle.

    Exit codes: 0 done; 1 the answer is "no"; 2 invalid input; 70 a bug; 130
    interrupted; 141 output pipe closed.
    """


def main(arguments: list[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    arguments = sys.argv[1:] if arguments is None else arguments
    return run(app, "hardmax", arguments)


def run(app: typer.Typer, program: str, arguments: list[str]) -> int:
    """Run a command of an app, print an error as a sentence, and return the exit code."""
    import matplotlib as mpl

    mpl.use("Agg")  # files only: no window, no display needed
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(
                errors="replace"
            )  # characters that the terminal cannot encode become question marks
    # A list of numbers may begin with a minus, which would make it an option.
    arguments = [
        f" {one}" if one.startswith("-") and NUMBERS.match(one) else one
        for one in arguments
    ]
    root = typer.main.get_command(app)
    with output.use_options(_find_command(root, arguments).params):
        try:
            root(args=arguments, prog_name=program)
        except SystemExit as stop:
            if isinstance(
                stop.__context__, BrokenPipeError
            ):  # as in `hardmax ... | head`
                return CLOSED_PIPE
            return int(stop.code or 0)
        except KeyboardInterrupt:
            return output.INTERRUPTED
        except (InputError, MissingExtra, OSError, MemoryError) as problem:
            output.error(problem)
            return BAD_INPUT
        except Exception:
            traceback.print_exc()
            output.note(
                f"This is a bug in hardmax {__version__}, not an error in the input."
                f" Please report it with the lines above and the command: {program}"
                f" {shlex.join(arguments)}"
            )
            return BUG
    return 0


def _find_command(command: Any, arguments: list[str]) -> Any:
    """Return the command that the arguments name, also inside a group such as `hardmax
    sweep`.
    """
    for argument in arguments:
        if argument not in getattr(command, "commands", {}):
            break
        command = command.commands[argument]
    return command


if __name__ == "__main__":
    sys.exit(main())
