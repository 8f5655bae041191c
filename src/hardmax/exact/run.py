"""One token set through the layers: its leaders, the decided tokens, the theorem that
decides each, and their limits.

Theorem 1: C_i = {l} and C_l = {l} at one layer fix C_i for ever, and z_i tends to z_l.
Theorem 4: C_i made of leaders, all still seen from their centroid c_i, fix C_i for
           ever, and z_i tends to c_i.
C1:        the same under a mask, with c_i compared against the tokens that i sees;
           also for a single leader, whose own set contains no information on the
           tokens that i sees and the leader does not.
All hold for any A and any steps. A decided token needs no more queries; it stays a key.
"""

from dataclasses import dataclass
from enum import IntEnum
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy  # whose parts load when they are used

from hardmax._display import count
from hardmax._errors import ParameterError
from hardmax._exact import as_floats, check_subnormals
from hardmax._types import AnyArray, BoolArray, FloatArray, IntArray, Progress, Row
from hardmax.exact.arithmetic import Adaptive, Rational
from hardmax.exact.certificates import Frozen, Point, certify
from hardmax.search.dispatch import Search
from hardmax.search.sets import Classes, Sets

if TYPE_CHECKING:
    from hardmax.rules.hardmax import Hardmax


# layers in which C1 decides nearly all tokens without ties, before costlier proofs are
# tried
MIN_CHAIN_LAYER = 32


class Proof(IntEnum):
    """The theorem or certificate that decided a token, from the simplest on."""

    NONE = 0
    THEOREM_1 = 1
    THEOREM_4 = 2
    C1 = 3
    T = 4
    CHAIN = 5

    def __str__(self) -> str:
        return {
            Proof.THEOREM_1: "Theorem 1",
            Proof.THEOREM_4: "Theorem 4",
            Proof.CHAIN: "chain",
        }.get(self, self.name)


class Run:
    """Move the classes of one token set through the layers.

    It starts at layer 0 from checked tokens of shape (n, d), in the arithmetic of the
    rule. `shortcuts=False` searches for every token at every layer, decided or not; the
    checks of the theorems use that. `mask` (n, n) states which tokens each token sees.
    `prefix` is a finished run of the first tokens, which see no other: it is not
    repeated.
    """

    def __init__(
        self,
        rule: "Hardmax",
        tokens: AnyArray,
        *,
        shortcuts: bool = True,
        kernel: str = "auto",
        gaps: bool = False,
        mask: BoolArray | None = None,
        prefix: "Run | None" = None,
    ) -> None:
        check_subnormals()
        if kernel != "auto" and rule.exact:
            must = 'be "auto" with `exact=True`, which multiplies integers'
            raise ParameterError("kernel", must, f"{kernel!r}", "Leave it out.")
        if kernel == "symmetric" and (rule.matrix is not None or rule.causal):
            got = "a matrix A" if rule.matrix is not None else "causal=True"
            must, advice = (
                "have keys that are the queries, all of them",
                'Use `kernel="auto"`.',
            )
            raise ParameterError('kernel="symmetric"', must, got, advice)
        arithmetic = Rational if rule.exact else Adaptive
        self.state: Adaptive | Rational = arithmetic(
            rule, tokens, Search(kernel, gaps=gaps), mask
        )
        self.classes, self.shortcuts, self.rule, self.mask = (
            self.state.classes,
            shortcuts,
            rule,
            mask,
        )
        self.sets = Sets.of([])  # until the first `choose`
        m = len(self.classes)
        self.emerged: IntArray = np.full(m, -1)  # layer from which a class leads
        self.settled: IntArray = np.full(m, -1)  # layer from which it is decided
        self.proof: IntArray = np.full(m, Proof.NONE)
        self.smallest_gap = (
            np.inf
        )  # over all undecided classes and layers so far, if the state finds gaps
        self.queries = 0
        self.found: dict[int, Point] = {}  # limits that T or chain proved
        self.constant_for = 0  # layers in which no set has changed
        self.is_covered = True  # whether T or chain may yet decide sets like these
        self._prefix = prefix
        if prefix is not None:
            n = len(prefix.classes)
            self.emerged[:n], self.settled[:n], self.proof[:n] = (
                prefix.emerged,
                prefix.settled,
                prefix.proof,
            )
            self.found |= prefix.found

    @property
    def layer(self) -> int:
        return self.state.layer

    @property
    def stats(self) -> dict[str, Any]:
        return {
            "kernel": str(self.state.search),
            "why": self.state.search.why,
            "arithmetic": type(self.state).__name__.lower(),
            "layers": self.layer,
            "queries": self.queries,
            "sets_compared_exactly": self.state.exact_rows,
        }

    @property
    def decided(self) -> BoolArray:
        return (self.settled >= 0) & (self.settled <= self.layer)

    @property
    def leads(self) -> BoolArray:
        return (self.emerged >= 0) & (self.emerged <= self.layer)

    @property
    def tokens(self) -> FloatArray:
        """Positions (m, d); leaders since layer 0 are where the input has them, to the
        last bit.
        """
        tokens = self.state.tokens
        still = self.emerged == 0
        tokens[still] = self.classes.rows[still]
        return tokens

    @property
    def pace(self) -> float:
        """An upper bound of the distance by which the next layer moves a token."""
        return self.state.bound_step(self.sets)

    def choose(self) -> Sets:
        """Find C_i at this layer, then the leaders and the decided classes."""
        rows, known = (
            (
                np.flatnonzero(~self.decided)
                if self.shortcuts
                else np.arange(len(self.classes))
            ),
            None,
        )
        if self._prefix is not None and self.layer <= self._prefix.layer:
            known = self._prefix.sets_of_layer(self.layer)
            rows = rows[rows >= len(known)]
            self.sets = (
                known
                if not len(self.sets)
                else self.sets.replace(np.arange(len(known)), known)
            )
        if len(rows):
            found, gaps = self.state.choose(rows)
            is_first = len(self.sets) < len(self.classes)
            self.sets = (
                self.sets.concatenate(found)
                if is_first
                else self.sets.replace(rows, found)
            )
            if gaps is not None:
                self.smallest_gap = min(self.smallest_gap, float(gaps.min()))
            self.queries += len(rows)
            self._find_leaders(rows, found)
            (self._decide_by_c1 if self.state.masked else self._decide)(rows, found)
        return self.sets

    def sets_of_layer(self, layer: int) -> Sets:
        return self.sets if layer == self.layer else self.state.history.sets[layer]

    def _find_leaders(self, rows: IntArray, sets: Sets) -> None:
        """Mark i as a leader when C_i holds nothing but i; classes that have met count
        as one.
        """
        leads = (sets.sizes == 1) & (sets.targets == rows)
        for r in sets.tied:
            if self.emerged[rows[r]] < 0 and rows[r] in sets[r]:
                leads[r] = (
                    len(set(self.state.history.at(self.layer, sets[r].tolist()))) == 1
                )
        fresh = rows[leads]
        self.emerged[fresh[self.emerged[fresh] < 0]] = self.layer

    def _decide_by_c1(self, rows: IntArray, sets: Sets) -> None:
        """Decide leaders, and rows all of whose members lead and are maximal at their
        centroid, too.
        """
        leads, undecided = self.leads, self.settled[rows] < 0
        self.settle(rows[leads[rows] & undecided], Proof.C1)
        all_lead = np.logical_and.reduceat(leads[sets.members], sets.starts[:-1])
        some = np.flatnonzero(all_lead & undecided & ~leads[rows])
        if len(some):
            own = sets.take(some)
            seen, gaps = self.state.from_centroids(own, rows[some])
            holds = (own.sizes == 1) & (seen.sizes == 1) & (own.targets == seen.targets)
            for r in np.flatnonzero((own.sizes > 1) | (seen.sizes > 1)).tolist():
                holds[r] = np.isin(own[r], seen[r]).all()
            self.settle(rows[some[holds]], Proof.C1)
            if gaps is not None and holds.any():
                self.smallest_gap = min(self.smallest_gap, float(gaps[holds].min()))

    def _decide(self, rows: IntArray, sets: Sets) -> None:
        leads = self.leads
        follows_leader = (sets.sizes == 1) & leads[sets.targets]
        self.settle(rows[follows_leader & (self.settled[rows] < 0)], Proof.THEOREM_1)
        followers: dict[bytes, list[int]] = {}  # of each set of leaders
        for r in sets.tied:
            if self.settled[rows[r]] < 0 and leads[sets[r]].all():
                followers.setdefault(sets[r].tobytes(), []).append(int(rows[r]))
        if followers:
            leading = Sets.of([np.frombuffer(key, np.intp) for key in followers])
            seen, _ = self.state.from_centroids(leading, rows)
            for r, members in enumerate(followers.values()):
                if set(leading[r].tolist()) <= set(seen[r].tolist()):
                    self.settle(np.array(members), Proof.THEOREM_4)

    def settle(self, rows: IntArray, proof: Proof) -> None:
        self.settled[rows] = self.layer
        self.proof[rows] = proof

    def advance(self) -> None:
        self.state.advance(self.sets)

    def find_limits(
        self, max_layers: int, progress: Progress | None = None
    ) -> "LimitSet":
        """Run layers until every class is decided, or `max_layers`; report the tokens
        decided and all to `progress`.
        """
        before, next_try, last = (
            None,
            0,
            0 if self._prefix is None else self._prefix.layer,
        )
        while True:
            sets = self.choose()
            if sets == before:
                self.constant_for += 1
            else:
                self.constant_for = 0
                self.is_covered = True
            if progress is not None:
                progress(
                    int(self.classes.counts[self.decided].sum()),
                    len(self.classes.labels),
                )
            if (
                self.layer >= next_try
                and not self.decided.all()
                and (self.state.masked or self.constant_for)
            ):
                self._certify(before)
                next_try = self.layer + 1 + self.layer // 8
            if (self.decided.all() and self.layer >= last) or self.layer == max_layers:
                self._prefix = None  # all that it knows is here, too
                return LimitSet.of(self)
            self.advance()
            before = sets

    def _certify(self, before: Sets | None) -> None:
        """Try T and chain on the exact positions of this layer; mark what they prove,
        and keep those limits.

        Under a mask the answer for a token depends on the tokens that it sees alone,
        not on any that come later.
        """
        history, undecided = self.state.history, np.flatnonzero(~self.decided)
        if self.layer < len(self.rule.steps) - 1:  # alpha must be constant from here on
            return
        waiting = (
            self.sets.sizes[undecided] == 1
        )  # a frozen map without ties ends at leaders, which Theorem 1 decides,
        if self.state.masked:  # and C1 nearly always
            waiting &= self.layer < MIN_CHAIN_LAYER
            for r in np.flatnonzero(~waiting).tolist():
                waiting[r] = before is None or not np.array_equal(
                    self.sets[undecided[r]], before[undecided[r]]
                )
        if waiting.all():
            return
        positions, D = (
            history.at(self.layer, range(len(self.classes))),
            history.denominator(self.layer),
        )
        step, A, seen = self.rule.step(self.layer), self.rule.metric.rows, None
        moving = np.flatnonzero(~self.decided | (self.proof >= Proof.T)).tolist()
        if self.state.masked:
            seen = {i: self._tokens_seen(i) for i in moving}
            undecided, waiting = (
                undecided[
                    order := np.argsort([len(seen[i]) for i in undecided.tolist()])
                ],
                waiting[order],
            )
        frozen = Frozen(
            positions, self.sets, self.classes.counts, moving, step, A, seen
        )
        self.is_covered = not frozen.chain[1]
        blocked = undecided[waiting].tolist() if self.state.masked else []
        for i, (proof, point) in certify(
            frozen, undecided.tolist(), set(blocked)
        ).items():
            self.settle(np.array([i]), Proof.CHAIN if proof else Proof.T)
            self.found[i] = tuple(x / D for x in point)

    def _tokens_seen(self, i: int) -> set[int]:
        seen = self.state.seen(np.array([i]))
        assert seen is not None
        return set(
            range(int(seen[0])) if seen.ndim == 1 else np.flatnonzero(seen[0]).tolist()
        )


@dataclass(frozen=True, eq=False)
class LimitSet:
    """Limits of the m classes of a token set. It holds the last layer alone, and can be
    pickled.
    """

    rule: "Hardmax"
    classes: Classes
    layer: int  # the last one run
    sets: Sets  # of that layer
    proof: IntArray  # (m,) what decided a class, as a `Proof`
    leaders: IntArray  # (n_leaders,) classes, in the order of their tokens
    column: IntArray  # (m,) index of a class among the leaders, or -1
    # (m,) index of its limit among the points, leaders first; -1 where undecided
    place: IntArray
    points: FloatArray  # (n_points, d), each coordinate rounded once
    others: list[Point]  # the points after those in `rows`, exactly
    rows: tuple[Row, ...] = ()  # the first points, exactly, over one denominator
    denominator: int = 1
    mask: BoolArray | None = None  # (m, m) which classes a class sees
    constant_for: int = 0  # layers in which no set has changed
    is_covered: bool = True  # whether T or chain may yet decide such sets

    @classmethod
    def of(cls, run: Run) -> "LimitSet":
        """Collect the limits of all decided classes."""
        last = run.rule, run.classes, run.layer, run.sets, run.proof
        leaders = np.flatnonzero(run.emerged >= 0)
        leaders = leaders[np.argsort(run.classes.first[leaders])]
        column = np.full(len(run.classes), -1)
        history = run.state.history
        D = history.denominator(run.layer)
        numbered: dict[
            Row,
            int,
            # leaders at one place, which only an A outside the hypotheses allows, count
            # once
        ] = {}
        for i, row in zip(
            leaders.tolist(), history.at(run.layer, leaders.tolist()), strict=True
        ):
            column[i] = numbered.setdefault(row, len(numbered))
        leaders = leaders[np.unique(column[leaders], return_index=True)[1]]
        rows, place, known_place = (
            tuple(numbered),
            np.full(len(run.classes), -1),
            run.proof > Proof.NONE,
        )
        simple = known_place & (run.proof <= Proof.C1) & (run.sets.sizes == 1)
        place[simple] = column[run.sets.targets[simple]]
        deep = np.flatnonzero(known_place & ~simple)
        deep = deep[np.argsort(run.classes.first[deep])].tolist()
        known = (
            {to_point(row, D): number for row, number in numbered.items()}
            if deep
            else {}
        )
        for i in deep:
            total = run.sets.shares(i, run.classes.counts)[2]
            point = run.found.get(i) or to_point(
                history.centroid(run.layer, run.sets, i), D * total
            )
            place[i] = known.setdefault(point, len(known))
        others = list(known)[len(rows) :]
        floats = [
            as_floats(list(rows), D),
            np.array([list(map(float, point)) for point in others]),
        ]
        points = np.vstack(
            [part for part in floats if part.size]
            or [np.empty((0, run.classes.rows.shape[1]))]
        )
        return cls(
            *last,
            leaders,
            column,
            place,
            points,
            others,
            rows,
            D,
            run.mask,
            run.constant_for,
            run.is_covered,
        )

    @property
    def reason(self) -> str:
        """Why limits are undecided, if some are."""
        if not self.rule.positive_definite:
            return (
                "A is not symmetric positive definite. A later layer need not have a"
                " certificate, unless A is close to symmetric, which is not tested."
            )
        if self.constant_for and not self.is_covered:
            return (
                "The argmax sets have not changed for"
                f" {count(self.constant_for, 'layer')}, and no proof rule covers such"
                " sets: more layers may not help."
            )
        return "Raise `max_layers` to go on."

    def exact_points(self) -> list[Point]:
        return [to_point(row, self.denominator) for row in self.rows] + self.others

    def weights(self) -> "scipy.sparse.csr_array":
        """Return convex weights of the limit of each token on the leaders, (n,
        n_leaders); a row may be empty.

        Absorption probabilities of the frozen matrix P, W_i = sum_{j != i} P_ij W_j /
        (1 - P_ii), substituted from the leaders on. Exact fractions, so that no weight
        is negative by rounding.
        """
        leads, shape = (
            np.flatnonzero(self.column >= 0),
            (len(self.classes), len(self.leaders)),
        )
        onto = scipy.sparse.csr_array(
            (np.ones(len(leads)), (leads, self.column[leads])), shape=shape
        )
        one_step = (self.proof > Proof.NONE) & (
            self.proof <= Proof.C1
        )  # all their members lead
        counts = np.where(
            np.repeat(one_step, self.sets.sizes),
            self.classes.counts[self.sets.members],
            0,
        ).astype(float)
        W = (
            scipy.sparse.csr_array(
                (counts, self.sets.members, self.sets.starts), (shape[0], shape[0])
            )
            @ onto
        )
        W.data /= np.repeat(
            np.maximum(W.sum(axis=1), 1), np.diff(W.indptr)
        )  # integers until here, so rounded once
        entries = [
            (i, c, float(w))
            for i, row in self.absorbed().items()
            for c, w in row.items()
        ]
        if entries:
            rows, columns, values = zip(*entries, strict=True)
            W = W + scipy.sparse.csr_array((values, (rows, columns)), shape=shape)
        return scipy.sparse.csr_array(W)[self.classes.labels]

    def absorbed(self) -> dict[int, dict[int, Fraction]]:
        """Return the weights by leader of classes that T or chain decided; those that
        reach no leader are left out.
        """
        deep = np.flatnonzero(self.proof > Proof.C1).tolist()
        leads = np.flatnonzero(self.column >= 0).tolist()
        known = {i: {int(self.column[i]): Fraction(1)} for i in leads} if deep else {}
        waiting = {j for i in deep for j in [i, *self.sets[i].tolist()]} - known.keys()
        while ready := [
            i for i in waiting if set(self.sets[i].tolist()) - {i} <= known.keys()
        ]:
            for i in ready:
                members, shares, total = self.sets.shares(i, self.classes.counts)
                others = total - sum(
                    w for j, w in zip(members, shares, strict=True) if j == i
                )
                row: dict[int, Fraction] = {}
                for j, w in zip(members, shares, strict=True):
                    for c, weight in known[j].items() if j != i else ():
                        row[c] = row.get(c, Fraction(0)) + Fraction(w, others) * weight
                known[i] = row
            waiting.difference_update(ready)
        return {i: known[i] for i in deep if i in known}

    def radius(self) -> float:
        """Run the layers again, with gaps; 0 unless all tokens are distinct and none
        needed T or chain.
        """
        by_theorem = (self.proof > Proof.NONE) & (self.proof <= Proof.C1)
        if not (self.classes.distinct and by_theorem.all()):
            return 0.0
        run = Run(self.rule, self.classes.rows, gaps=True, mask=self.mask)
        run.choose()
        while run.layer < self.layer:
            run.advance()
            run.choose()
        return run.state.radius(run.smallest_gap)


def to_point(row: Row, denominator: int) -> Point:
    """Return integers over one denominator as Fractions."""
    return tuple(Fraction(x, denominator) for x in row)


def merge_stats(each: list[dict[str, Any]], in_pass: int) -> dict[str, Any]:
    """Return the stats of several runs as those of one batch, `in_pass` token sets of
    which went in one pass.
    """
    added = {
        name: sum(own[name] for own in each)
        for name in ("queries", "sets_compared_exactly")
    }
    kernels = dict.fromkeys(name for own in each for name in own["kernel"].split(", "))
    layers = max(own["layers"] for own in each)
    return (
        each[-1]
        | added
        | {
            "kernel": ", ".join(kernels),
            "layers": layers,
            "sets_in_one_pass": in_pass,
        }
    )
