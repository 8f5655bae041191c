"""The base classes of rules.

To add one: a frozen dataclass that derives from `Layered` (it moves tokens by whole
layers) or `Flow` (it gives them a velocity), with its formula in its docstring, its
checks in `__post_init__`, and methods that hold for arrays and tensors of shape (...,
n, d) alike. `simulate` does the rest.
"""

from abc import ABC, abstractmethod
from dataclasses import Field, fields, is_dataclass
from typing import Any

import numpy as np

from hardmax._arrays import as_mask
from hardmax._errors import InputError, ParameterError
from hardmax._types import AnyArray, Array, IntArray
from hardmax._validation import is_tensor, shortened, to_numpy


class Rule(ABC):
    """How tokens move: the base class of all rules. Derive a rule of your own from
    `Layered` or `Flow`.

    Examples
    --------
    >>> import hardmax as hm
    >>> isinstance(hm.Hardmax(0.5), hm.rules.Layered), isinstance(hm.Sphere(1.0), hm.rules.Flow)
    (True, True)
    """

    @property
    @abstractmethod
    def continuous(self) -> bool:
        """Whether the rule moves tokens in time, not by layers."""

    @property
    def attends(self) -> bool:
        """Whether tokens attend to each other; False for rules that move each by
        itself.
        """
        return True

    _matrix = ""  # attribute with the only matrix, which decides the dimension
    _dimension: int | None = None  # of rules with several matrices

    @property
    def dimension(self) -> int | None:
        """The dimension that tokens must have, or None for any."""
        matrix = getattr(self, self._matrix, None)
        return self._dimension if matrix is None else len(matrix)

    @property
    def weights(self) -> tuple[Array | None, ...]:
        """The arrays and tensors of the rule, of which one may require gradients."""
        return ()

    @abstractmethod
    def attention(self, tokens: Array, at: float, keys: Array | None = None) -> Array:
        """Return the row-stochastic matrix at a layer or time, shape (..., n, n);
        `keys` as for `layer`.
        """

    def check(self, tokens: Array) -> None:
        """Refuse tokens that do not fit the matrices: a `ParameterError`."""
        size = self.dimension
        if size is None or size == tokens.shape[-1]:
            return
        matrices = f"`{self._matrix}`" if self._matrix else "the rule's matrices"
        raise ParameterError(
            "tokens",
            f"have shape (n, d) or (batch, n, d) with d = {size}, the size of {matrices}",
            tuple(tokens.shape),
            f"Use tokens of dimension {size}, or other matrices.",
        )

    def _set(self, **values: Any) -> None:
        """Replace fields by checked values; a rule does not change afterwards."""
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        parts = []
        options: tuple[Field[Any], ...] = fields(self) if is_dataclass(self) else ()
        for option in options:
            value = getattr(self, option.name)
            if not _is_default(value, option.default):
                parts.append(f"{option.name}={_format_value(value)}")
        return f"{type(self).__name__}({', '.join(parts)})"


class Layered(Rule):
    """A rule that moves tokens by layers; a subclass defines `attention` and `layer`.

    Examples
    --------
    Each token goes halfway to the mean of all:

    >>> import numpy as np
    >>> import hardmax as hm
    >>> class Mean(hm.rules.Layered):
    ...     def attention(self, tokens, at, keys=None):
    ...         n = tokens.shape[-2]
    ...         return np.full((*tokens.shape[:-1], n), 1 / n)
    ...
    ...     def layer(self, tokens, k, keys=None):
    ...         return (tokens + self.attention(tokens, k) @ tokens) / 2
    >>> Mean()
    Mean()
    >>> hm.simulate([[0.0, 4.0], [2.0, 0.0]], Mean(), layers=2).array[-1]
    array([[0.75, 2.5 ],
           [1.25, 1.5 ]])
    """

    continuous = False

    @abstractmethod
    def layer(self, tokens: Array, k: int, keys: Array | None = None) -> Array:
        """Return tokens after layer k; `keys`, boolean of shape (..., 1, n), is True
        for keys that may be seen.
        """


class Flow(Rule):
    """A rule that gives tokens a velocity; a subclass defines `attention` and
    `velocity`.

    Examples
    --------
    Each token is drawn to the mean of all:

    >>> import numpy as np
    >>> import hardmax as hm
    >>> class Mean(hm.rules.Flow):
    ...     def attention(self, tokens, at, keys=None):
    ...         return np.full((*tokens.shape[:-1], tokens.shape[-2]), 1 / tokens.shape[-2])
    ...
    ...     def velocity(self, tokens, t, keys=None):
    ...         return self.attention(tokens, t) @ tokens - tokens
    >>> flow = hm.simulate([[0.0, 4.0], [2.0, 0.0]], Mean(), times=[0, 1])
    >>> flow.array[-1].round(3)
    array([[0.632, 2.736],
           [1.368, 1.264]])
    """

    continuous = True

    @abstractmethod
    def velocity(self, tokens: Array, t: float, keys: Array | None = None) -> Array:
        """Return dx/dt at time t; `keys` as for `Layered.layer`."""


def no_attention(rule: Rule) -> InputError:
    """Return the error for a rule whose tokens do not attend to each other."""
    return InputError(
        "`attention` must belong to a rule in which tokens attend to each other. Got"
        f" {rule!r}, in which each moves by itself. Compose it with an attention rule."
    )


def check_rules(rules: object, name: str) -> tuple[Rule, ...]:
    """Return rules as a tuple with at least one."""
    checked = tuple(rules) if np.iterable(rules) else ()
    wrong = [rule for rule in checked if not isinstance(rule, Rule)]
    if not checked:
        wrong = [rules]
    if wrong:
        must = "be a list of rules, at least one"
        advice = "Try [hm.Softmax(0.5)]."
        raise ParameterError(name, must, shortened(wrong[0]), advice)
    return checked


def token_sets(tokens: Array, keys: Array | None) -> list[tuple[AnyArray, IntArray]]:
    """Return the real tokens of each token set as an array, with their indices."""
    array = np.asarray(to_numpy(tokens))
    batch = array.reshape(-1, *array.shape[-2:])
    real = np.ones(batch.shape[:2], bool)
    if keys is not None:
        real = np.asarray(to_numpy(keys)).reshape(real.shape)
    return [
        (rows[is_real], np.flatnonzero(is_real))
        for rows, is_real in zip(batch, real, strict=True)
    ]


def seen_keys(tokens: Array, keys: Array | None, causal: bool) -> Array | None:
    """Return which keys each token may attend to: those of `keys`, if causal up to
    itself. None is all.
    """
    if not causal:
        return keys
    n = tokens.shape[-2]
    before = as_mask(np.tri(n, dtype=bool), tokens)
    return before if keys is None else before & keys


def _is_default(value: object, default: object) -> bool:
    if value is default:
        return True
    return isinstance(value, str | bool | int | float) and value == default


def _format_value(value: object) -> str:
    """Return a small matrix in full, else its shape; other values by `repr`."""
    if isinstance(value, np.ndarray) or is_tensor(value):
        array = np.asarray(to_numpy(value))
        if array.size <= 9:
            return str(array.round(4).tolist())
        return " by ".join(map(str, array.shape))
    if callable(value) and hasattr(value, "__name__"):
        return f"{value.__name__}(t)"
    return repr(value)
