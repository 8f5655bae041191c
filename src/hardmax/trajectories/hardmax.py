"""The result of `simulate` for `Hardmax`: tokens layer by layer, their exact sets, and what follows from them.

Layer k has the tokens Z^k and the sets C_i(Z^k).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike

from hardmax._arrays import like
from hardmax._errors import InputError, ParameterIndexError
from hardmax._types import AnyArray, Array, BoolArray, FloatArray, IntArray
from hardmax.exact.positions import History
from hardmax.rules.base import Rule
from hardmax.rules.hardmax import Hardmax
from hardmax.trajectories.base import Trajectory
from hardmax.trajectories.cloud import Cloud
from hardmax.trajectories.clouds import Clouds
from hardmax.trajectories.margins import margins_of
from hardmax.trajectories.sentences import hardmax_status
from hardmax.trajectories.storage import Arrays, require, rule_to_data, to_json

if TYPE_CHECKING:
    from scipy.sparse import csr_array


@dataclass(frozen=True, eq=False, repr=False)
class HardmaxTrajectory(Trajectory, format="hardmax-trajectory-1"):
    """Tokens through the layers of a hardmax transformer.

    Layer 0 is the input. Beside what every `Trajectory` has:

    Attributes
    ----------
    clouds : sequence of Cloud
        The sets of each cloud by classes of equal tokens; `sets`, `attention` and `leaders` are made of them.

    Examples
    --------
    >>> import hardmax as hm
    >>> trajectory = hm.simulate([[1.0, 1.0], [0.5, -0.5], [-1.0, -1.0], [0.3, 0.2]], hm.Hardmax(0.5), layers=30)
    >>> trajectory
    Ran 30 layers on 4 tokens of dimension 2. 3 leaders, all since layer 0. Every token is decided since layer 0.
    >>> trajectory.leaders
    array([0, 1, 2])
    >>> trajectory.sets(0)[3]
    array([0])
    """

    rule: Hardmax
    clouds: Sequence[Cloud]

    def _cloud(self, b: int) -> Self:
        return replace(self, tokens=self.tokens[:, b], clouds=(self.clouds[b],), batched=False)

    @property
    def keeps_exact_positions(self) -> bool:
        """Whether `exact(k)` can be had: ties decided exactly, and every layer kept."""
        return self.rule.ties == "exact" and len(self.saved) > self.layers

    @property
    def layers(self) -> int:
        """How many layers were run."""
        return int(self.saved[-1])

    @property
    def mask(self) -> BoolArray:
        """True for real tokens, False for padding: (n,) or (batch, n)."""
        if isinstance(self.clouds, Clouds):
            return self.clouds.real
        rows = [cloud.spread(np.zeros(len(cloud.classes), np.intp), self.n) >= 0 for cloud in self.clouds]
        return np.stack(rows) if self.batched else rows[0]

    def _per_token(self, name: Literal["emerged", "settled"]) -> IntArray:
        """What the clouds know of each class, for each token: (n,) or (batch, n), -1 for padding."""
        if isinstance(self.clouds, Clouds):
            return np.asarray(getattr(self.clouds, name))
        rows = [cloud.spread(getattr(cloud, name), self.n) for cloud in self.clouds]
        return np.stack(rows) if self.batched else rows[0]

    def index(self, k: int) -> int:
        layer = k if self.whole(k) >= 0 else self.layers + 1 + k
        found = np.flatnonzero(self.saved == layer)
        if not len(found):
            kept, advice = f"layers 0 to {self.layers}", "Simulate more layers."
            if len(self.saved) <= self.layers:
                kept, advice = f"layer {self.layers} alone", 'Simulate with `save="all"`.'
            raise ParameterIndexError("k", f"be a saved layer: {kept}", k, advice)
        return int(found[0])

    def label(self, at: int) -> str:
        tolerance = "" if self.rule.ties == "exact" else f", ties within {self.rule.ties:g}"
        return f"layer {self.saved[at]}{tolerance}"

    def only_cloud(self, call: str) -> Cloud:
        """The one cloud there is; for a batch an error that shows the `call` to make instead."""
        self.single(call)
        return self.clouds[0]

    def attention(self, k: int = -1, *, sparse: bool = False) -> "Array | csr_array":
        """Row-stochastic matrix of layer k: P_ij = 1/|C_i| for j in C_i, else 0.

        The rows and columns of padding are zero.

        Parameters
        ----------
        k : int
            Layer; negative counts from the last.
        sparse : bool
            Whether to return a sparse matrix, for one cloud.

        Returns
        -------
        (n, n) or (batch, n, n) array, or (n, n) scipy.sparse.csr_array

        Raises
        ------
        ParameterIndexError
            If k was not run or not kept.
        InputError
            If `sparse` is asked of a batch.
        """
        at = self.index(k)
        if sparse:
            return self.only_cloud("trajectory[b].attention(k, sparse=True)").matrix(at, self.n)
        dense = [cloud.matrix(at, self.n).toarray() for cloud in self.clouds]
        return like(np.stack(dense) if self.batched else dense[0], self.tokens)

    def sets(self, k: int = -1) -> list[IntArray]:
        """C_i at layer k for each token i.

        Parameters
        ----------
        k : int
            Layer; negative counts from the last.

        Returns
        -------
        list of (size,) arrays of int
            For each token the sorted indices of those it follows; empty for padding.

        Raises
        ------
        ParameterIndexError
            If k was not run or not kept.
        InputError
            If it is that of a batch: take one cloud of it, `trajectory[b]`.
        """
        matrix = self.only_cloud("trajectory[b].sets(k)").matrix(self.index(k), self.n)
        return [np.asarray(row, np.intp) for row in np.split(matrix.indices, matrix.indptr[1:-1])]

    def followers(self, k: int = -1) -> dict[int, IntArray]:
        """For each token that is followed at layer k, who follows it, itself left out.

        Parameters
        ----------
        k : int
            Layer; negative counts from the last.

        Returns
        -------
        dict of int to (size,) array of int

        Raises
        ------
        ParameterIndexError
            If k was not run or not kept.
        InputError
            If it is that of a batch: take one cloud of it, `trajectory[b]`.
        """
        matrix = self.only_cloud("trajectory[b].followers(k)").matrix(self.index(k), self.n).tocoo()
        by_target: dict[int, list[int]] = {}
        for i, j in zip(matrix.row.tolist(), matrix.col.tolist(), strict=True):
            if i != j:
                by_target.setdefault(j, []).append(i)
        return {j: np.array(sorted(by_target[j])) for j in sorted(by_target)}

    @cached_property
    def emerged(self) -> IntArray:
        """Layer from which each token leads (C_i = {i}, copies of i counted as i), -1 for never: (n,) or (batch, n).

        With exact ties it leads for ever; with a tolerance it may stop, and then has -1 or the layer of a new start.
        """
        return self._per_token("emerged")

    @cached_property
    def decided(self) -> IntArray:
        """Layer from which the limit of each token is proved, -1 for not yet: (n,) or (batch, n)."""
        return self._per_token("settled")

    @cached_property
    def leaders(self) -> Any:  # an array, or a list of arrays
        """Indices of tokens that lead at the last layer, the first of each set of equal tokens; for a batch a list."""
        each = [np.sort(cloud.real[cloud.classes.first[cloud.emerged >= 0]]) for cloud in self.clouds]
        return each if self.batched else each[0]

    def margins(self, k: int = -1, tokens: ArrayLike | None = None) -> FloatArray:
        """How far ahead the chosen tokens are at layer k, in the units of the tokens.

        min over j outside C_i of ⟨A z_i, z_C - z_j⟩ / |A z_i|; infinite where C_i holds every token, NaN for padding.
        Where floats would cancel, exact differences are used, so that a strict choice never shows 0.

        Parameters
        ----------
        k : int
            Layer; negative counts from the last.
        tokens : (m,) array of int, optional
            Of which tokens; all unless said.

        Returns
        -------
        (n,) or (m,) array

        Raises
        ------
        ParameterIndexError
            If k was not run or not kept.
        InputError
            If it is that of a batch: take one cloud of it, `trajectory[b]`.
        """
        cloud, at = self.only_cloud("trajectory[b].margins(k)"), self.index(k)
        Z = self.array[at][cloud.real[cloud.classes.first]].astype(np.float64)  # (m, d)
        history = self.history if self.keeps_exact_positions else None
        wanted = np.arange(self.n) if tokens is None else np.asarray(tokens, np.intp)
        labels = cloud.spread(np.arange(len(cloud.classes)), self.n)[wanted]  # class of each
        rows, places = np.unique(labels[labels >= 0], return_inverse=True)
        margins = np.full(len(wanted), np.nan)
        margins[labels >= 0] = margins_of(Z, cloud.sets[at], rows, self.rule, int(self.saved[at]), history)[places]
        return margins

    def images(self, Z: FloatArray) -> FloatArray:
        """A z for each row, with A scaled by a power of two so that it stays in the range of floats."""
        A = self.rule.metric.A
        return Z if A is None else Z @ A.T

    @cached_property
    def norms(self) -> FloatArray:
        """|z_i|_A = sqrt ⟨A z_i, z_i⟩ at every saved layer; Euclidean where A is not symmetric positive definite."""
        definite = self.rule.positive_definite
        factor = 2.0 ** (self.rule.metric.exponent / 2) if definite else 1.0
        size = np.abs(self.array).max(axis=-1, keepdims=True).astype(np.float64)
        with np.errstate(invalid="ignore", over="ignore"):
            unit = self.array / np.where(size > 0, size, 1)
            squares = ((self.images(unit) if definite else unit) * unit).sum(axis=-1)
            norms = np.sqrt(squares) * factor * size[..., 0]
        return np.where(np.isinf(size[..., 0]), np.inf, norms)

    @cached_property
    def history(self) -> History:
        """Exact positions of the classes at every layer, as they follow from the sets."""
        cloud = self.only_cloud("trajectory[b].exact(k)")
        if not self.keeps_exact_positions:
            raise InputError(
                'Exact positions need every set: simulate with `ties="exact"` and `save="all"`. '
                f"Got `ties={self.rule.ties!r}` and {len(self.saved)} of {self.layers + 1} layers."
            )
        history = History(cloud.classes.rows, cloud.classes.counts, self.rule.step)
        for sets in cloud.sets[:-1]:
            history.record(sets)
        return history

    def exact(self, k: int = -1) -> AnyArray:
        """Tokens of layer k, without any rounding.

        Parameters
        ----------
        k : int
            Layer; negative counts from the last.

        Returns
        -------
        (n, d) array of Fractions

        Raises
        ------
        ParameterIndexError
            If k was not run or not kept.
        InputError
            If it is that of a batch, or not every layer was kept, or ties are not exact.
        """
        cloud, layer = self.only_cloud("trajectory[b].exact(k)"), int(self.saved[self.index(k)])
        exact = np.full(self.array.shape[-2:], None, object)
        exact[cloud.real] = (self.history.fractions(layer) * self.rule.growth(layer))[cloud.classes.labels]
        return exact

    @cached_property
    def status(self) -> str:
        """What happened, as a sentence: layers, leaders and since when, which tokens are decided."""
        return hardmax_status(self)

    def to_json(self) -> str:
        """Status, tokens, leaders, layers of emergence and decision, and sets, as JSON; for a batch of each cloud."""
        head = {"rule": rule_to_data(self.rule), "saved": self.saved, "stats": self.stats, "status": self.status}
        if self.batched:
            return to_json(head | {"clouds": [self[b]._data() for b in range(len(self.clouds))]})
        return to_json(head | self._data())

    def _data(self) -> dict[str, Any]:
        return {
            "status": self.status,
            "leaders": self.leaders,
            "emerged": self.emerged,
            "decided": self.decided,
            "tokens": self.array,
            "sets": [self.sets(int(k)) for k in self.saved],
        }

    def _arrays(self) -> dict[str, AnyArray]:
        arrays = {"clouds": np.array(len(self.clouds))}
        for b, cloud in enumerate(self.clouds):
            arrays |= {f"{b}/{name}": array for name, array in cloud.arrays().items()}
        return arrays

    @classmethod
    def _from_arrays(cls, file: Arrays, rule: Rule, stats: dict[str, Any]) -> Self:
        tokens, saved, batched = file["tokens"], file["saved"], bool(file["batched"])
        batch, clouds = tokens.shape[1] if batched else 1, file["clouds"]
        right = clouds.dtype.kind in "iu" and clouds.shape == () and clouds == batch
        require(right, "`clouds` must be as many as `tokens` has")
        whole = np.array_equal(saved, np.arange(len(saved)))
        require(len(saved) == 1 or whole, "`saved` must be all layers, or the last")
        if not isinstance(rule, Hardmax):
            raise InputError("`rule` must be Hardmax")
        found = tuple(Cloud.from_arrays(file, f"{b}/", tokens.shape[-2:], saved) for b in range(batch))
        return cls(tokens, rule, saved, batched, stats, found)
