"""What a rule is.

To add one: a frozen dataclass that derives from `Layered` (it moves tokens by whole layers) or `Flow` (it gives them a
velocity), with its formula in its docstring, its checks in `__post_init__`, and methods that hold for arrays and
tensors of shape (..., n, d) alike. Everything else, `simulate` does.
"""

from abc import ABC, abstractmethod
from dataclasses import MISSING, fields
from typing import Any

import numpy as np

from hardmax._errors import ParameterError
from hardmax._tensors import as_mask, is_tensor, to_numpy


class Rule(ABC):
    """How tokens move."""

    @property
    @abstractmethod
    def continuous(self) -> bool:
        """Whether it moves tokens in time, not by layers."""

    @property
    def attends(self) -> bool:
        """Whether tokens see each other; False for rules that move each by itself."""
        return True

    @property
    def dimension(self) -> int | None:
        """The dimension of tokens that it asks for, if it asks for one."""
        return None

    @property
    def weights(self) -> tuple[Any, ...]:
        """Its arrays and tensors, to see whether one asks for gradients."""
        return ()

    @abstractmethod
    def attention(self, tokens: Any, at: float, keys: Any = None) -> Any:
        """Row-stochastic matrix at a layer or time, shape (..., n, n); `keys` as for `layer`."""

    def check(self, tokens: Any) -> None:
        """Refuse tokens that the rule has no meaning for."""
        d = tokens.shape[-1]
        if self.dimension not in (None, d):
            raise ParameterError(
                "tokens",
                f"have shape (n, d) or (batch, n, d) with d = {self.dimension}, the size of the rule's matrices",
                tuple(tokens.shape),
                f"Use tokens of dimension {self.dimension}, or other matrices.",
            )

    def __repr__(self) -> str:
        parts = []
        for item in fields(self):  # type: ignore[arg-type]
            value, usual = getattr(self, item.name), item.default
            if usual is MISSING or not _same(value, usual):
                parts.append(f"{item.name}={_shown(value)}")
        return f"{type(self).__name__}({', '.join(parts)})"


class Layered(Rule):
    """A rule that moves tokens by whole layers."""

    @property
    def continuous(self) -> bool:
        """False."""
        return False

    @abstractmethod
    def layer(self, tokens: Any, k: int, keys: Any = None) -> Any:
        """Tokens after layer k; `keys`, boolean of shape (..., 1, n), is True for tokens that may be attended to."""


class Flow(Rule):
    """A rule that gives tokens a velocity."""

    @property
    def continuous(self) -> bool:
        """True."""
        return True

    @abstractmethod
    def velocity(self, tokens: Any, t: float, keys: Any = None) -> Any:
        """dx/dt at time t; `keys` as for `Layered.layer`."""


def seen_keys(tokens: Any, keys: Any, causal: bool) -> Any:
    """Which keys each token may attend to: those of `keys`, with a causal mask none after itself. None is all."""
    if not causal:
        return keys
    n = tokens.shape[-2]
    before = as_mask(np.tri(n, dtype=bool), tokens)
    return before if keys is None else before & keys


def _same(value: Any, usual: Any) -> bool:
    return value is usual or (isinstance(value, str | bool | int | float) and value == usual)


def _shown(value: Any) -> str:
    """A matrix in full if it is small, else its shape; anything else as it prints."""
    if isinstance(value, np.ndarray) or is_tensor(value):
        array = np.asarray(to_numpy(value))
        if array.size <= 9:
            return str(array.round(4).tolist())
        return " by ".join(map(str, array.shape))
    if callable(value) and hasattr(value, "__name__"):
        return f"{value.__name__}(t)"
    return repr(value)
