"""Options that choose a rule, and how their text becomes one."""

from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from hardmax import Hardmax, SelfAttention, Softmax, Sphere
from hardmax.cli.options import read_matrix
from hardmax.matrices import NAMES, matrix

# Which options belong to which rule; all others go with every rule.
BELONGS = {
    "hardmax": ("alpha", "A", "any_A", "exact", "ties", "normalize", "layers"),
    "softmax": ("alpha", "A", "temperature", "normalize", "layers"),
    "self-attention": ("Q", "K", "V", "time", "method", "dt"),
    "sphere": ("beta", "unnormalized", "time", "method", "dt"),
}
LAYERS = 30
HORIZON = 15.0  # lambda t at which limits are seen

_matrix = f"a .npy or CSV file, or {', '.join(NAMES)}. Left out: the identity."
RuleName = Annotated[str, typer.Option("--rule", help=f"How tokens move: {', '.join(BELONGS)}.")]
Layers = Annotated[int, typer.Option("--layers", help="How many layers to run.")]
Alpha = Annotated[
    str, typer.Option("--alpha", help="Step size: a number, a ratio such as 1/2, or a list, one a layer.")
]
A = Annotated[str | None, typer.Option("--A", metavar="MATRIX", help=f"{_matrix}", show_default=False)]
AnyA = Annotated[bool, typer.Option("--any-A", help="Allow an A that is not symmetric positive definite.")]
Ties = Annotated[str, typer.Option("--ties", help='"exact", or a relative tolerance that takes near-ties for ties.')]
Normalize = Annotated[bool, typer.Option("--normalize/--no-normalize", help="Divide by 1 + alpha after each layer.")]
Causal = Annotated[bool, typer.Option("--causal", help="Let each token see itself and those before it alone.")]
Temperature = Annotated[float, typer.Option("--temperature", help="Of softmax; towards 0 it becomes hardmax.")]
Q = Annotated[str | None, typer.Option("--Q", metavar="MATRIX", help="Queries, as --A.", show_default=False)]
K = Annotated[str | None, typer.Option("--K", metavar="MATRIX", help="Keys, as --A.", show_default=False)]
V = Annotated[str | None, typer.Option("--V", metavar="MATRIX", help="Values, as --A.", show_default=False)]
Beta = Annotated[float, typer.Option("--beta", help="Inverse temperature on the sphere.")]
Unnormalized = Annotated[bool, typer.Option("--unnormalized", help="On the sphere, without the softmax denominator.")]
Time = Annotated[
    float | None,
    typer.Option("--time", help="How long a flow runs: 15 over the leading eigenvalue of V.", show_default=False),
]
Method = Annotated[str, typer.Option("--method", help="DOP853, another one of SciPy, or euler or rk4 with --dt.")]
Dt = Annotated[float | None, typer.Option("--dt", help="Step length of euler and rk4.", show_default=False)]


def read_rule(context: typer.Context, d: int) -> Any:
    """The rule that the options of a command describe, for tokens of dimension d."""
    given = context.params
    name = given.get("rule", "hardmax")
    if name not in BELONGS:
        raise ValueError(f"`--rule` must be one of {', '.join(BELONGS)}. Got {name!r}. Check the spelling.")
    _refuse_others(context, name)
    causal = given.get("causal", False)
    if name == "sphere":
        return Sphere(given["beta"], normalized=not given["unnormalized"], causal=causal)
    if name == "self-attention":
        return SelfAttention(*(read_weight(given, letter, d) for letter in "QKV"), causal=causal)
    if name == "softmax":
        options = {"temperature": given["temperature"], "normalize": given["normalize"], "causal": causal}
        return Softmax(_steps(given["alpha"], exact=False), read_weight(given, "A", d), **options)
    exact = given["exact"]
    return Hardmax(
        _steps(given["alpha"], exact=exact),
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
            mine = ", ".join(f"--{one.replace('_', '-')}" for one in BELONGS[name])
            raise ValueError(
                f"`--{option.replace('_', '-')}` must go with another rule. Got it with --rule {name}, which takes "
                f"{mine}. Leave it out."
            )


def read_weight(given: dict[str, Any], name: str, d: int, *, exact: bool = False) -> Any:
    """A matrix from a file, or a named one of the tokens' size; None stays None."""
    source = given[name]
    if source is None or source not in NAMES:
        return None if source is None else read_matrix(Path(source), exact=exact)
    return matrix(source, d=d, seed=given["seed"] + "AQKV".index(name))  # so that two random ones differ


def running(rule: Any, given: dict[str, Any], d: int) -> dict[str, Any]:
    """How long to run and by which method, as arguments of `simulate`."""
    if not rule.continuous:
        return {"layers": given["layers"]}
    end = given["time"]
    if end is None:
        rate = float(np.linalg.eigvals(rule.value_matrix(d)).real.max()) if isinstance(rule, SelfAttention) else 1.0
        end = HORIZON / (rate if rate > 0 else 1.0)
    if end <= 0:
        raise ValueError(f"`--time` must be a positive number. Got {end}. Try 15.")
    return {"times": end, "method": given["method"], "dt": given["dt"]}


def _steps(alpha: str, *, exact: bool) -> Any:
    try:
        steps = [Fraction(part) if exact or "/" in part else float(part) for part in alpha.split(",")]
    except (ValueError, ZeroDivisionError):
        raise ValueError(f"`--alpha` must be a positive number, a ratio or a list. Got {alpha!r}. Try 0.5.") from None
    return steps[0] if len(steps) == 1 else steps


def _tolerance(ties: str) -> str | float:
    try:
        return ties if ties == "exact" else float(ties)
    except ValueError:
        raise ValueError(
            f'`--ties` must be "exact" or a number in [0, 1). Got {ties!r}. Leave it out if unsure.'
        ) from None
