"""Check a certificate of `hardmax` with the standard library alone: python
certificate_checker.py FILE [--sample N].

Tokens move by C_i = argmax_j <A z_i, z_j> over the tokens that i sees, z_i <- (z_i +
alpha mean of C_i) / (1 + alpha). A certificate states their limits. Positions are
replayed exactly from the stated sets, and each set is compared with all tokens that its
token sees, up to the layer at which it is proved. A token whose members are all at its
own position leads: it never moves again. A proved token keeps its set for ever, by one
of these theorems (proofs: documentation):

Theorem 1      no mask: C_i = {l}, and l leads.
Theorem 4, C1  all members lead, and all are in argmax_j <A c, z_j> over the tokens that
               i sees, c their mean. C1 is the same under a mask that is a partial
               order: causal, a tree, or blocks.
T, chain       if all sets stay, z_i(m) = s_i + rho^m sum_r C(m, r) a_ir after m layers,
               with rho = 1/(1 + alpha). All tokens j that i sees are proved, and
               <A z_i, z_l - z_j> = F0 + rho^m F1(m) + rho^2m F2(m) is 0 for members j
               and stays positive for the others: by induction the sets do stay.

Limits solve s_i = z_i for leaders, and s_i = mean of s_j over C_i for the others. So do
their weights on the leaders; these are null for tokens on a cycle of tokens that do not
lead, and for followers of such tokens.

A document beyond the limits below is rejected. Reasons contain no text of the document.
"""

import argparse
import gzip
import json
import random
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from fractions import Fraction
from itertools import pairwise
from math import ceil, comb, lcm
from operator import mul
from typing import Any, NamedTuple

FORMAT = "hardmax-certificate-1"
FIELDS = {
    *("format", "alpha", "A", "mask", "tokens", "labels", "layer", "sets", "changes"),
    *("proofs", "positions", "leaders", "points", "limits", "weights"),
}
KINDS = ("Theorem 1", "Theorem 4", "C1", "T", "chain")
CLOSED = ("T", "chain")
NUMBER = re.compile(r"-?[0-9]+(/0*[1-9][0-9]*)?")

# Limits, the same in both checkers and in `Limit.certificate`.
MAX_CHARACTERS = 100_000  # of a number
MAX_BITS = 160_000  # of the common denominator of the positions of a layer
MAX_TOTAL_BITS = 50_000_000  # of the common denominators of all layers together
MAX_MASKED = 50_000  # tokens under a mask of lists, whose closure has n^2 / 2 bits

MAX_LEVELS = 50  # of tokens that follow moving tokens, in T and chain
MAX_LEVEL_BITS = 2**17  # of the factor between the first level and the last one

# Of the powers of rho, see `find_peaks`.
MAX_EXPONENT = 1000
UNIT = 2**64

Point = tuple[Fraction, ...]
Row = tuple[int, ...]
Peaks = tuple[list[int], int]


class Fault(Exception):
    """A reason to reject a document."""


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
        if not self.accepted:
            return f"Rejected: {self.reason}."
        size = (
            f"{self.tokens} tokens, {self.layers} layers, {self.inequalities}"
            " inequalities tested."
        )
        if self.sample is None:
            return f"Accepted: {size}"
        return f"No fault in a sample of {self.sample}, which is no proof: {size}"


def check(document: Any, *, sample: int | None = None) -> Report:
    """Check a certificate as `json.load` returns it; with `sample`, the sets of that
    many random tokens alone.
    """
    # Numbers may be longer than Python converts by default. `hm.check_certificate`
    # restores the limit.
    sys.set_int_max_str_digits(0)
    try:
        proof = Proof(document, sample)
        proof.replay()
        emerged = proof.check_limits(document)
    except Fault as fault:
        return Report(False, str(fault))
    except (ValueError, ArithmeticError, LookupError, TypeError, RecursionError):
        return Report(False, "the document is malformed")
    tokens = sum(proof.counts)
    return Report(True, "", tokens, proof.layer, proof.tested, sample, emerged)


def require(holds: bool, reason: str) -> None:
    if not holds:
        raise Fault(reason)


def read_list(values: Any, size: int | None = None) -> list[Any]:
    good = isinstance(values, list) and size in (None, len(values))
    require(good, "a list is missing, or has the wrong length")
    return list(values)


def read_number(text: Any) -> Fraction:
    require(isinstance(text, str), "a number is malformed")
    require(
        len(text) <= MAX_CHARACTERS,
        f"a number has more than {MAX_CHARACTERS} characters",
    )
    require(NUMBER.fullmatch(text) is not None, "a number is malformed")
    return Fraction(text)


def read_rows(rows: Any, width: int | None = None) -> list[Point]:
    """Return rows of numbers, all of one length."""
    rows = read_list(rows)
    if width is None:
        require(len(rows) > 0, "a list of rows is empty")
        width = len(read_list(rows[0]))
        require(width > 0, "a row is empty")
    return [tuple(map(read_number, read_list(row, width))) for row in rows]


def read_indices(values: Any, stop: int) -> list[int]:
    good = all(type(x) is int and 0 <= x < stop for x in read_list(values))
    require(good, "an index is wrong")
    return list(values)


def read_index(value: Any, stop: int) -> int:
    return read_indices([value], stop)[0]


def read_set(values: Any, stop: int) -> set[int]:
    members = set(read_indices(values, stop))
    require(len(members) == len(values), "a set has an index twice")
    return members


def read_members(values: Any, stop: int) -> set[int]:
    require(len(read_list(values)) > 0, "a set is empty")
    return read_set(values, stop)


def to_integers(rows: list[Point], limit: int = MAX_BITS) -> tuple[list[Row], int]:
    """Return rows times their common denominator, and this number."""
    D = 1
    for denominator in {x.denominator for row in rows for x in row}:
        D = lcm(D, denominator)
        require_bits(D, limit)
    numerators = [
        tuple(x.numerator * (D // x.denominator) for x in row) for row in rows
    ]
    return numerators, D


def require_bits(D: int, limit: int = MAX_BITS) -> None:
    require(D.bit_length() <= limit, f"a common denominator has more than {limit} bits")


def dot(x: Iterable[int], y: Iterable[int]) -> int:
    return sum(map(mul, x, y))


def in_order(needs: list[list[int]]) -> Iterator[int]:
    """Yield indices, each after those that it needs. Cycles, and what needs them, are
    left out.
    """
    missing = [len(own) for own in needs]
    needed_by: list[list[int]] = [[] for _ in needs]
    for i, own in enumerate(needs):
        for j in own:
            needed_by[j].append(i)
    ready = [i for i, number in enumerate(missing) if number == 0]
    while ready:
        j = ready.pop()
        yield j
        for i in needed_by[j]:
            missing[i] -= 1
            if missing[i] == 0:
                ready.append(i)


class Proof:
    """Read a document, whose parts may be anything, then follow the layers that it
    states.
    """

    def __init__(self, document: Any, sample: int | None) -> None:
        good = isinstance(document, dict) and document.get("format") == FORMAT
        good = good and document.keys() == FIELDS
        require(good, f"the format is not {FORMAT} with {len(FIELDS)} fields")

        self.alpha = read_rows([document["alpha"]])[0]
        require(min(self.alpha) > 0, "alpha is not positive")
        self.rows, self.D = to_integers(read_rows(document["tokens"]))
        self.total_bits = self.D.bit_length()
        self.n = len(self.rows)
        self.d = len(self.rows[0])
        self.A: list[Row] | None = None  # None is the identity
        if document["A"] is not None:
            self.A = to_integers(read_rows(document["A"], self.d))[0]
            require(len(self.A) == self.d, "A is not square")

        self.mask = document["mask"]
        self.masked = self.mask is not None
        if self.masked and self.mask != "causal":
            self.closure = self.read_mask(self.mask)
        if self.masked:
            require(document["labels"] is None, "labels are not null under a mask")
            labels = list(range(self.n))
        else:
            labels = read_indices(document["labels"], self.n)
        numbers = Counter(labels)
        require(len(numbers) == self.n, "a token has no label")
        self.counts = [numbers[i] for i in range(self.n)]
        self.order = list(dict.fromkeys(labels))  # tokens in the order of the inputs

        sets = read_list(document["sets"], self.n)
        self.sets = [read_members(members, self.n) for members in sets]
        self.changes = read_list(document["changes"])
        self.layer = len(self.changes)
        proofs = [read_list(proof, 2) for proof in read_list(document["proofs"])]
        require(len(proofs) == self.n, "a token has no proof")
        self.kinds = [kind for kind, _ in proofs]
        known = all(isinstance(kind, str) and kind in KINDS for kind in self.kinds)
        require(known, "a kind of proof is not known")
        self.since = read_indices([layer for _, layer in proofs], self.layer + 1)
        last = read_index(document["layer"], self.layer + 1)
        require(
            last == self.layer == max(self.since),
            "the layer is not that of the last proof",
        )

        points = read_rows(document["points"], self.d)
        limits = read_list(read_indices(document["limits"], len(points)), self.n)
        require(len(set(points)) == len(points), "points are equal")
        require(len(set(limits)) == len(points), "a point is no limit")
        # Limits are means of positions, so their denominators are a little longer.
        self.points, self.points_D = to_integers(points, 2 * MAX_BITS)
        self.limits = [self.points[p] for p in limits]

        every = range(self.n)
        self.checked = set(
            every if sample is None else random.sample(every, min(sample, self.n))
        )
        self.leads: dict[int, int] = {}  # leaders with the layer from which they lead
        self.proved: set[int] = set()
        self.tested = 0

    def read_mask(self, mask: Any) -> list[int]:
        """Return per token all tokens that it sees, as the bits of an integer."""
        require(
            self.n <= MAX_MASKED, f"a mask of lists has more than {MAX_MASKED} tokens"
        )
        direct = [list(read_set(row, self.n)) for row in read_list(mask, self.n)]
        closure = [0] * self.n
        for i in in_order(direct):
            closure[i] = 1 << i
            for j in direct[i]:
                closure[i] |= closure[j]
        require(all(closure), "the mask has a cycle")
        return closure

    def sees(self, i: int) -> Iterable[int]:
        if not self.masked:
            return range(self.n)
        if self.mask == "causal":
            return range(i + 1)
        bits = reversed(bin(self.closure[i]))
        return [j for j, bit in enumerate(bits) if bit == "1"]

    def replay(self) -> None:
        """Move all tokens layer by layer, and check sets and proofs."""
        for k in range(self.layer + 1):
            if k > 0:
                self.move(self.alpha[min(k, len(self.alpha)) - 1])
                self.change_sets(self.changes[k - 1])
            for i in range(self.n):
                if i in self.proved or i in self.leads:
                    continue
                if all(self.rows[j] == self.rows[i] for j in self.sets[i]):
                    self.leads[i] = k
            for i in self.checked - self.proved:
                self.check_set(i, self.rows[i], strict=True)

            proved_here = [i for i in range(self.n) if self.since[i] == k]
            closed = [i for i in proved_here if self.kinds[i] in CLOSED]
            for i in proved_here:
                if self.kinds[i] not in CLOSED:
                    self.check_leaders(i)
            self.proved.update(proved_here)
            if closed:
                constant = k >= len(self.alpha) - 1
                require(constant, "alpha is not constant after T or chain")
                self.check_closed_forms(closed)

    def move(self, alpha: Fraction) -> None:
        """Move all tokens, over a denominator that grows by the same factor."""
        p, q = alpha.as_integer_ratio()
        totals = [self.total(i) for i in range(self.n)]
        common = lcm(*totals)
        self.D *= (p + q) * common
        require_bits(self.D)
        self.total_bits += self.D.bit_length()
        require(
            self.total_bits <= MAX_TOTAL_BITS,
            "the common denominators of all layers have more than"
            f" {MAX_TOTAL_BITS} bits",
        )
        stay = q * common
        rows = []
        for i, row in enumerate(self.rows):
            pull = p * (common // totals[i])
            attracting = self.sum(i, self.rows)
            rows.append(tuple(stay * x + pull * c for x, c in zip(row, attracting)))
        self.rows = rows

    def change_sets(self, changes: Any) -> None:
        changed = set()
        for change in read_list(changes):
            index, members = read_list(change, 2)
            i = read_index(index, self.n)
            require(i not in changed, f"the set of token {i} changes twice in a layer")
            require(
                i not in self.proved, f"the set of token {i} changes after its proof"
            )
            changed.add(i)
            self.sets[i] = read_members(members, self.n)

    def total(self, i: int) -> int:
        """Return the number of inputs in C_i."""
        return sum(self.counts[j] for j in self.sets[i])

    def sum(self, i: int, rows: list[Row]) -> Row:
        """Return the sum of rows over the inputs in C_i."""
        weighted = [[self.counts[j] * x for x in rows[j]] for j in self.sets[i]]
        return tuple(map(sum, zip(*weighted)))

    def image(self, row: Row) -> Row:
        """Return A times a row."""
        return row if self.A is None else tuple(dot(line, row) for line in self.A)

    def check_set(self, i: int, point: Row, *, strict: bool) -> None:
        """Check that members of C_i have the largest product at a point, and, if
        `strict`, no others have.
        """
        query = self.image(point)
        products = {j: dot(query, self.rows[j]) for j in self.sees(i)}
        best = max(products.values())
        largest = {j for j, value in products.items() if value == best}
        members = self.sets[i]
        good = largest == members if strict else largest >= members
        require(good, f"the set of token {i} is wrong")
        self.tested += len(products)

    def check_leaders(self, i: int) -> None:
        """Check Theorem 1, Theorem 4 or C1."""
        kind = self.kinds[i]
        applies = (kind == "C1") == self.masked
        if kind == "Theorem 1":
            applies = applies and len(self.sets[i]) == 1
        require(applies, f"{kind} does not apply to token {i}")
        require(
            self.leads.keys() >= self.sets[i],
            f"token {i} follows a token that does not lead",
        )
        if kind != "Theorem 1" and i not in self.leads and i in self.checked:
            # The sum is the mean times a positive number.
            self.check_set(i, self.sum(i, self.rows), strict=False)

    def check_closed_forms(self, closed: list[int]) -> None:
        """Check that the sets of some tokens stay for ever, if limits are as stated,
        which `check_limits` checks.
        """
        moving = self.proved - self.leads.keys()
        for i in moving:
            require(
                self.proved.issuperset(self.sets[i]),
                f"token {i} follows a token that is not proved",
            )
        s, a = self.closed_forms(moving)

        # A product of two polynomials of degree R is known by its values at 0, ..., 2R.
        size = len(a)
        times = range(2 * size - 1)
        at = [
            {
                i: tuple(
                    sum(comb(m, r) * a[r][i][c] for r in range(min(m + 1, size)))
                    for c in range(self.d)
                )
                for i in moving
            }
            for m in times
        ]
        zero = (0,) * self.d
        rho = 1 / (1 + self.alpha[-1])
        peaks = [
            find_peaks(rho, size),
            find_peaks(rho * rho, len(times)),
            find_peaks(rho, len(times)),
        ]
        for i in closed:
            require(
                self.proved.issuperset(self.sees(i)),
                f"token {i} sees a token that is not proved",
            )
            if i not in self.checked:
                continue
            member = min(self.sets[i])
            As = self.image(s[i])
            Aa = [self.image(level.get(i, zero)) for level in a]
            Az = [self.image(level.get(i, zero)) for level in at]
            for j in self.sees(i):
                S = subtract(s[member], s[j])
                q = [
                    subtract(level.get(member, zero), level.get(j, zero)) for level in a
                ]
                F0 = dot(As, S)
                F1 = [dot(As, q[r]) + dot(Aa[r], S) for r in range(size)]
                F2 = to_binomials(
                    [
                        dot(Az[m], at[m].get(member, zero))
                        - dot(Az[m], at[m].get(j, zero))
                        for m in times
                    ]
                )
                if j in self.sets[i]:
                    stays = not any([F0, *F1, *F2])
                else:
                    stays = is_positive(F0, F1, F2, peaks)
                require(stays, f"the set of token {i} may change, see token {j}")
                self.tested += 1

    def closed_forms(self, moving: set[int]) -> tuple[list[Row], list[dict[int, Row]]]:
        """Return the limits s_i, and for each r the a_ir of the tokens that move, all
        times one positive integer.

        a_i0 = z_i - s_i, and a_i,r+1 = alpha times the mean of a_jr over C_i.
        """
        D = lcm(self.D, self.points_D)
        require_bits(D, 2 * MAX_BITS)
        s = [tuple(x * (D // self.points_D) for x in row) for row in self.limits]
        a = [
            {
                i: tuple(x * (D // self.D) - y for x, y in zip(self.rows[i], s[i]))
                for i in moving
            }
        ]
        p, q = self.alpha[-1].as_integer_ratio()
        common = lcm(*(self.total(i) for i in moving))
        zero = (0,) * self.d
        while True:
            # Each level is over a denominator that is longer by the factor q * common.
            require(len(a) <= self.n, "positions have no closed form")
            require(len(a) <= MAX_LEVELS, f"a chain has more than {MAX_LEVELS} levels")
            bits = (len(a) - 1) * ((p + q) * common).bit_length()
            require(
                bits <= MAX_LEVEL_BITS,
                f"the levels of a chain have more than {MAX_LEVEL_BITS} bits",
            )
            before = [a[-1].get(i, zero) for i in range(self.n)]
            after = {
                i: tuple(p * (common // self.total(i)) * x for x in self.sum(i, before))
                for i in moving
            }
            if not any(map(any, after.values())):
                break
            a.append(after)
        factors = [(q * common) ** (len(a) - 1 - r) for r in range(len(a))]
        s = [tuple(factors[0] * x for x in row) for row in s]
        a = [
            {i: tuple(factor * x for x in row) for i, row in level.items()}
            for factor, level in zip(factors, a)
        ]
        return s, a

    def check_limits(self, document: Any) -> tuple[int, ...]:
        """Check positions, leaders, points, limits and weights; return the layer from
        which each leader leads.
        """
        positions = read_list(read_rows(document["positions"], self.d), self.n)
        for i, position in enumerate(positions):
            right = all(
                x.numerator * self.D == y * x.denominator
                for x, y in zip(position, self.rows[i])
            )
            require(right, f"the position of token {i} is wrong")

        at: dict[Row, int] = {}  # the first leader at each position
        for i in self.order:
            if i in self.leads:
                at.setdefault(self.rows[i], i)
        leaders = read_indices(document["leaders"], self.n)
        require(
            leaders == list(at.values()),
            "the leaders are not the first ones at each position",
        )
        require(len(leaders) <= len(self.points), "a leader has no point")
        for i, point in zip(leaders, self.points):
            require(
                self.is_at(i, point), "the first points are not those of the leaders"
            )

        for i, limit in enumerate(self.limits):
            if i in self.leads:
                right = self.is_at(i, limit)
            else:
                total = self.total(i)
                right = self.sum(i, self.limits) == tuple(total * x for x in limit)
            require(right, f"the limit of token {i} is wrong")
        self.check_weights(read_list(document["weights"], self.n), at)
        return tuple(self.leads[i] for i in leaders)

    def is_at(self, i: int, point: Row) -> bool:
        """Return whether a token is at a point of the document."""
        return all(x * self.points_D == y * self.D for x, y in zip(self.rows[i], point))

    def check_weights(self, stated: list[Any], at: dict[Row, int]) -> None:
        # If W_i is the mean over C_i, it is also that over the other members.
        others = [
            [] if i in self.leads else list(self.sets[i] - {i}) for i in range(self.n)
        ]
        weights: dict[int, dict[int, Fraction]] = {}
        for i in in_order(others):
            if i in self.leads:
                weights[i] = {at[self.rows[i]]: Fraction(1)}
            else:
                total = sum(self.counts[j] for j in others[i])
                weights[i] = {}
                for j in others[i]:
                    for leader, weight in weights[j].items():
                        share = weight * self.counts[j] / total
                        weights[i][leader] = weights[i].get(leader, 0) + share
            written = [[leader, str(w)] for leader, w in sorted(weights[i].items())]
            require(
                json.dumps(stated[i]) == json.dumps(written),
                f"weights of token {i} are wrong",
            )
        for i in range(self.n):
            null = stated[i] is None
            require(i in weights or null, f"weights of token {i} are wrong")


def subtract(x: Row, y: Row) -> Row:
    return tuple(u - v for u, v in zip(x, y))


def to_binomials(values: list[int]) -> list[int]:
    """Return f with values[m] = sum_r f[r] C(m, r): differences at 0."""
    f = []
    while values:
        f.append(values[0])
        values = [y - x for x, y in pairwise(values)]
    return f


def is_positive(F0: int, F1: list[int], F2: list[int], peaks: list[Peaks]) -> bool:
    """Return whether F0 + rho^m F1(m) + rho^2m F2(m) > 0 at every m >= 0, by a
    condition that is enough.

    `peaks` are those of rho for F1, of rho^2 for F2, and of rho for F2.
    """
    if not any(F1[1:] + F2[1:]):
        # A parabola in t = rho^m: its coefficients of t^2, t (1 - t) and (1 - t)^2.
        start = F0 + F1[0] + F2[0]
        middle = 2 * F0 + F1[0]
        no_root = middle >= 0 or middle * middle < 4 * start * F0
        if start > 0 and F0 >= 0 and no_root:
            return True
    if F0:
        first, first_D = worst(F1, peaks[0])
        second, second_D = worst(F2, peaks[1])
        return first * second_D + second * first_D < F0 * first_D * second_D
    if any(F1):
        second, second_D = worst(F2, peaks[2])
        return min(F1) >= 0 and second < F1[0] * second_D
    return min(F2) >= 0 and F2[0] > 0


def worst(f: list[int], peaks: Peaks) -> tuple[int, int]:
    """Return a bound of -rho^m sum_r f_r C(m, r) over m >= 0: numerator, denominator."""
    numerators, D = peaks
    return dot([max(-x, 0) for x in f], numerators), D


def find_peaks(rho: Fraction, size: int) -> Peaks:
    """Return upper bounds of C(m, r) rho^m over m >= 0 for r < size, as numerators over
    one denominator.

    The largest value is at m = floor(r / (1 - rho)). It grows with rho, which is rounded
    up to 64 bits, u / unit, so that powers are short. Where m exceeds `MAX_EXPONENT`,
    the bound is the sum over all m, rho^r / (1 - rho)^(r + 1).
    """
    p, q = rho.as_integer_ratio()
    unit = UNIT << (q // p).bit_length()
    u = ceil(rho * unit)
    v = unit - u
    powers = {
        r: r * unit // max(v, 1) for r in range(size) if r * unit <= MAX_EXPONENT * v
    }
    # The denominator is unit^M (q - p)^K.
    M = max(powers.values())  # m = 0 at r = 0
    K = 0 if len(powers) == size else size
    numerators = []
    for r in range(size):
        if r in powers:
            m = powers[r]
            bound = comb(m, r) * u**m * unit ** (M - m) * (q - p) ** K
        else:
            bound = p**r * q * (q - p) ** (K - r - 1) * unit**M
        numerators.append(bound)
    return numerators, unit**M * (q - p) ** K


def read_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object, in which no key may occur twice."""
    if len(dict(pairs)) != len(pairs):
        raise ValueError("a key occurs twice")
    return dict(pairs)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description="Check a certificate. Exit code 1: rejected; 2: not readable."
    )
    parser.add_argument("file", help="a .json or .json.gz file")
    parser.add_argument(
        "--sample",
        type=int,
        help="compare sets of this many random tokens alone: no proof",
    )
    options = parser.parse_args()
    if options.sample is not None and options.sample < 1:
        parser.error("--sample must be at least 1")
    try:
        with (gzip.open if options.file.endswith(".gz") else open)(
            options.file, "rt", encoding="utf-8"
        ) as file:
            document = json.load(file, object_pairs_hook=read_object)
    except Exception as problem:  # anything may be in the file
        parser.error(f"the certificate cannot be read: {str(problem)!a}")
    report = check(document, sample=options.sample)
    print(report)
    sys.exit(0 if report.accepted else 1)
