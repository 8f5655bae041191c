"""Limits of `FrankWolfe` and `Localmax`: layers in rational arithmetic until a
certificate holds.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from itertools import count as count_up
from math import lcm
from typing import Any

import numpy as np

from hardmax._display import count
from hardmax._errors import InputError, ParameterError
from hardmax._exact import apply, dot, over_one_denominator, to_fractions
from hardmax._types import AnyArray, BoolArray, FloatArray, IntArray, Progress
from hardmax.certificate import GROUP_FORMAT, write_rows
from hardmax.rules.frank_wolfe import FrankWolfe
from hardmax.rules.localmax import Localmax
from hardmax.search.sets import Classes


@dataclass(frozen=True, eq=False, repr=False)
class GroupLimit:
    """Limits of tokens under `FrankWolfe` or `Localmax`, as `limit` returns them. It
    prints as a sentence.

    Attributes
    ----------
    tokens : (n, d) array
        The limit of every token, rounded once; positions at `layer` where there is no
        certificate.
    certified : bool
        True when the sets of `layer` are proved to be those of all later layers.
    layer : int
        The layer of the certificate, or the last one run.
    clusters : (n,) array
        Index in `points` of the limit of each token.
    points : (m, d) array
        The distinct limits; without a certificate the distinct positions.
    leaders : (k,) array
        Tokens that are their own only target at `layer`, the first of each set of equal
        ones.
    sets : (n, n) boolean array
        The sets of `layer`: row i has the tokens whose mean token i moves towards.
    reason : str
        Why there is no certificate.

    Examples
    --------
    >>> import hardmax as hm
    >>> limit = hm.limit([[1, 1], [1, -1], [-1, 0], [0.5, 0.25]], hm.FrankWolfe(steps=0.5))
    >>> limit
    Certified at layer 0. 3 groups of 4 tokens.
    >>> limit.exact()[3].tolist(), limit.leaders.tolist()
    ([Fraction(1, 1), Fraction(1, 1)], [0, 1, 2])
    """

    tokens: FloatArray
    certified: bool
    layer: int
    clusters: IntArray
    points: FloatArray
    leaders: IntArray
    sets: BoolArray
    reason: str
    _exact: AnyArray = field(compare=False)  # limits, or positions
    _state: AnyArray = field(compare=False)  # positions at `layer`, Fractions

    def __repr__(self) -> str:
        return self.status

    @cached_property
    def status(self) -> str:
        """State in a sentence whether the limit is proved, and since which layer."""
        if not self.certified:
            return f"Not certified within {count(self.layer, 'layer')}. {self.reason}"
        return (
            f"Certified at layer {self.layer}. {count(len(self.points), 'group')} of"
            f" {len(self.tokens)} tokens."
        )

    def exact(self) -> AnyArray:
        """Return the limits as an (n, d) array of Fractions. An `InputError` without a
        certificate.
        """
        if not self.certified:
            raise InputError(
                f"Exact limits need a certificate. Got: {self.status} Raise"
                " `max_layers`."
            )
        return self._exact

    def certificate(self) -> dict[str, Any]:
        """Return layer, exact positions, sets and limits for JSON: all that the
        conditions of the proof need.

        `docs/newer-models.md` states the conditions. An `InputError` without a
        certificate.
        """
        limits, sets = (
            write_rows(self.exact()),
            [np.flatnonzero(row).tolist() for row in self.sets],
        )
        start = {
            "format": GROUP_FORMAT,
            "layer": self.layer,
            "positions": write_rows(self._state),
        }
        return start | {"sets": sets, "limits": limits}


def find_group_limit(
    tokens: AnyArray,
    rule: FrankWolfe | Localmax,
    max_layers: int,
    progress: Progress | None = None,
) -> GroupLimit:
    """Return the limit of tokens (n, d), Fractions or floats, under one of the two
    rules.
    """
    if tokens.ndim != 2:
        must, got = (
            f"be one token set of shape (n, d) for {type(rule).__name__}",
            f"shape {tokens.shape}",
        )
        raise ParameterError("tokens", must, got, "Call `limit` for each token set.")
    Z, reason = (
        to_fractions(tokens),
        "The certificate did not hold at any layer: raise `max_layers`.",
    )
    if isinstance(rule, Localmax) and (rule.relative or not rule.is_slow(max_layers)):
        what = (
            "a relative tolerance"
            if rule.relative
            else "a tolerance that shrinks faster than groups do"
        )
        reason = f"No theorem covers {what}."
    for k in range(max_layers + 1):
        if isinstance(rule, FrankWolfe):
            sets, means, certified = _frank_wolfe_targets(Z, rule, k)
        else:
            sets = rule.sets(Z, k)
            means = _means(sets, Z)
            certified = (
                rule.is_slow(k)
                and not rule.relative
                and are_quiescent(sets, Z, rule.A, rule.tolerance(k))
            )
        if progress is not None:
            progress(
                len(Z) if certified else k, len(Z) if certified else max_layers + 1
            )
        if certified or k == max_layers:
            break
        Z = Z + rule.step(k) * (means - Z)
    found = means if certified else Z
    points = Classes.of(found)
    order = np.argsort(points.first)  # in the order of the tokens
    equal = Classes.of(Z)
    leads = (sets == (equal.labels[:, None] == equal.labels)).all(axis=1)
    leads &= equal.first[equal.labels] == np.arange(len(Z))
    return GroupLimit(
        tokens=found.astype(np.float64),
        certified=certified,
        layer=k,
        clusters=np.argsort(order)[points.labels],
        points=points.rows[order].astype(np.float64),
        leaders=np.flatnonzero(leads),
        sets=sets,
        reason="" if certified else reason,
        _exact=found,
        _state=Z,
    )


def frank_wolfe_layers(tokens: AnyArray, rule: FrankWolfe) -> Iterator[FloatArray]:
    """Yield tokens (n, d) at each layer, every coordinate rounded once from its exact
    value.
    """
    Z = to_fractions(tokens)
    certified = False
    for k in count_up():
        yield Z.astype(np.float64)
        _, means, certified = _frank_wolfe_targets(Z, rule, k)
        if certified:
            break
        Z = Z + rule.step(k) * (means - Z)
    # The targets are final: z = mean + (1 - gamma_k) (1 - gamma_{k+1}) ... (z_k - mean).
    # Integers, as fractions in lowest terms cost far more than these products.
    offsets = Z - means
    denominators = [x.denominator for x in (*means.flat, *offsets.flat)]
    D = lcm(*denominators)
    ends, starts = ((D * array).astype(object) for array in (means, offsets))
    share, of = 1, 1
    for layer in count_up(k):
        step = rule.step(layer)
        share *= step.denominator - step.numerator
        of *= step.denominator
        pairs = zip(ends.flat, starts.flat, strict=True)
        values = [(int(m) * of + int(x) * share) / (D * of) for m, x in pairs]
        yield np.array(values).reshape(tokens.shape)


def _frank_wolfe_targets(
    Z: AnyArray, rule: FrankWolfe, k: int
) -> tuple[BoolArray, AnyArray, bool]:
    """Return sets (n, n) and their means (n, d) at layer k, and whether they are proved
    to be those of all later layers.
    """
    classes = Classes.of(Z)
    sets = rule.sets(classes.rows)
    means = _means(sets, classes.rows)
    certified = _follow_leaders(sets, means, classes.rows, rule, k)
    return (
        sets[np.ix_(classes.labels, classes.labels)],
        means[classes.labels],
        certified,
    )


def _means(sets: BoolArray, Z: AnyArray) -> AnyArray:
    """Return the mean of the rows of Z over each set, as Fractions."""
    unique, labels = np.unique(sets, axis=0, return_inverse=True)
    means = np.empty((len(unique), Z.shape[1]), object)
    for u, row in enumerate(unique):
        means[u] = Z[row].sum(axis=0) / Fraction(int(row.sum()))
    return np.asarray(means[labels.ravel()])


def _follow_leaders(
    sets: BoolArray, means: AnyArray, Z: AnyArray, rule: FrankWolfe, k: int
) -> bool:
    """Return whether Theorem 4 decides all points: targets lead, and a point at their
    mean keeps them as targets.

    A step of 1 takes points to that mean, which must then have no other target.
    """
    leads = sets.diagonal() & (sets.sum(axis=1) == 1)
    if (sets & ~leads).any():
        return False
    tied = np.flatnonzero(sets.sum(axis=1) > 1)
    if not len(tied):
        return True
    there = rule.sets(Z, means[tied])
    return bool(
        (there >= sets[tied]).all()
        and ((there == sets[tied]).all() or not rule.has_full_step(k))
    )


def are_quiescent(sets: BoolArray, Z: AnyArray, A: Any, eps: Fraction) -> bool:
    """Return whether the sets N_i are a partition in which every product inside leads
    those outside by more than eps.

    For all p, q in a group G and r outside: ⟨A z_p, z_q - z_r⟩ > eps. With N_p = G for
    all p in G the sets are final.
    """
    if not (sets.diagonal().all() and (sets == sets.T).all()):
        return False
    if any((sets[np.flatnonzero(row)] != row).any() for row in sets):
        return False
    keys, D = over_one_denominator(Z)
    rows, E = (None, 1) if A is None else over_one_denominator(A)
    p, q = eps.as_integer_ratio()
    for key, row in zip(keys, sets, strict=True):
        image = apply(rows, key)
        products = np.array([dot(image, other) for other in keys], object)
        if (
            not row.all()
            and (products[row].min() - products[~row].max()) * q <= p * D * D * E
        ):
            return False
    return True
