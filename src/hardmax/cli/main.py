"""The `hardmax` command."""

import io
import shlex
import sys
import traceback
from typing import Annotated, Any

import typer

from hardmax import __version__
from hardmax._errors import InputError, MissingExtra
from hardmax.cli import output
from hardmax.cli.app import app as open_app
from hardmax.cli.cluster import cluster
from hardmax.cli.compile import compile as compile_ahead
from hardmax.cli.control import control
from hardmax.cli.evaluate import evaluate
from hardmax.cli.explain import explain
from hardmax.cli.inspect import inspect
from hardmax.cli.limit import limit
from hardmax.cli.matrices import WRITTEN_OUT
from hardmax.cli.predict import predict
from hardmax.cli.removed import find_replacement
from hardmax.cli.reproduce import demo, reproduce
from hardmax.cli.simulate import simulate
from hardmax.cli.sweep import app as sweep
from hardmax.cli.topics import topics
from hardmax.cli.train import train
from hardmax.cli.verify import verify

COMMANDS = (
    *(open_app, demo, simulate, limit, verify, control, cluster, topics, reproduce, inspect),
    *(train, predict, explain, evaluate, compile_ahead),
)
EXAMPLES = {
    "app": "hardmax app --model imdb",
    "demo": "hardmax demo --out demo",
    "simulate": "hardmax simulate triangle --layers 20 --out triangle.gif",
    "limit": "hardmax limit triangle --out triangle.png",
    "verify": "hardmax verify gaussian --n 50 --d 3 --out verdicts.json",
    "control": "hardmax control gaussian --n 20 --leaders 3,6 --out A.npy",
    "cluster": "hardmax cluster points.csv --clusters 3 --out clusters.csv",
    "topics": "hardmax topics comments.csv --text comment --out topics.html",
    "reproduce": "hardmax reproduce fig2 --out figures",
    "inspect": 'hardmax inspect minilm "The capital of France is Paris." --out inspection.png',
    "train": "hardmax train reviews.csv --text review --label sentiment --out my-model",
    "predict": "hardmax predict --file reviews.csv --model my-model --out answers.csv",
    "explain": 'hardmax explain "A wonderful film, but far too long." --out explanation.html',
    "evaluate": "hardmax evaluate reviews.csv --model my-model",
    "compile": "hardmax compile",
}
BAD_INPUT, BUG, CLOSED_PIPE = 2, 70, 141

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    epilog="Try: hardmax demo, then hardmax limit triangle --out triangle.png",
)
for command in COMMANDS:
    name = command.__name__.replace("_", "-")
    app.command(name, epilog=f"Try: {EXAMPLES[name]}")(command)
app.add_typer(sweep, name="sweep")


def _version(wanted: bool) -> None:
    if wanted:
        print(f"hardmax {__version__}")
        raise typer.Exit()


@app.callback()
def about(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Attention as a dynamical system: tokens follow the token with the largest projection, and gather around leaders.

    hardmax simulates that, layer by layer and without rounding errors in any decision, and proves where every token
    ends. TOKENS is a CSV or .npy file with one token per row, or the name of a ready-made input such as triangle.
    Exit codes: 0 done, 1 the answer is no, 2 bad input, 70 a bug of hardmax, 130 interrupted,
    141 nobody reads on.
    """


def main(arguments: list[str] | None = None) -> int:
    """Run the command line, and return its exit code."""
    return run(app, "hardmax", sys.argv[1:] if arguments is None else arguments)


def run(app: typer.Typer, program: str, arguments: list[str]) -> int:
    """Run the commands of an app, and make a sentence of what goes wrong."""
    import matplotlib as mpl

    mpl.use("Agg")  # files only: no window, no display needed
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that has no lambda shows a question mark
    # numbers written out may begin with a minus, which is none of an option's
    arguments = [f" {one}" if one.startswith("-") and WRITTEN_OUT.match(one) else one for one in arguments]
    if replacement := find_replacement(arguments):
        output.error(InputError(replacement))
        return BAD_INPUT
    every = typer.main.get_command(app)
    with output.speaking_of(_asked_for(every, arguments).params):
        try:
            every(args=arguments)
        except SystemExit as stop:
            if isinstance(stop.__context__, BrokenPipeError):  # of `hardmax ... | head`, which 1 is not the answer to
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
                f"This is a bug in hardmax {__version__}, not in what you gave it. Please report it to the developers "
                f"of hardmax, with the lines above and the command: {program} {shlex.join(arguments)}"
            )
            return BUG
    return 0


def _asked_for(command: Any, arguments: list[str]) -> Any:
    """The command that the arguments name, within groups such as `hardmax sweep`."""
    for argument in arguments:
        if argument not in getattr(command, "commands", {}):
            break
        command = command.commands[argument]
    return command


if __name__ == "__main__":
    sys.exit(main())
