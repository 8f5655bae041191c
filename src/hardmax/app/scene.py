"""What a picture of the playground is made of, as plain data that never changes, and how a link holds it.

Whatever comes from a browser or a link passes through `Scene.checked`: absurd values get a sentence, and reach nothing.
"""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

import numpy as np

from hardmax._errors import InputError, ParameterError
from hardmax._types import FloatArray
from hardmax.app import links
from hardmax.configurations import RANDOM_CONFIGURATIONS, configuration

RULES = ("hardmax", "softmax", "self-attention", "sphere")
OVERLAYS = {  # and how a page says them
    "trails": "Trails",
    "polytope": "Polytope of the leaders",
    "hulls": "Hull of each layer",
    "limit": "Where each token ends",
    "half-space": "Half-space of the selected token",
    "cells": "Cells: whom a token would follow there",
    "ellipse": "Ellipse of A, to pull",
    "numbers": "Numbers of the tokens",
    "attention": "Attention matrix",
}
MOST_TOKENS, MOST_DIMENSIONS, MOST_LAYERS, MOST_TIME = 20_000, 16, 200, 200.0
LARGEST = 1e6  # of a coordinate
DIGITS = 4  # after the point of a token that was dragged: what one can see, and a short link

BOUNDS = {  # least and most
    "alpha": (1e-3, 1e3),
    "temperature": (0.0, 1e3),
    "beta": (1e-3, 1e3),
    "time": (1e-2, MOST_TIME),
    "layers": (1, MOST_LAYERS),
    "shown": (0, MOST_LAYERS),
    "selected": (-1, MOST_TOKENS),
}


@dataclass(frozen=True, eq=False)
class Scene:
    """Tokens, the rule that moves them, and what is shown of it."""

    tokens: FloatArray  # (n, d)
    rule: str = "hardmax"
    alpha: float = 0.5
    A: FloatArray | None = None  # None: the identity
    temperature: float = 0.5  # of softmax; at 0 it is hardmax
    V: FloatArray | None = None
    beta: float = 9.0
    causal: bool = False
    layers: int = 30
    time: float = 10.0
    shown: int = 0  # which layer, or which of the saved times
    selected: int = -1  # a token, or none
    wanted: tuple[int, ...] = ()  # tokens that shall lead
    overlays: tuple[str, ...] = ("trails", "polytope")

    @property
    def n(self) -> int:
        return len(self.tokens)

    @property
    def d(self) -> int:
        return self.tokens.shape[1]

    @classmethod
    def of_cloud(cls, name: str, n: int = 40, d: int = 2, seed: int = 0) -> "Scene":
        """A named configuration, or a random cloud."""
        if name not in RANDOM_CONFIGURATIONS:
            return cls.checked(tokens=np.asarray(configuration(name), np.float64))
        for count, what, most in ((n, "n", MOST_TOKENS), (d, "d", MOST_DIMENSIONS)):
            if not 1 <= count <= most:
                raise ParameterError(what, f"be a number from 1 to {most:,}", count)
        return cls.checked(tokens=np.round(configuration(name, n=n, d=d, seed=seed), DIGITS))

    @classmethod
    def checked(cls, **data: Any) -> "Scene":
        """A scene of these values, or the sentence on what is wrong with them."""
        known = {each.name for each in fields(cls)}
        if strange := sorted(set(data) - known):
            raise ParameterError("scene", f"have no other names than {', '.join(sorted(known))}", repr(strange[0])[:40])
        made = dict(data)
        made["tokens"] = _tokens(data.get("tokens"))
        for name in ("A", "V"):
            if made.get(name) is not None:
                made[name] = _matrix(made[name], name, made["tokens"].shape[1])
        if made.get("rule", "hardmax") not in RULES:
            raise ParameterError("rule", f"be one of {', '.join(RULES)}", repr(made["rule"])[:40])
        for name, (least, most) in BOUNDS.items():
            if name in made:
                made[name] = _number(made[name], name, least, most)
        for name in ("layers", "shown", "selected"):
            if name in made:
                made[name] = int(made[name])
        made["causal"] = bool(made.get("causal", False))
        chosen = made.get("overlays", cls.overlays)
        if not isinstance(chosen, list | tuple) or not all(isinstance(one, str) for one in chosen):
            raise ParameterError("overlays", "be a list of names", type(chosen).__name__)
        made["overlays"] = tuple(name for name in OVERLAYS if name in chosen)
        if made.get("selected", -1) >= len(made["tokens"]):
            made["selected"] = -1
        made["wanted"] = _numbers(made.get("wanted", ()), len(made["tokens"]))
        return cls(**made)

    def changed(self, **values: Any) -> "Scene":
        """The same scene with other values, which are checked."""
        return Scene.checked(**({each.name: getattr(self, each.name) for each in fields(self)} | values))

    def moved(self, i: int, place: Any, *, keep_all_digits: bool = False) -> "Scene":
        """Token i at another place."""
        self._has(i)
        tokens = self.tokens.copy()
        tokens[i] = place if keep_all_digits else np.round(np.asarray(place, np.float64), DIGITS)
        return replace(self, tokens=_tokens(tokens), selected=i)

    def added(self, place: Any) -> "Scene":
        """One token more, which is selected."""
        tokens = np.vstack([self.tokens, np.round(np.asarray(place, np.float64), DIGITS)[None]])
        return replace(self, tokens=_tokens(tokens), selected=self.n)

    def without(self, i: int) -> "Scene":
        """One token less; the last one stays."""
        self._has(i)
        if self.n == 1:
            raise InputError("A cloud must have at least one token. This is the last one. Add another one first.")
        wanted = tuple(j - (j > i) for j in self.wanted if j != i)
        return replace(self, tokens=np.delete(self.tokens, i, axis=0), selected=-1, wanted=wanted)

    def _has(self, i: int) -> None:
        if isinstance(i, bool) or not isinstance(i, int) or not 0 <= i < self.n:
            raise ParameterError("token", f"be a number from 0 to {self.n - 1}", repr(i)[:40])

    def to_data(self) -> dict[str, Any]:
        """Plain data: the tokens, and what differs from a fresh scene."""
        fresh = Scene(self.tokens)
        data = {name: value for name, value in asdict(self).items() if name not in ("tokens", "A", "V")}
        kept: dict[str, Any] = {name: value for name, value in data.items() if value != getattr(fresh, name)}
        for name in ("tokens", "A", "V"):
            if getattr(self, name) is not None:
                kept[name] = getattr(self, name).tolist()
        return kept

    def to_link(self) -> str:
        """The scene as letters that a link can hold; empty where there are too many of them."""
        return links.to_link(self.to_data()) if self.tokens.size <= links.LONGEST_LINK else ""

    @classmethod
    def from_link(cls, link: str) -> "Scene":
        """The scene that `to_link` wrote."""
        return cls.from_data(links.from_link(link))

    @classmethod
    def from_data(cls, data: Any) -> "Scene":
        """The scene that `to_data` wrote."""
        if not isinstance(data, Mapping) or not all(isinstance(name, str) for name in data):
            raise InputError("A scene must be names and values. Got something else. Ask for the file again.")
        return cls.checked(**data)


def values_matrix(first: float, second: float, degrees: float) -> FloatArray:
    """The symmetric V with these eigenvalues, the first eigenvector at that angle."""
    c, s = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    frame = np.array([[c, -s], [s, c]])
    return np.round(frame @ np.diag([first, second]) @ frame.T, 6)


def values_of(V: FloatArray | None) -> tuple[float, float, float] | None:
    """What `values_matrix` makes a V of; None where V is not symmetric."""
    if V is None:
        return 1.0, 1.0, 0.0
    if V.shape != (2, 2) or V[0, 1] != V[1, 0]:
        return None
    values, vectors = np.linalg.eigh(V)
    degrees = math.degrees(math.atan2(vectors[1, 1], vectors[0, 1])) % 180  # of the larger one
    return round(float(values[1]), 4), round(float(values[0]), 4), round(degrees, 2)


def _tokens(value: Any) -> FloatArray:
    try:
        tokens = np.asarray(value, np.float64)
    except (TypeError, ValueError, OverflowError):
        raise ParameterError("tokens", "be rows of numbers, all of one length", "something else") from None
    if tokens.ndim != 2 or not 1 <= len(tokens) <= MOST_TOKENS or not 1 <= tokens.shape[1] <= MOST_DIMENSIONS:
        must = f"be 1 to {MOST_TOKENS:,} rows of 1 to {MOST_DIMENSIONS} numbers"
        raise ParameterError("tokens", must, f"shape {tokens.shape}", "For more use hardmax on the command line.")
    if not np.isfinite(tokens).all():
        raise ParameterError("tokens", "be finite", "NaN or infinity", "Fill or drop missing values.")
    if not (np.abs(tokens) <= LARGEST).all():
        raise ParameterError("tokens", f"be at most {LARGEST:,.0f}", f"{np.abs(tokens).max():g}", "Rescale them.")
    return tokens


def _matrix(value: Any, name: str, d: int) -> FloatArray:
    try:
        matrix = np.asarray(value, np.float64)
    except (TypeError, ValueError, OverflowError):
        raise ParameterError(name, f"be {d} by {d} numbers", "something else") from None
    if matrix.shape != (d, d) or not (np.abs(matrix) <= LARGEST).all():
        raise ParameterError(name, f"be {d} by {d} finite numbers", f"shape {matrix.shape}")
    return matrix


def _numbers(value: Any, n: int) -> tuple[int, ...]:
    """Numbers of tokens; those that there are."""
    plain = isinstance(value, list | tuple) and all(isinstance(i, int) and not isinstance(i, bool) for i in value)
    if not plain or len(value) > MOST_TOKENS:
        raise ParameterError("wanted", "be a list of tokens", repr(value)[:40])
    return tuple(sorted({i for i in value if 0 <= i < n}))


def _number(value: Any, name: str, least: float, most: float) -> float:
    plain = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    if not plain or not least <= value <= most:
        raise ParameterError(name, f"be a number from {least:g} to {most:g}", repr(value)[:40])
    return float(value)
