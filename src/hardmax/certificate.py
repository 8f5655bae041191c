"""Certificates of limits as JSON documents, which `certificate_checker.py` checks
without this package.

All real numbers are strings "p" or "p/q", since JavaScript has no long integers in
JSON; indices are integers.

format           "hardmax-certificate-1"
alpha            step size of each layer; the last one also later
A                rows of the matrix; null is the identity
mask             null, "causal", or per token the tokens that it sees directly, not
                 through another one
tokens           distinct tokens at layer 0; under a mask all of them
labels           index of each input among the distinct tokens; null exactly under a
                 mask
layer            the layer of the last proof
sets, changes    C_i at layer 0; and for each later layer [i, C_i] where it differs
proofs           kind and layer of the proof of each token
positions        at that layer
leaders, points  tokens that lead, one per position; distinct limits, those of the
                 leaders first
limits           index of the limit of each token among the points
weights          [leader, weight] of each limit, by leader; null where it is no convex
                 combination of leaders
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from hardmax._errors import InputError
from hardmax._types import AnyArray, BoolArray
from hardmax._validation import check_count
from hardmax.endpoints import Endpoints, absorbed_weights, to_point
from hardmax.layer import ExactPositions, Layer
from hardmax.rules.hardmax import Hardmax
from hardmax.run import Proof, Record, find_leaders
from hardmax.sets import Classes, Sets

if TYPE_CHECKING:
    from hardmax.certificate_checker import Report

FORMAT = "hardmax-certificate-1"
Document = dict[str, Any]


@contextmanager
def any_digits() -> Iterator[None]:
    """Convert integers of any length from and to text, in this block or in the function
    that it decorates.
    """
    limit = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(0)
    try:
        yield
    finally:
        sys.set_int_max_str_digits(limit)


@any_digits()
def make_certificate(record: Record, ends: Endpoints) -> Document:
    """Write sets, positions and proofs of a certified record as a document; an
    `InputError` if it is longer than the checkers accept.
    """
    classes = record.classes
    rule = record.rule
    layers = range(record.layer + 1)
    _check_denominators([record.exact.denominator(k) for k in layers])
    sets = [record.sets(k) for k in layers]
    names = {int(proof): str(proof) for proof in Proof}
    proofs = zip(record.proof.tolist(), record.settled.tolist(), strict=True)
    D = record.exact.denominator(record.layer)
    positions = record.exact.at(record.layer, range(len(classes)))
    document = {
        "format": FORMAT,
        "alpha": [str(step) for step in rule.steps],
        "A": None if rule.matrix is None else write_rows(rule.matrix),
        "mask": _write_mask(record),
        "tokens": write_rows(classes.rows),
        "labels": None if record.is_masked else classes.labels.tolist(),
        "layer": record.layer,
        "sets": [members.tolist() for members in sets[0]],
        "changes": [
            _list_changes(sets[k - 1], sets[k], record.settled >= k) for k in layers[1:]
        ],
        "proofs": [[names[proof], k] for proof, k in proofs],
        "positions": [list(map(str, to_point(row, D))) for row in positions],
        "leaders": ends.leaders.tolist(),
        "points": [list(map(str, point)) for point in ends.exact_points()],
        "limits": ends.place.tolist(),
        "weights": [
            None if own is None else [[j, str(w)] for j, w in sorted(own.items())]
            for own in _weights(record, ends)
        ],
    }
    _check_lengths(document)
    return document


def _check_denominators(denominators: list[int]) -> None:
    """Refuse more digits than the checkers replay."""
    from hardmax.certificate_checker import MAX_BITS, MAX_TOTAL_BITS

    lengths = [D.bit_length() for D in denominators]
    if lengths[-1] > MAX_BITS or sum(lengths) > MAX_TOTAL_BITS:
        raise InputError(
            "The common denominators of the positions of a certificate must have at"
            f" most {MAX_BITS:,} bits at each layer and {MAX_TOTAL_BITS:,} at all"
            f" layers together. Got {lengths[-1]:,} and {sum(lengths):,} with"
            f" {len(lengths) - 1:,} layers. A step size with fewer digits, such as"
            " Fraction(1, 10), has shorter ones."
        )


def _check_lengths(document: Document) -> None:
    """Refuse numbers and masks that are longer than the checkers accept."""
    from hardmax.certificate_checker import MAX_CHARACTERS, MAX_MASKED

    matrix = document["A"] or []
    rows = [document["alpha"], *matrix]
    for part in ("tokens", "positions", "points"):
        rows += document[part]
    longest = max(len(text) for row in rows for text in row)
    if longest > MAX_CHARACTERS:
        raise InputError(
            f"A number of a certificate must have at most {MAX_CHARACTERS:,}"
            f" characters. Got {longest:,}."
        )
    if isinstance(document["mask"], list) and len(document["mask"]) > MAX_MASKED:
        raise InputError(
            f"A certificate under `attention_mask` must have at most {MAX_MASKED:,}"
            f" tokens. Got {len(document['mask']):,}."
        )


@any_digits()
def read_certificate(document: Document) -> Record:
    """Return the record that an accepted document describes."""
    rows = _read_rows(document["tokens"])
    m = len(rows)
    mask = document["mask"]
    rule = Hardmax(
        [Fraction(step) for step in document["alpha"]],
        None if document["A"] is None else _read_rows(document["A"]),
        any_A=True,
        causal=mask == "causal",
    )
    if mask is None:
        labels = np.array(document["labels"], np.intp)
    else:
        labels = np.arange(m)
    first = np.unique(labels, return_index=True)[1]
    classes = Classes(
        rows,
        labels,
        first,
        np.bincount(labels),
        np.array([len(labels)]),
        np.array([0, m]),
    )
    codes = {str(proof): proof for proof in Proof}
    proof = np.array([codes[kind] for kind, _ in document["proofs"]], np.intp)
    settled = np.array([layer for _, layer in document["proofs"]], np.intp)
    sets = Sets.of(document["sets"])
    layers = [Layer(np.arange(m), sets)]
    for k, changes in enumerate(document["changes"], 1):
        changed = np.array([i for i, _ in changes], np.intp)
        sets = sets.replace(changed, Sets.of([members for _, members in changes]))
        open_rows = np.flatnonzero(settled >= k)
        layers.append(Layer(open_rows, sets.take(open_rows)))
    emerged = np.full(m, -1)
    exact = ExactPositions(classes, rule.step, layers, settled, emerged)
    for k, layer in enumerate(layers):
        find_leaders(layer, k, exact, emerged)
    points = [tuple(map(Fraction, row)) for row in document["points"]]
    closed_form = np.flatnonzero(proof > Proof.SEEN_LEADERS).tolist()
    queries = sum(len(layer.rows) for layer in layers)
    return Record(
        rule,
        classes,
        layers,
        settled,
        emerged,
        settled,
        proof,
        {i: points[document["limits"][i]] for i in closed_form},
        document["layer"],
        np.array([queries]),
        None,
        None if mask in (None, "causal") else _read_mask(mask),
        np.arange(len(labels)),
        {"layers": document["layer"], "queries": queries},
    )


@any_digits()
def check_certificate(document: Any, *, sample: int | None = None) -> "Report":
    """Check a certificate by the standalone program `hardmax/certificate_checker.py`,
    in exact arithmetic.

    Parameters
    ----------
    document : dict
        As `Limit.certificate` returns it, or `json.load` reads it.
    sample : int, optional
        Compare the sets of this many random tokens alone. Then the result is no proof,
        and says so.

    Returns
    -------
    Report
        With `accepted`, `reason` of a rejection, `tokens`, `layers` and `inequalities`.
        It prints as a sentence.

    Examples
    --------
    >>> import hardmax as hm
    >>> document = hm.limit(hm.configuration("edge-clusters"), hm.Hardmax(alpha=0.5)).certificate()
    >>> print(hm.check_certificate(document))
    Accepted: 10 tokens, 0 layers, 120 inequalities tested.
    >>> document["points"][4] = ["1", "1/1000"]
    >>> print(hm.check_certificate(document))
    Rejected: the limit of token 7 is wrong.
    """
    from hardmax.certificate_checker import (
        check,
    )  # imported here, since `python -m` runs that module as a program

    return check(
        document,
        sample=None if sample is None else check_count(sample, "sample", least=1),
    )


def write_rows(array: AnyArray) -> list[list[str]]:
    """Return floats or Fractions as exact texts."""
    return [[str(Fraction(x)) for x in row] for row in array.tolist()]


def _list_changes(before: Sets, after: Sets, open_rows: BoolArray) -> list[list[Any]]:
    """Return the rows whose sets differ, with the later ones, among those that are not
    decided before.
    """
    some = np.flatnonzero(open_rows).tolist()
    return [
        [i, after[i].tolist()] for i in some if not np.array_equal(before[i], after[i])
    ]


def _write_mask(record: Record) -> Any:
    """Return null, "causal", or per token the tokens that it sees directly."""
    if record.mask is None:
        return "causal" if record.rule.causal else None
    others = record.mask & ~np.eye(len(record.mask), dtype=bool)
    reach = others.astype(np.float32)
    return [np.flatnonzero(row).tolist() for row in reach > reach @ reach]


def _read_mask(seen_directly: list[list[int]]) -> BoolArray:
    """Return which tokens each token sees, also through others, and itself."""
    m = len(seen_directly)
    mask = np.eye(m, dtype=bool)
    done = np.zeros(m, bool)

    def fill(i: int) -> None:
        stack = [i]
        while stack:
            top = stack[-1]
            open_ = [j for j in seen_directly[top] if not done[j]]
            if open_:
                stack += open_
                continue
            for j in seen_directly[top]:
                mask[top] |= mask[j]
            done[top] = True
            stack.pop()

    for i in range(m):
        if not done[i]:
            fill(i)
    return mask


def _read_rows(rows: list[list[str]]) -> AnyArray:
    """Return texts as floats where these are exact, else as Fractions."""
    exact = np.array([[Fraction(x) for x in row] for row in rows], object)
    with suppress(OverflowError):
        floats = exact.astype(np.float64)
        if (floats == exact).all():
            return np.asarray(floats)
    return exact


def _weights(record: Record, ends: Endpoints) -> list[dict[int, Fraction] | None]:
    """Return the weights by leader of each class, None where there are none."""
    absorbed = absorbed_weights(record, ends)
    sets = record.sets(record.layer)
    weights = list[dict[int, Fraction] | None]()
    for i, proof in enumerate(record.proof.tolist()):
        shares: dict[int, Fraction] | None
        if proof > Proof.SEEN_LEADERS:
            shares = absorbed.get(i)
        else:
            members, counts, total = sets.shares(i, record.classes.counts)
            shares = {}
            for j, w in zip(members, counts, strict=True):
                column = int(ends.column[j])
                shares[column] = shares.get(column, Fraction(0)) + Fraction(w, total)
        if shares is None:
            weights.append(None)
        else:
            weights.append({int(ends.leaders[c]): w for c, w in shares.items()})
    return weights
