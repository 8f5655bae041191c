"""The base class of the trajectories of all rules."""

import json
import operator
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from numbers import Integral
from os import PathLike
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

import numpy as np

from hardmax._display import count, draw
from hardmax._errors import InputError, ParameterTypeError
from hardmax._types import AnyArray, Array, BoolArray
from hardmax._validation import shortened, to_numpy
from hardmax.rules.base import Rule
from hardmax.trajectories import storage
from hardmax.trajectories.storage import Arrays, require

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Result = TypeVar("Result")


class LazySequence(Sequence[Result]):
    """A sequence whose items `_make` creates at the first access; `_made` holds those
    that exist already.
    """

    _made: dict[int, Result]

    @abstractmethod
    def _make(self, b: int) -> Result:
        """Create item b."""

    def __getitem__(self, b: Any) -> Any:  # an item, or a list of them for a slice
        if isinstance(b, slice):
            return [self[each] for each in range(len(self))[b]]
        b = range(len(self))[
            b
        ]  # negative indices count from the end, indices out of range raise IndexError
        if b not in self._made:
            self._made[b] = self._make(b)
        return self._made[b]


@dataclass(frozen=True, eq=False, repr=False)
class Trajectory(ABC):
    """Positions of tokens under a rule at layers or times, as `simulate` returns them.

    A `HardmaxTrajectory` for `Hardmax`, with exact sets; a `SmoothTrajectory` for every
    other rule. A trajectory of a batch has one more axis after the layers, and
    `trajectory[b]` is the trajectory of one token set. Padding keeps its input values,
    attends to nothing and is never attended to.

    Attributes
    ----------
    tokens : (saved, n, d) or (saved, batch, n, d) array
        Positions at each saved layer or time. A torch tensor if the input was one.
    rule : Rule
        The rule that moved them.
    saved : (saved,) array
        The layers, or the times, of `tokens`.
    batched : bool
        Whether `tokens` has an axis for the batch.
    stats : dict
        Method or kernel, dtype, number of layers, steps, evaluations or queries.

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
    rule: Any  # each kind of trajectory has its own type
    saved: AnyArray
    batched: bool
    stats: dict[str, Any]
    _format: ClassVar[str]  # of its files

    def __repr__(self) -> str:
        return self.status

    def _repr_html_(self) -> str:
        return str(draw("trajectory_card", self))

    def plot(self, k: int | None = None, **options: Any) -> "Figure":
        """Draw some layers or times side by side, or layer (or saved time) k alone;
        return the Matplotlib figure.

        `options` are those of `hardmax.draw.plot_layers`, or with k of
        `hardmax.draw.plot_tokens`. An `InputError` for a batch: plot one token set,
        `trajectory[b]`.
        """
        return draw("trajectory_figure", self, k, **options)

    def __getitem__(self, b: int) -> Self:
        if not self.batched:
            advice = "Index `trajectory.tokens` instead."
            raise ParameterTypeError(
                "trajectory",
                "be that of a batch to have items",
                "one token set",
                advice,
            )
        return self._item(operator.index(b))

    @abstractmethod
    def _item(self, b: int) -> Self:
        """Return the trajectory of one token set of a batch."""

    @cached_property
    def array(self) -> AnyArray:
        """`tokens` as a NumPy array."""
        return np.asarray(to_numpy(self.tokens))

    @property
    def drawn(self) -> AnyArray:
        """The coordinates that figures show: the tokens themselves, unless a rule has
        better ones.
        """
        return self.array

    @property
    def n(self) -> int:
        """Number of tokens of a token set, padding included."""
        return self.array.shape[-2]

    @property
    @abstractmethod
    def mask(self) -> BoolArray:
        """True for real tokens: (n,) or (batch, n)."""

    @staticmethod
    def check_index(k: object) -> int:
        """Return k as an int; refuse other types."""
        if isinstance(k, bool | np.timedelta64) or not isinstance(k, Integral):
            advice = (
                "`saved` has the layers or times; for several panels use"
                " plot(layers=[...])."
            )
            raise ParameterTypeError(
                "k",
                "be an integer, a layer or the index of a saved time",
                shortened(k),
                advice,
            )
        return int(k)

    @abstractmethod
    def index(self, k: int) -> int:
        """Return the position in `tokens` of layer (or saved time) k; negative counts
        from the last.
        """

    def label(self, at: int) -> str:
        """Return the name of a position in `tokens`: "layer 3" or "t = 1.5"."""
        return (
            f"t = {self.saved[at]:.3g}"
            if self.rule.continuous
            else f"layer {self.saved[at]}"
        )

    @abstractmethod
    def attention(self, k: int = -1) -> Array:
        """Return the row-stochastic matrix of layer (or saved time) k; negative counts
        from the last.

        Its shape is (n, n) or (batch, n, n), with several heads (..., heads, n, n).
        """

    @property
    @abstractmethod
    def leaders(self) -> Any:
        """Indices of tokens that lead; for a batch a list."""

    @property
    @abstractmethod
    def status(self) -> str:
        """What happened, as a sentence."""

    def refuse_batch(self, call: str) -> None:
        """Raise an error for a batch, with the `call` to use instead."""
        if self.batched:
            raise InputError(
                "The trajectory must be that of one token set. Got a batch. Use"
                f" {call}."
            )

    def _describe_size(self) -> str:
        sets = f"{count(len(self.mask), 'token set')} of up to " if self.batched else ""
        n = self.n if self.batched else int(self.mask.sum())
        return f"{sets}{count(n, 'token')} of dimension {self.array.shape[-1]}."

    def _first_lost(self, array: AnyArray) -> int | None:
        """Return the first position with a real token that is not finite."""
        finite = np.isfinite(array[..., self.mask, :]).all(axis=(-1, -2))
        return None if finite.all() else int(np.argmin(finite))

    def to_json(self) -> str:
        """Return status, rule, saved layers or times, stats, tokens and leaders as
        JSON.

        Of `Hardmax` also layers of emergence and decision and the sets, for a batch in
        `token_sets`; of other rules also clusters and rescaled tokens.
        """
        head = {
            "status": self.status,
            "rule": storage.rule_to_data(self.rule),
            "saved": self.saved,
        }
        return storage.to_json(
            self._format, head | {"stats": self.stats} | self._data()
        )

    @abstractmethod
    def _data(self) -> dict[str, Any]:
        """Return the other entries of `to_json`."""

    def to_npz(self, path: str | PathLike[str]) -> None:
        """Write everything to a NumPy archive at `path`, which `from_npz` reads; an
        error leaves no partial file.

        A rule of your own, and one with a Python function for a matrix, is stored by
        its `repr` alone: `from_npz` then needs the rule.
        """
        texts = {
            "stats": json.dumps(self.stats),
            "rule": json.dumps(storage.rule_to_data(self.rule)),
        }
        shared = {
            "format": self._format,
            "tokens": self.array,
            "saved": self.saved,
            "batched": self.batched,
        }
        storage.write_archive(path, texts | shared | self._arrays())

    def to_csv(self, path: str | PathLike[str]) -> None:
        """Write a table for spreadsheets to `path`, a row for each token at each layer
        or time.

        It holds the tokens alone; `to_npz` stores everything.
        """
        when = "time" if self.rule.continuous else "layer"
        axes = [when, "set", "token"] if self.batched else [when, "token"]
        columns = dict(
            zip(axes, map(np.ravel, np.indices(self.array.shape[:-1])), strict=True)
        )
        columns |= {when: self.saved[columns[when]]} | storage.coordinate_columns(
            self.array
        )
        storage.write_rows(path, columns)

    @abstractmethod
    def _arrays(self) -> dict[str, AnyArray]:
        """Return the other arrays of a file."""

    @classmethod
    def from_npz(
        cls, path: str | PathLike[str], *, rule: Rule | None = None
    ) -> "Trajectory":
        """Read an archive of `to_npz`: a trajectory of the kind that was written. Runs
        no code from the file.

        Pass `rule`, that of the run, if it is one of your own or has a Python function
        for a matrix. Others are stored.
        """
        kinds = {
            kind._format: partial(kind._read, rule)
            for kind in Trajectory.__subclasses__()
        }
        return storage.read_archive(path, "be a trajectory saved with to_npz", kinds)

    @classmethod
    def _read(cls, given: Rule | None, file: Arrays) -> "Trajectory":
        """Return the trajectory of a file, unless its tokens, layers or times cannot be
        those of a run of its rule.
        """
        rule, stats = (
            storage.restore_rule(json.loads(str(file["rule"])), given),
            json.loads(str(file["stats"])),
        )
        tokens, saved, batched = file["tokens"], file["saved"], file["batched"]
        require(
            batched.shape == () and batched.dtype.kind == "b",
            "`batched` must be true or false",
        )
        right = (
            tokens.dtype.kind == "f"
            and tokens.ndim == 3 + bool(batched)
            and tokens.size > 0
        )
        require(right, "`tokens` must be numbers")
        require(
            saved.shape == tokens.shape[:1],
            "`saved` must name a layer or time for each of `tokens`",
        )
        require(
            saved.dtype.kind == ("f" if rule.continuous else "i"),
            "`saved` must be layers or times, as the rule has",
        )
        require(
            np.isfinite(saved).all() and saved[0] >= 0 and (np.diff(saved) > 0).all(),
            "`saved` must increase",
        )
        require(
            rule.dimension in (None, tokens.shape[-1]),
            "`tokens` must have the size of the rule's matrices",
        )
        require(isinstance(stats, dict), "`stats` must be a dictionary")
        return cls._from_arrays(file, rule, stats)

    @classmethod
    @abstractmethod
    def _from_arrays(cls, file: Arrays, rule: Rule, stats: dict[str, Any]) -> Self:
        """Return the trajectory of the arrays of a file, each of which is checked."""
