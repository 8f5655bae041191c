"""Options that choose a rule and how long it runs, and what they stand for."""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, Any

import typer

from hardmax import Hardmax, SelfAttention, Softmax, Sphere, Trajectory, simulate
from hardmax._checks import check_positive
from hardmax._errors import ParameterError
from hardmax._types import AnyArray
from hardmax.cli.matrices import read_matrix
from hardmax.cli.options import TokenOptions
from hardmax.flows.spectrum import expected_of_values
from hardmax.inputs import MATRICES, PAPER_MATRICES, matrix
from hardmax.kernels import KERNELS
from hardmax.rules.base import Rule

# Which options belong to which rule; all others go with every rule.
BELONGS = {
    "hardmax": ("alpha", "A", "any_A", "exact", "ties", "normalize", "kernel", "layers"),
    "softmax": ("alpha", "A", "temperature", "normalize", "layers"),
    "self-attention": ("Q", "K", "V", "times", "method", "dt", "rtol", "max_steps"),
    "sphere": ("beta", "normalized", "times", "method", "dt", "rtol", "max_steps"),
}
HORIZON = 15.0  # lambda t at which limits are seen

MATRIX = f"a .npy or CSV file, or {', '.join(MATRICES)}. Left out: the identity."
LAYERED, FLOWS = "Rules with layers: hardmax, softmax", "Flows: self-attention, sphere"
HARDMAX, SOFTMAX = "--rule hardmax", "--rule softmax"
SELF_ATTENTION, SPHERE = "--rule self-attention", "--rule sphere"


def _option(panel: str | None, flag: str, about: str, **more: Any) -> Any:
    return typer.Option(flag, help=about, rich_help_panel=panel, **more)


def _undefaulted(panel: str, flag: str, about: str, metavar: str | None = None) -> Any:
    """An option whose default is said in words, or need not be."""
    return _option(panel, flag, about, metavar=metavar, show_default=False)


@dataclass(frozen=True, kw_only=True)
class HardmaxOptions(TokenOptions):
    """Tokens, and how hardmax moves them."""

    alpha: Annotated[
        str, _option(LAYERED, "--alpha", "Step size: a number, a ratio such as 1/2, or a list, one a layer.")
    ] = "0.5"
    A: Annotated[str | None, _undefaulted(LAYERED, "--A", f"The matrix A: {MATRIX}", "MATRIX")] = None
    any_A: Annotated[bool, _option(HARDMAX, "--any-A", "Allow an A that is not symmetric positive definite.")] = False
    ties: Annotated[
        str, _option(HARDMAX, "--ties", '"exact", or a relative tolerance that takes near-ties for ties.')
    ] = "exact"
    kernel: Annotated[
        str, _option(HARDMAX, "--kernel", f"How sets are found, with the same result: {', '.join(KERNELS)}.")
    ] = "auto"
    exact: Annotated[
        bool, _option(None, "--exact", "Rational arithmetic throughout; decimals in a CSV are read exactly.")
    ] = False

    def hardmax(self, d: int, **more: bool) -> Hardmax:
        """The rule for tokens of dimension d."""
        A, ties = self.read_weight("A", d), _tolerance(self.ties)
        return Hardmax(self.steps, A, ties=ties, exact=self.exact, any_A=self.any_A, **more)

    @property
    def steps(self) -> float | Fraction | list[float | Fraction]:
        """One step size, or one a layer."""
        found = read_steps(self.alpha, exact=self.exact)
        return found[0] if len(found) == 1 else found

    def read_weight(self, name: str, d: int) -> AnyArray | None:
        """A matrix from a file, or a named one of the tokens' size; None stays None."""
        source: str | None = getattr(self, name)
        if source is None:
            return None
        if source not in MATRICES:
            return read_matrix(source, name, MATRICES, exact=self.exact)
        size = len(PAPER_MATRICES[source]) if source in PAPER_MATRICES else d
        if size != d:
            got, advice = f"{source}, of size {size}", f"Use tokens of dimension {size}."
            raise ParameterError(name, f"have the size of the tokens, {d}", got, advice)
        return matrix(source, d=d, seed=self.seed + "AQKV".index(name))  # so that two random ones differ


@dataclass(frozen=True, kw_only=True)
class RunOptions(HardmaxOptions):
    """Tokens, the rule that moves them, and for how long."""

    context: typer.Context
    rule: Annotated[str, _option(None, "--rule", f"How tokens move: {', '.join(BELONGS)}.")] = "hardmax"
    layers: Annotated[int, _option(LAYERED, "--layers", "How many layers to run.")] = 30
    normalize: Annotated[
        bool, _option(LAYERED, "--normalize/--no-normalize", "Divide by 1 + alpha after each layer.")
    ] = True
    temperature: Annotated[float, _option(SOFTMAX, "--temperature", "Towards 0 softmax becomes hardmax.")] = 1.0
    Q: Annotated[str | None, _undefaulted(SELF_ATTENTION, "--Q", "Queries, as --A.", "MATRIX")] = None
    K: Annotated[str | None, _undefaulted(SELF_ATTENTION, "--K", "Keys, as --A.", "MATRIX")] = None
    V: Annotated[str | None, _undefaulted(SELF_ATTENTION, "--V", "Values, as --A.", "MATRIX")] = None
    beta: Annotated[float, _option(SPHERE, "--beta", "Inverse temperature.")] = 9.0
    normalized: Annotated[bool, _undefaulted(SPHERE, " /--unnormalized", "Leave out the denominator of softmax.")] = (
        True
    )
    times: Annotated[
        float | None,
        _undefaulted(FLOWS, "--time", "How long it runs. Left out: 15 over the leading eigenvalue of V, or 15."),
    ] = None
    method: Annotated[str, _option(FLOWS, "--method", "DOP853, another one of SciPy, or euler or rk4 with --dt.")] = (
        "DOP853"
    )
    dt: Annotated[float | None, _undefaulted(FLOWS, "--dt", "Step length of euler and rk4.")] = None
    rtol: Annotated[
        float | None, _undefaulted(FLOWS, "--rtol", "Relative tolerance of the error control. Left out: 1e-8.")
    ] = None
    max_steps: Annotated[int | None, _undefaulted(FLOWS, "--max-steps", "Give up after so many steps.")] = None
    causal: Annotated[bool, _option(None, "--causal", "Let each token see itself and those before it alone.")] = False

    def read_rule(self, d: int) -> Rule:
        """The rule for tokens of dimension d."""
        if self.rule not in BELONGS:
            raise ParameterError("rule", f"be one of {', '.join(BELONGS)}", f"{self.rule!r}", "Check the spelling.")
        self._refuse_options_of_others()
        if self.rule == "sphere":
            return Sphere(self.beta, normalized=self.normalized, causal=self.causal)
        if self.rule == "self-attention":
            return SelfAttention(*(self.read_weight(letter, d) for letter in "QKV"), causal=self.causal)
        layered = {"normalize": self.normalize, "causal": self.causal}
        if self.rule == "hardmax":
            return self.hardmax(d, **layered)
        return Softmax(self.steps, self.read_weight("A", d), temperature=self.temperature, **layered)

    def _refuse_options_of_others(self) -> None:
        """An option of another rule would do nothing: say so instead."""
        mine = BELONGS[self.rule]
        others = {option for options in BELONGS.values() for option in options if option not in mine}
        for option in sorted(others):
            source, value = self.context.get_parameter_source(option), getattr(self, option)
            if source is not None and source.name == "COMMANDLINE":
                owners = " or ".join(rule for rule, options in BELONGS.items() if option in options)
                takes = ", ".join(f"`{name}`" for name in (*mine, "causal"))
                raise ParameterError(
                    f"{option}={value}" if isinstance(value, bool) else option,
                    f"go with --rule {owners}",
                    f"it with --rule {self.rule}, which takes {takes}",
                    "Leave it out.",
                )

    def simulate(self, tokens: AnyArray, rule: Rule, progress: Callable[[int, int], None] | None = None) -> Trajectory:
        """Run tokens as long and by the method that the options say."""
        if isinstance(rule, Hardmax):
            return simulate(tokens, rule, layers=self.layers, kernel=self.kernel, progress=progress)
        if not rule.continuous:
            return simulate(tokens, rule, layers=self.layers, progress=progress)
        return simulate(
            tokens,
            rule,
            times=self._end(rule, tokens.shape[-1]),
            method=self.method,
            dt=self.dt,
            rtol=self.rtol,
            max_steps=self.max_steps,
            progress=progress,
        )

    def _end(self, rule: Rule, d: int) -> float:
        """The last time: a whole number of steps unless the user says when."""
        if self.dt is not None:
            check_positive(self.dt, "dt", "Try 0.1.")
        if self.times is not None:
            return check_positive(self.times, "times", "Try 15.")
        rate = 1.0
        if isinstance(rule, SelfAttention):
            rate = float(expected_of_values(rule.value_matrix(d)).eigenvalues[0].real)
        end = HORIZON / (rate if rate > 0 else 1.0)
        return end if self.dt is None else self.dt * max(1, round(end / self.dt))


def read_steps(alpha: str, *, exact: bool = False) -> list[float | Fraction]:
    """Step sizes such as 0.1,1/2."""
    try:
        return [Fraction(part) if exact or "/" in part else float(part) for part in alpha.split(",")]
    except (ValueError, ZeroDivisionError):
        raise ParameterError("alpha", "be a positive number, a ratio or a list", f"{alpha!r}", "Try 0.5.") from None


def _tolerance(ties: str) -> str | float:
    try:
        return ties if ties == "exact" else float(ties)
    except ValueError:
        must = 'be "exact" or a number in [0, 1)'
        raise ParameterError("ties", must, f"{ties!r}", "Leave it out if unsure.") from None
