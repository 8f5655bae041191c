"""Tokens through the layers: argmax sets, leaders, decided tokens and their proofs.

A `Run` moves one token set or a batch. What it has found is a `Record`, from which
limits, certificates, radii and theorem checks follow without a second run.

A token is decided once its argmax set can no longer change. These proofs decide it:

ONE_LEADER    Theorem 1: C_i = {l} and C_l = {l}. Then z_i tends to z_l.
LEADERS       Theorem 4: C_i holds leaders alone, and a token at their mean c_i would
              still choose all of them. Then z_i tends to c_i.
SEEN_LEADERS  C1: the same under a mask, compared with the tokens that i sees. A single
              leader is tested, too: its own set says nothing on the tokens that i sees
              and the leader does not.
FIXED_MEAN    T and
FOLLOWERS     chain: if all sets stay, positions have a closed form, and with it they do
              stay (`exact/frozen.py`).

All hold for any A and any steps. A decided token needs no more queries; it stays a key.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cached_property
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from hardmax._errors import ParameterError
from hardmax._exact import check_subnormals
from hardmax._types import AnyArray, BoolArray, FloatArray, IntArray, Progress
from hardmax.exact.arithmetic import Adaptive, Rational, make_state
from hardmax.exact.frozen import Frozen, Point, certify
from hardmax.layer import ExactPositions, Layer
from hardmax.sets import Classes, FieldsPickled, Sets

if TYPE_CHECKING:
    from hardmax.rules.hardmax import Hardmax


# Layers in which C1 decides nearly all tokens without ties, before costlier proofs are
# tried.
MIN_CHAIN_LAYER = 32
# Larger token sets spend their time on the search, so that a batch gains nothing.
MAX_BATCH_TOKENS = 1024


class Proof(IntEnum):
    """What decided a token, from the simplest proof on."""

    NONE = 0
    ONE_LEADER = 1
    LEADERS = 2
    SEEN_LEADERS = 3
    FIXED_MEAN = 4
    FOLLOWERS = 5

    def __str__(self) -> str:
        return PROOF_NAMES[self]


PROOF_NAMES = {
    Proof.NONE: "none",
    Proof.ONE_LEADER: "Theorem 1",
    Proof.LEADERS: "Theorem 4",
    Proof.SEEN_LEADERS: "C1",
    Proof.FIXED_MEAN: "T",
    Proof.FOLLOWERS: "chain",
}


class LayersOfPart(Sequence[Layer]):
    """The layers of some classes of a record, cut out when they are read."""

    def __init__(self, layers: Sequence[Layer], begin: int, end: int) -> None:
        self._layers = layers
        self._range = begin, end
        self._parts: dict[int, Layer] = {}

    def __len__(self) -> int:
        return len(self._layers)

    @overload
    def __getitem__(self, k: int) -> Layer: ...

    @overload
    def __getitem__(self, k: slice) -> Sequence[Layer]: ...

    def __getitem__(self, k: int | slice) -> Layer | Sequence[Layer]:
        if isinstance(k, slice):
            return [self[each] for each in range(len(self))[k]]
        if k not in self._parts:
            self._parts[k] = self._layers[k].part(*self._range)
        return self._parts[k]

    def __reduce__(self) -> tuple[Any, ...]:
        return list, (list(self),)


@dataclass(frozen=True, eq=False)
class Record(FieldsPickled):
    """What a run has found about one token set, or about all token sets of a batch.

    Attributes
    ----------
    rule : Hardmax
    classes : Classes
        The distinct tokens, m of them.
    layers : sequence of Layer
        The classes that were searched at each layer, and their sets.
    last : (m,) array
        Layer at which each class was last searched; its set is the same from then on.
    emerged, settled : (m,) arrays
        Layer from which a class leads, and from which it is decided; -1 for never.
    proof : (m,) array
        What decided it, as a `Proof`.
    limits : dict
        Exact limits of the classes that `exact.frozen` decided.
    end : int
        The last layer.
    queries : int
        Number of argmax sets that were searched.
    tokens : (m, d) array
        Positions at the last layer; None for a record from a certificate.
    mask : (m, m) array, optional
        Which classes a class sees.
    real : (n - padding,) array
        Places of the tokens in the input.
    """

    rule: "Hardmax"
    classes: Classes
    layers: Sequence[Layer]
    last: IntArray
    emerged: IntArray
    settled: IntArray
    proof: IntArray
    limits: dict[int, Point]
    end: int
    queries: IntArray  # (batch,)
    tokens: FloatArray | None
    mask: BoolArray | None
    real: IntArray
    stats: dict[str, Any] = field(default_factory=dict)

    @property
    def is_masked(self) -> bool:
        """Whether some tokens do not see all others."""
        return self.rule.causal or self.mask is not None

    @property
    def is_certified(self) -> bool:
        """Whether every class is decided."""
        return bool((self.settled >= 0).all())

    @property
    def layer(self) -> int:
        """The layer at which every class is decided, or the last one."""
        return int(self.settled.max()) if self.is_certified else self.end

    @cached_property
    def exact(self) -> ExactPositions:
        """Exact positions at every layer."""
        return ExactPositions(
            self.classes, self.rule.step, self.layers, self.last, self.emerged
        )

    @cached_property
    def _sets(self) -> dict[int, Sets]:
        return {}

    def sets(self, k: int) -> Sets:
        """Return the sets of all classes at layer k; those of decided classes stay."""
        k = min(k, int(self.last.max()))
        if k not in self._sets:
            before = max((j for j in list(self._sets) if j < k), default=0)
            sets = self._sets.get(before, self.layers[0].sets)
            for layer in self.layers[before + 1 : k + 1]:
                sets = sets.replace(layer.rows, layer.sets)
            self._sets[k] = sets
        return self._sets[k]

    def add_last_sets(self, sets: Sets) -> None:
        """Keep the sets of the last layer, where they are known from elsewhere."""
        self._sets[int(self.last.max())] = sets

    def each_sets(self) -> Iterator[Sets]:
        """Yield `sets` layer by layer, and keep none of them: together they are as
        large as the tokens of all layers.
        """
        sets = self.layers[0].sets
        yield sets
        for layer in self.layers[1:]:
            sets = sets.replace(layer.rows, layer.sets)
            yield sets

    def part(self, b: int, real: IntArray) -> "Record":
        """Return the record of one token set of a batch, whose tokens have the places
        `real`.
        """
        begin, end = self.classes.offsets[b : b + 2].tolist()
        rows = slice(begin, end)
        limits = {
            i - begin: point for i, point in self.limits.items() if begin <= i < end
        }
        queries = self.queries[b : b + 1]
        return Record(
            self.rule,
            self.classes.part(b),
            LayersOfPart(self.layers, begin, end),
            self.last[rows],
            self.emerged[rows],
            self.settled[rows],
            self.proof[rows],
            limits,
            self.end,
            queries,
            None if self.tokens is None else self.tokens[rows],
            None,
            real,
            self.stats | {"queries": int(queries[0])},
        )

    def replay(
        self, layers: int, *, gaps: bool = False
    ) -> Iterator[Adaptive | Rational]:
        """Yield the tokens of layers 0 to `layers` again, moved by the recorded sets;
        with `gaps` they return gaps when they choose.
        """
        state = make_state(
            self.rule,
            self.classes,
            "auto",
            self.layers,
            self.last,
            self.emerged,
            gaps=gaps,
            mask=self.mask,
        )
        every = self.each_sets()
        for k in range(layers + 1):
            yield state
            if k < layers:
                state.advance(next(every))

    @cached_property
    def independent_sets(self) -> list[Sets]:
        """The sets of all classes at every layer, searched at the recorded positions
        without any proof that decides a class; for tests of those proofs.
        """
        every = np.arange(len(self.classes))
        return [state.choose(every)[0] for state in self.replay(self.end)]

    def radius(self) -> float:
        """Return how far each input token may move without a change of any set; 0
        unless tokens are distinct and all sets were decided one by one.
        """
        by_theorem = (self.proof > Proof.NONE) & (self.proof <= Proof.SEEN_LEADERS)
        if not (self.classes.distinct and by_theorem.all()):
            return 0.0
        smallest = np.inf
        for k, state in enumerate(self.replay(self.layer, gaps=True)):
            rows = self.layers[k].rows
            if not len(rows):
                continue
            _, gaps = state.choose(rows)
            assert gaps is not None
            smallest = min(smallest, float(gaps.min()))
            if self.is_masked:
                # C1 rests on the products of the centroids, too.
                decided = rows[(self.settled[rows] == k) & (self.emerged[rows] != k)]
                own = self.sets(k).take(decided)
                if len(decided):
                    _, gaps = state.choose_from_centroids(own, decided)
                    assert gaps is not None
                    smallest = min(smallest, float(gaps.min()))
        return state.radius(smallest)

    def pace(self) -> float:
        """Return an upper bound of the distance by which the next layer moves a token."""
        *_, state = self.replay(self.end)
        return state.bound_step(self.sets(self.end))

    def constant_layers(self) -> int:
        """Return for how many of the last layers no set has changed."""
        unchanged = 0
        before: Sets | None = None
        for sets in self.each_sets():
            unchanged = unchanged + 1 if sets == before else 0
            before = sets
        return unchanged

    def freeze(self, k: int, sets: Sets) -> Frozen:
        """Return the exact picture of layer k, at which the classes have these sets."""
        decided = (self.settled >= 0) & (self.settled <= k)
        is_open = ~decided | (self.proof >= Proof.FIXED_MEAN)
        moving = np.flatnonzero(is_open).tolist()
        seen = None
        if self.is_masked:
            seen = {i: self._seen(i) for i in moving}
        return Frozen(
            positions=self.exact.at(k, range(len(self.classes))),
            sets=sets,
            counts=self.classes.counts,
            moving=moving,
            alpha=self.rule.step(k),
            A=self.rule.metric.rows,
            seen=seen,
        )

    def _seen(self, i: int) -> set[int]:
        if self.mask is None:
            return set(range(i + 1))
        return set(np.flatnonzero(self.mask[i]).tolist())


class Run:
    """Move one token set or a batch through the layers.

    It starts at layer 0 from checked tokens, in the arithmetic of the rule.

    Parameters
    ----------
    rule : Hardmax
    tokens : (n, d) or (batch, n, d) array
    real : (n,) or (batch, n) array, optional
        True for real tokens; the others are left out.
    kernel : str
        How the largest products are found.
    mask : (n, n) array, optional
        Which tokens each token sees, for one token set without padding.
    known : Record, optional
        What is known of the first tokens of one token set, which see no other: their
        sets are not searched again.
    """

    def __init__(
        self,
        rule: "Hardmax",
        tokens: AnyArray,
        *,
        real: BoolArray | None = None,
        kernel: str = "auto",
        mask: BoolArray | None = None,
        known: Record | None = None,
    ) -> None:
        check_subnormals()
        _check_kernel_fits(kernel, rule)
        batch = tokens.reshape(-1, *tokens.shape[-2:])
        if real is None:
            real = np.ones(batch.shape[:2], bool)
        self.real: BoolArray = real.reshape(batch.shape[:2])
        self.rule = rule
        self.mask = mask
        group = Classes.singly if self.is_masked else Classes.of
        self.classes = group(batch[self.real], self.real.sum(axis=1))
        m = len(self.classes)
        self.layers: list[Layer] = []
        self.sets = Sets.of([])  # of all classes; none before the first `choose`
        self.last: IntArray = np.zeros(m, np.intp)
        self.emerged: IntArray = np.full(m, -1)
        self.settled: IntArray = np.full(m, -1)
        self.proof: IntArray = np.full(m, Proof.NONE)
        self.limits: dict[int, Point] = {}
        self.queries: IntArray = np.zeros(len(batch), np.intp)
        self.state = make_state(
            rule,
            self.classes,
            kernel,
            self.layers,
            self.last,
            self.emerged,
            mask=mask,
        )
        self._known = known
        if known is not None:
            n = len(known.classes)
            self.emerged[:n] = known.emerged
            self.settled[:n] = known.settled
            self.proof[:n] = known.proof
            self.limits |= known.limits

    @property
    def is_masked(self) -> bool:
        """Whether some tokens do not see all others."""
        return self.rule.causal or self.mask is not None

    @property
    def layer(self) -> int:
        return self.state.layer

    @property
    def decided(self) -> BoolArray:
        return (self.settled >= 0) & (self.settled <= self.layer)

    @property
    def leads(self) -> BoolArray:
        return (self.emerged >= 0) & (self.emerged <= self.layer)

    @property
    def open_token_sets(self) -> BoolArray:
        """Which token sets have undecided classes, (batch,)."""
        open_ = np.zeros(len(self.queries), bool)
        open_[self.classes.owners[~self.decided]] = True
        return open_

    @property
    def tokens(self) -> FloatArray:
        """Positions (m, d); leaders since layer 0 are where the input has them, to the
        last bit.
        """
        tokens = self.state.tokens
        still = self.emerged[:, None] == 0
        np.copyto(tokens, self.classes.rows, casting="unsafe", where=still)
        return tokens

    @property
    def stats(self) -> dict[str, Any]:
        return {
            "kernel": str(self.state.search),
            "why": self.state.search.why,
            "arithmetic": type(self.state).__name__.lower(),
            "layers": self.layer,
            "queries": int(self.queries.sum()),
            "sets_compared_exactly": self.state.exact_rows,
        }

    def records(self) -> "Records":
        """Return the record of each token set."""
        return Records(self._record(self.tokens), self.real)

    def _record(self, tokens: FloatArray | None) -> Record:
        return Record(
            self.rule,
            self.classes,
            self.layers,
            self.last,
            self.emerged,
            self.settled,
            self.proof,
            self.limits,
            self.layer,
            self.queries,
            tokens,
            self.mask,
            np.flatnonzero(self.real[0]),
            self.stats,
        )

    def choose(self) -> Sets:
        """Find C_i at this layer, then the leaders and the decided classes."""
        rows = np.flatnonzero(~self.decided)
        known = None
        if self._known is not None and self.layer < len(self._known.layers):
            known = self._known.layers[self.layer]
            rows = rows[rows >= len(self._known.classes)]
        if len(rows):
            found, _ = self.state.choose(rows)
            self.queries += np.bincount(
                self.classes.owners[rows], minlength=len(self.queries)
            )
        else:
            found = Sets.of([])
        searched = Layer(rows, found)
        if known is not None:
            searched = Layer(np.r_[known.rows, rows], known.sets.concatenate(found))
        self.layers.append(searched)
        self.last[searched.rows] = self.layer
        if len(self.sets):
            self.sets = self.sets.replace(searched.rows, searched.sets)
        else:
            self.sets = searched.sets
        if len(rows):
            find_leaders(searched, self.layer, self.state.exact, self.emerged)
            if self.is_masked:
                self._decide_by_seen_leaders(rows, found)
            else:
                self._decide_by_leaders(rows, found)
        return self.sets

    def advance(self, rows: IntArray | None = None) -> None:
        """Move all classes, or some, to the next layer."""
        self.state.advance(self.sets, rows)

    def _decide_by_leaders(self, rows: IntArray, sets: Sets) -> None:
        """Apply Theorems 1 and 4."""
        leads = self.leads
        undecided = self.settled[rows] < 0
        follows_leader = (sets.sizes == 1) & leads[sets.targets]
        self._settle(rows[follows_leader & undecided], Proof.ONE_LEADER)
        followers: dict[bytes, list[int]] = {}  # of each set of leaders
        for r in sets.tied:
            if undecided[r] and leads[sets[r]].all():
                followers.setdefault(sets[r].tobytes(), []).append(int(rows[r]))
        if not followers:
            return
        members = Sets.of([np.frombuffer(key, np.intp) for key in followers])
        seers = np.array([some[0] for some in followers.values()])  # ascending
        chosen, _ = self.state.choose_from_centroids(members, seers)
        for r, some in enumerate(followers.values()):
            if np.isin(members[r], chosen[r]).all():
                self._settle(np.array(some), Proof.LEADERS)

    def _decide_by_seen_leaders(self, rows: IntArray, sets: Sets) -> None:
        """Apply C1: decide leaders, and rows all of whose members lead and are maximal
        at their centroid, too.
        """
        leads = self.leads
        undecided = self.settled[rows] < 0
        self._settle(rows[leads[rows] & undecided], Proof.SEEN_LEADERS)
        all_lead = np.logical_and.reduceat(leads[sets.members], sets.starts[:-1])
        some = np.flatnonzero(all_lead & undecided & ~leads[rows])
        if not len(some):
            return
        own = sets.take(some)
        chosen, _ = self.state.choose_from_centroids(own, rows[some])
        is_simple = (own.sizes == 1) & (chosen.sizes == 1)
        holds = is_simple & (own.targets == chosen.targets)
        for r in np.flatnonzero(~is_simple).tolist():
            holds[r] = np.isin(own[r], chosen[r]).all()
        self._settle(rows[some[holds]], Proof.SEEN_LEADERS)

    def _settle(self, rows: IntArray, proof: Proof) -> None:
        self.settled[rows] = self.layer
        self.proof[rows] = proof

    def find_limits(self, max_layers: int, progress: Progress | None = None) -> None:
        """Run layers until every class is decided, or `max_layers`; report the tokens
        decided and all to `progress`.
        """
        before: Sets | None = None
        next_try = np.zeros(len(self.queries), np.intp)
        while True:
            sets = self.choose()
            for b in self._candidates(before, next_try):
                self._certify(b, before)
                next_try[b] = self.layer + 1 + self.layer // 8
            if progress is not None:
                done = self.classes.counts[self.decided].sum()
                progress(int(done), len(self.classes.labels))
            open_ = self.open_token_sets
            if not open_.any() or self.layer == max_layers:
                return
            rows = None
            if not open_.all():
                rows = np.flatnonzero(open_[self.classes.owners])
            self.advance(rows)
            before = sets

    def _candidates(self, before: Sets | None, next_try: IntArray) -> list[int]:
        """Return the open token sets whose frozen picture may prove something now."""
        # Alpha must be constant from here on.
        if self.layer < len(self.rule.steps) - 1:
            return []
        is_candidate = self.open_token_sets & (self.layer >= next_try)
        if not self.is_masked:
            if before is None:
                return []
            # A frozen map without ties ends at leaders, which Theorem 1 decides.
            is_tied = np.zeros(len(is_candidate), bool)
            tied = self.sets.tied
            is_tied[self.classes.owners[tied[~self.decided[tied]]]] = True
            is_candidate &= is_tied
            changed = _changed_rows(before, self.sets)
            is_candidate[self.classes.owners[changed]] = False
        return np.flatnonzero(is_candidate).tolist()

    def _certify(self, b: int, before: Sets | None) -> None:
        """Prove what follows from the frozen picture of a token set, the sets of this
        layer for ever, and record the limits.
        """
        begin, end = self.classes.offsets[b : b + 2].tolist()
        open_rows = np.flatnonzero(~self.decided[begin:end])
        waiting = self._waiting_rows(begin + open_rows, before)
        if waiting.all():
            return
        record = self._record(None)
        if len(self.queries) > 1:
            record = record.part(b, np.flatnonzero(self.real[b]))
        every = Layer(np.arange(len(self.classes)), self.sets)
        frozen = record.freeze(self.layer, every.part(begin, end).sets)
        ids = open_rows.tolist()
        blocked = set[int]()
        if frozen.seen is not None:
            # Under a mask a proof rests on those of the tokens that are seen.
            order = {i: len(frozen.seen[i]) for i in ids}
            ids.sort(key=order.__getitem__)
            blocked = set(open_rows[waiting].tolist())
        D = self.state.exact.denominator(self.layer, b)
        for i, (is_chain, point) in certify(frozen, ids, blocked).items():
            proof = Proof.FOLLOWERS if is_chain else Proof.FIXED_MEAN
            self._settle(np.array([begin + i]), proof)
            self.limits[begin + i] = tuple(x / D for x in point)

    def _waiting_rows(self, rows: IntArray, before: Sets | None) -> BoolArray:
        """Return which open rows are better left to the proofs for single tokens."""
        waiting = self.sets.sizes[rows] == 1
        if self.is_masked:
            waiting &= self.layer < MIN_CHAIN_LAYER
            for r in np.flatnonzero(~waiting).tolist():
                i = rows[r]
                waiting[r] = before is None or not np.array_equal(
                    self.sets[i], before[i]
                )
        return np.asarray(waiting)


class Records(Sequence[Record]):
    """The records of the token sets of a batch, cut out of that of the whole run."""

    def __init__(self, whole: Record, real: BoolArray) -> None:
        self.whole = whole
        self.real = real  # (batch, n)
        self._parts: dict[int, Record] = {0: whole} if len(real) == 1 else {}

    def __len__(self) -> int:
        return len(self.real)

    @overload
    def __getitem__(self, b: int) -> Record: ...

    @overload
    def __getitem__(self, b: slice) -> Sequence[Record]: ...

    def __getitem__(self, b: int | slice) -> Record | Sequence[Record]:
        if isinstance(b, slice):
            return [self[each] for each in range(len(self))[b]]
        b = range(len(self))[
            b
        ]  # raises an IndexError; negative ones count from the end
        if b not in self._parts:
            part = self.whole.part(b, np.flatnonzero(self.real[b]))
            # Its last sets are cut out of those of the whole batch, at once.
            begin, end = self.whole.classes.offsets[b : b + 2].tolist()
            part.add_last_sets(self._last_layer.part(begin, end).sets)
            self._parts[b] = part
        return self._parts[b]

    @cached_property
    def _last_layer(self) -> Layer:
        every = np.arange(len(self.whole.classes))
        return Layer(every, self.whole.sets(self.whole.end))


def find_leaders(
    searched: Layer, layer: int, exact: ExactPositions, emerged: IntArray
) -> None:
    """Write into `emerged` which classes lead from this layer on: C_i holds nothing but
    i; classes that have met count as one.
    """
    rows = searched.rows
    sets = searched.sets
    leads = (sets.sizes == 1) & (sets.targets == rows)
    for r in sets.tied:
        if emerged[rows[r]] < 0 and rows[r] in sets[r]:
            positions = exact.at(layer, sets[r].tolist())
            leads[r] = len(set(positions)) == 1
    fresh = rows[leads]
    emerged[fresh[emerged[fresh] < 0]] = layer


def can_share_run(rule: "Hardmax", batch: AnyArray, kernel: str) -> bool:
    """Return whether a batch (batch, n, d) may go in one run: small sets of floats."""
    is_small = batch.dtype != object and batch.shape[1] <= MAX_BATCH_TOKENS
    return is_small and kernel in ("auto", "scan") and not rule.exact


def start_runs(
    rule: "Hardmax",
    batch: AnyArray,
    real: BoolArray,
    kernel: str,
    mask: BoolArray | None = None,
) -> Iterator[tuple[list[int], Run]]:
    """Yield runs and the token sets that each of them moves: one for all where
    possible.
    """
    if len(batch) > 1 and mask is None and can_share_run(rule, batch, kernel):
        yield list(range(len(batch))), Run(rule, batch, real=real, kernel=kernel)
        return
    for b, own in enumerate(real):
        part = None if mask is None else mask[np.ix_(own, own)]
        yield [b], Run(rule, batch[b], real=own, kernel=kernel, mask=part)


def _changed_rows(before: Sets, after: Sets) -> IntArray:
    """Return the rows whose sets differ."""
    if before.single and after.single:
        return np.flatnonzero(before.members != after.members)
    differs = before.sizes != after.sizes
    same_size = np.flatnonzero(~differs)
    a = before.take(same_size)
    b = after.take(same_size)
    owner = np.repeat(same_size, a.sizes)
    differs[owner[a.members != b.members]] = True
    return np.flatnonzero(differs)


def merge_stats(runs: list[dict[str, Any]], in_one_run: int) -> dict[str, Any]:
    """Return the stats of several runs as those of one batch, `in_one_run` token sets
    of which went in one run.
    """
    names = (name for stats in runs for name in stats["kernel"].split(", "))
    return runs[-1] | {
        "kernel": ", ".join(dict.fromkeys(names)),
        "layers": max(stats["layers"] for stats in runs),
        "queries": sum(stats["queries"] for stats in runs),
        "sets_compared_exactly": sum(s["sets_compared_exactly"] for s in runs),
        "sets_in_one_pass": in_one_run,
    }


def _check_kernel_fits(kernel: str, rule: "Hardmax") -> None:
    if kernel != "auto" and rule.exact:
        must = 'be "auto" with `exact=True`, which multiplies integers'
        raise ParameterError("kernel", must, f"{kernel!r}", "Leave it out.")
    if kernel == "symmetric" and (rule.matrix is not None or rule.causal):
        got = "a matrix A" if rule.matrix is not None else "causal=True"
        must = "have keys that are the queries, all of them"
        advice = 'Use `kernel="auto"`.'
        raise ParameterError('kernel="symmetric"', must, got, advice)
