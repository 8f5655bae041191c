"""What the trajectories of all rules have in common."""

import json
import operator
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from numbers import Integral
from os import PathLike
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from hardmax._arrays import to_numpy
from hardmax._drawers import draw
from hardmax._errors import InputError, ParameterTypeError
from hardmax._types import AnyArray, Array, BoolArray
from hardmax.rules.base import Rule
from hardmax.trajectories.storage import (
    Arrays,
    coordinate_columns,
    read_archive,
    require,
    rule_from_data,
    rule_to_data,
    write_archive,
    write_rows,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False, repr=False)
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
        What moved them.
    saved : (saved,) array
        Which layers, or which times, `tokens` holds.
    batched : bool
        Whether `tokens` has an axis for the batch.
    stats : dict
        What ran: the method or kernel, the dtype, how many layers, steps, evaluations or queries.

    Examples
    --------
    >>> import hardmax as hm
    >>> batch = hm.simulate([[[1.0, 0.0], [0.5, 0.5]], [[0.0, 2.0], [1.0, 1.0]]], hm.Hardmax(0.5), layers=4)
    >>> batch.tokens.shape, batch.saved.tolist()
    ((5, 2, 2, 2), [0, 1, 2, 3, 4])
    >>> batch[1].leaders
    array([0])
    """

    tokens: Array
    rule: Any  # each kind of trajectory says which
    saved: AnyArray
    batched: bool
    stats: dict[str, Any]
    _format: ClassVar[str]
    _kinds: ClassVar[dict[str, "type[Trajectory]"]] = {}  # by the format of their files

    def __init_subclass__(cls, *, format: str) -> None:
        super().__init_subclass__()
        cls._format = format
        Trajectory._kinds[format] = cls

    def __repr__(self) -> str:
        return self.status

    def _repr_html_(self) -> str:
        return str(draw("trajectory_card", self))

    def plot(self, k: int | None = None, **options: Any) -> "Figure":
        """Draw some layers or times side by side, or layer (or saved time) k alone.

        Parameters
        ----------
        k : int, optional
            Which; some of them unless said.
        **options
            Those of `hardmax.draw.plot_layers`, or with k of `hardmax.draw.plot_tokens`.

        Returns
        -------
        matplotlib.figure.Figure

        Raises
        ------
        InputError
            If it is that of a batch: take one cloud of it, `trajectory[b]`.
        """
        figure: Figure = draw("trajectory_figure", self, k, **options)
        return figure

    def __getitem__(self, b: int) -> Self:
        if not self.batched:
            advice = "Index `trajectory.tokens` instead."
            raise ParameterTypeError("trajectory", "be that of a batch to have items", "one cloud", advice)
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

    @staticmethod
    def whole(k: object) -> int:
        """k as an int; what is none gets a sentence."""
        if isinstance(k, bool) or not isinstance(k, Integral):
            advice = "`saved` has the layers or times; for several panels use plot(layers=[...])."
            raise ParameterTypeError("k", "be a whole number, a layer or the place of a saved time", repr(k), advice)
        return int(k)

    @abstractmethod
    def index(self, k: int) -> int:
        """Position in `tokens` of layer (or saved time) k; negative counts from the last."""

    @abstractmethod
    def label(self, at: int) -> str:
        """What to call a position in `tokens`: "layer 3" or "t = 1.5"."""

    @abstractmethod
    def attention(self, k: int = -1) -> Array:
        """Row-stochastic matrix of layer (or saved time) k.

        Parameters
        ----------
        k : int
            Negative counts from the last.

        Returns
        -------
        (n, n) or (batch, n, n) array
            With several heads (..., heads, n, n).
        """

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
            raise InputError(f"This must be asked of one cloud. Got a batch. Use {call}.")

    @abstractmethod
    def to_json(self) -> str:
        """Status, tokens and what else other programs may want, as JSON."""

    def to_npz(self, path: str | PathLike[str]) -> None:
        """Write everything to a NumPy archive at `path`, whole or not at all; `from_npz` reads it."""
        shared = {
            "format": np.array(self._format),
            "tokens": self.array,
            "saved": self.saved,
            "batched": np.array(self.batched),
            "rule": np.array(json.dumps(rule_to_data(self.rule))),
            "stats": np.array(json.dumps(self.stats)),
        }
        write_archive(path, shared | self._arrays())

    def to_csv(self, path: str | PathLike[str]) -> None:
        """Write a table for spreadsheets to `path`, a row for each token at each layer or time.

        It holds the tokens alone; `to_npz` keeps everything.
        """
        when = "time" if self.rule.continuous else "layer"
        axes = [when, "cloud", "token"] if self.batched else [when, "token"]
        columns = dict(zip(axes, map(np.ravel, np.indices(self.array.shape[:-1])), strict=True))
        write_rows(path, columns | {when: self.saved[columns[when]]} | coordinate_columns(self.array))

    @abstractmethod
    def _arrays(self) -> dict[str, AnyArray]:
        """What else a file holds of it."""

    @classmethod
    def from_npz(cls, path: str | PathLike[str]) -> "Trajectory":
        """Read what `to_npz` wrote. Runs no code from the file.

        Parameters
        ----------
        path : path
            A file ending in .npz.

        Returns
        -------
        Trajectory
            Of the kind that was written.

        Raises
        ------
        ParameterError
            If the file is not such an archive, is of a later version, or holds what no run can have made.
        """
        kinds = {format: kind._read for format, kind in Trajectory._kinds.items()}
        return read_archive(path, "be a trajectory saved with to_npz", kinds)

    @classmethod
    def _read(cls, file: Arrays) -> "Trajectory":
        rule, stats = rule_from_data(json.loads(str(file["rule"]))), json.loads(str(file["stats"]))
        _check(file, rule, stats)
        return cls._from_arrays(file, rule, stats)

    @classmethod
    @abstractmethod
    def _from_arrays(cls, file: Arrays, rule: Rule, stats: dict[str, Any]) -> Self:
        """The trajectory of the arrays of a file, each of which is checked."""


def _check(file: Arrays, rule: Rule, stats: object) -> None:
    """Refuse tokens, layers or times that cannot be those of a run under the rule."""
    tokens, saved, batched = file["tokens"], file["saved"], file["batched"]
    require(batched.shape == () and batched.dtype.kind == "b", "`batched` must be true or false")
    right = tokens.dtype.kind == "f" and tokens.ndim == 3 + bool(batched) and tokens.size > 0
    require(right, "`tokens` must be numbers")
    require(saved.shape == tokens.shape[:1], "`saved` must name a layer or time for each of `tokens`")
    require(saved.dtype.kind == ("f" if rule.continuous else "i"), "`saved` must be layers or times, as the rule has")
    require(np.isfinite(saved).all() and saved[0] >= 0 and (np.diff(saved) > 0).all(), "`saved` must increase")
    require(rule.dimension in (None, tokens.shape[-1]), "`tokens` must have the size of the rule's matrices")
    require(isinstance(stats, dict), "`stats` must be names and values")
