"""Many clouds in one pass, as long as floats decide every set of theirs.

All clouds are one array, and every step is that of `run.py` and `states.py` for all of them at once, in the same float
operations: tokens are the same to the last bit. A cloud leaves the pass where tokens are equal, where a comparison is
closer than its error bound, and where scaling could lose a digit. Whoever called runs it by itself, from the start. So
here all sets have one member, and Theorem 1 is the only one that decides.
"""

from typing import TYPE_CHECKING, Any

import numpy as np

from hardmax._types import AnyArray, BoolArray, FloatArray, IntArray
from hardmax.search.dispatch import count_numpy_work, explain_choice, products_of_batch, search_batch
from hardmax.search.reference import near_maxima_of_clouds
from hardmax.search.rounding import next_layer, slack_of
from hardmax.search.sets import Sets

if TYPE_CHECKING:
    from hardmax.rules.hardmax import Hardmax

LARGEST = 1024  # tokens of a cloud, from which on a run by itself spends its time on the search
USUAL = 8  # layers until clouds are decided, or more
SMALLEST, HIGHEST = 2.0**-600, 2.0**400  # numbers between them are scaled by a power of two, and back, without loss


def fits(rule: "Hardmax", clouds: AnyArray, kernel: str) -> bool:
    """Whether these clouds, (batch, n, d), may go in one pass: several small ones of floats, with exact ties."""
    plain = clouds.dtype != object and len(clouds) > 1 and clouds.shape[1] <= LARGEST
    return plain and kernel in ("auto", "scan") and rule.ties == "exact" and not rule.exact


class Batch:
    """Clouds of distinct tokens, moving. What is said of a cloud that has left, in `sure`, has no meaning."""

    def __init__(self, rule: "Hardmax", clouds: AnyArray, real: BoolArray, kernel: str = "auto") -> None:
        self._rule, self.real, self.layer, self.error = rule, real, 0, 0.0
        first = np.take_along_axis(clouds, real.argmax(axis=1)[:, None, None], axis=1)  # stands in for padding
        start = np.where(real[..., None], clouds, first).astype(np.float64)  # (batch, n, d)
        self.start = start if rule.causal else start + 0.0  # turns -0.0 into 0.0
        sizes = np.abs(self.start)
        largest = sizes.max(axis=(1, 2))
        exponents = np.frexp(largest)[1]
        usual = (largest < HIGHEST) & ~((sizes < SMALLEST) & (sizes > 0)).any(axis=(1, 2))
        self.sure: BoolArray = usual if rule.causal else usual & _distinct(self.start, real)
        self._scale = np.ldexp(1.0, np.where(usual, exponents, 0))[:, None, None]
        self._Z = np.where(usual[:, None, None], self.start / self._scale, 0.0)
        self.follows: IntArray = np.broadcast_to(np.arange(real.shape[1]), real.shape)  # never changed in place
        self.emerged: IntArray = np.full(real.shape, -1)  # layer from which a token leads
        self.settled: IntArray = np.full(real.shape, -1)  # layer from which it is decided
        self._compiled, self._why = True, "It was named."
        if kernel == "auto":
            products = USUAL * products_of_batch(len(clouds), clouds.shape[1], clouds.shape[1])
            self._compiled, self._why = explain_choice("scan", products)
            count_numpy_work("scan", 0 if self._compiled else products)
        self.queries: IntArray = np.zeros(len(real), np.intp)  # of each cloud

    @property
    def stats(self) -> dict[str, Any]:
        """What ran, of the clouds that have not left."""
        return {
            "kernel": "scan" if self._compiled else "numpy",
            "why": self._why,
            "arithmetic": "adaptive",
            "layers": self.layer,
            "queries": int(self.queries[self.sure].sum()),
            "sets_compared_exactly": 0,
        }

    @property
    def tokens(self) -> FloatArray:
        """Positions, (batch, n, d); whoever has led from the start on is where the input has it, to the last bit."""
        tokens = self._Z * self._scale
        if self._rule.causal:  # else there is no -0.0, which moves to 0.0
            tokens[self.emerged == 0] = self.start[self.emerged == 0]
        return np.asarray(tokens)

    @property
    def undecided(self) -> BoolArray:
        """Tokens to ask, (batch, n)."""
        return self.real & (self.settled < 0) & self.sure[:, None]

    def choose(self) -> None:
        """Find whom every undecided token follows, then who leads and who is decided."""
        undecided = self.undecided
        clouds = np.flatnonzero(undecided.any(axis=1))  # (a,)
        if not len(clouds):
            return
        asked, keys, real = undecided[clouds], self._Z[clouds], self.real[clouds]
        places = np.broadcast_to(np.arange(asked.shape[1]), asked.shape)
        if not self._rule.causal:  # which decides none, and counts the keys that are seen
            places = np.argsort(~asked, axis=1, kind="stable")[:, : asked.sum(axis=1).max()]
            asked = np.take_along_axis(asked, places, axis=1)  # (a, w)
        near = self._near_maxima(taken(keys, places), keys, real)
        good = ((near.sizes == 1).reshape(asked.shape) | ~asked).all(axis=1)
        self.sure[clouds[~good]] = False
        self.queries[clouds] += asked.sum(axis=1)
        asked &= good[:, None]
        top = clouds[:, None] * self.real.shape[1]
        self._record((top + places)[asked], (top + near.targets.reshape(asked.shape))[asked])

    def _near_maxima(self, points: FloatArray, keys: FloatArray, real: BoolArray) -> Sets:
        """Every key that may be the largest for points (a, w, d) among keys (a, n, d)."""
        rows, width = keys.reshape(-1, keys.shape[2]), points.shape[2]
        queries, query_error = self._rule.metric.queries(points.reshape(-1, width), self.error)
        slack = slack_of(queries, query_error, rows, self.error)
        exact = self._rule.metric.A is None and not self.error  # then the search knows the slack itself
        mask, causal, queries = None if real.all() else real, self._rule.causal, queries.reshape(points.shape)
        if not self._compiled:
            return near_maxima_of_clouds(queries, keys, slack, mask, causal)
        return search_batch(queries, keys, None if exact else slack, mask, causal)[0]

    def _record(self, rows: IntArray, targets: IntArray) -> None:
        """Write down whom rows follow, all clouds counted through; Theorem 1 needs leaders that see all keys."""
        n = self.real.shape[1]
        follows, emerged, settled = self.follows.reshape(-1).copy(), self.emerged.reshape(-1), self.settled.reshape(-1)
        follows[rows] = targets % n
        leaders = rows[rows == targets]
        emerged[leaders[emerged[leaders] < 0]] = self.layer
        if not self._rule.causal:
            settled[rows[emerged[targets] >= 0]] = self.layer
        self.follows = follows.reshape(self.real.shape)

    def advance(self, clouds: IntArray | None = None) -> None:
        """Move the tokens of some clouds, or of all: z_i <- z_i + alpha/(1 + alpha) (c_i - z_i)."""
        alpha = self._rule.step(self.layer)
        Z, follows = (self._Z, self.follows) if clouds is None else (self._Z[clouds], self.follows[clouds])
        targets = _counted_through(follows, Z.shape[1]).reshape(-1)
        sets, every = Sets(np.arange(len(targets) + 1), targets), np.empty(0, np.intp)
        moved, self.error = next_layer(Z.reshape(-1, Z.shape[2]), self.error, sets, every, float(alpha / (1 + alpha)))
        self._Z[slice(None) if clouds is None else clouds] = moved.reshape(Z.shape)
        self.layer += 1


def taken(clouds: FloatArray, places: IntArray) -> FloatArray:
    """The tokens at some places of each cloud: (batch, n, d) and (batch, w) give (batch, w, d)."""
    return clouds.reshape(-1, clouds.shape[2]).take(_counted_through(places, clouds.shape[1]), axis=0)


def _counted_through(places: IntArray, n: int) -> IntArray:
    """Places in clouds of n tokens as places in all of them, one after another."""
    return np.asarray(np.arange(len(places))[:, None] * n + places)


def _distinct(clouds: FloatArray, real: BoolArray) -> BoolArray:
    """Clouds whose real tokens differ in their first coordinate: (batch,). Others may have equal tokens."""
    ranked = np.sort(np.where(real, clouds[..., 0], np.inf), axis=1)
    return np.asarray(~((ranked[:, 1:] == ranked[:, :-1]) & (ranked[:, 1:] < np.inf)).any(axis=1))
