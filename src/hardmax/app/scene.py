"""The scene of the playground: tokens, a rule and display options, as one immutable
object.

Every value from a browser or a link passes through `Scene.from_data`, which checks
types, bounds and sizes.
"""

import csv
import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from fractions import Fraction
from typing import Any

import numpy as np

import hardmax as hm
from hardmax import _validation
from hardmax._errors import InputError, ParameterError
from hardmax._types import FloatArray
from hardmax.app.problems import describe_value
from hardmax.configurations import RANDOM_CONFIGURATIONS
from hardmax.rules.base import Rule
from hardmax.trajectories.storage import FRACTION

RULES = ("hardmax", "softmax", "frank-wolfe", "self-attention", "sphere")
FLOWS = ("self-attention", "sphere")  # rules in continuous time
DOCUMENTS = ("hardmax-trajectory-2", "hardmax-smooth-1", "hardmax-limit-1")
UNMASKED = ("frank-wolfe",)  # rules without a causal mask
OVERLAYS = {  # with their labels
    "trails": "Trails",
    "polytope": "Polytope of the leaders",
    "hulls": "Hull of each layer",
    "limit": "Limit of each token",
    "half-space": "Half-space of the selected token",
    "cells": "Cells: the token that each point attends to",
    "ellipse": "Ellipse of A (drag its handles)",
    "numbers": "Indices of the tokens",
    "attention": "Attention matrix",
}
MAX_TOKENS, MAX_DIMENSION, MAX_LAYERS, MAX_TIME = 20_000, 16, 200, 200.0
MAX_PAIRED_TOKENS = 3_000  # of rules under which all pairs of tokens interact
MAX_VALUES = 2e7  # coordinates of all layers
MAX_COORDINATE = 1e6
DIGITS = 4  # after the decimal point of random tokens, which keeps links short
BOUNDS = {  # integers for an entry that is an integer
    "alpha": (1e-3, 1e3),
    "temperature": (0.0, 1e3),
    "beta": (1e-3, 1e3),
    "time": (1e-2, MAX_TIME),
    "layers": (1, MAX_LAYERS),
    "shown": (0, MAX_LAYERS),
    "selected": (-1, MAX_TOKENS),
}


@dataclass(frozen=True, eq=False)
class Scene:
    """Tokens, the rule that moves them, and display options."""

    tokens: FloatArray  # (n, d)
    rule: str = "hardmax"
    alpha: float = 0.5
    A: FloatArray | None = None  # None is the identity
    temperature: float = 0.5  # of softmax; 0 is hardmax
    V: FloatArray | None = None
    beta: float = 9.0
    causal: bool = False
    layers: int = 30
    time: float = 10.0
    shown: int = 0  # index of the shown layer or time
    selected: int = -1  # a token, or -1
    wanted: tuple[int, ...] = ()  # tokens that shall lead
    overlays: tuple[str, ...] = ("trails", "polytope")
    colours: tuple[
        tuple[int, int], ...
    ] = ()  # (token, index of its colour), so that colours survive edits

    @property
    def n(self) -> int:
        return len(self.tokens)

    @property
    def d(self) -> int:
        return self.tokens.shape[1]

    @classmethod
    def of_configuration(
        cls, name: str, n: int = 40, d: int = 2, seed: int = 0
    ) -> "Scene":
        """Return a named configuration, or random tokens."""
        if name not in tuple(RANDOM_CONFIGURATIONS):  # anything else is checked there
            return cls(check_tokens(hm.configuration(name)))
        n, d = (
            check_number(n, "n", 1, MAX_TOKENS),
            check_number(d, "d", 1, MAX_DIMENSION),
        )
        seed = check_number(seed, "seed", 0, 2**31)
        return cls(
            check_tokens(np.round(hm.configuration(name, n=n, d=d, seed=seed), DIGITS))
        )

    @classmethod
    def from_data(cls, data: Any) -> "Scene":
        """Return the scene of plain data from a request; raise an error that names the
        first invalid entry.
        """
        if not isinstance(data, Mapping):
            raise InputError(
                "A scene must be a JSON object. Got something else. Load the page"
                " again."
            )
        usual: dict[str, Any] = {each.name: each.default for each in fields(cls)} | {
            "tokens": None
        }
        if unknown := [name for name in data if name not in usual]:
            raise ParameterError(
                "scene",
                f"have the entries {', '.join(usual)} only",
                describe_value(unknown[0]),
            )
        values = usual | {
            name: value for name, value in data.items() if value is not None
        }
        tokens, rule = check_tokens(values["tokens"]), values["rule"]
        for name in ("A", "V"):
            values[name] = (
                None
                if values[name] is None
                else _check_matrix(values[name], name, tokens.shape[1])
            )
        if rule not in RULES:
            raise ParameterError(
                "rule", f"be one of {', '.join(RULES)}", describe_value(rule)
            )
        values |= {
            name: check_number(values[name], name, *bounds)
            for name, bounds in BOUNDS.items()
        }
        layers, causal, overlays, pairs = (
            values[name] for name in ("layers", "causal", "overlays", "colours")
        )
        if rule != "hardmax" and len(tokens) > MAX_PAIRED_TOKENS:
            must = f"be at most {MAX_PAIRED_TOKENS:,} under the rule {rule}"
            raise ParameterError(
                "tokens", must, f"{len(tokens):,}", "Use fewer tokens, or hardmax."
            )
        if tokens.size * (layers + 1) > MAX_VALUES:
            must = f"have at most {MAX_VALUES:,.0f} coordinates in all layers"
            raise ParameterError(
                "tokens",
                must,
                f"{tokens.size * (layers + 1):,}",
                "Use fewer tokens or layers.",
            )
        if values["selected"] >= len(tokens):
            values["selected"] = -1
        if not isinstance(causal, bool):
            raise ParameterError("causal", "be true or false", describe_value(causal))
        if causal and rule in UNMASKED:
            raise ParameterError("causal", f"be false under the rule {rule}", "true")
        if not isinstance(overlays, list | tuple) or not all(
            isinstance(name, str) for name in overlays
        ):
            raise ParameterError(
                "overlays", "be a list of names", describe_value(overlays)
            )
        wanted = {
            i for i in _check_indices(values["wanted"], "wanted") if i < len(tokens)
        }
        if not isinstance(pairs, list | tuple) or not all(
            isinstance(p, list | tuple) and len(p) == 2 for p in pairs
        ):
            raise ParameterError("colours", "be a list of pairs", describe_value(pairs))
        values |= {"tokens": tokens, "wanted": tuple(sorted(wanted))}
        values["overlays"] = tuple(name for name in OVERLAYS if name in overlays)
        values["colours"] = tuple(
            tuple(_check_indices(pair, "colours"))
            for pair in pairs
            if len(pairs) <= MAX_TOKENS
        )
        return cls(**values)

    @classmethod
    def from_document(cls, document: Any) -> tuple["Scene", str]:
        """Return the scene of a JSON file that the app or a command has written, and a
        sentence on what it leaves out.
        """
        if not isinstance(document, Mapping) or "format" not in document:
            return cls.from_data(document), ""
        kind = document["format"]
        if kind not in DOCUMENTS:
            must = "be a scene, or the JSON of a trajectory or a limit"
            raise ParameterError("file", must, f"the format {describe_value(kind)}")
        rule = document.get("rule")
        entries = describe_rule(rule if isinstance(rule, Mapping) else {})
        if kind == "hardmax-limit-1":
            return cls.from_data({"tokens": document.get("start"), **entries}), ""
        tokens, saved = document.get("tokens"), document.get("saved")
        if not isinstance(tokens, list) or not tokens:
            must = "hold the layers of one token set"
            raise ParameterError("file", must, describe_value(tokens))
        if not isinstance(saved, list) or not saved or saved[0] != 0:
            must = "hold all layers or times, from 0"
            advice = "Write it with --save all."
            raise ParameterError("file", must, describe_value(saved), advice)
        end = check_number(saved[-1], "saved", 0.0, math.inf)
        if kind == "hardmax-smooth-1" and entries["rule"] in FLOWS:
            most, unit = MAX_TIME, "units of time"
            entries["time"] = min(max(end, BOUNDS["time"][0]), most)
        else:
            most, unit = MAX_LAYERS, "layers"
            entries["layers"] = int(min(max(end, 1), most))
        note = f"The first {most:g} of {end:g} {unit} are shown." if end > most else ""
        return cls.from_data({"tokens": tokens[0], **entries}), note

    def to_data(self) -> dict[str, Any]:
        """Return the scene as plain data, which `from_data` reads."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        return {
            name: value.tolist() if isinstance(value, np.ndarray) else value
            for name, value in values.items()
        }

    def make_rule(self) -> Rule:
        """Return the rule that moves the tokens."""
        if self.rule == "hardmax" or (self.rule == "softmax" and self.temperature == 0):
            return hm.Hardmax(self.alpha, self.A, causal=self.causal)
        if self.rule == "softmax":
            return hm.Softmax(
                self.alpha, self.A, temperature=self.temperature, causal=self.causal
            )
        if self.rule == "frank-wolfe":
            return hm.FrankWolfe(self.A, self.alpha / (1 + self.alpha))
        if self.rule == "sphere":
            return hm.Sphere(self.beta, causal=self.causal)
        return hm.SelfAttention(V=self.V, causal=self.causal)

    @property
    def start(self) -> FloatArray:
        """The simulated tokens: on the sphere, divided by their norms."""
        if self.rule != "sphere":
            return self.tokens
        norms = np.linalg.norm(self.tokens, axis=1, keepdims=True)
        if not norms.all():
            raise InputError(
                "A token on the sphere must not be 0. Got a token that is 0. Move it."
            )
        return np.asarray(self.tokens / norms)


def describe_rule(rule: Mapping[str, Any]) -> dict[str, Any]:
    """Return the entries of a scene for a rule, given as `rule_to_data` returns it."""
    name = rule.get("rule")
    steps = rule.get("steps" if name == "FrankWolfe" else "alpha")
    if isinstance(steps, list):
        must = "have one step size for all layers"
        raise ParameterError("rule", must, f"{len(steps)} step sizes")
    layer = {"alpha": _read_exact(steps), "A": _read_exact(rule.get("A"))}
    masked = {"causal": rule.get("causal", False)}
    if name == "Hardmax" and rule.get("normalize") is True:
        return {"rule": "hardmax", **layer, **masked}
    if name == "Softmax" and rule.get("normalize") == "rescaling":
        temperature = rule.get("temperature")
        return {"rule": "softmax", **layer, **masked, "temperature": temperature}
    if name == "FrankWolfe" and _is_number(layer["alpha"]) and 0 < layer["alpha"] < 1:
        alpha = _find_alpha(layer["alpha"])
        return {"rule": "frank-wolfe", "alpha": alpha, "A": _read_exact(rule.get("B"))}
    if name == "Sphere" and rule.get("normalized") is True:
        return {"rule": "sphere", "beta": rule.get("beta"), **masked}
    if name == "SelfAttention" and rule.get("Q") is None and rule.get("K") is None:
        return {"rule": "self-attention", "V": _read_exact(rule.get("V")), **masked}
    must = (
        "be Hardmax or Softmax with their rescaling, FrankWolfe with one step below 1,"
        " SelfAttention with V only, or a normalised Sphere with a constant beta"
    )
    options = [f"{key}={value}" for key, value in rule.items() if key != "rule"]
    got = rule.get("repr", f"{name}({', '.join(options)})")
    advice = "Use `hm.simulate` and `hm.interactive` for others."
    raise ParameterError("rule", must, str(got)[:200], advice)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _read_exact(value: Any) -> Any:
    """Return a number or nested lists with floats in place of exact numbers as text."""
    if isinstance(value, list):
        return [_read_exact(entry) for entry in value]
    if not isinstance(value, str) or not FRACTION.fullmatch(value):
        return value
    try:
        return float(Fraction(value))
    except (ValueError, OverflowError, ZeroDivisionError):  # too many digits, or n/0
        raise ParameterError(
            "rule", "hold numbers within float64's range", describe_value(value)
        ) from None


def _find_alpha(gamma: float) -> float:
    """Return the shortest alpha with alpha / (1 + alpha) = gamma in floats."""
    exact = Fraction(gamma) / (1 - Fraction(gamma))
    for digits in range(1, 17):
        alpha = float(f"{float(exact):.{digits}g}")
        if alpha / (1 + alpha) == gamma:
            return alpha
    return float(exact)


def keep_first_layer(table: str) -> str:
    """Return the rows of the first layer or time of a table that `Trajectory.to_csv`
    wrote, without their numbers; another table as it is.
    """
    head = table.partition("\n")[0].strip()
    if not head.startswith(("layer,token,x1", "time,token,x1")):
        return table
    rows = list(csv.reader(table.splitlines()[1:]))
    return "\n".join(",".join(row[2:]) for row in rows if row[:1] == rows[0][:1])


def make_value_matrix(first: float, second: float, degrees: float) -> FloatArray:
    """Return the symmetric 2 x 2 matrix with these eigenvalues, whose first eigenvector
    has that angle.
    """
    c, s = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    frame = np.array([[c, -s], [s, c]])
    return np.round(frame @ np.diag([first, second]) @ frame.T, 6)


def check_tokens(value: Any) -> FloatArray:
    """Return tokens as floats of a shape, size and number that the app accepts."""
    must = f"be 1 to {MAX_TOKENS:,} rows of 1 to {MAX_DIMENSION} numbers"
    advice = "For more tokens use the command hardmax limit."
    if isinstance(value, list):  # NumPy would need gigabytes for some texts and numbers
        if len(value) > MAX_TOKENS:
            raise ParameterError("tokens", must, f"{len(value):,} rows", advice)
        if not all(map(_is_row, value)):
            wrong = next(row for row in value if not _is_row(row))
            raise ParameterError("tokens", must, describe_value(wrong))
    tokens = _validation.check_tokens(value)[0].astype(np.float64)
    if tokens.ndim != 2 or len(tokens) > MAX_TOKENS or tokens.shape[1] > MAX_DIMENSION:
        raise ParameterError("tokens", must, f"shape {tokens.shape}", advice)
    if np.abs(tokens).max() > MAX_COORDINATE:
        got = f"{np.abs(tokens).max():g}"
        raise ParameterError(
            "tokens",
            f"be at most {MAX_COORDINATE:,.0f} in absolute value",
            got,
            "Rescale them.",
        )
    return tokens


def _is_row(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(
        isinstance(number, int | float) and abs(number) < 1e300 for number in value
    )


def _check_matrix(value: Any, name: str, d: int) -> FloatArray:
    try:
        matrix = np.asarray(value, np.float64)
    except (TypeError, ValueError, OverflowError):
        matrix = np.empty(0)
    if matrix.shape != (d, d) or not (np.abs(matrix) <= MAX_COORDINATE).all():
        must = f"be {d} x {d} numbers, at most {MAX_COORDINATE:,.0f} in absolute value"
        raise ParameterError(name, must, describe_value(value))
    return matrix


def _check_indices(value: Any, name: str) -> list[int]:
    plain = isinstance(value, list | tuple) and len(value) <= MAX_TOKENS
    if not plain or not all(
        isinstance(i, int) and not isinstance(i, bool) and 0 <= i < MAX_TOKENS
        for i in value
    ):
        raise ParameterError(name, "be a list of indices", describe_value(value))
    return list(value)


def check_number(value: Any, name: str, least: float, most: float) -> Any:
    """Return a float, or an integer if the bounds are integers, within bounds."""
    kind, kinds = (
        ("an integer", int) if isinstance(most, int) else ("a number", int | float)
    )
    if (
        isinstance(value, bool)
        or not isinstance(value, kinds)
        or not least <= value <= most
    ):
        raise ParameterError(
            name, f"be {kind} from {least:,g} to {most:,g}", describe_value(value)
        )
    return value if kinds is int else float(value)
