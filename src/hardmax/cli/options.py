"""Options that several commands share: tokens, matrices, rules and their durations,
output files.

Options are fields of a dataclass; `with_options` makes each field an option of a
command.
"""

import inspect
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from fractions import Fraction
from functools import wraps
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from hardmax import (
    Hardmax,
    SelfAttention,
    Softmax,
    Sphere,
    Trajectory,
    configuration,
    simulate,
)
from hardmax._errors import ParameterError, did_you_mean
from hardmax._types import AnyArray, Progress
from hardmax._validation import check_positive
from hardmax.cli import output
from hardmax.configurations import (
    CONFIGURATIONS,
    MATRICES,
    PAPER_MATRICES,
    RANDOM_CONFIGURATIONS,
    matrix,
)
from hardmax.flows.classify import classify_values
from hardmax.rules.base import Rule
from hardmax.search.dispatch import KERNELS
from hardmax.text.files import exact_number
from hardmax.text.tables import parse_table


def option(flag: str, about: str, panel: str | None = None, **more: Any) -> Any:
    """Return an option of Typer with a help text, in a panel of the help."""
    return typer.Option(flag, help=about, rich_help_panel=panel, **more)


Json = Annotated[bool, option("--json", "Print the result as JSON.")]
Out = Annotated[
    list[Path] | None,
    option(
        "--out",
        "Output file; its ending chooses the format. May be repeated.",
        metavar="FILE",
    ),
]


def with_options(command: Callable[..., None]) -> Callable[..., None]:
    """Decorate a command: each field of a parameter that is a dataclass becomes an
    option.

    Fields of a class come before those of its base class, so that the help shows the
    special ones first.
    """
    flat: list[inspect.Parameter] = []
    nested: dict[str, Any] = {}
    for parameter in inspect.signature(command).parameters.values():
        kind = parameter.annotation
        if not is_dataclass(kind):
            flat.append(parameter.replace(kind=parameter.KEYWORD_ONLY))
            continue
        nested[parameter.name] = kind
        for part in parameter.annotation.__mro__:
            for name, annotation in inspect.get_annotations(part).items():
                default = getattr(kind, name, parameter.empty)
                flat.append(
                    inspect.Parameter(
                        name,
                        parameter.KEYWORD_ONLY,
                        annotation=annotation,
                        default=default,
                    )
                )

    @wraps(command)
    def flattened(**values: Any) -> None:
        for name, kind in nested.items():
            values[name] = kind(
                **{field.name: values.pop(field.name) for field in fields(kind)}
            )
        command(**values)

    flattened.__signature__ = inspect.Signature(flat)  # type: ignore[attr-defined]
    flattened.__annotations__ = {
        parameter.name: parameter.annotation for parameter in flat
    }
    return flattened


def was_given(context: typer.Context, name: str) -> bool:
    """Return whether the command line contains an option, also with its default value."""
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def check_needs(
    context: typer.Context,
    needs: Mapping[str, tuple[str, bool]],
    got: str = "it without",
) -> None:
    """Raise an error for an option without effect; `needs` has what each option needs,
    and whether this is given.
    """
    for name, (needed, is_met) in needs.items():
        if was_given(context, name) and not is_met:
            value = context.params[name]
            mention = f"{name}={value}" if isinstance(value, bool) else name
            raise ParameterError(mention, f"go with {needed}", got, "Leave it out.")


# Matrices and numbers

NUMBERS = re.compile(r"\s*[-+]?[\d.][^,;]*[,;]")  # a number and a separator: 2,1;1,1
READABLE = (".csv", ".tsv", ".txt", ".npy")


def read_matrix(source: str, parameter: str, names: Iterable[str]) -> AnyArray:
    """Read numbers from a .npy file, a text file, standard input (-), or the argument
    itself, as in 2,1;1,1.
    """
    path = Path(source)
    if source == "-":
        return _parse(sys.stdin.read(), source)
    if (
        NUMBERS.match(source)
        and path.suffix.lower() not in READABLE
        and not path.exists()
    ):
        return _parse(source.replace(";", "\n"), source, unit="row")
    if path.suffix.lower() not in READABLE:
        must = f"be a .csv or .npy file, or one of {', '.join(names)}"
        advice = did_you_mean(
            source, names, "Check the spelling, or save the numbers as CSV."
        )
        raise ParameterError(parameter, must, f"{source!r}", advice)
    if not path.is_file():
        raise ParameterError(
            path,
            "be a file",
            "a folder" if path.is_dir() else "none by that name",
            "Check the path.",
        )
    if path.suffix.lower() == ".npy":
        try:
            return np.asarray(np.load(path, allow_pickle=False))
        except (ValueError, EOFError, OSError):
            got = "a broken file, or one with Python objects, which are never loaded"
            raise ParameterError(
                path, "be a NumPy array of numbers", got, "Save it again with np.save."
            ) from None
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise ParameterError(
            path, "be text in UTF-8", "other bytes", "Save it as CSV in UTF-8."
        ) from None
    return _parse(text, source)


def _parse(text: str, name: str, unit: str = "line") -> AnyArray:
    table, note = parse_table(text, name, unit)
    output.note(note)
    return table


def parse_indices(text: str, name: str = "leaders") -> list[int]:
    """Parse token indices such as 0,5."""
    try:
        indices = [int(part) for part in text.replace(",", " ").split()]
    except ValueError:
        indices = []
    if not indices:
        raise ParameterError(name, "be token numbers, such as 0,5", f"{text!r}")
    return indices


def parse_steps(alpha: str) -> list[float | Fraction]:
    """Parse step sizes such as 0.1,1/2 without rounding."""
    try:
        return [exact_number(part) for part in alpha.split(",")]
    except ValueError:
        raise ParameterError(
            "alpha", "be a positive number, a ratio or a list", f"{alpha!r}", "Try 0.5."
        ) from None


# Tokens

SOURCES = (
    "A CSV file (also .tsv, .txt, or - for standard input), a .npy file, numbers such"
    f" as 0,1;1,0, or a name: {', '.join(CONFIGURATIONS)}."
)


@dataclass(frozen=True, kw_only=True)
class TokenOptions:
    """The tokens of a command."""

    tokens: Annotated[str, typer.Argument(metavar="TOKENS", help=SOURCES)]
    n: Annotated[
        int | None,
        option("--n", "Number of tokens of gaussian, ball and sphere. Default: 100."),
    ] = None
    d: Annotated[
        int | None, option("--d", "Dimension of gaussian, ball and sphere. Default: 2.")
    ] = None
    seed: Annotated[
        int, option("--seed", "Seed of random tokens and random matrices.")
    ] = 0
    batch_index: Annotated[
        int | None, option("--batch-index", "Index of a token set in a .npy batch.")
    ] = None

    def read_tokens(self, *, single: bool = True) -> AnyArray:
        """Read tokens from a file, standard input or a named configuration; `single`
        refuses a whole batch.
        """
        if self.tokens in CONFIGURATIONS:
            tokens = configuration(self.tokens, n=self.n, d=self.d, seed=self.seed)
        elif self.n is not None or self.d is not None:
            names, got = ", ".join(RANDOM_CONFIGURATIONS), f"them with {self.tokens!r}"
            raise ParameterError(("n", "d"), f"go with {names}", got, "Leave them out.")
        else:
            tokens = read_matrix(self.tokens, "tokens", CONFIGURATIONS)
        if self.batch_index is None and (tokens.ndim != 3 or not single):
            return tokens
        if tokens.ndim != 3:
            must = "go with a batch, a .npy file of shape (batch, n, d)"
            raise ParameterError(
                "batch_index", must, f"{self.tokens}, one token set", "Leave it out."
            )
        if self.batch_index is None or not 0 <= self.batch_index < len(tokens):
            must, last = (
                f"be the index of one of the {len(tokens)} token sets in {self.tokens}",
                len(tokens) - 1,
            )
            raise ParameterError(
                "batch_index",
                must,
                self.batch_index or "none",
                f"Pass a number from 0 to {last}.",
            )
        return np.asarray(tokens[self.batch_index])


# Rules

MATRIX = (
    f"a .npy or CSV file, numbers such as 2,1;1,1, or {', '.join(MATRICES)}. Default:"
    " the identity."
)
MAX_ROUNDING = 1e-12  # norms this close to 1 differ from it by rounding
HORIZON = 15.0  # default of lambda t at the end, by which limits are visible

# Panels of the help; options in other panels than those of a rule have no effect on it.
LAYERS, FLOWS = "Layers: hardmax and softmax", "Flows: self-attention and sphere"
HARDMAX, SOFTMAX, SELF_ATTENTION = "Hardmax", "--rule softmax", "--rule self-attention"
SPHERE = "--rule sphere (tokens are divided by their norms)"
RULES = {"hardmax": (LAYERS, HARDMAX), "softmax": (LAYERS, SOFTMAX)}
RULES |= {"self-attention": (FLOWS, SELF_ATTENTION), "sphere": (FLOWS, SPHERE)}


@dataclass(frozen=True, kw_only=True)
class HardmaxOptions(TokenOptions):
    """Tokens and the hardmax rule."""

    alpha: Annotated[
        str,
        option(
            "--alpha",
            "Step size, such as 0.5 or 1/2; a list has one per layer.",
            LAYERS,
        ),
    ] = "0.5"
    A: Annotated[
        str | None, option("--A", f"Matrix A: {MATRIX}", LAYERS, metavar="MATRIX")
    ] = None
    any_A: Annotated[
        bool,
        option(
            "--any-A", "Allow an A that is not symmetric positive definite.", HARDMAX
        ),
    ] = False
    kernel: Annotated[
        str,
        option(
            "--kernel", f"Search method, same result: {', '.join(KERNELS)}.", HARDMAX
        ),
    ] = "auto"
    exact: Annotated[bool, option("--exact", "Use rational arithmetic.", HARDMAX)] = (
        False
    )
    causal: Annotated[
        bool,
        option(
            "--causal", "Causal mask: each token attends to itself and earlier tokens."
        ),
    ] = False

    def make_hardmax(self, d: int, **more: bool) -> Hardmax:
        """Return the hardmax rule for tokens of dimension d."""
        A = self.read_weight("A", d)
        return Hardmax(
            self.steps,
            A,
            exact=self.exact,
            any_A=self.any_A,
            causal=self.causal,
            **more,
        )

    @property
    def steps(self) -> float | Fraction | list[float | Fraction]:
        """The step size, or one per layer."""
        found = parse_steps(self.alpha)
        return found[0] if len(found) == 1 else found

    def read_weight(self, name: str, d: int) -> AnyArray | None:
        """Read the matrix of an option from a file or by its name, of size d; None if
        the option is missing.
        """
        source: str | None = getattr(self, name)
        if source is None:
            return None
        if source not in MATRICES:
            return read_matrix(source, name, MATRICES)
        size = len(PAPER_MATRICES[source]) if source in PAPER_MATRICES else d
        if size != d:
            got, advice = (
                f"{source}, of size {size}",
                f"Use tokens of dimension {size}.",
            )
            raise ParameterError(name, f"have the size of the tokens, {d}", got, advice)
        return matrix(
            source, d=d, seed=self.seed + "AQKV".index(name)
        )  # so that two random matrices differ


@dataclass(frozen=True, kw_only=True)
class RunOptions(HardmaxOptions):
    """Tokens, a rule, and the number of layers or the time."""

    context: typer.Context
    rule: Annotated[
        str, option("--rule", f"Rule that moves the tokens: {', '.join(RULES)}.")
    ] = "hardmax"
    layers: Annotated[int, option("--layers", "Number of layers.", LAYERS)] = 30
    normalize: Annotated[
        bool,
        option(
            "--normalize/--no-normalize",
            "Divide by 1 + alpha after each layer.",
            LAYERS,
        ),
    ] = True
    temperature: Annotated[
        float,
        option("--temperature", "Temperature; hardmax is the limit at 0.", SOFTMAX),
    ] = 1.0
    Q: Annotated[
        str | None,
        option(
            "--Q", "Query matrix, given like --A.", SELF_ATTENTION, metavar="MATRIX"
        ),
    ] = None
    K: Annotated[
        str | None,
        option("--K", "Key matrix, given like --A.", SELF_ATTENTION, metavar="MATRIX"),
    ] = None
    V: Annotated[
        str | None,
        option(
            "--V", "Value matrix, given like --A.", SELF_ATTENTION, metavar="MATRIX"
        ),
    ] = None
    beta: Annotated[float, option("--beta", "Inverse temperature.", SPHERE)] = 9.0
    normalized: Annotated[
        bool,
        option(
            " /--unnormalized",
            "Omit the denominator of softmax.",
            SPHERE,
            show_default=False,
        ),
    ] = True
    times: Annotated[
        float | None,
        option(
            "--time",
            "Final time. Default: 15 divided by the leading eigenvalue of V, or 15.",
            FLOWS,
        ),
    ] = None
    method: Annotated[
        str,
        option(
            "--method",
            "Integrator: DOP853, RK45 or LSODA, or euler or rk4 with --dt.",
            FLOWS,
        ),
    ] = "DOP853"
    dt: Annotated[
        float | None, option("--dt", "Step length of euler and rk4.", FLOWS)
    ] = None
    rtol: Annotated[
        float | None,
        option("--rtol", "Relative error of a step. Default: 1e-8.", FLOWS),
    ] = None
    max_steps: Annotated[
        int | None, option("--max-steps", "Maximum number of steps.", FLOWS)
    ] = None

    def read_rule(self, d: int) -> Rule:
        """Return the rule for tokens of dimension d."""
        if self.rule not in RULES:
            must, advice = (
                f"be one of {', '.join(RULES)}",
                did_you_mean(self.rule, RULES),
            )
            raise ParameterError("rule", must, repr(self.rule), advice)
        needs = {}
        for parameter in self.context.command.params:
            owners = [
                rule
                for rule, panels in RULES.items()
                if getattr(parameter, "rich_help_panel", None) in panels
            ]
            needs[str(parameter.name)] = (
                f"--rule {' or '.join(owners)}",
                not owners or self.rule in owners,
            )
        check_needs(self.context, needs, f"--rule {self.rule}")
        if self.rule == "sphere":
            return Sphere(self.beta, normalized=self.normalized, causal=self.causal)
        if self.rule == "self-attention":
            return SelfAttention(
                *(self.read_weight(letter, d) for letter in "QKV"), causal=self.causal
            )
        if self.rule == "hardmax":
            return self.make_hardmax(d, normalize=self.normalize)
        A, layered = (
            self.read_weight("A", d),
            {"normalize": self.normalize, "causal": self.causal},
        )
        return Softmax(self.steps, A, temperature=self.temperature, **layered)

    def simulate(
        self, tokens: AnyArray, rule: Any, progress: Progress | None = None, **more: Any
    ) -> Trajectory:
        """Simulate tokens for the layers or the time, and by the method, of the
        options.
        """
        if not rule.continuous:
            return simulate(
                tokens,
                rule,
                layers=self.layers,
                kernel=self.kernel,
                progress=progress,
                **more,
            )
        if isinstance(rule, Sphere):
            tokens = _divide_by_norms(tokens)
        settings: dict[str, Any] = {
            name: getattr(self, name) for name in ("method", "dt", "rtol", "max_steps")
        }
        times = self._find_end(rule, tokens.shape[-1])
        return simulate(
            tokens, rule, times=times, progress=progress, **settings, **more
        )

    def _find_end(self, rule: Rule, d: int) -> float:
        """Return the final time; the default is a multiple of `dt`."""
        if self.dt is not None:
            check_positive(self.dt, "dt", "Try 0.1.")
        if self.times is not None:
            return float(check_positive(self.times, "times", "Try 15."))
        rate = (
            float(classify_values(rule, d).eigenvalues[0].real)
            if isinstance(rule, SelfAttention)
            else 1.0
        )
        end = HORIZON / (rate if rate > 0 else 1.0)
        return end if self.dt is None else self.dt * max(1, round(end / self.dt))


def _divide_by_norms(tokens: AnyArray) -> AnyArray:
    """Return tokens on the unit sphere, with a note if this changes them."""
    floats = np.asarray(tokens, np.float64)
    norms = np.linalg.norm(floats, axis=-1, keepdims=True)
    if not np.isfinite(norms).all() or not norms.all():
        must, got = (
            "be finite and not 0 to lie on the unit sphere",
            "one that is 0 or not finite",
        )
        raise ParameterError("tokens", must, got, "Remove it.")
    if np.abs(norms - 1).max() > MAX_ROUNDING:
        output.note("Tokens were divided by their norms, to lie on the unit sphere.")
    return floats / norms
