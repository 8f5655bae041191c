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
"""

import argparse
import gzip
import json
import random
import re
import sys
from collections import Counter
from fractions import Fraction
from graphlib import TopologicalSorter
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
        size = (
            f"{self.tokens} tokens, {self.layers} layers, {self.inequalities}"
            " inequalities tested."
        )
        good = (
            "Accepted"
            if self.sample is None
            else f"No fault in a sample of {self.sample}, which is no proof"
        )
        return f"{good}: {size}" if self.accepted else f"Rejected: {self.reason}."


def check(document: Any, *, sample: int | None = None) -> Report:
    """Check a certificate as `json.load` returns it; with `sample`, the sets of that
    many random tokens alone.
    """
    sys.set_int_max_str_digits(
        0
    )  # positions may be longer; `hm.check_certificate` restores the limit
    try:
        proof = Proof(document, sample)
        proof.replay()
        return Report(
            True,
            "",
            proof.counts.total(),
            proof.layer,
            proof.tested,
            sample,
            proof.check_limits(document),
        )
    except (
        ValueError,
        ArithmeticError,
        LookupError,
        RecursionError,
        TypeError,
    ) as problem:  # of reading any JSON
        return Report(
            False,
            (
                str(problem)
                if type(problem) is ValueError
                else f"malformed, {problem!r:.80}"
            ),
        )


def require(holds: bool, reason: str) -> None:
    if not holds:
        raise ValueError(reason)


def read_list(values: Any, size: int | None = None) -> list[Any]:
    require(
        isinstance(values, list) and size in (None, len(values)),
        "a list is missing, or has the wrong length",
    )
    return list(values)


def read_rows(rows: Any, width: int = 0) -> list[Point]:
    """Return rows of numbers, all of one length."""
    width = width or max(len(read_list(rows)[0]), 1)
    require(
        all(
            NUMBER.fullmatch(x)
            for row in read_list(rows)
            for x in read_list(row, width)
        ),
        "a number is malformed",
    )
    return [tuple(map(Fraction, row)) for row in rows]


def read_indices(values: Any, stop: int) -> list[int]:
    require(
        all(type(x) is int and 0 <= x < stop for x in read_list(values)),
        "an index is wrong",
    )
    return list(values)


def to_integers(rows: list[Point]) -> list[tuple[int, ...]]:
    """Return rows times their common denominator."""
    D = lcm(*{x.denominator for row in rows for x in row})
    return [tuple(x.numerator * (D // x.denominator) for x in row) for row in rows]


def dot(x: Any, y: Any) -> Any:
    return sum(map(mul, x, y))


class Proof:
    """Read a document, whose parts may be anything, then follow the layers that it
    states.
    """

    def __init__(self, document: Any, sample: int | None) -> None:
        good = (
            isinstance(document, dict)
            and document.get("format") == FORMAT
            and len(document) == 15
        )
        require(good, f"the format is not {FORMAT} with 15 fields")
        (self.alpha,), self.z = (
            read_rows([document["alpha"]]),
            read_rows(document["tokens"]),
        )
        self.n, self.d, self.tested = len(self.z), len(self.z[0]), 0
        identity = [
            [str(int(row == column)) for column in range(self.d)]
            for row in range(self.d)
        ]
        self.A = to_integers(
            read_rows(identity if document["A"] is None else document["A"], self.d)
        )
        require(
            min(self.alpha) > 0 and len(self.A) == self.d,
            "alpha is not positive, or A is not square",
        )
        mask, self.masked = document["mask"], document["mask"] is not None
        self.seen: list[Any] = [
            range(self.n if mask is None else i + 1) for i in range(self.n)
        ]
        if mask not in (None, "causal"):
            direct = [read_indices(row, self.n) for row in read_list(mask, self.n)]
            for i in TopologicalSorter(
                dict(enumerate(direct))
            ).static_order():  # each after those it sees; no cycles
                self.seen[i] = {i}.union(*(self.seen[j] for j in direct[i]))
        self.counts = Counter(
            range(self.n) if self.masked else read_indices(document["labels"], self.n)
        )
        require(
            len(self.counts) == self.n and self.masked == (document["labels"] is None),
            "labels are wrong",
        )
        self.sets = [
            set(read_indices(members, self.n))
            for members in read_list(document["sets"], self.n)
        ]
        self.changes, self.layer = (
            document["changes"],
            len(read_list(document["changes"])),
        )
        self.proofs = [
            read_list(proof, 2) for proof in read_list(document["proofs"], self.n)
        ]
        last = max(read_indices([layer for _, layer in self.proofs], self.layer + 1))
        require(
            [self.layer] == read_indices([document["layer"]], last + 1),
            "the layer is not that of the last proof",
        )
        self.points = read_rows(document["points"], self.d)
        self.limits = [
            self.points[p]
            for p in read_list(
                read_indices(document["limits"], len(self.points)), self.n
            )
        ]
        require(
            len(set(self.limits)) == len(self.points),
            "points are equal, or a point is no limit",
        )
        self.checked = set(
            range(self.n)
            if sample is None
            else random.sample(range(self.n), min(sample, self.n))
        )
        self.leads, self.proved = (
            dict[int, int](),
            set[int](),
        )  # leaders with the layer from which they lead

    def replay(self) -> None:
        """Move all tokens layer by layer, and check sets and proofs."""
        for k in range(self.layer + 1):
            if k:
                b = 1 - 1 / (1 + self.alpha[min(k, len(self.alpha)) - 1])
                self.z = [
                    tuple(x + b * (c - x) for x, c in zip(z, self.mean(i, self.z)))
                    for i, z in enumerate(self.z)
                ]
                for i, members in (
                    read_list(change, 2) for change in read_list(self.changes[k - 1])
                ):
                    require(
                        i not in self.proved,
                        f"the set of token {i} changes after its proof",
                    )
                    self.sets[read_indices([i], self.n)[0]] = set(
                        read_indices(members, self.n)
                    )
            still = [
                i
                for i in range(self.n)
                if all(self.z[j] == self.z[i] for j in self.sets[i])
            ]
            self.leads = {i: k for i in still if i not in self.proved} | self.leads
            keys, here = (
                to_integers(self.z),
                {i: kind for i, (kind, layer) in enumerate(self.proofs) if layer == k},
            )
            for i in self.checked - self.proved:
                self.check_set(i, keys[i], keys, strict=True)
            self.proved.update(here)
            for i, kind in here.items():
                if kind not in ("T", "chain"):
                    kinds = (
                        ["C1"]
                        if self.masked
                        else ["Theorem 4", "Theorem 1"][: 1 + (len(self.sets[i]) == 1)]
                    )
                    require(
                        kind in kinds and self.leads.keys() >= self.sets[i],
                        f"{kind} fails for token {i}",
                    )
                    if (
                        kind != "Theorem 1"
                        and i not in self.leads
                        and i in self.checked
                    ):
                        self.check_set(
                            i,
                            to_integers([self.mean(i, self.z)])[0],
                            keys,
                            strict=False,
                        )
            if closed := [i for i, kind in here.items() if kind in ("T", "chain")]:
                require(
                    k >= len(self.alpha) - 1, "alpha is not constant after T or chain"
                )
                self.check_closed_forms(closed)

    def mean(self, i: int, rows: list[Point]) -> Point:
        """Return the mean of rows over C_i."""
        if len(self.sets[i]) == 1:
            return rows[min(self.sets[i])]
        weighted = [[self.counts[j] * x for x in rows[j]] for j in self.sets[i]]
        return tuple(
            sum(column) / sum(self.counts[j] for j in self.sets[i])
            for column in zip(*weighted)
        )

    def check_set(self, i: int, point: Any, keys: Any, *, strict: bool) -> None:
        """Check that members of C_i have the largest product at a point, and, if
        `strict`, no others have.
        """
        query = [dot(row, point) for row in self.A]
        products = {j: dot(query, keys[j]) for j in self.seen[i]}
        best = max(products.values())
        largest = {j for j, value in products.items() if value == best}
        require(
            largest == self.sets[i] if strict else largest >= self.sets[i],
            f"the set of token {i} is wrong",
        )
        self.tested += len(products)

    def check_closed_forms(self, closed: list[int]) -> None:
        """Check that the sets of some tokens stay for ever, if limits are as stated,
        which `check_limits` checks.
        """
        alpha, s, moving = self.alpha[-1], self.limits, self.proved - self.leads.keys()
        require(
            all(self.proved.issuperset(self.sets[i]) for i in moving),
            "a token follows one that is not proved",
        )
        a = [
            [
                tuple((x - y) * (i in moving) for x, y in zip(*pair))
                for i, pair in enumerate(zip(self.z, s))
            ]
        ]
        while any(map(any, a[-1])):
            require(len(a) <= self.n, "positions have no closed form")
            a.append(
                [
                    tuple(alpha * (i in moving) * x for x in self.mean(i, a[-1]))
                    for i in range(self.n)
                ]
            )
        for i in closed:
            require(
                self.proved.issuperset(self.seen[i]),
                f"token {i} sees a token that is not proved",
            )
            As, *Aa = [[dot(row, rows[i]) for row in self.A] for rows in (s, *a)]
            for j in self.seen[i] if i in self.checked else ():
                S, *q = [
                    tuple(x - y for x, y in zip(rows[min(self.sets[i])], rows[j]))
                    for rows in (s, *a)
                ]
                F0, F1 = (
                    dot(As, S),
                    [dot(As, row) + dot(image, S) for row, image in zip(q, Aa)],
                )
                F2 = [Fraction(0)] * (2 * len(q) - 1)
                for (u, image), (v, row) in product(enumerate(Aa), enumerate(q)):
                    for r in range(
                        max(u, v), u + v + 1
                    ):  # C(m,u) C(m,v) = sum_r C(r,u) C(u,r-v) C(m,r)
                        F2[r] += dot(image, row) * comb(r, u) * comb(u, r - v)
                stays = (
                    not any([F0, *F1, *F2])
                    if j in self.sets[i]
                    else is_positive(F0, F1, F2, 1 / (1 + alpha))
                )
                require(stays, f"the set of token {i} may change, see token {j}")
                self.tested += 1

    def check_limits(self, document: Any) -> tuple[int, ...]:
        """Check positions, leaders, points, limits and weights; return the layer from
        which each leader leads.
        """
        require(
            read_rows(document["positions"], self.d) == self.z, "positions are wrong"
        )
        at = {self.z[i]: i for i in read_indices(document["leaders"], self.n)}
        require(
            self.leads.keys() >= set(at.values())
            and at.keys() == {self.z[i] for i in self.leads},
            "wrong leaders",
        )
        require(
            self.points[: len(document["leaders"])] == list(at),
            "the first points are not those of the leaders",
        )
        known = {i: {at[self.z[i]]: Fraction(1)} for i in self.leads}
        while ready := [
            i
            for i in range(self.n)
            if i not in known and known.keys() >= self.sets[i] - {i}
        ]:
            for i in (
                ready
            ):  # if W_i is the mean over C_i, it is also that over the other members
                sums: Any = Counter()
                for j in self.sets[i] - {i}:
                    sums.update(
                        {
                            leader: self.counts[j] * weight
                            for leader, weight in known[j].items()
                        }
                    )
                known[i] = {
                    leader: weight / sum(sums.values())
                    for leader, weight in sums.items()
                }
        for i, (limit, own) in enumerate(
            zip(self.limits, read_list(document["weights"], self.n))
        ):
            expected = self.z[i] if i in self.leads else self.mean(i, self.limits)
            require(limit == expected, f"the limit of token {i} is wrong")
            weights = (
                [[leader, str(known[i][leader])] for leader in sorted(known[i])]
                if i in known
                else None
            )
            require(
                json.dumps(own) == json.dumps(weights),
                f"weights of token {i} are wrong",
            )
        return tuple(self.leads[i] for i in at.values())


def is_positive(
    F0: Fraction, F1: list[Fraction], F2: list[Fraction], rho: Fraction
) -> bool:
    """Return whether F0 + rho^m F1(m) + rho^2m F2(m) > 0 at every m >= 0, by a
    condition that is enough.
    """
    if not any(
        F1[1:] + F2[1:]
    ):  # a parabola in t = rho^m, by its coefficients of t^2, t (1 - t) and (1 - t)^2
        start, middle = F0 + F1[0] + F2[0], 2 * F0 + F1[0]
        if start > 0 and F0 >= 0 and (middle >= 0 or middle * middle < 4 * start * F0):
            return True
    if F0:
        return worst(F1, rho) + worst(F2, rho**2) < F0
    return (
        min(F1) >= 0 and F1[0] > worst(F2, rho)
        if any(F1)
        else min(F2) >= 0 and F2[0] > 0
    )


def worst(coefficients: list[Fraction], rho: Fraction) -> Any:
    """Return a bound of -rho^m sum_r f_r C(m, r) over m >= 0: each term is largest at m
    = floor(r / (1 - rho)).
    """
    at = [(r, int(r / (1 - rho))) for r in range(len(coefficients))]
    peaks = [
        comb(m, r) * rho**m if m <= MAX_EXPONENT else rho**r / (1 - rho) ** (r + 1)
        for r, m in at
    ]
    return dot([max(-f, 0) for f in coefficients], peaks)


def read_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object, in which no key may occur twice."""
    require(len(dict(pairs)) == len(pairs), "a key occurs twice")
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
            report = check(
                json.load(file, object_pairs_hook=read_object), sample=options.sample
            )
    except Exception as problem:  # anything may be in the file
        parser.error(f"the certificate cannot be read: {problem}")
    print(report)
    sys.exit(0 if report.accepted else 1)
