"""Options that commands share: each is written once, in a dataclass that a command takes as a parameter."""

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, is_dataclass
from functools import wraps
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from hardmax import configuration
from hardmax._errors import ParameterError
from hardmax._types import AnyArray
from hardmax.cli.matrices import read_matrix
from hardmax.configurations import CONFIGURATIONS, RANDOM_CONFIGURATIONS


def panel(name: str | None = None) -> Callable[..., Any]:
    """How to write options that the help shows together: a flag, what it is about, and more as Typer has it."""
    return lambda flag, about, **more: typer.Option(flag, help=about, rich_help_panel=name, **more)


option = panel()
UNSAID = {"show_default": False}  # where words say it
Json = Annotated[bool, option("--json", "Print the result as JSON.")]
SEVERAL = "Write a file, by its ending; may be given several times."
Out = Annotated[list[Path] | None, option("--out", SEVERAL, metavar="FILE", **UNSAID)]


def with_options(command: Callable[..., None]) -> Callable[..., None]:
    """A command in which Typer sees, in place of a parameter that is a dataclass, one parameter for each field.

    Fields of a class come before those of its base, so that what is special comes first in the help.
    """
    flat: list[inspect.Parameter] = []
    nested: dict[str, type] = {}
    for parameter in inspect.signature(command).parameters.values():
        if isinstance(parameter.annotation, type) and is_dataclass(parameter.annotation):
            nested[parameter.name] = parameter.annotation
            flat += _parameters_of(parameter.annotation)
        else:
            flat.append(parameter.replace(kind=parameter.KEYWORD_ONLY))

    @wraps(command)
    def flattened(**given: Any) -> None:
        for name, kind in nested.items():
            given[name] = kind(**{field.name: given.pop(field.name) for field in fields(kind)})
        command(**given)

    flattened.__signature__ = inspect.Signature(flat)  # type: ignore[attr-defined]
    flattened.__annotations__ = {parameter.name: parameter.annotation for parameter in flat}
    return flattened


def _parameters_of(kind: type) -> Iterator[inspect.Parameter]:
    for part in kind.__mro__:
        for name, annotation in inspect.get_annotations(part).items():
            default = getattr(kind, name, inspect.Parameter.empty)
            yield inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default)


def was_given(context: typer.Context, name: str) -> bool:
    """Whether a person wrote an option, and it is not its default."""
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


FILES = "A CSV (also .tsv, .txt, or - for standard input) or .npy file"
SOURCES = f"{FILES}, numbers such as 0,1;1,0, or a name: {', '.join(CONFIGURATIONS)}."


@dataclass(frozen=True, kw_only=True)
class TokenOptions:
    """Which tokens."""

    tokens: Annotated[str, typer.Argument(metavar="TOKENS", help=SOURCES, show_default=False)]
    n: Annotated[int | None, option("--n", "How many random tokens, for gaussian, ball and sphere: 100.")] = None
    d: Annotated[int | None, option("--d", "Their dimension: 2.")] = None
    seed: Annotated[int, option("--seed", "Seed of the random tokens.")] = 0
    cloud: Annotated[int | None, option("--cloud", "Which cloud of a .npy batch, counted from 0.")] = None

    def read_tokens(self, *, single: bool = True) -> AnyArray:
        """Tokens from a file, standard input or a named configuration; `single` asks for one cloud, not a batch."""
        if self.tokens in CONFIGURATIONS:
            if self.cloud is not None:
                must = "go with a batch, a .npy file of shape (batch, n, d)"
                raise ParameterError("cloud", must, f"{self.tokens}, one cloud", "Leave it out.")
            return configuration(self.tokens, n=self.n, d=self.d, seed=self.seed)
        if self.n is not None or self.d is not None:
            with_these, got = ", ".join(RANDOM_CONFIGURATIONS), f"them with {self.tokens!r}"
            raise ParameterError(("n", "d"), f"go with {with_these}", got, "Leave them out.")
        tokens = read_matrix(self.tokens, "tokens", CONFIGURATIONS)
        if tokens.ndim != 3 and self.cloud is not None:
            must = "go with a batch, a .npy file of shape (batch, n, d)"
            raise ParameterError("cloud", must, f"{self.tokens}, one cloud", "Leave it out.")
        if tokens.ndim != 3 or (self.cloud is None and not single):
            return tokens
        if self.cloud is None or not 0 <= self.cloud < len(tokens):
            must, got = f"name one of the {len(tokens)} clouds in {self.tokens}", "no choice"
            advice = f"Pass a number from 0 to {len(tokens) - 1}."
            raise ParameterError("cloud", must, got if self.cloud is None else self.cloud, advice)
        return np.asarray(tokens[self.cloud])
