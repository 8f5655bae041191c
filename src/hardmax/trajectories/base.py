"""What the trajectories of all rules have in common."""

import operator
from abc import ABC, abstractmethod
from functools import cached_property
from os import PathLike
from typing import Any, Self

import numpy as np

from hardmax._tensors import to_numpy
from hardmax._types import AnyArray, BoolArray


class Trajectory(ABC):
    """Tokens on their way under a rule; what `simulate` returns.

    A `HardmaxTrajectory` for `Hardmax`, with exact sets; a `SmoothTrajectory` for every other rule. A trajectory of a
    batch has one more axis after the layers, and `trajectory[b]` is the trajectory of one cloud. Padding keeps its
    input values, attends to nothing and is never attended to.

    Attributes
    ----------
    tokens : (saved, n, d) or (saved, batch, n, d) array
        Positions at each saved layer or time. A torch tensor if that came in.
    rule : Rule
    saved : (saved,) array
        Which layers, or which times, `tokens` holds.
    batched : bool
        Whether `tokens` has an axis for the batch.
    stats : dict
        What ran.
    """

    tokens: Any
    rule: Any
    saved: AnyArray
    batched: bool
    stats: dict[str, Any]

    def __repr__(self) -> str:
        return self.status

    def __getitem__(self, b: int) -> Self:
        if not self.batched:
            raise TypeError(
                "Only the trajectory of a batch has items. Got one cloud. Index `trajectory.tokens` instead."
            )
        return self._cloud(operator.index(b))

    @abstractmethod
    def _cloud(self, b: int) -> Self:
        """The trajectory of one cloud of a batch."""

    @cached_property
    def array(self) -> AnyArray:
        """`tokens` as a NumPy array."""
        return np.asarray(to_numpy(self.tokens))

    @property
    def drawn(self) -> AnyArray:
        """What pictures show of the tokens: the tokens themselves, unless a rule has better coordinates."""
        return self.array

    @property
    def n(self) -> int:
        """Tokens in a cloud, padding included."""
        return self.array.shape[-2]

    @property
    @abstractmethod
    def mask(self) -> BoolArray:
        """True for real tokens: (n,) or (batch, n)."""

    @abstractmethod
    def index(self, k: int) -> int:
        """Position in `tokens` of layer (or saved time) k; negative counts from the last."""

    @abstractmethod
    def label(self, at: int) -> str:
        """What to call a position in `tokens`: "layer 3" or "t = 1.5"."""

    @abstractmethod
    def attention(self, k: int = -1) -> Any:
        """Row-stochastic matrix of layer (or saved time) k."""

    @property
    @abstractmethod
    def leaders(self) -> Any:
        """Indices of tokens that lead; for a batch a list."""

    @property
    @abstractmethod
    def status(self) -> str:
        """What happened, as a sentence."""

    def single(self, call: str) -> None:
        """Refuse a batch, with the `call` to make instead."""
        if self.batched:
            raise ValueError(f"This must be asked of one cloud. Got a batch. Use {call}.")

    @abstractmethod
    def to_npz(self, path: str | PathLike[str]) -> None:
        """Write everything to a NumPy archive, whole or not at all."""

    @classmethod
    def from_npz(cls, path: str | PathLike[str]) -> "Trajectory":
        """Read what `to_npz` wrote. Runs no code from the file."""
        from hardmax.trajectories.storage import load_trajectory

        return load_trajectory(path)

    @abstractmethod
    def to_json(self) -> str:
        """Status, tokens and what else other programs may want, as JSON."""
