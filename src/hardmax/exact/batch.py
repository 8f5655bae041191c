"""Many token sets in one pass, as long as floats decide every argmax set.

A batch is one array, and every step is that of `run.py` and `arithmetic.py` for all
token sets at once, in the same float operations: tokens are the same to the last bit. A
token set leaves the pass where tokens are equal, where a comparison is closer than its
error bound, and where scaling could lose a digit; the caller then runs it by itself,
from the start. So all argmax sets in the pass have one member, and Theorem 1, or C1 if
causal, is the only one that decides.
"""

from collections.abc import Callable
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from hardmax._exact import check_subnormals
from hardmax._types import AnyArray, BoolArray, FloatArray, IntArray
from hardmax.exact.argmax import slack_of
from hardmax.exact.arithmetic import History, next_layer
from hardmax.exact.certificates import Point
from hardmax.exact.run import LimitSet, Proof, to_point
from hardmax.search.dispatch import (
    count_numpy_work,
    explain_choice,
    products_of_batch,
    search_batch,
)
from hardmax.search.reference import near_maxima_of_elements
from hardmax.search.sets import Classes, Sets

if TYPE_CHECKING:
    from hardmax.rules.hardmax import Hardmax

# larger token sets spend their time on the search, so that a shared pass gains nothing
MAX_TOKENS = 1024
TYPICAL_LAYERS = 8  # at least, until all tokens of a set are decided
MIN_SIZE, MAX_SIZE = (
    2.0**-600,
    2.0**400,
)  # numbers between them are scaled by a power of two without loss
# layers kept for all token sets at once; those undecided by then are run by themselves
MAX_PASS_LAYERS = 200


def can_share_pass(rule: "Hardmax", batch: AnyArray, kernel: str) -> bool:
    """Return whether a batch (batch, n, d) may go in one pass: small sets of floats."""
    floats = batch.dtype != object and batch.shape[1] <= MAX_TOKENS
    return floats and kernel in ("auto", "scan") and not rule.exact


class Batch:
    """Move token sets of distinct tokens through the layers.

    `in_pass`, (batch,), is False for token sets that have left; all other values are
    undefined for them.
    """

    def __init__(
        self, rule: "Hardmax", batch: AnyArray, real: BoolArray, kernel: str = "auto"
    ) -> None:
        check_subnormals()
        self._rule, self.real, self.layer, self.error = rule, real, 0, 0.0
        first = np.take_along_axis(
            batch, real.argmax(axis=1)[:, None, None], axis=1
        )  # replaces padding
        start = np.where(real[..., None], batch, first).astype(
            np.float64
        )  # (batch, n, d)
        self.start = start if rule.causal else start + 0.0  # turns -0.0 into 0.0
        sizes = np.abs(self.start)
        largest = sizes.max(axis=(1, 2))
        scalable = (largest < MAX_SIZE) & ~((sizes < MIN_SIZE) & (sizes > 0)).any(
            axis=(1, 2)
        )
        self.in_pass: BoolArray = (
            scalable
            if rule.causal
            else scalable & _has_distinct_tokens(self.start, real)
        )
        self._scale = np.ldexp(1.0, np.where(scalable, np.frexp(largest)[1], 0))[
            :, None, None
        ]
        self._Z = np.where(scalable[:, None, None], self.start / self._scale, 0.0)
        self.follows: IntArray = np.broadcast_to(
            np.arange(real.shape[1]), real.shape
        )  # never changed in place
        self.emerged: IntArray = np.full(
            real.shape, -1
        )  # layer from which a token leads
        self.settled: IntArray = np.full(
            real.shape, -1
        )  # layer from which it is decided
        self._compiled, self._why = True, "It was named."
        if kernel == "auto":
            products = TYPICAL_LAYERS * products_of_batch(
                len(batch), batch.shape[1], batch.shape[1]
            )
            self._compiled, self._why = explain_choice("scan", products)
            count_numpy_work("scan", 0 if self._compiled else products)
        self.queries: IntArray = np.zeros(len(real), np.intp)  # of each token set

    @property
    def stats(self) -> dict[str, Any]:
        return {
            "kernel": "scan" if self._compiled else "numpy",
            "why": self._why,
            "arithmetic": "adaptive",
            "layers": self.layer,
            "queries": int(self.queries[self.in_pass].sum()),
            "sets_compared_exactly": 0,
        }

    @property
    def tokens(self) -> FloatArray:
        """Return positions (batch, n, d); leaders since layer 0 are where the input has
        them, to the last bit.
        """
        tokens = self._Z * self._scale
        if self._rule.causal:  # else there is no -0.0, which moves to 0.0
            tokens[self.emerged == 0] = self.start[self.emerged == 0]
        return np.asarray(tokens)

    @property
    def undecided(self) -> BoolArray:
        return self.real & (self.settled < 0) & self.in_pass[:, None]  # (batch, n)

    def choose(self) -> None:
        """Find the token that every undecided one follows, then the leaders and the
        decided tokens.
        """
        undecided = self.undecided
        active = np.flatnonzero(undecided.any(axis=1))  # (a,)
        if not len(active):
            return
        asked, keys, real = undecided[active], self._Z[active], self.real[active]
        places = np.broadcast_to(np.arange(asked.shape[1]), asked.shape)
        if not self._rule.causal:  # there a query sees the keys up to its own position
            places = np.argsort(~asked, axis=1, kind="stable")[
                :, : asked.sum(axis=1).max()
            ]
            asked = np.take_along_axis(asked, places, axis=1)  # (a, w)
        points, metric = _take_tokens(keys, places), self._rule.metric  # (a, w, d)
        queries, query_error = metric.queries(
            points.reshape(-1, keys.shape[2]), self.error
        )
        slack = slack_of(
            queries, query_error, keys.reshape(-1, keys.shape[2]), self.error
        )
        queries = queries.reshape(points.shape)
        near = self._search(queries, keys, slack, real)
        good = ((near.sizes == 1).reshape(asked.shape) | ~asked).all(axis=1)
        self.in_pass[active[~good]] = False
        self.queries[active] += asked.sum(axis=1)
        asked &= good[:, None]
        top = active[:, None] * self.real.shape[1]  # rows and targets are flat indices
        rows, targets = (
            (top + places)[asked],
            (top + near.targets.reshape(asked.shape))[asked],
        )
        follows, emerged, settled = (
            self.follows.reshape(-1).copy(),
            self.emerged.reshape(-1),
            self.settled.reshape(-1),
        )
        follows[rows] = targets % self.real.shape[1]
        self.follows = follows.reshape(self.real.shape)
        leaders = rows[rows == targets]
        emerged[leaders[emerged[leaders] < 0]] = self.layer
        follows_leader = emerged[targets] >= 0
        if (
            self._rule.causal and follows_leader.any()
        ):  # C1: the leader is ahead of all tokens that its follower sees
            chosen = np.maximum(near.targets, 0).reshape(asked.shape)
            slack = np.take_along_axis(
                slack.reshape(asked.shape), chosen, axis=1
            ).reshape(-1)
            from_leaders = self._search(
                _take_tokens(queries, chosen), keys, slack, real
            )
            unsure = np.zeros_like(asked)
            unsure[asked] = follows_leader
            self.in_pass[
                active[
                    (unsure & (from_leaders.sizes != 1).reshape(asked.shape)).any(
                        axis=1
                    )
                ]
            ] = False
            follows_leader &= (from_leaders.targets.reshape(asked.shape) == chosen)[
                asked
            ]
        settled[rows[follows_leader]] = self.layer

    def _search(
        self, queries: FloatArray, keys: FloatArray, slack: FloatArray, real: BoolArray
    ) -> Sets:
        """Return the near-maxima of a batch of queries, each within `slack` of the
        largest product.
        """
        exact = (
            self._rule.metric.A is None and not self.error
        )  # then the search finds the slack itself
        mask, causal = None if real.all() else real, self._rule.causal
        if self._compiled:
            return search_batch(queries, keys, None if exact else slack, mask, causal)[
                0
            ]
        return near_maxima_of_elements(queries, keys, slack, mask, causal)

    def advance(self, moving: IntArray | None = None) -> None:
        """Move the tokens of some token sets, or of all: z_i <- z_i + alpha/(1 + alpha)
        (c_i - z_i).
        """
        alpha = self._rule.step(self.layer)
        Z, follows = (
            (self._Z, self.follows)
            if moving is None
            else (self._Z[moving], self.follows[moving])
        )
        targets = _flat_indices(follows, Z.shape[1]).reshape(-1)
        sets, every = Sets(np.arange(len(targets) + 1), targets), np.empty(0, np.intp)
        moved, self.error = next_layer(
            Z.reshape(-1, Z.shape[2]),
            self.error,
            sets,
            every,
            float(alpha / (1 + alpha)),
        )
        self._Z[slice(None) if moving is None else moving] = moved.reshape(Z.shape)
        self.layer += 1


class BatchLimit:
    """Limits of the token sets that one pass decides: every limit is the position of a
    leader.

    `in_pass`, (batch,), is False for token sets that are not decided in time; all other
    values are undefined for them.
    """

    def __init__(
        self,
        rule: "Hardmax",
        batch: Batch,
        max_layers: int,
        progress: Callable[[int], None],
    ) -> None:
        moves: list[
            tuple[IntArray, IntArray]
        ] = []  # token sets that moved, and the token that each token followed
        while True:
            batch.choose()
            undecided = batch.undecided.any(axis=1)
            if batch.in_pass.any():
                progress(int((batch.settled[batch.in_pass] >= 0).sum()))
            if not undecided.any() or batch.layer == min(max_layers, MAX_PASS_LAYERS):
                break
            moving = np.flatnonzero(undecided)
            moves.append((moving, batch.follows[moving]))
            batch.advance(moving)
        batch.in_pass &= ~undecided
        self.in_pass, self.real, self._start, self._rule = (
            batch.in_pass,
            batch.real,
            batch.start,
            rule,
        )
        self._queries, self.stats = batch.queries, batch.stats
        self._emerged, self._follows = batch.emerged, batch.follows
        self.layer: IntArray = batch.settled.max(
            axis=1
        )  # (batch,) at which the last token was decided
        self.leads: BoolArray = batch.emerged >= 0  # (batch, n)
        column = (
            np.cumsum(self.leads, axis=1) - 1
        )  # index of a leader among those of its token set
        self.clusters: IntArray = np.take_along_axis(
            column, batch.follows, axis=1
        )  # (batch, n)
        self._late: dict[
            tuple[int, int], Point
        ] = {}  # positions of leaders that moved before they led
        n = self.real.shape[1]
        for b in np.flatnonzero(
            self.in_pass & (self._emerged > 0).any(axis=1)
        ).tolist():
            history = History(self._start[b], np.ones(n, np.intp), rule.step)
            for moving, follows in moves[
                : self._emerged[b].max()
            ]:  # this token set moved in all of them
                history.record(
                    Sets(np.arange(n + 1), follows[np.searchsorted(moving, b)])
                )
            for i in np.flatnonzero(self._emerged[b] > 0).tolist():
                layer = int(self._emerged[b, i])
                self._late[b, i] = to_point(
                    history.at(layer, [i])[0], history.denominator(layer)
                )
        self._places: FloatArray = (
            batch.start.copy()
        )  # (batch, n, d), right for leaders
        for leader, point in self._late.items():
            self._places[leader] = list(map(float, point))
        self.tokens: FloatArray = _take_tokens(
            self._places, batch.follows
        )  # (batch, n, d)

    def limit_set(self, b: int) -> tuple[LimitSet, IntArray, int]:
        """Return the limits of the real tokens of one token set, when each leader
        emerged, and the queries.
        """
        ids = np.flatnonzero(self.real[b])
        classes, leads = Classes.singly(self._start[b, ids]), self.leads[b, ids]
        sets = Sets(
            np.arange(len(ids) + 1), np.searchsorted(ids, self._follows[b, ids])
        )
        leaders, column = (
            np.flatnonzero(leads),
            np.where(leads, np.cumsum(leads) - 1, -1),
        )
        proof = np.full(len(ids), Proof.C1 if self._rule.causal else Proof.THEOREM_1)
        places = ids[leaders].tolist()
        exact = [
            self._late.get((b, i)) or tuple(map(Fraction, self._start[b, i].tolist()))
            for i in places
        ]
        found = LimitSet(
            self._rule, classes, int(self.layer[b]), sets, proof, leaders, column, self.clusters[b, ids],
            self._places[b, places], exact,
        )  # fmt: skip
        return found, self._emerged[b, places], int(self._queries[b])


def _take_tokens(batch: FloatArray, places: IntArray) -> FloatArray:
    """Return the tokens at some places of each token set: (batch, n, d) and (batch, w)
    give (batch, w, d).
    """
    return batch.reshape(-1, batch.shape[2]).take(
        _flat_indices(places, batch.shape[1]), axis=0
    )


def _flat_indices(places: IntArray, n: int) -> IntArray:
    """Return indices into token sets of n tokens, (batch, w), as indices into all
    tokens of the batch.
    """
    return np.asarray(np.arange(len(places))[:, None] * n + places)


def _has_distinct_tokens(batch: FloatArray, real: BoolArray) -> BoolArray:
    """Return which token sets have real tokens that differ in their first coordinate,
    (batch,).
    """
    ranked = np.sort(np.where(real, batch[..., 0], np.inf), axis=1)
    return np.asarray(
        ~((ranked[:, 1:] == ranked[:, :-1]) & (ranked[:, 1:] < np.inf)).any(axis=1)
    )
