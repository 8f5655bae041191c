"""Argmax sets of one layer, and classes of equal tokens.

C_i = argmax_j <A z_i, z_j> is a set of indices for each i. Nearly all have one member,
so they are kept row after row in two flat arrays, and every operation on them is one
NumPy call. The sets of a batch of token sets are one such object, too: row b * n + i
holds members of batch element b.

Equal tokens have equal C_i and stay equal, so the engine works on classes with
multiplicities. The classes come in lexicographic order, which makes every later number
independent of the order of the tokens.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from math import gcd, lcm
from typing import Any, TypeAlias

import numpy as np
import scipy  # whose parts load when they are used

from hardmax._types import AnyArray, IntArray

Index: TypeAlias = int | np.intp
MAX_MEMBERS = 1 << 22  # members that one search returns: 32 MB


class TooMany(Exception):
    """More members than a search may return for several rows; the caller passes fewer
    rows at a time.
    """


class FieldsPickled:
    """A dataclass whose pickles leave out what it computes again when it is used."""

    def __getstate__(self) -> dict[str, Any]:
        names = [field.name for field in fields(self)]  # type: ignore[arg-type]
        return {name: self.__dict__[name] for name in names}


@dataclass(frozen=True, eq=False)
class Sets(FieldsPickled):
    """Argmax sets of many rows, as two flat arrays; `sets[i]` is C_i.

    C_i = members[starts[i]:starts[i + 1]], sorted, for every row i; empty where a query
    sees no key.

    Attributes
    ----------
    starts : (rows + 1,) array of int
        Where each set begins.
    members : (total,) array of int
        All sets, one after another.

    Examples
    --------
    >>> import hardmax as hm
    >>> sets = hm.argmax_sets([[1.0, 1.0], [1.0, -1.0], [0.5, 0.0]])
    >>> len(sets), sets.sizes, sets.tied
    (3, array([1, 1, 2]), array([2]))
    """

    starts: IntArray  # (rows + 1,)
    members: IntArray  # (sum of |C_i|,)

    def __len__(self) -> int:
        return len(self.starts) - 1

    def __getitem__(self, i: Index) -> IntArray:
        return self.members[self.starts[i] : self.starts[i + 1]]

    def __iter__(self) -> Iterator[IntArray]:
        return (self[i] for i in range(len(self)))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sets):
            return NotImplemented
        return np.array_equal(self.starts, other.starts) and np.array_equal(
            self.members, other.members
        )

    __hash__ = None  # type: ignore[assignment]

    @classmethod
    def of(cls, rows: Sequence[IntArray | list[int]]) -> "Sets":
        """Collect one array of members per row."""
        members = (
            np.concatenate([np.asarray(row, np.intp) for row in rows])
            if rows
            else np.empty(0, np.intp)
        )
        return cls(_starts([len(row) for row in rows]), members)

    @classmethod
    def from_first(
        cls, first: IntArray, sizes: IntArray, tied_members: IntArray
    ) -> "Sets":
        """Return sets from the first member and size of each row, and the members of
        all rows with several.
        """
        if not len(tied_members) and sizes.all():
            return cls(np.arange(len(first) + 1), first)
        members = np.repeat(first, sizes)
        members[np.repeat(sizes > 1, sizes)] = tied_members
        return cls(_starts(sizes), members)

    @cached_property
    def single(self) -> bool:
        """True if every row has one member."""
        return len(self.members) == len(self) and bool(
            (self.starts[1:] > self.starts[:-1]).all()
        )

    @cached_property
    def sizes(self) -> IntArray:
        """|C_i|, shape (rows,)."""
        return np.ones(len(self), np.intp) if self.single else np.diff(self.starts)

    @cached_property
    def targets(self) -> IntArray:
        """The first member of each C_i, the only one where |C_i| = 1; -1 where there is
        none.
        """
        if self.single:
            return self.members
        targets = np.full(len(self), -1)
        targets[self.sizes > 0] = self.members[self.starts[:-1][self.sizes > 0]]
        return targets

    @cached_property
    def tied(self) -> IntArray:
        """Rows with more than one member."""
        return np.empty(0, np.intp) if self.single else np.flatnonzero(self.sizes > 1)

    def concatenate(self, more: "Sets") -> "Sets":
        """Return the rows of both."""
        return Sets(
            np.r_[self.starts, self.starts[-1] + more.starts[1:]],
            np.r_[self.members, more.members],
        )

    def take(self, rows: IntArray) -> "Sets":
        """Return some rows, in the order given."""
        starts = _starts(self.sizes[rows])
        places = np.repeat(
            self.starts[rows] - starts[:-1], self.sizes[rows]
        ) + np.arange(starts[-1])
        return Sets(starts, self.members[places])

    def replace(self, rows: IntArray, new: "Sets") -> "Sets":
        """Return these sets with `rows`, ascending, taken from `new`."""
        if not len(rows):
            return self
        if len(rows) == len(self):
            return new
        if self.single and new.single:
            members = self.members.copy()
            members[rows] = new.members
            return Sets(self.starts, members)
        places = np.arange(len(self))
        places[rows] = len(self) + np.arange(len(rows))
        return self.concatenate(new).take(places)

    def flatten(self, n: int, m: int) -> "Sets":
        """Return the sets of a batch of n queries and m keys as those of one token set:
        members count all keys.
        """
        return Sets(
            self.starts,
            self.members + np.repeat(np.arange(len(self)) // n * m, self.sizes),
        )

    def mean(self, values: AnyArray, counts: IntArray) -> AnyArray:
        """Return c_i, the mean of the values of C_i with multiplicities: shape (rows,
        d); 0 for an empty set.
        """
        means = values.take(self.targets, axis=0)
        if len(self.tied):
            tied = self.take(self.tied)
            parts = (counts[tied.members], tied.members, tied.starts)
            weights = scipy.sparse.csr_array(parts, (len(tied), len(values)))
            means[self.tied] = _weighted_means(weights, values)
        if not self.single:
            means[self.sizes == 0] = 0
        return means

    def shares(self, i: Index, counts: IntArray) -> tuple[list[int], list[int], int]:
        """Return members, their integer weights in lowest terms, and the sum of those:
        P_ij = weight / sum.
        """
        members = self[i].tolist()
        if len(members) == 1:
            return members, [1], 1
        weights = counts[self[i]].tolist()
        common = gcd(*weights)
        weights = [w // common for w in weights]
        return members, weights, sum(weights)

    def denominator(self, counts: IntArray) -> int:
        """Return the least common multiple of the denominators of all means."""
        return lcm(*{self.shares(i, counts)[2] for i in self.tied})

    def matrix(self, counts: IntArray) -> "scipy.sparse.csr_array":
        """Return the row-stochastic matrix P over classes, weighted by multiplicity;
        zeros for an empty set.
        """
        owners = np.repeat(np.arange(len(self)), self.sizes)
        weights = counts[self.members].astype(np.float64)
        parts = weights / np.bincount(owners, weights, len(self))[owners]
        return scipy.sparse.csr_array(
            (parts, self.members, self.starts), shape=(len(self), len(counts))
        )


def _weighted_means(weights: "scipy.sparse.csr_array", values: AnyArray) -> AnyArray:
    """Return the means of the rows of `values` under integer weights, also where their
    sums would overflow.
    """
    total = weights.sum(axis=1)[:, None]
    with np.errstate(over="ignore", invalid="ignore"):
        means = (weights @ values) / total
        large = ~np.isfinite(means)
        if large.any():
            halvings = int(total.max()).bit_length()
            means[large] = np.ldexp(
                (weights @ np.ldexp(values, -halvings)) / total, halvings
            )[large]
    return np.asarray(means)


def _starts(sizes: IntArray | list[int]) -> IntArray:
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.intp)


@dataclass(frozen=True, eq=False)
class Classes(FieldsPickled):
    """The distinct tokens of one token set or of a batch, and the class of each token.

    Tokens and classes of a batch are numbered through, one token set after another.
    """

    rows: AnyArray  # (m, d) distinct tokens, sorted within each token set
    labels: IntArray  # (n,) class of every token
    first: IntArray  # (m,) lowest token index in each class
    counts: IntArray  # (m,) number of equal tokens
    sizes: IntArray  # (batch,) number of tokens of each token set
    offsets: IntArray  # (batch + 1,) where the classes of each token set begin

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def distinct(self) -> bool:
        """True when no two tokens are equal."""
        return len(self.labels) == len(self.rows)

    @cached_property
    def owners(self) -> IntArray:
        """The token set of each class, (m,)."""
        return np.repeat(np.arange(len(self.sizes)), np.diff(self.offsets))

    @classmethod
    def singly(cls, tokens: AnyArray, sizes: IntArray | None = None) -> "Classes":
        """Return one class per token, in the order given: for rules that depend on
        positions.
        """
        each = np.arange(len(tokens))
        sizes = np.array([len(tokens)]) if sizes is None else sizes
        return cls(tokens, each, each, np.ones_like(each), sizes, _starts(sizes))

    @classmethod
    def of(cls, tokens: AnyArray, sizes: IntArray | None = None) -> "Classes":
        """Group equal rows of `tokens`, shape (n, d). Zero and minus zero are equal.

        `sizes` has the number of tokens of each token set of a batch; only tokens of
        the same token set are grouped.
        """
        sizes = np.array([len(tokens)]) if sizes is None else sizes
        if tokens.dtype != object:
            tokens = tokens + 0.0  # turns -0.0 into 0.0
        owners = np.repeat(np.arange(len(sizes)), sizes)
        # The order is stable, so the first of a run of equal tokens has the lowest
        # index.
        order = _lexicographic(tokens, sizes, owners)  # (n,)
        ranked = tokens[order]
        differs = (ranked[1:] != ranked[:-1]).any(axis=1)
        differs |= owners[1:] != owners[:-1]  # as sorted: the order keeps token sets
        begins = np.r_[True, differs]  # (n,)
        labels = np.empty(len(tokens), np.intp)
        labels[order] = np.cumsum(begins) - 1
        classes_of_each = np.bincount(owners[begins], minlength=len(sizes))
        return cls(
            ranked[begins],
            labels,
            order[begins],
            np.bincount(labels),
            sizes,
            _starts(classes_of_each),
        )

    def part(self, b: int) -> "Classes":
        """Return the classes of one token set."""
        if len(self.sizes) == 1:
            return self
        rows = slice(self.offsets[b], self.offsets[b + 1])
        begin = int(self.sizes[:b].sum())
        tokens = slice(begin, begin + int(self.sizes[b]))
        return Classes(
            self.rows[rows],
            self.labels[tokens] - rows.start,
            self.first[rows] - begin,
            self.counts[rows],
            self.sizes[b : b + 1],
            np.array([0, rows.stop - rows.start]),
        )


def _lexicographic(tokens: AnyArray, sizes: IntArray, owners: IntArray) -> IntArray:
    """Return the lexicographic order of the rows of each token set; other coordinates
    matter where the first are equal.
    """
    first = tokens[:, 0]
    if (sizes == sizes[0]).all():
        # Sorting many short rows is faster than sorting one long one.
        rows = first.reshape(len(sizes), -1)
        begins = np.arange(len(sizes))[:, None] * rows.shape[1]
        order = (np.argsort(rows, axis=1, kind="stable") + begins).ravel()
    else:
        order = np.lexsort((first, owners))
    first = first[order]
    equal = (first[1:] == first[:-1]) & (owners[1:] == owners[:-1])
    places = np.flatnonzero(np.r_[False, equal] | np.r_[equal, False])
    if len(places):
        some = order[places]
        keys = [*tokens[some].T[::-1], owners[some]]
        order[places] = some[np.lexsort(keys)]
    return order
