"""Options that choose a rule and how long it runs, and what they stand for."""

from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, Any

import numpy as np
import typer

from hardmax import Hardmax, SelfAttention, Softmax, Sphere, Trajectory, simulate
from hardmax._errors import ParameterError, did_you_mean
from hardmax._types import AnyArray, Progress
from hardmax._validation import check_positive
from hardmax.cli import output
from hardmax.cli.matrices import read_matrix
from hardmax.cli.options import UNSAID, TokenOptions, option, panel, was_given
from hardmax.configurations import MATRICES, PAPER_MATRICES, matrix
from hardmax.flows.classify import classify_values
from hardmax.rules.base import Flow, Layered, Rule
from hardmax.search.dispatch import KERNELS
from hardmax.text.files import exact_number

# Which options belong to which rule; all others go with every rule.
BELONGS = {
    "hardmax": ("alpha", "A", "any_A", "exact", "ties", "normalize", "kernel", "layers"),
    "softmax": ("alpha", "A", "temperature", "normalize", "layers"),
    "self-attention": ("Q", "K", "V", "times", "method", "dt", "rtol", "max_steps"),
    "sphere": ("beta", "normalized", "times", "method", "dt", "rtol", "max_steps"),
}
MATRIX = f"a .npy or CSV file, numbers such as 2,1;1,1, or {', '.join(MATRICES)}. Left out: the identity."
KINDS = ", ".join(KERNELS)
ON_SPHERE = 1e-12  # lengths that differ so little from 1 do so by rounding
HORIZON = 15.0  # lambda t at which limits are seen
USUAL_TIME = "15 over the leading eigenvalue of V, or 15."

_layered, _flow = panel("Layers: hardmax, softmax"), panel("Flows: self-attention, sphere")
_hardmax, _softmax = panel("Hardmax"), panel("--rule softmax")
_self_attention = panel("--rule self-attention")
_sphere = panel("--rule sphere, of tokens divided by their lengths")
A_MATRIX = UNSAID | {"metavar": "MATRIX"}


@dataclass(frozen=True, kw_only=True)
class HardmaxOptions(TokenOptions):
    """Tokens, and how hardmax moves them."""

    alpha: Annotated[str, _layered("--alpha", "Step size: a number, a ratio (1/2), or a list, one a layer.")] = "0.5"
    A: Annotated[str | None, _layered("--A", f"The matrix A: {MATRIX}", **A_MATRIX)] = None
    any_A: Annotated[bool, _hardmax("--any-A", "Allow an A that is not symmetric positive definite.")] = False
    ties: Annotated[str, _hardmax("--ties", '"exact", or a relative tolerance within which products tie.')] = "exact"
    kernel: Annotated[str, _hardmax("--kernel", f"How sets are found, with the same result: {KINDS}.")] = "auto"
    exact: Annotated[bool, option("--exact", "Rational arithmetic throughout.")] = False

    def hardmax(self, d: int, **more: bool) -> Hardmax:
        A, ties = self.read_weight("A", d), _tolerance(self.ties)
        return Hardmax(self.steps, A, ties=ties, exact=self.exact, any_A=self.any_A, **more)

    @property
    def steps(self) -> float | Fraction | list[float | Fraction]:
        found = read_steps(self.alpha)
        return found[0] if len(found) == 1 else found

    def read_weight(self, name: str, d: int) -> AnyArray | None:
        """A matrix from a file, or a named one of the tokens' size; None stays None."""
        source: str | None = getattr(self, name)
        if source is None:
            return None
        if source not in MATRICES:
            return read_matrix(source, name, MATRICES)
        size = len(PAPER_MATRICES[source]) if source in PAPER_MATRICES else d
        if size != d:
            got, advice = f"{source}, of size {size}", f"Use tokens of dimension {size}."
            raise ParameterError(name, f"have the size of the tokens, {d}", got, advice)
        return matrix(source, d=d, seed=self.seed + "AQKV".index(name))  # so that two random ones differ


@dataclass(frozen=True, kw_only=True)
class RunOptions(HardmaxOptions):
    """Tokens, the rule that moves them, and for how long."""

    context: typer.Context
    rule: Annotated[str, option("--rule", f"How tokens move: {', '.join(BELONGS)}.")] = "hardmax"
    causal: Annotated[bool, option("--causal", "Let each token see itself and those before it alone.")] = False
    layers: Annotated[int, _layered("--layers", "How many layers to run.")] = 30
    normalize: Annotated[bool, _layered("--normalize/--no-normalize", "Divide by 1 + alpha after each layer.")] = True
    temperature: Annotated[float, _softmax("--temperature", "Towards 0 softmax becomes hardmax.")] = 1.0
    Q: Annotated[str | None, _self_attention("--Q", "Queries, as --A.", **A_MATRIX)] = None
    K: Annotated[str | None, _self_attention("--K", "Keys, as --A.", **A_MATRIX)] = None
    V: Annotated[str | None, _self_attention("--V", "Values, as --A.", **A_MATRIX)] = None
    beta: Annotated[float, _sphere("--beta", "Inverse temperature.")] = 9.0
    normalized: Annotated[bool, _sphere(" /--unnormalized", "Leave out the denominator of softmax.", **UNSAID)] = True
    times: Annotated[float | None, _flow("--time", f"How long it runs. Left out: {USUAL_TIME}", **UNSAID)] = None
    method: Annotated[str, _flow("--method", "DOP853, another one of SciPy, or euler or rk4 with --dt.")] = "DOP853"
    dt: Annotated[float | None, _flow("--dt", "Step length of euler and rk4.", **UNSAID)] = None
    rtol: Annotated[
        float | None, _flow("--rtol", "Relative error of a step, at most 0.1. Default: 1e-8.", **UNSAID)
    ] = None
    max_steps: Annotated[int | None, _flow("--max-steps", "Give up after so many steps.", **UNSAID)] = None

    def read_rule(self, d: int) -> Rule:
        if self.rule not in BELONGS:
            raise ParameterError(
                "rule", f"be one of {', '.join(BELONGS)}", repr(self.rule), did_you_mean(self.rule, BELONGS)
            )
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
        for name in sorted({name for names in BELONGS.values() for name in names} - set(mine)):
            value = getattr(self, name)
            if was_given(self.context, name):
                owners = " or ".join(rule for rule, names in BELONGS.items() if name in names)
                takes = ", ".join(f"`{one}`" for one in (*mine, "causal"))
                raise ParameterError(
                    f"{name}={value}" if isinstance(value, bool) else name,
                    f"go with --rule {owners}",
                    f"it with --rule {self.rule}, which takes {takes}",
                    "Leave it out.",
                )

    def simulate(self, tokens: AnyArray, rule: Rule, progress: Progress | None = None, **more: Any) -> Trajectory:
        """Run tokens as long and by the method that the options say."""
        if isinstance(rule, Hardmax):
            return simulate(tokens, rule, layers=self.layers, kernel=self.kernel, progress=progress, **more)
        if isinstance(rule, Layered):
            return simulate(tokens, rule, layers=self.layers, progress=progress, **more)
        assert isinstance(rule, Flow)
        if isinstance(rule, Sphere):
            tokens = on_sphere(tokens)
        settings: dict[str, Any] = {name: getattr(self, name) for name in ("method", "dt", "rtol", "max_steps")}
        return simulate(tokens, rule, times=self._end(rule, tokens.shape[-1]), progress=progress, **settings, **more)

    def _end(self, rule: Rule, d: int) -> float:
        """The last time: a whole number of steps unless the user says when."""
        if self.dt is not None:
            check_positive(self.dt, "dt", "Try 0.1.")
        if self.times is not None:
            return check_positive(self.times, "times", "Try 15.")
        rate = 1.0
        if isinstance(rule, SelfAttention):
            rate = float(classify_values(rule, d).eigenvalues[0].real)
        end = HORIZON / (rate if rate > 0 else 1.0)
        return end if self.dt is None else self.dt * max(1, round(end / self.dt))


def on_sphere(tokens: AnyArray) -> AnyArray:
    """Tokens divided by their lengths, which is said where it changes them."""
    floats = np.asarray(tokens, np.float64)
    lengths = np.linalg.norm(floats, axis=-1, keepdims=True)
    if not np.isfinite(lengths).all() or not lengths.all():
        must, got = "have a direction to lie on the unit sphere", "one that is 0 or not finite"
        raise ParameterError("tokens", must, got, "Drop it.")
    if np.abs(lengths - 1).max() > ON_SPHERE:
        output.note("Tokens were divided by their lengths, to lie on the unit sphere.")
    return floats / lengths


def read_steps(alpha: str) -> list[float | Fraction]:
    """Step sizes such as 0.1,1/2, as they are written."""
    try:
        return [exact_number(part) for part in alpha.split(",")]
    except ValueError:
        raise ParameterError("alpha", "be a positive number, a ratio or a list", f"{alpha!r}", "Try 0.5.") from None


def _tolerance(ties: str) -> str | float:
    try:
        return ties if ties == "exact" else float(ties)
    except ValueError:
        must = 'be "exact" or a number in [0, 1)'
        raise ParameterError("ties", must, f"{ties!r}", "Leave it out if unsure.") from None
