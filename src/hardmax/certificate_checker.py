"""Check a certificate of `hardmax` with the standard library alone: python certificate_checker.py FILE [--sample N].

Tokens move by C_i = argmax_j <A z_i, z_j> over the tokens that i sees, z_i <- (z_i + alpha mean of C_i) / (1 + alpha).
A certificate states their limits. Positions are replayed in integers from the stated sets, and each set is compared
with all tokens that its token sees, up to the layer at which the token is proved: until then sets and positions are
those of the model. A token whose members are all at its own position leads: it never moves again. A proved token keeps
its set for ever, by one of these theorems, whose proofs are in the documentation of hardmax:

Theorem 1      no mask: C_i = {l}, and l leads.
Theorem 4, C1  all members lead, and all are in argmax_j <A c, z_j> over the tokens that i sees, c their mean. C1 is the
               same under a mask that is a partial order: causal, a tree, or blocks.
T, chain       if all sets stay, z_i(m) = s_i + rho^m sum_r C(m, r) a_ir after m more layers, s_i the limit, and rho =
               1/(1 + alpha). Then <A z_i, z_l - z_j> = F0 + rho^m F1(m) + rho^2m F2(m) vanishes for members and stays
               positive for all others that i sees, so that by induction the sets do stay. Each token that i sees must
               be proved at this layer or before, since its position is used in that form.

Limits solve s_i = z_i for leaders, and s_i = mean of s_j over C_i for the others.
"""

import gzip
import json
import random
import re
import sys
from collections import Counter
from fractions import Fraction
from math import comb, lcm
from operator import mul
from typing import Any, NamedTuple

FORMAT = "hardmax-certificate-1"
CLOSED = ("T", "chain")  # kinds of proofs by closed forms
NUMBER = re.compile(r"-?[0-9]+(/0*[1-9][0-9]*)?")
MALFORMED = (ArithmeticError, AttributeError, LookupError, TypeError)  # errors of reading any JSON; ValueError: a fault


class Report(NamedTuple):
    """The result of a check, which prints as a sentence."""

    accepted: bool
    reason: str = ""
    tokens: int = 0
    layers: int = 0
    inequalities: int = 0
    sampled: int | None = None
    emerged: tuple[int, ...] = ()  # layer from which each leader leads

    def __str__(self) -> str:
        size = f"{self.tokens} tokens, {self.layers} layers, {self.inequalities} inequalities tested."
        good = "Accepted" if self.sampled is None else f"No fault in a sample of {self.sampled}, which is no proof"
        return f"{good}: {size}" if self.accepted else f"Rejected: {self.reason}."


def check(document: Any, *, sample: int | None = None, seed: int = 0) -> Report:
    """Check a certificate as `json.load` returns it; with `sample`, the sets of that many random tokens alone."""
    digits = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(0)  # positions may be longer
    try:
        proof = Proof(document)
        rows = range(proof.n) if sample is None else random.Random(seed).sample(range(proof.n), min(sample, proof.n))
        proof.replay(set(rows), sample is not None)
        proof.check_limits()
        number, emerged = None if sample is None else len(rows), tuple(proof.leads[i] for i in document["leaders"])
        return Report(True, "", proof.tokens, proof.layer, proof.tested, number, emerged)
    except (ValueError, *MALFORMED) as problem:
        return Report(False, str(problem) if type(problem) is ValueError else f"malformed, {problem!r:.80}")
    finally:
        sys.set_int_max_str_digits(digits)


def require(holds: bool, reason: str) -> None:
    if not holds:
        raise ValueError(reason)


def dot(x: Any, y: Any) -> Any:
    return sum(map(mul, x, y))


def read_rows(rows: Any, width: int = 0) -> list[tuple[Fraction, ...]]:
    """Return rows of numbers, all of one length."""
    good = all(isinstance(x, str) and NUMBER.fullmatch(x) for row in rows for x in row)
    require(good and {len(row) for row in rows} == {width or max(len(rows[0]), 1)}, "rows of numbers are malformed")
    return [tuple(map(Fraction, row)) for row in rows]


def read_indices(values: Any, stop: int) -> list[int]:
    require(isinstance(values, list) and all(type(x) is int and 0 <= x < stop for x in values), "an index is wrong")
    return list(values)


def to_integers(rows: list[tuple[Fraction, ...]]) -> tuple[list[tuple[int, ...]], int]:
    """Return rows as integers, and their common denominator."""
    D = lcm(*{x.denominator for row in rows for x in row})
    return [tuple(x.numerator * (D // x.denominator) for x in row) for row in rows], D


class Proof:
    """Read a document, whose parts may be anything, then follow the layers that it states."""

    def __init__(self, document: Any) -> None:
        require(isinstance(document, dict) and document.get("format") == FORMAT, f"the format is not {FORMAT}")
        self.document, self.tested = document, 0
        (self.alpha,) = read_rows([document["alpha"]])
        require(min(self.alpha) > 0, "alpha is not positive")
        self.rows, self.D = to_integers(read_rows(document["tokens"]))
        self.n, self.d = len(self.rows), len(self.rows[0])
        self.A = None if document["A"] is None else to_integers(read_rows(document["A"], self.d))[0]
        require(self.A is None or len(self.A) == self.d, "A is not square")
        self.masked, self.seen = document["mask"] is not None, self.read_mask(document["mask"])
        labels = list(range(self.n)) if self.masked else read_indices(document["labels"], self.n)
        self.tokens, numbers = len(labels), Counter(labels)  # equal tokens are one, with a multiplicity
        self.counts = [numbers[i] for i in range(self.n)]
        require(self.masked or (self.counts == document["counts"] and min(self.counts) > 0), "labels do not fit counts")
        self.sets = [self.read_set(members) for members in document["sets"]]
        self.changes, self.layer = document["changes"], len(document["changes"])
        self.kinds, self.since = ([proof[part] for proof in document["proofs"]] for part in (0, 1))
        require(len(self.sets) == len(self.kinds) == self.n, "there is not one set and one proof per token")
        last = max(read_indices(self.since, self.layer + 1))
        require(self.layer == document["layer"] == last, "the layer is not that of the last proof")
        require(set(self.kinds) <= {"Theorem 1", "Theorem 4", "C1", *CLOSED}, "a kind of proof is not known")
        self.points, limits = read_rows(document["points"], self.d), document["limits"]
        require(set(read_indices(limits, len(self.points))) == set(range(len(self.points))), "a point is no limit")
        self.limits = [self.points[limits[i]] for i in range(self.n)]
        self.leads: dict[int, int] = {}  # the layer from which each leader leads
        self.proved: set[int] = set()

    def read_mask(self, mask: Any) -> list[Any]:
        """Return the tokens that each token sees."""
        if mask is None or mask == "causal":
            return [range(self.n if mask is None else i + 1) for i in range(self.n)]
        require(len(mask) == self.n and all(len(row) == self.n and set(row) <= set("01") for row in mask), "the mask")
        seen = [{j for j, bit in enumerate(row) if bit == "1"} for row in mask]
        for i, own in enumerate(seen):
            good = i in own and all(seen[j] <= own and (i not in seen[j] or i == j) for j in own)
            require(good, f"the mask is no partial order at token {i}")
        return seen

    def read_set(self, members: Any) -> list[int]:
        """Return a set of tokens, which may be a single index."""
        members = read_indices([members] if type(members) is int else members, self.n)
        require(len(members) > 0 and members == sorted(set(members)), "a set is empty or not sorted")
        return members

    def replay(self, checked: set[int], is_sample: bool) -> None:
        """Move all tokens layer by layer, and check sets and proofs of those in `checked`."""
        if is_sample:  # and of the tokens that these follow in the end
            final = {i: members for layer in self.changes for i, members in layer}
            checked = checked.union(*(self.read_set(final.get(i, self.sets[i])) for i in checked))
        for k in range(self.layer + 1):
            if k:
                self.move(self.alpha[min(k, len(self.alpha)) - 1])
                for i, members in self.changes[k - 1]:
                    require(i not in self.proved, f"the set of token {i} changes after its proof")
                    self.sets[read_indices([i], self.n)[0]] = self.read_set(members)
            for i in set(range(self.n)) - self.proved:
                require(all(j in self.seen[i] for j in self.sets[i]), f"token {i} does not see its set")
                if i in checked:
                    self.check_set(i, self.rows[i], strict=True)
                if all(self.rows[j] == self.rows[i] for j in self.sets[i]):
                    self.leads.setdefault(i, k)
            here = [i for i in range(self.n) if self.since[i] == k]
            for i in here:
                if self.kinds[i] not in CLOSED:
                    self.check_leaders(i, i in checked)
            self.proved.update(here)
            if closed := [i for i in here if self.kinds[i] in CLOSED]:
                require(k >= len(self.alpha) - 1, "alpha is not constant after T or chain")
                self.check_closed_form(closed, checked)

    def move(self, alpha: Fraction) -> None:
        """Move all tokens by one layer, in integers over a new denominator."""
        p, q, totals = alpha.numerator, alpha.denominator, [self.total(i) for i in range(self.n)]
        common = lcm(*set(totals))
        sums = [[p * (common // total) * x for x in self.sum(i, self.rows)] for i, total in enumerate(totals)]
        self.rows = [tuple(q * common * x + y for x, y in zip(*pair)) for pair in zip(self.rows, sums)]
        self.D *= (p + q) * common

    def total(self, i: int) -> int:
        return sum(self.counts[j] for j in self.sets[i])

    def sum(self, i: int, rows: Any) -> tuple[Any, ...]:
        """Return the sum of rows over C_i."""
        return tuple(map(sum, zip(*([self.counts[j] * x for x in rows[j]] for j in self.sets[i]))))

    def image(self, row: Any) -> Any:
        return row if self.A is None else tuple(dot(line, row) for line in self.A)

    def check_set(self, i: int, point: tuple[int, ...], *, strict: bool) -> None:
        """Check that members of C_i have the largest product at a point, and, if `strict`, no others have."""
        query, members = self.image(point), set(self.sets[i])
        best = dot(query, self.rows[self.sets[i][0]])
        for j in self.seen[i]:
            product = dot(query, self.rows[j])
            good = product == best if j in members else product < best or (product == best and not strict)
            require(good, f"the set of token {i} is not that of the largest products, see token {j}")
        self.tested += len(self.seen[i])

    def check_leaders(self, i: int, checked: bool) -> None:
        """Check the conditions of Theorem 1, Theorem 4 or C1."""
        require(self.leads.keys() >= set(self.sets[i]), f"token {i} follows a token that does not lead")
        single = self.kinds[i] == "Theorem 1"
        applies = (self.kinds[i] == "C1") == self.masked and (not single or len(self.sets[i]) == 1)
        require(applies, f"{self.kinds[i]} does not apply to token {i}")
        if checked and not single and i not in self.leads:
            self.check_set(i, self.sum(i, self.rows), strict=False)

    def check_closed_form(self, rows: list[int], checked: set[int]) -> None:
        """Check that the sets of some tokens stay for ever, if limits are as stated, which `check_limits` checks."""
        alpha, proved, rho = self.alpha[-1], self.proved, 1 / (1 + self.alpha[-1])
        require(all(proved.issuperset(self.sets[i]) for i in proved), "a token follows one that is not proved")
        s = {i: tuple(self.D * x for x in self.limits[i]) for i in proved}
        levels = [{i: tuple(x - y for x, y in zip(self.rows[i], s[i])) for i in proved if i not in self.leads}]
        while any(map(any, levels[-1].values())):
            require(len(levels) <= self.n, "positions have no closed form")
            below = levels[-1] | dict.fromkeys(self.leads, (0,) * self.d)
            levels.append({i: tuple(alpha * x / self.total(i) for x in self.sum(i, below)) for i in levels[-1]})
        a = [level | dict.fromkeys(self.leads, (0,) * self.d) for level in levels]
        for i in rows:
            require(proved.issuperset(self.seen[i]), f"token {i} sees a token that is not proved")
            member, As, Aa = self.sets[i][0], self.image(s[i]), [self.image(level[i]) for level in a]
            for j in self.seen[i] if i in checked else ():
                S, *q = [tuple(x - y for x, y in zip(part[member], part[j])) for part in (s, *a)]
                F0, F1 = dot(As, S), [dot(As, row) + dot(image, S) for row, image in zip(q, Aa)]
                F2 = [Fraction(0)] * (2 * len(q) - 1)
                for (u, image), (v, row) in ((x, y) for x in enumerate(Aa) for y in enumerate(q)):
                    for r in range(max(u, v), u + v + 1):  # C(m,u) C(m,v) = sum_r C(r,u) C(u,r-v) C(m,r)
                        F2[r] += dot(image, row) * comb(r, u) * comb(u, r - v)
                stays = not any([F0, *F1, *F2]) if j in self.sets[i] else is_positive(F0, F1, F2, rho)
                require(stays, f"the set of token {i} may change, see token {j}")
                self.tested += 1

    def check_limits(self) -> None:
        """Check positions, leaders, points, limits and weights."""
        leaders, weights = read_indices(self.document["leaders"], self.n), self.document["weights"]
        positions = read_rows(self.document["positions"], self.d)
        require(positions == [tuple(Fraction(x, self.D) for x in row) for row in self.rows], "positions are wrong")
        require(self.leads.keys() >= set(leaders), "a token that does not lead is among the leaders")
        places = [positions[i] for i in leaders]
        require(self.points[: len(places)] == places, "the first points are not those of the leaders")
        require({positions[i] for i in self.leads} == set(places), "a leader is missing")
        require(len(set(self.points)) == len(self.points) and len(weights) == self.n, "points are equal")
        for i, own in enumerate(weights):
            mean = tuple(x / self.total(i) for x in self.sum(i, self.limits))
            require(self.limits[i] == (positions[i] if i in self.leads else mean), f"the limit of token {i} is wrong")
            if own is None and self.kinds[i] in CLOSED:
                continue
            on, (shares,) = read_indices([j for j, _ in own], self.n), read_rows([[w for _, w in own]])
            convex = min(shares) >= 0 and sum(shares) == 1 and len(set(on)) == len(on) and set(on) <= set(leaders)
            sums = tuple(dot(shares, column) for column in zip(*(positions[j] for j in on)))
            require(convex and sums == self.limits[i], f"weights of token {i} are wrong")


def is_positive(F0: Fraction, F1: list[Fraction], F2: list[Fraction], rho: Fraction) -> bool:
    """Return whether F0 + rho^m F1(m) + rho^2m F2(m) > 0 at every m >= 0, by a condition that is enough."""

    def worst(coefficients: list[Fraction], rho: Fraction) -> Fraction:  # C(m, r) rho^m is largest at this m
        peaks = [int(r / (1 - rho)) for r in range(len(coefficients))]
        return sum(
            (-f * comb(m, r) * rho**m for r, (f, m) in enumerate(zip(coefficients, peaks)) if f < 0), Fraction(0)
        )

    if not any(F1[1:] + F2[1:]):  # a parabola in t = rho^m, by its coefficients of t^2, t (1 - t) and (1 - t)^2
        start, middle = F0 + F1[0] + F2[0], 2 * F0 + F1[0]
        if start > 0 and F0 >= 0 and (middle >= 0 or middle * middle < 4 * start * F0):
            return True
    if F0:
        return worst(F1, rho) + worst(F2, rho**2) < F0
    return min(F1) >= 0 and F1[0] > worst(F2, rho) if any(F1) else min(F2) >= 0 and F2[0] > 0


def main(arguments: list[str]) -> int:
    """Check the file of the command line; return 0 if it is accepted, 1 if not, and 2 if it cannot be read."""
    try:
        sample = int(arguments[2]) if arguments[1:2] == ["--sample"] else None
        with (gzip.open if arguments[0].endswith(".gz") else open)(arguments[0], "rt", encoding="utf-8") as file:
            document = json.load(file)
    except (OSError, ValueError, IndexError, RecursionError, EOFError) as problem:
        print(f"The certificate cannot be read: {problem}. Usage: certificate_checker.py FILE [--sample N]")
        return 2
    report = check(document, sample=sample)
    print(report)
    return 0 if report.accepted else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
