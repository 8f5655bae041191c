"""`CausalLimit`: the limit of a causal sequence that grows, without searching its
prefix again.
"""

import numpy as np

from hardmax import _validation
from hardmax._display import count
from hardmax._errors import InputError, ParameterError
from hardmax._exact import to_fractions
from hardmax._limit import check_rule
from hardmax._types import AnyArray, Array, Progress
from hardmax.rules.hardmax import Hardmax
from hardmax.run import Run
from hardmax.search.dispatch import check_kernel
from hardmax.trajectories.limit import Limit


class CausalLimit:
    """Limits of a sequence of tokens that see themselves and earlier tokens, extended
    as tokens arrive.

    Earlier tokens do not see later ones, so their sets stay valid at every layer.
    `limit` searches for new tokens alone and moves the others by the stored sets, which
    is linear in their number for each call; the result equals `hm.limit` of all tokens
    so far.

    Parameters
    ----------
    rule : Hardmax
        With `causal=True` and normalisation.
    max_layers : int
        Stop after this many layers; the result then states what is known.
    kernel : str
        How the largest products are found, with the same sets: see `simulate`.

    Examples
    --------
    >>> import hardmax as hm
    >>> stream = hm.CausalLimit(hm.Hardmax(alpha=0.5, causal=True))
    >>> stream.append([[1, 0], [0, 1]])
    >>> stream.limit()
    Certified at layer 0. 2 leaders, all since layer 0. 2 cluster points. Proved by C1 for 2 tokens.
    >>> stream.append([0.5, 0.25])
    >>> stream.limit().tokens[2]
    array([1., 0.])
    """

    def __init__(
        self, rule: Hardmax, *, max_layers: int = 1000, kernel: str = "auto"
    ) -> None:
        check_rule(rule)
        if not rule.causal:
            advice = (
                "Without a causal mask a new token can change the limits of all others."
                " Use hm.limit."
            )
            raise ParameterError("rule", "have `causal=True`", repr(rule), advice)
        self.rule, self._kernel = rule, check_kernel(kernel)
        self._max_layers = _validation.check_count(max_layers, "max_layers", least=0)
        # Appended tokens; the first holds all that `_limit` or `_known` has seen.
        self._parts: list[AnyArray] = []
        self._given: Array = None
        self._known: Limit | None = None
        self._limit: Limit | None = None

    def __len__(self) -> int:
        return sum(map(len, self._parts))

    def __repr__(self) -> str:
        new = len(self)
        if self._known is not None:
            new -= len(self._known.clusters)
        return (
            f"CausalLimit({self.rule!r}): {count(len(self), 'token')}, {new} new since"
            " the last limit"
        )

    def append(self, tokens: Array) -> None:
        """Append a token of shape (d,), or several of shape (m, d). The work is done by
        `limit`.
        """
        array = np.array(
            _validation.as_array(tokens, "tokens", "have rows of equal length")
        )  # the caller may reuse it
        array, _ = _validation.check_tokens(array[None] if array.ndim == 1 else array)
        if array.ndim != 2:
            raise ParameterError(
                "tokens", "have shape (d,) or (m, d)", f"shape {array.shape}"
            )
        self.rule.check(array)
        if self._parts and array.shape[1] != self._parts[0].shape[1]:
            must = f"have {self._parts[0].shape[1]} coordinates, as the tokens before"
            raise ParameterError("tokens", must, f"{array.shape[1]}")
        self._given = tokens if not self._parts else self._given
        self._parts.append(array)
        self._limit = None

    def limit(self, *, progress: Progress | None = None) -> Limit:
        """Return the limit of all tokens so far, as `hm.limit` does.

        Parameters
        ----------
        progress : callable, optional
            Called with (tokens decided, tokens in all) after each layer.
        """
        if not self._parts:
            raise InputError(
                "A limit needs at least one token. Got none: call `append` first."
            )
        if self._limit is None:
            tokens = np.concatenate(self._parts)
            self._parts = [to_fractions(tokens) if tokens.dtype == object else tokens]
            known = None if self._known is None else self._known.record
            run = Run(self.rule, self._parts[0], kernel=self._kernel, known=known)
            run.find_limits(self._max_layers, progress)
            self._limit = Limit(run.records()[0], self._given)
            self._known = self._limit
        return self._limit
