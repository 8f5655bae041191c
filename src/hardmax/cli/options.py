"""Options that several commands share: tokens, matrices, rules and their durations, output files.

Options are fields of a dataclass; `with_options` makes each field an option of a command.
"""

import inspect
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, fields, is_dataclass
from fractions import Fraction
from functools import wraps
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from hardmax import Hardmax, SelfAttention, Softmax, Sphere, Trajectory, configuration, simulate
from hardmax._errors import ParameterError, did_you_mean
from hardmax._types import AnyArray, Progress
from hardmax._validation import check_positive
from hardmax.cli import output
from hardmax.configurations import CONFIGURATIONS, MATRICES, PAPER_MATRICES, RANDOM_CONFIGURATIONS, matrix
from hardmax.flows.classify import classify_values
from hardmax.rules.base import Flow, Layered, Rule
from hardmax.search.dispatch import KERNELS
from hardmax.text.files import exact_number
from hardmax.text.tables import parse_table


def panel(name: str | None = None) -> Callable[..., Any]:
    """Return a function that makes an option of a flag, a help text and settings of Typer, in a panel of the help."""
    return lambda flag, about, **more: typer.Option(flag, help=about, rich_help_panel=name, **more)


option = panel()
UNSAID = {"show_default": False}  # for options whose help text states the default
Json = Annotated[bool, option("--json", "Print the result as JSON.")]
Out = Annotated[
    list[Path] | None,
    option("--out", "Output file; its ending chooses the format. May be repeated.", metavar="FILE", **UNSAID),
]


def with_options(command: Callable[..., None]) -> Callable[..., None]:
    """Decorate a command: each field of a parameter that is a dataclass becomes an option.

    Fields of a class come before those of its base class, so that the help shows the special ones first.
    """
    flat: list[inspect.Parameter] = []
    nested: dict[str, type] = {}
    for parameter in inspect.signature(command).parameters.values():
        if isinstance(parameter.annotation, type) and is_dataclass(parameter.annotation):
            nested[parameter.name] = parameter.annotation
            flat += _list_parameters(parameter.annotation)
        else:
            flat.append(parameter.replace(kind=parameter.KEYWORD_ONLY))

    @wraps(command)
    def flattened(**values: Any) -> None:
        for name, kind in nested.items():
            values[name] = kind(**{field.name: values.pop(field.name) for field in fields(kind)})
        command(**values)

    flattened.__signature__ = inspect.Signature(flat)  # type: ignore[attr-defined]
    flattened.__annotations__ = {parameter.name: parameter.annotation for parameter in flat}
    return flattened


def _list_parameters(kind: type) -> Iterator[inspect.Parameter]:
    for part in kind.__mro__:
        for name, annotation in inspect.get_annotations(part).items():
            default = getattr(kind, name, inspect.Parameter.empty)
            yield inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default)


def was_given(context: typer.Context, name: str) -> bool:
    """Return whether the command line contains an option, also with its default value."""
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


# Matrices and numbers

NUMBERS = re.compile(r"\s*[-+]?[\d.][^,;]*[,;]")  # a number and a separator: 2,1;1,1
READABLE = (".csv", ".tsv", ".txt", ".npy")


def read_matrix(source: str, parameter: str, names: Iterable[str]) -> AnyArray:
    """Read numbers from a .npy file, a text file, standard input (-), or the argument itself, as in 2,1;1,1."""
    path = Path(source)
    if source == "-":
        return _parse(sys.stdin.read(), source)
    if NUMBERS.match(source) and path.suffix.lower() not in READABLE and not path.exists():
        return _parse(source.replace(";", "\n"), source)
    if path.suffix.lower() not in READABLE:
        must = f"be a .csv or .npy file, or one of {', '.join(names)}"
        advice = did_you_mean(source, names, "Check the spelling, or save the numbers as CSV.")
        raise ParameterError(parameter, must, f"{source!r}", advice)
    if not path.is_file():
        raise ParameterError(path, "be a file", "a folder" if path.is_dir() else "none by that name", "Check the path.")
    if path.suffix.lower() == ".npy":
        try:
            return np.asarray(np.load(path, allow_pickle=False))
        except (ValueError, EOFError, OSError):
            got = "a broken file, or one with Python objects, which are never loaded"
            raise ParameterError(path, "be a NumPy array of numbers", got, "Save it again with np.save.") from None
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise ParameterError(path, "be text in UTF-8", "other bytes", "Save it as CSV in UTF-8.") from None
    return _parse(text, source)


def _parse(text: str, name: str) -> AnyArray:
    table, note = parse_table(text, name)
    if note:
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
        raise ParameterError("alpha", "be a positive number, a ratio or a list", f"{alpha!r}", "Try 0.5.") from None


def _parse_tolerance(ties: str) -> str | float:
    try:
        return ties if ties == "exact" else float(ties)
    except ValueError:
        must = 'be "exact" or a number in [0, 1)'
        raise ParameterError("ties", must, f"{ties!r}", "The default is exact.") from None


# Tokens

SOURCES = (
    "A CSV file (also .tsv, .txt, or - for standard input), a .npy file, numbers such as 0,1;1,0, or a name: "
    f"{', '.join(CONFIGURATIONS)}."
)


@dataclass(frozen=True, kw_only=True)
class TokenOptions:
    """The tokens of a command."""

    tokens: Annotated[str, typer.Argument(metavar="TOKENS", help=SOURCES, show_default=False)]
    n: Annotated[int | None, option("--n", "Number of tokens of gaussian, ball and sphere. Default: 100.")] = None
    d: Annotated[int | None, option("--d", "Dimension of gaussian, ball and sphere. Default: 2.")] = None
    seed: Annotated[int, option("--seed", "Seed of random tokens and random matrices.")] = 0
    batch_index: Annotated[
        int | None, option("--batch-index", "Index of one token set in a .npy batch of shape (batch, n, d).")
    ] = None

    def read_tokens(self, *, single: bool = True) -> AnyArray:
        """Read tokens from a file, standard input or a named configuration; `single` refuses a whole batch."""
        if self.tokens in CONFIGURATIONS:
            self._refuse_batch_index(batch=False)
            return configuration(self.tokens, n=self.n, d=self.d, seed=self.seed)
        if self.n is not None or self.d is not None:
            names, got = ", ".join(RANDOM_CONFIGURATIONS), f"them with {self.tokens!r}"
            raise ParameterError(("n", "d"), f"go with {names}", got, "Leave them out.")
        tokens = read_matrix(self.tokens, "tokens", CONFIGURATIONS)
        self._refuse_batch_index(batch=tokens.ndim == 3)
        if tokens.ndim != 3 or (self.batch_index is None and not single):
            return tokens
        if self.batch_index is None or not 0 <= self.batch_index < len(tokens):
            must = f"be the index of one of the {len(tokens)} token sets in {self.tokens}"
            got = "none" if self.batch_index is None else str(self.batch_index)
            raise ParameterError("batch_index", must, got, f"Pass a number from 0 to {len(tokens) - 1}.")
        return np.asarray(tokens[self.batch_index])

    def _refuse_batch_index(self, *, batch: bool) -> None:
        if self.batch_index is not None and not batch:
            must = "go with a batch, a .npy file of shape (batch, n, d)"
            raise ParameterError("batch_index", must, f"{self.tokens}, one token set", "Leave it out.")


# Rules

# Options of each rule; all others go with every rule.
RULE_OPTIONS = {
    "hardmax": ("alpha", "A", "any_A", "exact", "ties", "normalize", "kernel", "layers"),
    "softmax": ("alpha", "A", "temperature", "normalize", "layers"),
    "self-attention": ("Q", "K", "V", "times", "method", "dt", "rtol", "max_steps"),
    "sphere": ("beta", "normalized", "times", "method", "dt", "rtol", "max_steps"),
}
MATRIX = f"a .npy or CSV file, numbers such as 2,1;1,1, or {', '.join(MATRICES)}. Default: the identity."
MATRIX_STYLE = UNSAID | {"metavar": "MATRIX"}
MAX_ROUNDING = 1e-12  # norms this close to 1 differ from it by rounding
HORIZON = 15.0  # default of lambda t at the end, by which limits are visible

_layered, _flow = panel("Layers: hardmax and softmax"), panel("Flows: self-attention and sphere")
_hardmax, _softmax = panel("Hardmax"), panel("--rule softmax")
_self_attention = panel("--rule self-attention")
_sphere = panel("--rule sphere (tokens are divided by their norms)")


@dataclass(frozen=True, kw_only=True)
class HardmaxOptions(TokenOptions):
    """Tokens and the hardmax rule."""

    alpha: Annotated[str, _layered("--alpha", "Step size: a number, a ratio (1/2), or a list with one per layer.")] = (
        "0.5"
    )
    A: Annotated[str | None, _layered("--A", f"Matrix A: {MATRIX}", **MATRIX_STYLE)] = None
    any_A: Annotated[bool, _hardmax("--any-A", "Allow an A that is not symmetric positive definite.")] = False
    ties: Annotated[str, _hardmax("--ties", '"exact", or a relative tolerance within which products tie.')] = "exact"
    kernel: Annotated[
        str,
        _hardmax("--kernel", f"Search method, with the same result: {', '.join(KERNELS)}."),
    ] = "auto"
    exact: Annotated[bool, _hardmax("--exact", "Use rational arithmetic.")] = False

    def make_hardmax(self, d: int, **more: bool) -> Hardmax:
        """Return the hardmax rule for tokens of dimension d."""
        A, ties = self.read_weight("A", d), _parse_tolerance(self.ties)
        return Hardmax(self.steps, A, ties=ties, exact=self.exact, any_A=self.any_A, **more)

    @property
    def steps(self) -> float | Fraction | list[float | Fraction]:
        """The step size, or one per layer."""
        found = parse_steps(self.alpha)
        return found[0] if len(found) == 1 else found

    def read_weight(self, name: str, d: int) -> AnyArray | None:
        """Read the matrix of an option from a file or by its name, of size d; None if the option is missing."""
        source: str | None = getattr(self, name)
        if source is None:
            return None
        if source not in MATRICES:
            return read_matrix(source, name, MATRICES)
        size = len(PAPER_MATRICES[source]) if source in PAPER_MATRICES else d
        if size != d:
            got, advice = f"{source}, of size {size}", f"Use tokens of dimension {size}."
            raise ParameterError(name, f"have the size of the tokens, {d}", got, advice)
        return matrix(source, d=d, seed=self.seed + "AQKV".index(name))  # so that two random matrices differ


@dataclass(frozen=True, kw_only=True)
class RunOptions(HardmaxOptions):
    """Tokens, a rule, and the number of layers or the time."""

    context: typer.Context
    rule: Annotated[str, option("--rule", f"Rule that moves the tokens: {', '.join(RULE_OPTIONS)}.")] = "hardmax"
    causal: Annotated[bool, option("--causal", "Causal mask: each token attends to itself and earlier tokens.")] = False
    layers: Annotated[int, _layered("--layers", "Number of layers.")] = 30
    normalize: Annotated[bool, _layered("--normalize/--no-normalize", "Divide by 1 + alpha after each layer.")] = True
    temperature: Annotated[float, _softmax("--temperature", "Temperature; hardmax is the limit at 0.")] = 1.0
    Q: Annotated[str | None, _self_attention("--Q", "Query matrix, given like --A.", **MATRIX_STYLE)] = None
    K: Annotated[str | None, _self_attention("--K", "Key matrix, given like --A.", **MATRIX_STYLE)] = None
    V: Annotated[str | None, _self_attention("--V", "Value matrix, given like --A.", **MATRIX_STYLE)] = None
    beta: Annotated[float, _sphere("--beta", "Inverse temperature.")] = 9.0
    normalized: Annotated[bool, _sphere(" /--unnormalized", "Omit the denominator of softmax.", **UNSAID)] = True
    times: Annotated[
        float | None,
        _flow("--time", "Final time. Default: 15 divided by the leading eigenvalue of V, or 15.", **UNSAID),
    ] = None
    method: Annotated[
        str, _flow("--method", "Integrator: DOP853 or another one of SciPy, or euler or rk4 with --dt.")
    ] = "DOP853"
    dt: Annotated[float | None, _flow("--dt", "Step length of euler and rk4.", **UNSAID)] = None
    rtol: Annotated[
        float | None, _flow("--rtol", "Relative error of a step, at most 0.1. Default: 1e-8.", **UNSAID)
    ] = None
    max_steps: Annotated[int | None, _flow("--max-steps", "Maximum number of steps.", **UNSAID)] = None

    def read_rule(self, d: int) -> Rule:
        """Return the rule for tokens of dimension d."""
        if self.rule not in RULE_OPTIONS:
            must, advice = f"be one of {', '.join(RULE_OPTIONS)}", did_you_mean(self.rule, RULE_OPTIONS)
            raise ParameterError("rule", must, repr(self.rule), advice)
        self._refuse_options_of_other_rules()
        if self.rule == "sphere":
            return Sphere(self.beta, normalized=self.normalized, causal=self.causal)
        if self.rule == "self-attention":
            return SelfAttention(*(self.read_weight(letter, d) for letter in "QKV"), causal=self.causal)
        layered = {"normalize": self.normalize, "causal": self.causal}
        if self.rule == "hardmax":
            return self.make_hardmax(d, **layered)
        return Softmax(self.steps, self.read_weight("A", d), temperature=self.temperature, **layered)

    def _refuse_options_of_other_rules(self) -> None:
        """Raise an error for an option of another rule, which would have no effect."""
        own = RULE_OPTIONS[self.rule]
        for name in sorted({name for names in RULE_OPTIONS.values() for name in names} - set(own)):
            value = getattr(self, name)
            if was_given(self.context, name):
                owners = " or ".join(rule for rule, names in RULE_OPTIONS.items() if name in names)
                takes = ", ".join(f"`{one}`" for one in (*own, "causal"))
                raise ParameterError(
                    f"{name}={value}" if isinstance(value, bool) else name,
                    f"go with --rule {owners}",
                    f"it with --rule {self.rule}, which takes {takes}",
                    "Leave it out.",
                )

    def simulate(self, tokens: AnyArray, rule: Rule, progress: Progress | None = None, **more: Any) -> Trajectory:
        """Simulate tokens for the layers or the time, and by the method, of the options."""
        if isinstance(rule, Hardmax):
            return simulate(tokens, rule, layers=self.layers, kernel=self.kernel, progress=progress, **more)
        if isinstance(rule, Layered):
            return simulate(tokens, rule, layers=self.layers, progress=progress, **more)
        assert isinstance(rule, Flow)
        if isinstance(rule, Sphere):
            tokens = _divide_by_norms(tokens)
        settings: dict[str, Any] = {name: getattr(self, name) for name in ("method", "dt", "rtol", "max_steps")}
        end = self._find_end(rule, tokens.shape[-1])
        return simulate(tokens, rule, times=end, progress=progress, **settings, **more)

    def _find_end(self, rule: Rule, d: int) -> float:
        """Return the final time; the default is a multiple of `dt`."""
        if self.dt is not None:
            check_positive(self.dt, "dt", "Try 0.1.")
        if self.times is not None:
            return check_positive(self.times, "times", "Try 15.")
        rate = 1.0
        if isinstance(rule, SelfAttention):
            rate = float(classify_values(rule, d).eigenvalues[0].real)
        end = HORIZON / (rate if rate > 0 else 1.0)
        return end if self.dt is None else self.dt * max(1, round(end / self.dt))


def _divide_by_norms(tokens: AnyArray) -> AnyArray:
    """Return tokens on the unit sphere, with a note if this changes them."""
    floats = np.asarray(tokens, np.float64)
    norms = np.linalg.norm(floats, axis=-1, keepdims=True)
    if not np.isfinite(norms).all() or not norms.all():
        must, got = "be finite and not 0 to lie on the unit sphere", "one that is 0 or not finite"
        raise ParameterError("tokens", must, got, "Remove it.")
    if np.abs(norms - 1).max() > MAX_ROUNDING:
        output.note("Tokens were divided by their norms, to lie on the unit sphere.")
    return floats / norms
