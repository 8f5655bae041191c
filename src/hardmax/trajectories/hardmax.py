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
from hardmax.layer import ExactPositions, Layer
from hardmax.rules.base import Rule
from hardmax.rules.hardmax import Hardmax, attention_over_tokens
from hardmax.run import Proof, Record, Run, find_leaders
from hardmax.sets import Classes, Sets
from hardmax.trajectories import storage
from hardmax.trajectories.base import Trajectory
from hardmax.trajectories.limit import Limit, check_normalized, leaders_since
from hardmax.trajectories.storage import Arrays, check_array, check_indices, require

EXACT_BELOW = 1e-9  # relative gaps below this are computed from exact differences
MAX_PRODUCTS = 1 << 22  # in memory at a time
MAX_LAYERS = 1000  # of `limit`, as in `hardmax.limit`


@dataclass(frozen=True, eq=False, repr=False)
class HardmaxTrajectory(Trajectory):
    """Tokens through the layers of a hardmax transformer.

    Layer 0 is the input. Methods take a layer `k`, where a negative number counts from
    the last, and raise `ParameterIndexError` if it was not run or not kept. Those of
    one token set raise `InputError` for a batch: use `trajectory[b]`. Beside what every
    `Trajectory` has:

    Attributes
    ----------
    records : sequence of Record
        What the run has found about each token set, by classes of equal tokens; `sets`,
        `attention` and `leaders` are computed from it.

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

    _format = "hardmax-trajectory-2"
    rule: Hardmax
    records: Sequence[Record]

    def _item(self, b: int) -> Self:
        return replace(
            self,
            tokens=self.tokens[:, b],
            records=(self.records[b],),
            batched=False,
        )

    @property
    def layers(self) -> int:
        """The number of layers that were run."""
        return int(self.saved[-1])

    @property
    def mask(self) -> BoolArray:
        """True for real tokens, False for padding: (n,) or (batch, n)."""
        places = np.arange(self.n)
        return self._stack([np.isin(places, record.real) for record in self.records])

    def _per_token(self, name: Literal["emerged", "settled"]) -> IntArray:
        """Return a value of each class for each token: (n,) or (batch, n), -1 for
        padding.
        """
        return self._stack(
            [self.spread(getattr(record, name), record) for record in self.records]
        )

    def spread(self, values: IntArray, record: Record | None = None) -> IntArray:
        """Return one value per token from one value per class, -1 for padding."""
        record = record or self.records[0]
        full = np.full(self.n, -1)
        full[record.real] = values[record.classes.labels]
        return full

    def _matrix(self, record: Record, at: int) -> "scipy.sparse.csr_array":
        """Return attention over tokens at one saved layer: (n, n), uniform on C_i."""
        sets = record.sets(int(self.saved[at]))
        return attention_over_tokens(sets, record.classes, record.real, self.n)

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

    def only_record(self, call: str) -> Record:
        """Return the record of the token set; raise an error for a batch, with the
        `call` to use instead.
        """
        self.refuse_batch(call)
        return self.records[0]

    @cached_property
    def _limit(self) -> Limit:
        record = self.only_record("trajectory[b].limit()")
        tokens = record.classes.rows[record.classes.labels]
        run = Run(self.rule, tokens, known=record)
        run.find_limits(MAX_LAYERS)
        return Limit(run.records()[0], self.tokens)

    def limit(self) -> Limit:
        """Return the limit of the input as `hm.limit` does, from the layers that have
        run; only later layers are searched.
        """
        check_normalized(self.rule)
        return self._limit

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
            record = self.only_record("trajectory[b].attention(k, sparse=True)")
            return self._matrix(record, at)
        dense = [self._matrix(record, at).toarray() for record in self.records]
        return like(self._stack(dense), self.tokens)

    def sets(self, k: int = -1) -> list[IntArray]:
        """Return C_i at layer k for each token i of one token set: sorted indices, and
        none for padding.
        """
        record = self.only_record("trajectory[b].sets(k)")
        matrix = self._matrix(record, self.index(k))
        return [
            np.asarray(row, np.intp)
            for row in np.split(matrix.indices, matrix.indptr[1:-1])
        ]

    def followers(self, k: int = -1) -> dict[int, IntArray]:
        """Return the followers of each token of one token set at layer k, itself left
        out, for tokens that have some.

        Keys are tokens, and values are sorted indices.
        """
        record = self.only_record("trajectory[b].followers(k)")
        matrix = self._matrix(record, self.index(k)).tocsc()
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
            np.sort(record.real[record.classes.first[record.emerged >= 0]])
            for record in self.records
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
        record = self.only_record("trajectory[b].margins(k)")
        at = self.index(k)
        layer = int(self.saved[at])
        sets = record.sets(layer)
        first = record.real[record.classes.first]
        Z = self.array[at][first].astype(np.float64)  # (m, d)
        wanted = np.arange(self.n) if tokens is None else np.asarray(tokens, np.intp)
        classes = np.arange(len(record.classes))
        labels = self.spread(classes)[wanted]  # class of each
        rows, places = np.unique(labels[labels >= 0], return_inverse=True)
        margins = np.full(len(wanted), np.nan)
        size, step = np.abs(Z).max() or 1.0, max(1, MAX_PRODUCTS // len(Z))
        if not np.isfinite(size):  # tokens left the range of floats
            return margins
        parts = [
            _float_gaps(Z / size, sets, rows[p : p + step], self.rule)
            for p in range(0, len(rows), step)
        ]
        gaps = np.maximum(np.concatenate([np.empty(0), *parts]), 0) * size
        close = np.flatnonzero(gaps < EXACT_BELOW * size)
        if len(close):
            exact = _exact_gaps(rows[close], sets, self.rule, layer, record.exact)
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

    def exact(self, k: int = -1) -> AnyArray:
        """Return the tokens of one token set at layer k as an (n, d) array of
        Fractions, without any rounding.
        """
        record = self.only_record("trajectory[b].exact(k)")
        layer = int(self.saved[self.index(k)])
        exact = np.full(self.array.shape[-2:], None, object)
        rows = record.exact.fractions(layer) * self.rule.growth(layer)
        exact[record.real] = rows[record.classes.labels]
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
            return {"token_sets": [self[b]._data() for b in range(len(self.records))]}
        data = {
            name: getattr(self, name)
            for name in ("status", "leaders", "emerged", "decided")
        }
        return data | {
            "tokens": self.array,
            "sets": [self.sets(int(k)) for k in self.saved],
        }

    def _arrays(self) -> dict[str, AnyArray]:
        arrays = {"token_sets": np.array(len(self.records))}
        for b, record in enumerate(self.records):
            for name, array in _record_to_arrays(record).items():
                arrays[f"{b}/{name}"] = array
        return arrays

    @classmethod
    def _from_arrays(cls, file: Arrays, rule: Rule, stats: dict[str, Any]) -> Self:
        tokens = file["tokens"]
        saved = file["saved"]
        batched = bool(file["batched"])
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
        n, d = tokens.shape[-2:]
        records = [
            _record_from_arrays(part, rule, n, d, int(saved[-1]), stats)
            for part in parts
        ]
        return cls(tokens, rule, saved, batched, stats, tuple(records))


CLASS_ARRAYS = ("rows", "labels")
STATE_ARRAYS = ("emerged", "settled", "proof", "real")


def _record_to_arrays(record: Record) -> dict[str, AnyArray]:
    """Return the arrays of a file: searched rows, sizes and members of all layers, one
    after another.
    """
    arrays = {name: getattr(record.classes, name) for name in CLASS_ARRAYS}
    if arrays["rows"].dtype == object:
        arrays["rows"] = arrays["rows"].astype(str)  # Fractions
    arrays |= {name: getattr(record, name) for name in STATE_ARRAYS}
    layers = record.layers
    arrays["searched"] = np.array([len(layer.rows) for layer in layers])
    arrays["searched_rows"] = np.concatenate([layer.rows for layer in layers])
    arrays["sizes"] = np.concatenate([layer.sets.sizes for layer in layers])
    arrays["members"] = np.concatenate([layer.sets.members for layer in layers])
    return arrays


def _record_from_arrays(
    file: Arrays, rule: Hardmax, n: int, d: int, end: int, stats: dict[str, Any]
) -> Record:
    """Return the record of n tokens of dimension d of these arrays; as they are
    indices, none is used unchecked.
    """
    rows = file["rows"]
    labels = file["labels"]
    sizes = file["sizes"]
    members = file["members"]
    searched = file["searched"]
    check_array(file, "rows", "fU", (None, d))
    is_finite = rows.dtype.kind == "U" or np.isfinite(rows).all()
    require(len(rows) > 0 and is_finite, "`rows` must be finite tokens")
    m = len(rows)
    total = len(file["searched_rows"])
    check_indices(file, "real", (len(labels),), 0, n - 1)
    check_indices(file, "labels", (len(labels),), 0, m - 1)
    check_indices(file, "emerged", (m,), -1, end)
    check_indices(file, "settled", (m,), -1, end)
    check_indices(file, "proof", (m,), 0, Proof.SEEN_LEADERS)
    check_indices(file, "members", (len(members),), 0, m - 1)
    check_indices(file, "searched", (end + 1,), 0, m)
    check_indices(file, "searched_rows", (total,), 0, m - 1)
    check_indices(file, "sizes", (total,), 1, m)
    require((np.diff(file["real"]) > 0).all(), "`real` must increase")
    if rows.dtype.kind == "U":
        rows = np.vectorize(storage.to_fraction, otypes=[object])(rows)
    group = Classes.singly if rule.causal else Classes.of
    classes = group(rows[labels])
    is_same = all(
        np.array_equal(getattr(classes, name), array)
        for name, array in (("rows", rows), ("labels", labels))
    )
    require(is_same, "`rows` and `labels` must be the classes of equal tokens")
    require(searched.sum() == total, "`searched` must count `searched_rows`")
    require(sizes.sum() == len(members), "`members` must be as many as `sizes` states")
    # The first member of every set but the first: there the next may be smaller.
    begins = np.cumsum(sizes)[:-1]
    increases = (np.delete(np.diff(members), begins - 1) > 0).all()
    require(increases, "`members` of a set must increase")
    decided = file["settled"] >= 0
    agrees = np.array_equal(decided, file["proof"] > Proof.NONE)
    require(agrees, "`proof` must be that of the classes with `settled`")

    layers = []
    last = np.zeros(m, np.intp)
    settled = np.where(decided, file["settled"], end)
    row_ends = np.cumsum(searched)
    starts = np.r_[0, np.cumsum(sizes)].astype(np.intp)
    for k, row_end in enumerate(row_ends.tolist()):
        part = slice(row_end - int(searched[k]), row_end)
        own = np.asarray(file["searched_rows"][part], np.intp)
        right = np.array_equal(own, np.flatnonzero(settled >= k))
        require(right, "`searched_rows` must be the classes that are not decided")
        last[own] = k
        inner = starts[part.start : part.stop + 1]
        chosen = np.asarray(members[inner[0] : inner[-1]], np.intp)
        layers.append(Layer(own, Sets(inner - inner[0], chosen)))
    emerged = np.full(m, -1)
    exact = ExactPositions(classes, rule.step, layers, last, emerged)
    for k, layer in enumerate(layers):
        find_leaders(layer, k, exact, emerged)
    leads = np.array_equal(emerged, file["emerged"])
    require(leads, "`emerged` must be the layers from which classes lead")
    return Record(
        rule,
        classes,
        layers,
        last,
        emerged,
        file["settled"],
        file["proof"],
        {},
        end,
        np.array([total]),
        None,
        None,
        file["real"],
        stats,
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
    rows: IntArray, sets: Sets, rule: Hardmax, layer: int, exact: ExactPositions
) -> FloatArray:
    """Return ⟨A z_i, z_C - z_j⟩ / |A z_i| with exact differences rounded last; rows
    with one target share them.
    """
    positions = exact.at(layer, range(len(sets)))
    D = exact.denominator(layer)
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
