"""The checked input of a simulation, in the forms that runs ask for."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

import numpy as np

from hardmax._tensors import as_mask, is_tensor, like, needs_gradient, where
from hardmax._types import AnyArray, Array, BoolArray, Progress
from hardmax.flows.methods import Method
from hardmax.rules.base import Rule
from hardmax.rules.hardmax import Hardmax
from hardmax.rules.heads import MultiHead

SHARE = 1000  # what each head counts for in `progress`


@dataclass(frozen=True, eq=False)
class Job:
    """What to run on which tokens."""

    rule: Rule
    tokens: Array  # as they came
    array: AnyArray  # (n, d) or (batch, n, d), floats or Fractions
    real: BoolArray  # which tokens are not padding
    saved: AnyArray  # layers or times to keep
    method: Method
    kernel: str
    progress: Progress | None

    @property
    def batched(self) -> bool:
        """Whether there is an axis for the batch."""
        return self.array.ndim == 3

    @property
    def clouds(self) -> AnyArray:
        """The tokens with an axis for the batch: (batch, n, d)."""
        return self.array if self.batched else self.array[None]

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of the result: that of the input, or float64."""
        return np.dtype(np.float64 if self.array.dtype == object else self.array.dtype)

    @property
    def start(self) -> AnyArray:
        """The input as a float array."""
        return self.array.astype(self.dtype)

    @property
    def by_heads(self) -> bool:
        """Whether each head is run by itself: on coordinates of its own, and, as exact sets carry none, no gradient."""
        if not isinstance(self.rule, MultiHead) or self.rule.shared:
            return False
        return self.rule.continuous or not needs_gradient(self.tokens, *self.rule.weights)

    @property
    def searches(self) -> bool:
        """Whether the run searches for largest products, by `kernel`."""
        return isinstance(self.rule, Hardmax) or (self.by_heads and any(head.searches for head in self.heads))

    @property
    def heads(self) -> "list[Job]":
        """A job for each head on coordinates of its own."""
        assert isinstance(self.rule, MultiHead)
        jobs = []
        for h, (head, part) in enumerate(zip(self.rule.heads, self.rule.columns(self.array.shape[-1]), strict=True)):
            array = self.array[..., part]
            tokens = self.tokens[..., part] if is_tensor(self.tokens) else array
            jobs.append(replace(self, rule=head, tokens=tokens, array=array, progress=self._progress_of(h)))
        return jobs

    def _progress_of(self, h: int) -> Progress | None:
        """`progress` for one head of several, each of which counts for the same part of the whole."""
        progress, rule = self.progress, self.rule
        if progress is None or not isinstance(rule, MultiHead):
            return None
        return lambda done, total: progress(SHARE * h + SHARE * done // total, SHARE * len(rule.heads))

    def ticker(self, total: int) -> Callable[[], None]:
        """What to call after each layer or time: it counts, and tells `progress` if there is one."""
        done, progress = count(1), self.progress
        return (lambda: None) if progress is None else (lambda: progress(next(done), total))

    def floats(self) -> tuple[Array, Array | None]:
        """Tokens as a float array or tensor with zeros for padding, and the keys that may be attended to."""
        state: Array = self.tokens if is_tensor(self.tokens) else self.start
        if is_tensor(state) and not state.dtype.is_floating_point:
            state = state.double()
        if self.real.all():
            return state, None
        return where(self.real[..., None], state, 0.0), as_mask(self.real[..., None, :], state)

    def with_padding(self, kept: Array | None) -> Array | None:
        """Tokens of all saved positions, with what came in for padding."""
        if kept is None or self.real.all():
            return kept
        return where(np.broadcast_to(self.real[..., None], tuple(kept.shape)), kept, like(self.start, kept))

    def as_given(self, clouds: AnyArray) -> Array:
        """Tokens of all saved positions and clouds as the input was: its axes and dtype, array or tensor."""
        with np.errstate(over="ignore", invalid="ignore"):  # what does not fit into the dtype becomes infinite
            kept = (clouds if self.batched else clouds[:, 0]).astype(self.dtype, copy=False)
        return like(kept, self.tokens)
