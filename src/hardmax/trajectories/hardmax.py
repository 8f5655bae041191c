"""The result of `simulate` for `Hardmax`: tokens Z^k of layers k, their exact sets
C_i(Z^k), leaders and margins.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from operator import sub
from typing import Any, Literal, Self

import numpy as np
import scipy  # whose parts load when they are used
from numpy.typing import ArrayLike

from hardmax._arrays import unit_rows
from hardmax._display import count
from hardmax._errors import InputError, ParameterIndexError
from hardmax._exact import apply, as_floats
from hardmax._types import AnyArray, Array, BoolArray, FloatArray, IntArray
from hardmax._validation import like
from hardmax.exact.arithmetic import History
from hardmax.rules.base import Rule
from hardmax.rules.hardmax import Hardmax, attention_over_tokens
from hardmax.search.sets import Classes, Sets
from hardmax.trajectories import storage
from hardmax.trajectories.base import LazySequence, Trajectory
from hardmax.trajectories.storage import Arrays, check_array, check_indices, require

EXACT_BELOW = 1e-9  # relative gaps below this are computed from exact differences
MAX_PRODUCTS = 1 << 22  # in memory at a time


@dataclass(frozen=True, eq=False)
class TokenSet:
    """Argmax sets and leaders of one token set, by classes of equal tokens."""

    classes: Classes
    sets: tuple[Sets, ...]  # one for each saved layer
    emerged: IntArray  # (m,) layer from which a class leads, or -1
    settled: IntArray  # (m,) layer from which it is decided, or -1
    real: IntArray  # (n - padding,) positions of the real tokens in the input

    def to_tokens(self, values: IntArray, n: int) -> IntArray:
        """Return one value per token from one value per class, -1 for padding."""
        full = np.full(n, -1)
        full[self.real] = values[self.classes.labels]
        return full

    def matrix(self, index: int, n: int) -> "scipy.sparse.csr_array":
        """Return attention over tokens at one saved layer: (n, n), uniform on C_i."""
        return attention_over_tokens(self.sets[index], self.classes, self.real, n)

    def arrays(self) -> dict[str, AnyArray]:
        arrays = {
            name: getattr(self.classes, name) for name in ("rows", "labels", "first")
        }
        if arrays["rows"].dtype == object:
            arrays["rows"] = arrays["rows"].astype(str)  # Fractions
        arrays |= {name: getattr(self, name) for name in ("emerged", "settled", "real")}
        arrays["sizes"] = np.stack([sets.sizes for sets in self.sets])
        return arrays | {
            "members": np.concatenate([sets.members for sets in self.sets])
        }

    @classmethod
    def from_arrays(cls, file: Arrays, n: int, d: int, saved: IntArray) -> "TokenSet":
        """Return the set of n tokens of dimension d of these arrays; as they are
        indices, none is used unchecked.
        """
        rows, labels, sizes, members = (
            file[name] for name in ("rows", "labels", "sizes", "members")
        )
        check_array(file, "rows", "fU", (None, d))
        require(
            len(rows) > 0 and (rows.dtype.kind == "U" or np.isfinite(rows).all()),
            "`rows` must be finite tokens",
        )
        m = len(rows)
        for name, length, least, most in (
            ("real", len(labels), 0, n - 1),
            ("labels", len(labels), 0, m - 1),
            ("first", m, 0, len(labels) - 1),
            ("emerged", m, -1, saved[-1]),
            ("settled", m, -1, saved[-1]),
            ("members", len(members), 0, m - 1),
        ):
            check_indices(file, name, (length,), least, most)
        check_indices(file, "sizes", (len(saved), m), 1, m)
        require((np.diff(file["real"]) > 0).all(), "`real` must increase")
        require(
            np.array_equal(labels[file["first"]], np.arange(m)),
            "`first` must be a token of each class",
        )
        require(
            sizes.sum() == len(members),
            "`members` must be as many as the sum of `sizes`",
        )
        starts = np.cumsum(sizes)[
            :-1
        ]  # the first member of every set but the first: there the next may be smaller
        require(
            (np.delete(np.diff(members), starts - 1) > 0).all(),
            "`members` of a set must increase",
        )
        if rows.dtype.kind == "U":
            rows = np.vectorize(storage.to_fraction, otypes=[object])(rows)
        classes = Classes(rows, labels, file["first"], np.bincount(labels))
        parts = zip(
            sizes, np.split(members, np.cumsum(sizes.sum(axis=1))[:-1]), strict=True
        )
        sets = tuple(
            Sets(np.r_[0, np.cumsum(own)].astype(np.intp), part) for own, part in parts
        )
        return cls(classes, sets, file["emerged"], file["settled"], file["real"])


@dataclass(frozen=True, eq=False)
class TokenSets(LazySequence[TokenSet]):
    """The token sets of a batch: those of one pass, as arrays over all tokens, and
    those that were run alone.
    """

    tokens: AnyArray  # (batch, n, d)
    real: BoolArray  # (batch, n)
    follows: list[IntArray]  # (batch, n) for each saved layer
    emerged: IntArray  # (batch, n) layer from which a token leads, or -1
    settled: IntArray  # (batch, n) layer from which it is decided, or -1
    causal: bool
    _made: dict[int, TokenSet]

    def __len__(self) -> int:
        return len(self.real)

    def _make(self, b: int) -> TokenSet:
        real = np.flatnonzero(self.real[b])
        tokens = self.tokens[b, real]
        classes = Classes.singly(tokens) if self.causal else Classes.of(tokens)
        first = real[
            classes.first
        ]  # a token of each class, and in this pass the only one
        label = np.empty(self.real.shape[1], np.intp)
        label[real] = classes.labels
        starts = np.arange(len(first) + 1)
        sets = tuple(Sets(starts, label[follows[b, first]]) for follows in self.follows)
        return TokenSet(
            classes, sets, self.emerged[b, first], self.settled[b, first], real
        )


@dataclass(frozen=True, eq=False, repr=False)
class HardmaxTrajectory(Trajectory):
    """Tokens through the layers of a hardmax transformer.

    Layer 0 is the input. Methods take a layer `k`, where a negative number counts from
    the last, and raise `ParameterIndexError` if it was not run or not kept. Those of
    one token set raise `InputError` for a batch: use `trajectory[b]`. Beside what every
    `Trajectory` has:

    Attributes
    ----------
    token_sets : sequence of TokenSet
        Argmax sets and leaders of each token set, by classes of equal tokens; `sets`,
        `attention` and `leaders` are computed from them.

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

    _format = "hardmax-trajectory-1"
    rule: Hardmax
    token_sets: Sequence[TokenSet]

    def _item(self, b: int) -> Self:
        return replace(
            self,
            tokens=self.tokens[:, b],
            token_sets=(self.token_sets[b],),
            batched=False,
        )

    @property
    def keeps_exact_positions(self) -> bool:
        """Whether `exact(k)` is available: every layer was kept."""
        return len(self.saved) > self.layers

    @property
    def layers(self) -> int:
        """The number of layers that were run."""
        return int(self.saved[-1])

    @property
    def mask(self) -> BoolArray:
        """True for real tokens, False for padding: (n,) or (batch, n)."""
        if isinstance(self.token_sets, TokenSets):
            return self.token_sets.real
        return self._stack(
            [np.isin(np.arange(self.n), own.real) for own in self.token_sets]
        )

    def _per_token(self, name: Literal["emerged", "settled"]) -> IntArray:
        """Return a value of each class for each token: (n,) or (batch, n), -1 for
        padding.
        """
        if isinstance(self.token_sets, TokenSets):
            return np.asarray(getattr(self.token_sets, name))
        return self._stack(
            [own.to_tokens(getattr(own, name), self.n) for own in self.token_sets]
        )

    def _stack(self, rows: list[AnyArray]) -> AnyArray:
        return np.stack(rows) if self.batched else rows[0]

    def index(self, k: int) -> int:
        layer = k if self.check_index(k) >= 0 else self.layers + 1 + k
        found = np.flatnonzero(self.saved == layer)
        if not len(found):
            kept, advice = f"layers 0 to {self.layers}", "Simulate more layers."
            if len(self.saved) <= self.layers:
                kept, advice = (
                    f"layer {self.layers} alone",
                    'Simulate with `save="all"`.',
                )
            raise ParameterIndexError("k", f"be a saved layer: {kept}", k, advice)
        return int(found[0])

    def only_token_set(self, call: str) -> TokenSet:
        """Return the token set; raise an error for a batch, with the `call` to use
        instead.
        """
        self.refuse_batch(call)
        return self.token_sets[0]

    def attention(
        self, k: int = -1, *, sparse: bool = False
    ) -> "Array | scipy.sparse.csr_array":
        """Return the row-stochastic matrix of layer k: P_ij = 1/|C_i| for j in C_i,
        else 0.

        The rows and columns of padding are zero. It is an (n, n) or (batch, n, n)
        array; with `sparse=True`, for one token set, a scipy.sparse.csr_array.
        """
        at = self.index(k)
        if sparse:
            return self.only_token_set(
                "trajectory[b].attention(k, sparse=True)"
            ).matrix(at, self.n)
        return like(
            self._stack([own.matrix(at, self.n).toarray() for own in self.token_sets]),
            self.tokens,
        )

    def sets(self, k: int = -1) -> list[IntArray]:
        """Return C_i at layer k for each token i of one token set: sorted indices, and
        none for padding.
        """
        matrix = self.only_token_set("trajectory[b].sets(k)").matrix(
            self.index(k), self.n
        )
        return [
            np.asarray(row, np.intp)
            for row in np.split(matrix.indices, matrix.indptr[1:-1])
        ]

    def followers(self, k: int = -1) -> dict[int, IntArray]:
        """Return the followers of each token of one token set at layer k, itself left
        out, for tokens that have some.

        Keys are tokens, and values are sorted indices.
        """
        matrix = (
            self.only_token_set("trajectory[b].followers(k)")
            .matrix(self.index(k), self.n)
            .tocsc()
        )
        columns = [
            np.asarray(rows, np.intp)
            for rows in np.split(matrix.indices, matrix.indptr[1:-1])
        ]
        return {
            j: others
            for j, rows in enumerate(columns)
            if len(others := np.sort(rows[rows != j]))
        }

    @cached_property
    def emerged(self) -> IntArray:
        """Layer from which each token leads (C_i = {i}, copies of i counted as i), -1
        for never: (n,) or (batch, n).

        From then on it leads for ever.
        """
        return self._per_token("emerged")

    @cached_property
    def decided(self) -> IntArray:
        """Layer from which the limit of each token is proved, -1 for not yet: (n,) or
        (batch, n).
        """
        return self._per_token("settled")

    @cached_property
    def leaders(self) -> Any:  # an array, or a list of arrays
        """Indices of tokens that lead at the last layer, the first of each set of equal
        tokens; for a batch a list.
        """
        each = [
            np.sort(own.real[own.classes.first[own.emerged >= 0]])
            for own in self.token_sets
        ]
        return each if self.batched else each[0]

    def margins(self, k: int = -1, tokens: ArrayLike | None = None) -> FloatArray:
        """Return by how much the chosen tokens of one token set are ahead at layer k,
        in the units of the tokens.

        min over j outside C_i of ⟨A z_i, z_C - z_j⟩ / |A z_i|; infinite where C_i holds
        every token, NaN for padding. Where floats would cancel, exact differences are
        used, so that a strict choice never shows 0.

        The result has shape (n,), or (m,) for the m indices in `tokens`.
        """
        own, at = self.only_token_set("trajectory[b].margins(k)"), self.index(k)
        Z = self.array[at][own.real[own.classes.first]].astype(np.float64)  # (m, d)
        wanted = np.arange(self.n) if tokens is None else np.asarray(tokens, np.intp)
        labels = own.to_tokens(np.arange(len(own.classes)), self.n)[
            wanted
        ]  # class of each
        rows, places = np.unique(labels[labels >= 0], return_inverse=True)
        margins = np.full(len(wanted), np.nan)
        size, step = np.abs(Z).max() or 1.0, max(1, MAX_PRODUCTS // len(Z))
        if not np.isfinite(size):  # tokens left the range of floats
            return margins
        parts = [
            _float_gaps(Z / size, own.sets[at], rows[p : p + step], self.rule)
            for p in range(0, len(rows), step)
        ]
        gaps = np.maximum(np.concatenate([np.empty(0), *parts]), 0) * size
        close, layer = np.flatnonzero(gaps < EXACT_BELOW * size), int(self.saved[at])
        if len(close) and self.keeps_exact_positions:
            exact = _exact_gaps(
                rows[close], own.sets[at], self.rule, layer, self.history
            )
            gaps[close] = self.rule.grow(exact, layer)
        margins[labels >= 0] = gaps[places]
        return margins

    @cached_property
    def norms(self) -> FloatArray:
        """|z_i|_A = sqrt ⟨A z_i, z_i⟩ at every saved layer; Euclidean where A is not
        symmetric positive definite.
        """
        definite = self.rule.positive_definite
        factor = 2.0 ** (self.rule.metric.exponent / 2) if definite else 1.0
        size = np.abs(self.array).max(axis=-1, keepdims=True).astype(np.float64)
        with np.errstate(invalid="ignore", over="ignore"):
            unit = self.array / np.where(size > 0, size, 1)
            squares = ((self.rule.images(unit) if definite else unit) * unit).sum(
                axis=-1
            )
            norms = np.sqrt(squares) * factor * size[..., 0]
        return np.where(np.isinf(size[..., 0]), np.inf, norms)

    @cached_property
    def history(self) -> History:
        """Exact positions of the classes at every layer, as they follow from the sets."""
        own = self.only_token_set("trajectory[b].exact(k)")
        if not self.keeps_exact_positions:
            raise InputError(
                'Exact positions need every set: simulate with `save="all"`. '
                f"Got {len(self.saved)} of {self.layers + 1} layers."
            )
        history = History(own.classes.rows, own.classes.counts, self.rule.step)
        for sets in own.sets[:-1]:
            history.record(sets)
        return history

    def exact(self, k: int = -1) -> AnyArray:
        """Return the tokens of one token set at layer k as an (n, d) array of
        Fractions, without any rounding.

        An `InputError` if not every layer was kept.
        """
        own, layer = (
            self.only_token_set("trajectory[b].exact(k)"),
            int(self.saved[self.index(k)]),
        )
        exact = np.full(self.array.shape[-2:], None, object)
        exact[own.real] = (self.history.fractions(layer) * self.rule.growth(layer))[
            own.classes.labels
        ]
        return exact

    @cached_property
    def status(self) -> str:
        """State layers, leaders and since when, and which tokens are decided, in
        sentences.
        """
        known, lost = self._describe_decided(), self._first_lost(self.array)
        if not self.batched:
            known = f"{leaders_since(self.emerged[self.leaders])} {known}"
        if lost is not None:
            known += (
                f" Without normalisation tokens leave the range of {self.array.dtype}"
                f" from layer {self.saved[lost]} on."
            )
        return f"Ran {count(self.layers, 'layer')} on {self._describe_size()} {known}"

    def _describe_decided(self) -> str:
        if self.batched:
            done = ((self.decided >= 0) | ~self.mask).all(axis=1)
            return f"Every token is decided in {int(done.sum())} of them."
        settled = self.decided[self.mask]
        if (settled >= 0).all():
            return f"Every token is decided since layer {settled.max()}."
        return f"{(settled >= 0).sum()} of {len(settled)} tokens are decided."

    def _data(self) -> dict[str, Any]:
        if self.batched:
            return {
                "token_sets": [self[b]._data() for b in range(len(self.token_sets))]
            }
        data = {
            name: getattr(self, name)
            for name in ("status", "leaders", "emerged", "decided")
        }
        return data | {
            "tokens": self.array,
            "sets": [self.sets(int(k)) for k in self.saved],
        }

    def _arrays(self) -> dict[str, AnyArray]:
        arrays = {"token_sets": np.array(len(self.token_sets))}
        for b, own in enumerate(self.token_sets):
            arrays |= {f"{b}/{name}": array for name, array in own.arrays().items()}
        return arrays

    @classmethod
    def _from_arrays(cls, file: Arrays, rule: Rule, stats: dict[str, Any]) -> Self:
        tokens, saved, batched = file["tokens"], file["saved"], bool(file["batched"])
        number = tokens.shape[1] if batched else 1
        check_indices(file, "token_sets", (), number, number)
        every = np.array_equal(saved, np.arange(len(saved)))
        require(len(saved) == 1 or every, "`saved` must be all layers, or the last")
        if not isinstance(rule, Hardmax):
            raise InputError("`rule` must be Hardmax")
        parts: list[dict[str, AnyArray]] = [{} for _ in range(number)]
        for name, array in file.items():
            b, _, rest = name.partition("/")
            if rest:
                parts[int(b)][rest] = array
        found = tuple(
            TokenSet.from_arrays(part, tokens.shape[-2], tokens.shape[-1], saved)
            for part in parts
        )
        return cls(tokens, rule, saved, batched, stats, found)


def leaders_since(emerged: IntArray) -> str:
    """State how many leaders there are, and since which layer."""
    if len(emerged) < 2:
        return f"1 leader, since layer {emerged[0]}." if len(emerged) else "No leader."
    last = emerged.max()
    return f"{len(emerged)} leaders" + (
        f"; the last one appeared at layer {last}." if last else ", all since layer 0."
    )


def _float_gaps(
    unit: FloatArray, sets: Sets, rows: IntArray, rule: Hardmax
) -> FloatArray:
    """Return the margins of a few rows in floats, from all their products."""
    own, some = sets.take(rows), np.arange(len(rows))
    products = unit_rows(rule.images(unit[rows])) @ unit.T  # (rows, m)
    if rule.causal:
        products[rows[:, None] < np.arange(len(unit))] = -np.inf
    best = products[some, own.targets]
    products[np.repeat(some, own.sizes), own.members] = -np.inf
    return np.asarray(best - products.max(axis=1))


def _exact_gaps(
    rows: IntArray, sets: Sets, rule: Hardmax, layer: int, history: History
) -> FloatArray:
    """Return ⟨A z_i, z_C - z_j⟩ / |A z_i| with exact differences rounded last; rows
    with one target share them.
    """
    positions, D = history.at(layer, range(len(sets))), history.denominator(layer)
    gaps = np.empty(len(rows))
    for target in np.unique(sets.targets[rows]):
        differences = [tuple(map(sub, positions[target], x)) for x in positions]
        spread = max(max(map(abs, x)) for x in differences) or 1
        steps = as_floats(differences, spread)  # (m, d), at most 1
        for p in np.flatnonzero(sets.targets[rows] == target):
            direction = apply(rule.metric.rows, positions[rows[p]])
            leads = (
                steps
                @ unit_rows(as_floats([direction], max(map(abs, direction)) or 1))[0]
            )
            leads[sets[rows[p]]] = np.inf
            if rule.causal:
                leads[rows[p] + 1 :] = np.inf
            gaps[p] = max(leads.min(), 0.0) * (spread / D)
    return gaps
