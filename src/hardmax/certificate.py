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
from contextlib import contextmanager
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from hardmax._errors import InputError
from hardmax._types import AnyArray, BoolArray
from hardmax._validation import check_count
from hardmax.exact.run import LimitSet, Proof, Run, to_point
from hardmax.search.sets import Sets

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
def make_certificate(limit: LimitSet) -> Document:
    """Run the layers of a certified limit again, and write sets, positions and proofs
    as a document; an `InputError` if it is longer than the checkers accept.
    """
    classes, rule = limit.classes, limit.rule
    run = Run(rule, classes.rows[classes.labels], mask=limit.mask)
    found = run.find_limits(limit.layer)
    classes, history, sets = (
        run.classes,
        run.state.history,
        [run.sets_of_layer(k) for k in range(run.layer + 1)],
    )
    _check_denominators([history.denominator(k) for k in range(run.layer + 1)])
    D = history.denominator(run.layer)
    names = {int(proof): str(proof) for proof in Proof}
    mask: Any = "causal" if rule.causal and limit.mask is None else None
    if limit.mask is not None:
        others = (limit.mask & ~np.eye(len(classes), dtype=bool)).astype(np.float32)
        mask = [np.flatnonzero(row).tolist() for row in others > others @ others]
    document = {
        "format": FORMAT,
        "alpha": [str(step) for step in rule.steps],
        "A": None if rule.matrix is None else write_rows(rule.matrix),
        "mask": mask,
        "tokens": write_rows(classes.rows),
        "labels": None if run.state.masked else classes.labels.tolist(),
        "layer": run.layer,
        "sets": [members.tolist() for members in sets[0]],
        "changes": [
            _list_changes(sets[k - 1], sets[k], run.settled >= k)
            for k in range(1, len(sets))
        ],
        "proofs": [
            [names[proof], k]
            for proof, k in zip(run.proof.tolist(), run.settled.tolist(), strict=True)
        ],
        "positions": [
            list(map(str, to_point(row, D)))
            for row in history.at(run.layer, range(len(classes)))
        ],
        "leaders": found.leaders.tolist(),
        "points": [list(map(str, point)) for point in found.exact_points()],
        "limits": found.place.tolist(),
        "weights": [
            None if own is None else [[j, str(w)] for j, w in sorted(own.items())]
            for own in _weights(found)
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


def _weights(found: LimitSet) -> list[dict[int, Fraction] | None]:
    absorbed, weights = found.absorbed(), list[dict[int, Fraction] | None]()
    for i, proof in enumerate(found.proof.tolist()):
        if proof > Proof.C1:
            shares = absorbed.get(i)
        else:
            members, counts, total = found.sets.shares(i, found.classes.counts)
            shares = dict[int, Fraction]()
            for j, w in zip(members, counts, strict=True):
                column = int(found.column[j])
                shares[column] = shares.get(column, Fraction(0)) + Fraction(w, total)
        weights.append(
            None
            if shares is None
            else {int(found.leaders[c]): w for c, w in shares.items()}
        )
    return weights
