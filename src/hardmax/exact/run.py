"""One token set through the layers: its leaders, the decided tokens, and the theorem that decides each.

Theorem 1: C_i = {l} and C_l = {l} at one layer fix C_i for ever, and z_i tends to z_l.
Theorem 4: C_i made of leaders, all still seen from their centroid c_i, fix C_i for ever, and z_i tends to c_i.
Both hold for any A and any steps. A decided token needs no more queries; it stays a key.
"""

from enum import IntEnum
from typing import TYPE_CHECKING, Any

import numpy as np

from hardmax._errors import ParameterError
from hardmax._types import AnyArray, BoolArray, FloatArray, IntArray
from hardmax.exact.arithmetic import Adaptive, Rational, State, Tolerant
from hardmax.search.dispatch import Search
from hardmax.search.sets import Sets

if TYPE_CHECKING:
    from hardmax.rules.hardmax import Hardmax


class Proof(IntEnum):
    """The theorem or certificate that decided a token, from the simplest on."""

    NONE = 0
    THEOREM_1 = 1
    THEOREM_4 = 2
    T = 3
    CHAIN = 4

    def __str__(self) -> str:
        return {Proof.THEOREM_1: "Theorem 1", Proof.THEOREM_4: "Theorem 4", Proof.CHAIN: "chain"}.get(self, self.name)


class Run:
    """Move the classes of one token set through the layers.

    It starts at layer 0 from checked tokens of shape (n, d), in the arithmetic of the rule. `shortcuts=False` searches
    for every token at every layer, decided or not; the checks of the theorems use that.
    """

    def __init__(
        self, rule: "Hardmax", tokens: AnyArray, *, shortcuts: bool = True, kernel: str = "auto", gaps: bool = False
    ) -> None:
        tolerant = rule.ties != "exact"
        if kernel != "auto" and (rule.exact or tolerant):
            what = "`exact=True`, which multiplies integers" if rule.exact else "a tolerance, which sees all products"
            raise ParameterError("kernel", f'be "auto" with {what}', f"{kernel!r}", "Leave it out.")
        if kernel == "symmetric" and (rule.matrix is not None or rule.causal):
            got = "a matrix A" if rule.matrix is not None else "causal=True"
            must, advice = "have keys that are the queries, all of them", 'Use `kernel="auto"`.'
            raise ParameterError('kernel="symmetric"', must, got, advice)
        arithmetic = Tolerant if tolerant else Rational if rule.exact else Adaptive
        self.state: State = arithmetic(rule, tokens, Search("numpy" if tolerant else kernel, gaps=gaps))
        self.classes, self.shortcuts, self.rule = self.state.classes, shortcuts, rule
        self.sets = Sets.of([])  # until the first `choose`
        m = len(self.classes)
        self.emerged: IntArray = np.full(m, -1)  # layer from which a class leads
        self.settled: IntArray = np.full(m, -1)  # layer from which it is decided
        self.proof: IntArray = np.full(m, Proof.NONE)
        self.smallest_gap = np.inf  # over all undecided classes and layers so far, if the state finds gaps
        self.queries = 0

    @property
    def layer(self) -> int:
        return self.state.layer

    @property
    def stats(self) -> dict[str, Any]:
        return {
            "kernel": self.state.kernel,
            "why": self.state.why,
            "arithmetic": type(self.state).__name__.lower(),
            "layers": self.layer,
            "queries": self.queries,
            "sets_compared_exactly": self.state.exact_rows,
        }

    @property
    def decided(self) -> BoolArray:
        return np.asarray(self.settled >= 0)

    @property
    def tokens(self) -> FloatArray:
        """Positions (m, d); leaders since layer 0 are where the input has them, to the last bit."""
        tokens = self.state.tokens
        still = self.emerged == 0
        tokens[still] = self.classes.rows[still]
        return tokens

    @property
    def pace(self) -> float:
        """The largest step of a coordinate at the next layer."""
        alpha, tokens = self.rule.step(self.layer), self.state.tokens
        size = float(np.abs(tokens).max()) or 1.0
        offsets = self.sets.mean(tokens / size, self.classes.counts) - tokens / size
        return float(alpha / (1 + alpha)) * float(np.abs(offsets).max()) * size

    def choose(self) -> Sets:
        """Find C_i at this layer, then the leaders and the decided classes."""
        rows = np.flatnonzero(~self.decided) if self.shortcuts else np.arange(len(self.classes))
        if len(rows):
            found, gaps = self.state.choose(rows)
            self.sets = self.sets.replace(rows, found) if len(self.sets) else found
            if gaps is not None:
                self.smallest_gap = min(self.smallest_gap, float(gaps.min()))
            self.queries += len(rows)
            self._find_leaders(rows, found)
            if self.state.history is not None and not self.state.causal:  # the theorems need leaders to see all keys
                self._decide(rows, found)
        return self.sets

    def _find_leaders(self, rows: IntArray, sets: Sets) -> None:
        """Mark i as a leader when C_i holds nothing but i; classes that have met count as one.

        With exact ties it then leads for ever. With a tolerance others may come near enough to be in C_i, too.
        """
        leads = (sets.sizes == 1) & (sets.targets == rows)
        if self.state.history is not None:
            for r in sets.tied:
                if self.emerged[rows[r]] < 0 and rows[r] in sets[r]:
                    leads[r] = len(set(self.state.history.at(self.layer, sets[r].tolist()))) == 1
        else:
            self.emerged[rows[~leads]] = -1
        fresh = rows[leads]
        self.emerged[fresh[self.emerged[fresh] < 0]] = self.layer

    def _decide(self, rows: IntArray, sets: Sets) -> None:
        leads = self.emerged >= 0
        follows_leader = (sets.sizes == 1) & leads[sets.targets]
        self.settle(rows[follows_leader & (self.settled[rows] < 0)], Proof.THEOREM_1)
        followers: dict[bytes, list[int]] = {}  # of each set of leaders
        for r in sets.tied:
            if self.settled[rows[r]] < 0 and leads[sets[r]].all():
                followers.setdefault(sets[r].tobytes(), []).append(int(rows[r]))
        if followers:
            seen = self.state.sees(Sets.of([np.frombuffer(key, np.intp) for key in followers]))
            for members, holds in zip(followers.values(), seen, strict=True):
                if holds:
                    self.settle(np.array(members), Proof.THEOREM_4)

    def settle(self, rows: IntArray, proof: Proof) -> None:
        self.settled[rows] = self.layer
        self.proof[rows] = proof

    def advance(self) -> None:
        self.state.advance(self.sets)


def merge_stats(each: list[dict[str, Any]], in_pass: int) -> dict[str, Any]:
    """Return the stats of several runs as those of one batch, `in_pass` token sets of which went in one pass."""
    added = {name: sum(own[name] for own in each) for name in ("queries", "sets_compared_exactly")}
    kernels = dict.fromkeys(name for own in each for name in own["kernel"].split(", "))
    layers = max(own["layers"] for own in each)
    return each[-1] | added | {"kernel": ", ".join(kernels), "layers": layers, "sets_in_one_pass": in_pass}
