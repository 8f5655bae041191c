"""Check a certificate of `hardmax` with the standard library alone: python certificate_checker.py FILE [--sample N].

Tokens move by C_i = argmax_j <A z_i, z_j> over the tokens that i sees, z_i <- (z_i + alpha mean of C_i) / (1 + alpha).
A certificate states their limits. Positions are replayed exactly from the stated sets, and each set is compared with
all tokens that its token sees, up to the layer at which it is proved. A token whose members are all at its own position
leads: it never moves again. A proved token keeps its set for ever, by one of these theorems (proofs: documentation):

Theorem 1      no mask: C_i = {l}, and l leads.
Theorem 4, C1  all members lead, and all are in argmax_j <A c, z_j> over the tokens that i sees, c their mean. C1 is the
               same under a mask that is a partial order: causal, a tree, or blocks.
T, chain       if all sets stay, z_i(m) = s_i + rho^m sum_r C(m, r) a_ir after m more layers, s_i the limit, and rho =
               1/(1 + alpha). Then <A z_i, z_l - z_j> = F0 + rho^m F1(m) + rho^2m F2(m) vanishes for members and stays
               positive for all others that i sees, so that by induction the sets do stay. Each token that i sees must
               be proved at this layer or before, since its position is used in that form.

Limits solve s_i = z_i for leaders, and s_i = mean of s_j over C_i for the others.
"""

import argparse
import gzip
import json
import random
import re
import sys
from collections import Counter
from fractions import Fraction
from itertools import product
from math import comb, lcm
from operator import mul
from typing import Any, NamedTuple

FORMAT = "hardmax-certificate-1"
MAX_EXPONENT = 1000  # of rho: beyond, its powers cost more than a looser bound
NUMBER = re.compile(r"-?[0-9]+(/0*[1-9][0-9]*)?")
Point = tuple[Fraction, ...]


class Report(NamedTuple):
    """The result of a check, which prints as a sentence."""

    accepted: bool
    reason: str = ""
    tokens: int = 0
    layers: int = 0
    inequalities: int = 0
    sample: int | None = None
    emerged: tuple[int, ...] = ()  # layer from which each leader leads

    def __str__(self) -> str:
        size = f"{self.tokens} tokens, {self.layers} layers, {self.inequalities} inequalities tested."
        good = "Accepted" if self.sample is None else f"No fault in a sample of {self.sample}, which is no proof"
        return f"{good}: {size}" if self.accepted else f"Rejected: {self.reason}."


def check(document: Any, *, sample: int | None = None) -> Report:
    """Check a certificate as `json.load` returns it; with `sample`, the sets of that many random tokens alone."""
    digits = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(0)  # positions may be longer
    try:
        proof = Proof(document, sample)
        proof.replay()
        require(read_rows(document["positions"], proof.d) == proof.z, "positions are wrong")
        emerged = proof.check_limits(document["leaders"], document["weights"])
        return Report(True, "", proof.tokens, proof.layer, proof.tested, sample, emerged)
    except (ValueError, ArithmeticError, AttributeError, LookupError, TypeError) as problem:  # of reading any JSON
        return Report(False, str(problem) if type(problem) is ValueError else f"malformed, {problem!r:.80}")
    finally:
        sys.set_int_max_str_digits(digits)


def require(holds: bool, reason: str) -> None:
    if not holds:
        raise ValueError(reason)


def read_rows(rows: Any, width: int = 0) -> list[Point]:
    """Return rows of numbers, all of one length."""
    good = all(isinstance(x, str) and NUMBER.fullmatch(x) for row in rows for x in row)
    require(good and {len(row) for row in rows} == {width or max(len(rows[0]), 1)}, "rows of numbers are malformed")
    return [tuple(map(Fraction, row)) for row in rows]


def read_indices(values: Any, stop: int, *, is_set: bool = False) -> list[int]:
    good = isinstance(values, list) and all(type(x) is int and 0 <= x < stop for x in values)
    require(good and (not is_set or values == sorted(set(values)) != []), "an index is wrong, or a set is not sorted")
    return list(values)


def to_integers(rows: list[Point]) -> list[tuple[int, ...]]:
    """Return rows times their common denominator."""
    D = lcm(*{x.denominator for row in rows for x in row})
    return [tuple(x.numerator * (D // x.denominator) for x in row) for row in rows]


def dot(x: Any, y: Any) -> Any:
    return sum(map(mul, x, y))


class Proof:
    """Read a document, whose parts may be anything, then follow the layers that it states."""

    def __init__(self, document: Any, sample: int | None) -> None:
        require(isinstance(document, dict) and document.get("format") == FORMAT, f"the format is not {FORMAT}")
        (self.alpha,), self.z = read_rows([document["alpha"]]), read_rows(document["tokens"])
        self.n, self.d, self.tested = len(self.z), len(self.z[0]), 0
        identity = [[str(int(row == column)) for column in range(self.d)] for row in range(self.d)]
        self.A = to_integers(read_rows(identity if document["A"] is None else document["A"], self.d))
        require(min(self.alpha) > 0 and len(self.A) == self.d, "alpha is not positive, or A is not square")
        self.masked, self.seen = document["mask"] is not None, self.read_mask(document["mask"])
        labels = list(range(self.n)) if self.masked else read_indices(document["labels"], self.n)
        self.tokens, self.counts = len(labels), Counter(labels)  # equal tokens are one, with a multiplicity
        require(len(self.counts) == self.n, "a token has no label")
        self.sets = [read_indices(members, self.n, is_set=True) for members in document["sets"]]
        self.changes, self.layer = document["changes"], len(document["changes"])
        self.kinds, self.since = ([proof[part] for proof in document["proofs"]] for part in (0, 1))
        last, places = max(read_indices(self.since, self.layer + 1)), document["limits"]
        require(self.layer == document["layer"] == last, "the layer is not that of the last proof")
        self.points = read_rows(document["points"], self.d)
        self.limits = [self.points[p] for p in read_indices(places, len(self.points))]
        lengths = {len(part) for part in (self.sets, self.kinds, places, document["weights"])}
        require(lengths == {self.n}, "sets, proofs, limits or weights are not one per token")
        require(len(set(self.limits)) == len(self.points), "points are equal, or a point is no limit")
        self.checked = set(range(self.n) if sample is None else random.sample(range(self.n), min(sample, self.n)))
        self.leads: dict[int, int] = {}  # the layer from which each leader leads
        self.proved: set[int] = set()

    def read_mask(self, mask: Any) -> list[Any]:
        """Return the tokens that each token sees."""
        if mask is None or mask == "causal":
            return [range(self.n if mask is None else i + 1) for i in range(self.n)]
        seen = [{j for j, bit in enumerate(row) if bit == "1"} for row in mask]
        for i, own in enumerate(seen):
            good = i in own and all(seen[j] <= own and (i not in seen[j] or i == j) for j in own)
            require(good and len(seen) == len(mask[i]) == self.n, f"the mask is no partial order at token {i}")
        return seen

    def replay(self) -> None:
        """Move all tokens layer by layer, and check sets and proofs."""
        for k in range(self.layer + 1):
            if k:
                b = 1 - 1 / (1 + self.alpha[min(k, len(self.alpha)) - 1])
                means = [self.mean(i, self.z) for i in range(self.n)]
                self.z = [tuple(x + b * (c - x) for x, c in zip(*pair)) for pair in zip(self.z, means)]
                for i, members in self.changes[k - 1]:
                    require(i not in self.proved, f"the set of token {i} changes after its proof")
                    self.sets[read_indices([i], self.n)[0]] = read_indices(members, self.n, is_set=True)
            for i in set(range(self.n)) - self.proved:
                require(all(j in self.seen[i] for j in self.sets[i]), f"token {i} does not see its set")
                if all(self.z[j] == self.z[i] for j in self.sets[i]):
                    self.leads.setdefault(i, k)
            keys, here = to_integers(self.z), {i: self.kinds[i] for i in range(self.n) if self.since[i] == k}
            for i in self.checked - self.proved:
                self.check_set(i, keys[i], keys, strict=True)
            self.proved.update(here)
            for i, kind in here.items():
                if kind not in ("T", "chain"):
                    kinds = ["C1"] if self.masked else ["Theorem 4", "Theorem 1"][: 1 + (len(self.sets[i]) == 1)]
                    applies = kind in kinds and self.leads.keys() >= set(self.sets[i])
                    require(applies, f"{kind} does not apply to token {i}")
                    if kind != "Theorem 1" and i not in self.leads and i in self.checked:
                        self.check_set(i, to_integers([self.mean(i, self.z)])[0], keys, strict=False)
            if closed := [i for i, kind in here.items() if kind in ("T", "chain")]:
                require(k >= len(self.alpha) - 1, "alpha is not constant after T or chain")
                self.check_closed_forms(closed)

    def mean(self, i: int, rows: list[Point]) -> Point:
        """Return the mean of rows over C_i."""
        if len(self.sets[i]) == 1:
            return rows[self.sets[i][0]]
        weighted = [[self.counts[j] * x for x in rows[j]] for j in self.sets[i]]
        return tuple(sum(column) / sum(self.counts[j] for j in self.sets[i]) for column in zip(*weighted))

    def check_set(self, i: int, point: Any, keys: Any, *, strict: bool) -> None:
        """Check that members of C_i have the largest product at a point, and, if `strict`, no others have."""
        query = [dot(row, point) for row in self.A]
        products = {j: dot(query, keys[j]) for j in self.seen[i]}
        best, members = max(products.values()), set(self.sets[i])
        largest = {j for j, value in products.items() if value == best}
        require(largest == members if strict else largest >= members, f"the set of token {i} is wrong")
        self.tested += len(products)

    def check_closed_forms(self, closed: list[int]) -> None:
        """Check that the sets of some tokens stay for ever, if limits are as stated, which `check_limits` checks."""
        alpha, s, moving = self.alpha[-1], self.limits, self.proved - self.leads.keys()
        require(all(self.proved.issuperset(self.sets[i]) for i in moving), "a token follows one that is not proved")
        a = [[tuple((x - y) * (i in moving) for x, y in zip(*pair)) for i, pair in enumerate(zip(self.z, s))]]
        while any(map(any, a[-1])):
            require(len(a) <= self.n, "positions have no closed form")
            a.append([tuple(alpha * (i in moving) * x for x in self.mean(i, a[-1])) for i in range(self.n)])
        for i in closed:
            require(self.proved.issuperset(self.seen[i]), f"token {i} sees a token that is not proved")
            As, *Aa = [[dot(row, rows[i]) for row in self.A] for rows in (s, *a)]
            for j in self.seen[i] if i in self.checked else ():
                S, *q = [tuple(x - y for x, y in zip(rows[self.sets[i][0]], rows[j])) for rows in (s, *a)]
                F0, F1 = dot(As, S), [dot(As, row) + dot(image, S) for row, image in zip(q, Aa)]
                F2 = [Fraction(0)] * (2 * len(q) - 1)
                for (u, image), (v, row) in product(enumerate(Aa), enumerate(q)):
                    for r in range(max(u, v), u + v + 1):  # C(m,u) C(m,v) = sum_r C(r,u) C(u,r-v) C(m,r)
                        F2[r] += dot(image, row) * comb(r, u) * comb(u, r - v)
                stays = not any([F0, *F1, *F2]) if j in self.sets[i] else is_positive(F0, F1, F2, 1 / (1 + alpha))
                require(stays, f"the set of token {i} may change, see token {j}")
                self.tested += 1

    def check_limits(self, leaders: Any, weights: Any) -> tuple[int, ...]:
        """Check limits, their points and weights; return the layer from which each leader leads."""
        places = [self.z[i] for i in read_indices(leaders, self.n)]
        require(self.leads.keys() >= set(leaders), "a token that does not lead is among the leaders")
        require({self.z[i] for i in self.leads} == set(places), "a leader is missing")
        require(self.points[: len(places)] == places, "the first points are not those of the leaders")
        for i, own in enumerate(weights):
            expected = self.z[i] if i in self.leads else self.mean(i, self.limits)
            require(self.limits[i] == expected, f"the limit of token {i} is wrong")
            if own is not None or self.kinds[i] not in ("T", "chain"):
                on, (shares,) = read_indices([j for j, _ in own], self.n), read_rows([[w for _, w in own]])
                convex = min(shares) >= 0 and sum(shares) == 1 and len(set(on)) == len(on) and set(on) <= set(leaders)
                sums = tuple(dot(shares, column) for column in zip(*(self.z[j] for j in on)))
                require(convex and sums == self.limits[i], f"weights of token {i} are wrong")
        return tuple(self.leads[i] for i in leaders)


def is_positive(F0: Fraction, F1: list[Fraction], F2: list[Fraction], rho: Fraction) -> bool:
    """Return whether F0 + rho^m F1(m) + rho^2m F2(m) > 0 at every m >= 0, by a condition that is enough."""
    if not any(F1[1:] + F2[1:]):  # a parabola in t = rho^m, by its coefficients of t^2, t (1 - t) and (1 - t)^2
        start, middle = F0 + F1[0] + F2[0], 2 * F0 + F1[0]
        if start > 0 and F0 >= 0 and (middle >= 0 or middle * middle < 4 * start * F0):
            return True
    if F0:
        return worst(F1, rho) + worst(F2, rho**2) < F0
    return min(F1) >= 0 and F1[0] > worst(F2, rho) if any(F1) else min(F2) >= 0 and F2[0] > 0


def worst(coefficients: list[Fraction], rho: Fraction) -> Any:
    """Return a bound of -rho^m sum_r f_r C(m, r) over m >= 0: each term is largest at m = floor(r / (1 - rho))."""
    at = [(r, int(r / (1 - rho))) for r in range(len(coefficients))]
    peaks = [comb(m, r) * rho**m if m <= MAX_EXPONENT else rho**r / (1 - rho) ** (r + 1) for r, m in at]
    return dot([max(-f, 0) for f in coefficients], peaks)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Check a certificate. Exit code 1: rejected; 2: not readable.")
    parser.add_argument("file", help="a .json or .json.gz file")
    parser.add_argument("--sample", type=int, help="compare sets of this many random tokens alone: no proof")
    options = parser.parse_args()
    try:
        with (gzip.open if options.file.endswith(".gz") else open)(options.file, "rt", encoding="utf-8") as file:
            report = check(json.load(file), sample=options.sample)
    except Exception as problem:  # anything may be in the file
        parser.error(f"the certificate cannot be read: {problem}")
    print(report)
    sys.exit(0 if report.accepted else 1)
