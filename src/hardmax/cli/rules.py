"""Options that choose a rule, and how their text becomes one."""

from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from hardmax import Hardmax, SelfAttention, Softmax, Sphere
from hardmax._checks import check_positive
from hardmax._errors import ParameterError
from hardmax.cli.options import read_matrix
from hardmax.flows.spectrum import expected_of_values
from hardmax.inputs import MATRICES, PAPER_MATRICES, matrix
from hardmax.kernels import KERNELS

# Which options belong to which rule; all others go with every rule.
BELONGS = {
    "hardmax": ("alpha", "A", "any_A", "exact", "ties", "normalize", "kernel", "layers"),
    "softmax": ("alpha", "A", "temperature", "normalize", "layers"),
    "self-attention": ("Q", "K", "V", "time", "method", "dt", "rtol", "max_steps"),
    "sphere": ("beta", "unnormalized", "time", "method", "dt", "rtol", "max_steps"),
}
PAPER_SIZES = {name: len(rows) for name, rows in PAPER_MATRICES.items()}
LAYERS = 30
HORIZON = 15.0  # lambda t at which limits are seen

MATRIX = f"a .npy or CSV file, or {', '.join(MATRICES)}. Left out: the identity."
LAYERED, FLOWS = "Rules with layers: hardmax, softmax", "Flows: self-attention, sphere"
HARDMAX, SOFTMAX = "--rule hardmax", "--rule softmax"
SELF_ATTENTION, SPHERE = "--rule self-attention", "--rule sphere"


def _option(panel: str, flag: str, about: str, **more: Any) -> Any:
    return typer.Option(flag, help=about, rich_help_panel=panel, **more)


def _given(panel: str, flag: str, about: str, **more: Any) -> Any:
    """An option whose default is told in words."""
    return _option(panel, flag, about, show_default=False, **more)


RuleName = Annotated[str, typer.Option("--rule", help=f"How tokens move: {', '.join(BELONGS)}.")]
Causal = Annotated[bool, typer.Option("--causal", help="Let each token see itself and those before it alone.")]
Layers = Annotated[int, _option(LAYERED, "--layers", "How many layers to run.")]
Alpha = Annotated[str, _option(LAYERED, "--alpha", "Step size: a number, a ratio such as 1/2, or a list, one a layer.")]
A = Annotated[str | None, _given(LAYERED, "--A", f"The matrix A: {MATRIX}", metavar="MATRIX")]
Normalize = Annotated[bool, _option(LAYERED, "--normalize/--no-normalize", "Divide by 1 + alpha after each layer.")]
Kernel = Annotated[
    str, _option(HARDMAX, "--kernel", f"How sets are found, with the same result: {', '.join(KERNELS)}.")
]
AnyA = Annotated[bool, _option(HARDMAX, "--any-A", "Allow an A that is not symmetric positive definite.")]
Ties = Annotated[str, _option(HARDMAX, "--ties", '"exact", or a relative tolerance that takes near-ties for ties.')]
Temperature = Annotated[float, _option(SOFTMAX, "--temperature", "Towards 0 softmax becomes hardmax.")]
Q = Annotated[str | None, _given(SELF_ATTENTION, "--Q", "Queries, as --A.", metavar="MATRIX")]
K = Annotated[str | None, _given(SELF_ATTENTION, "--K", "Keys, as --A.", metavar="MATRIX")]
V = Annotated[str | None, _given(SELF_ATTENTION, "--V", "Values, as --A.", metavar="MATRIX")]
Beta = Annotated[float, _option(SPHERE, "--beta", "Inverse temperature.")]
Unnormalized = Annotated[bool, _option(SPHERE, "--unnormalized", "Leave out the denominator of softmax.")]
Time = Annotated[
    float | None, _given(FLOWS, "--time", "How long it runs. Left out: 15 over the leading eigenvalue of V, or 15.")
]
Method = Annotated[str, _option(FLOWS, "--method", "DOP853, another one of SciPy, or euler or rk4 with --dt.")]
Dt = Annotated[float | None, _given(FLOWS, "--dt", "Step length of euler and rk4.")]
Rtol = Annotated[float | None, _given(FLOWS, "--rtol", "Relative tolerance of the error control. Left out: 1e-8.")]
MaxSteps = Annotated[int | None, _given(FLOWS, "--max-steps", "Give up after so many steps.")]


def read_rule(context: typer.Context, d: int) -> Any:
    """The rule that the options of a command describe, for tokens of dimension d."""
    given = context.params
    name = given.get("rule", "hardmax")
    if name not in BELONGS:
        raise ParameterError("--rule", f"be one of {', '.join(BELONGS)}", f"{name!r}", "Check the spelling.")
    _refuse_others(context, name)
    causal = given.get("causal", False)
    if name == "sphere":
        return Sphere(given["beta"], normalized=not given["unnormalized"], causal=causal)
    if name == "self-attention":
        return SelfAttention(*(read_weight(given, letter, d) for letter in "QKV"), causal=causal)
    if name == "softmax":
        options = {"temperature": given["temperature"], "normalize": given["normalize"], "causal": causal}
        return Softmax(read_steps(given["alpha"]), read_weight(given, "A", d), **options)
    exact = given["exact"]
    return Hardmax(
        read_steps(given["alpha"], exact=exact),
        read_weight(given, "A", d, exact=exact),
        normalize=given.get("normalize", True),
        ties=_tolerance(given["ties"]),
        exact=exact,
        any_A=given["any_A"],
        causal=causal,
    )


def _refuse_others(context: typer.Context, name: str) -> None:
    """An option of another rule would do nothing: say so instead."""
    others = {option for options in BELONGS.values() for option in options} - set(BELONGS[name])
    for option in sorted(others & set(context.params)):
        source = context.get_parameter_source(option)
        if source is not None and source.name == "COMMANDLINE":
            owners = " or ".join(rule for rule, options in BELONGS.items() if option in options)
            mine = ", ".join(f"--{one.replace('_', '-')}" for one in BELONGS[name])
            flag = "no-normalize" if option == "normalize" and not context.params[option] else option.replace("_", "-")
            raise ValueError(
                f"`--{flag}` must go with --rule {owners}. Got it with --rule {name}, which takes {mine}, --causal. "
                "Leave it out."
            )


def read_weight(given: dict[str, Any], name: str, d: int, *, exact: bool = False) -> Any:
    """A matrix from a file, or a named one of the tokens' size; None stays None."""
    source = given[name]
    if source is None:
        return None
    if source in MATRICES:
        own = PAPER_SIZES.get(source, d)
        if own != d:
            raise ValueError(
                f"`--{name}` must have the size of the tokens, {d}. Got {source}, of size {own}. "
                f"Use tokens of dimension {own}."
            )
        return matrix(source, d=d, seed=given["seed"] + "AQKV".index(name))  # so that two random ones differ
    if Path(source).suffix.lower() not in (".csv", ".tsv", ".txt", ".npy"):
        raise ValueError(
            f"`--{name}` must be a .npy or CSV file, or one of {', '.join(MATRICES)}. "
            f"Got {source!r}. Check the spelling."
        )
    return read_matrix(Path(source), exact=exact)


def running(rule: Any, given: dict[str, Any], d: int) -> dict[str, Any]:
    """How long to run and by which method, as arguments of `simulate`."""
    if not rule.continuous:
        named = {"kernel": given["kernel"]} if given.get("kernel", "auto") != "auto" else {}
        return {"layers": given["layers"], **named}
    end = given["time"]
    if end is None:
        values = expected_of_values(rule, d).eigenvalues if isinstance(rule, SelfAttention) else np.ones(1)
        rate = float(values[0].real)
        end = HORIZON / (rate if rate > 0 else 1.0)
    if not 0 < end < np.inf:
        raise ParameterError("--time", "be a positive number", end, "Try 15.")
    if given["dt"] is not None:
        check_positive(given["dt"], "--dt", "Try 0.1.")
    if given["dt"] is not None and given["time"] is None:
        end = given["dt"] * max(1, round(end / given["dt"]))
    return {"times": end, **{name: given[name] for name in ("method", "dt", "rtol", "max_steps")}}


def read_steps(alpha: str, *, exact: bool = False) -> Any:
    """One step size, or a list of them."""
    try:
        steps = [Fraction(part) if exact or "/" in part else float(part) for part in alpha.split(",")]
    except (ValueError, ZeroDivisionError):
        raise ParameterError("--alpha", "be a positive number, a ratio or a list", f"{alpha!r}", "Try 0.5.") from None
    return steps[0] if len(steps) == 1 else steps


def _tolerance(ties: str) -> str | float:
    try:
        return ties if ties == "exact" else float(ties)
    except ValueError:
        raise ParameterError(
            "--ties", 'be "exact" or a number in [0, 1)', f"{ties!r}", "Leave it out if unsure."
        ) from None
