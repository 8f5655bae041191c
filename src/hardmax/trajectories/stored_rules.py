"""Rules as plain data, for files."""

from dataclasses import fields
from fractions import Fraction
from typing import Any

import numpy as np

from hardmax import rules
from hardmax._errors import ParameterError
from hardmax._tensors import is_tensor, to_numpy
from hardmax.rules.base import Rule
from hardmax.rules.hardmax import Hardmax
from hardmax.trajectories.storage import from_text, to_fraction

NAMES = ("Compose", "FeedForward", "Hardmax", "MultiHead", "Normalize", "SelfAttention", "Softmax", "Sphere")
INSTEAD = "Save `trajectory.tokens` with np.save instead."


def rule_to_data(rule: Rule) -> dict[str, Any]:
    """A rule as plain data; Hardmax with exact numbers. Refused for Python functions, which no file can hold."""
    name = type(rule).__name__
    if name not in NAMES:
        raise ParameterError("rule", "be one of hardmax's own to be written to a file", repr(rule), INSTEAD)
    data = {item.name: _plain(getattr(rule, item.name), item.name) for item in fields(rule)}  # type: ignore[arg-type]
    if isinstance(rule, Hardmax):
        A = rule.matrix
        data["alpha"] = [str(step) for step in rule.steps]
        data["A"] = None if A is None else [[str(Fraction(x)) for x in row] for row in A.tolist()]
        data["A_exact"] = A is not None and A.dtype == object
    return {"rule": name} | data


def rule_from_data(data: dict[str, Any]) -> Rule:
    """The rule that `rule_to_data` wrote; names that are no rules are refused."""
    name = data.get("rule", "Hardmax")  # older files of Hardmax do not say it
    if name not in NAMES:
        raise ValueError(f"no rule is called {name!r}")
    options = {key: value for key, value in data.items() if key not in ("rule", "A_exact")}
    if name == "Hardmax":
        steps = [to_fraction(step) for step in data["alpha"]]
        options["alpha"] = steps[0] if len(steps) == 1 else steps
        if data["A"] is not None:
            A = from_text(np.array(data["A"]))
            options["A"] = A if data["A_exact"] else A.astype(np.float64)
    for key in {"heads", "parts"} & options.keys():
        options[key] = [rule_from_data(one) for one in options[key]]
    rule: Rule = getattr(rules, name)(**options)
    return rule


def _plain(value: Any, name: str) -> Any:
    if isinstance(value, Rule):
        return rule_to_data(value)
    if callable(value) and not is_tensor(value):
        raise ParameterError(name, "be numbers to be written to a file", "a Python function", INSTEAD)
    value = np.asarray(to_numpy(value)).tolist() if is_tensor(value) or isinstance(value, np.ndarray) else value
    if isinstance(value, list | tuple):
        return [_plain(item, name) for item in value]
    return float(value) if isinstance(value, np.number | Fraction) else value
