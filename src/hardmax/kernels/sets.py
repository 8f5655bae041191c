"""The sets C_i of one layer.

C_i = argmax_j <A z_i, z_j> is a set of indices for each i. Nearly all have one member, so they are kept row after row
in two flat arrays, and every operation on them is one NumPy call.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import gcd, lcm
from typing import Any

import numpy as np
from scipy import sparse

from hardmax._types import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Sets:
    """C_i = members[starts[i]:starts[i + 1]], sorted, for every class i."""

    starts: IntArray  # (rows + 1,)
    members: IntArray  # (sum of |C_i|,)

    def __len__(self) -> int:
        return len(self.starts) - 1

    def __getitem__(self, i: int | np.integer[Any]) -> IntArray:
        return self.members[self.starts[i] : self.starts[i + 1]]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sets):
            return NotImplemented
        return np.array_equal(self.starts, other.starts) and np.array_equal(self.members, other.members)

    __hash__ = None  # type: ignore[assignment]

    @classmethod
    def of(cls, rows: Sequence[IntArray | list[int]]) -> "Sets":
        """Collect one array of members a row."""
        sizes = [len(row) for row in rows]
        members = np.concatenate([np.asarray(row, np.intp) for row in rows]) if rows else np.empty(0, np.intp)
        return cls(np.r_[0, np.cumsum(sizes)].astype(np.intp), members)

    @cached_property
    def single(self) -> bool:
        """Whether every row has one member."""
        return len(self.members) == len(self) and bool((self.starts[1:] > self.starts[:-1]).all())

    @cached_property
    def sizes(self) -> IntArray:
        """|C_i|, shape (rows,)."""
        return np.ones(len(self), np.intp) if self.single else np.diff(self.starts)

    @cached_property
    def targets(self) -> IntArray:
        """The first member of each C_i; the only one where |C_i| = 1."""
        return self.members if self.single else self.members[self.starts[:-1]]

    @cached_property
    def tied(self) -> IntArray:
        """Rows with more than one member."""
        return np.empty(0, np.intp) if self.single else np.flatnonzero(self.sizes > 1)

    def replace(self, rows: IntArray, new: "Sets") -> "Sets":
        """Return these sets with `rows` taken from `new`, in order."""
        if not len(rows):
            return self
        if len(rows) == len(self):
            return new
        if self.single and new.single:
            members = self.members.copy()
            members[rows] = new.members
            return Sets(self.starts, members)
        sizes = self.sizes.copy()
        sizes[rows] = new.sizes
        starts = np.r_[0, np.cumsum(sizes)].astype(np.intp)
        owner = np.repeat(np.arange(len(self)), sizes)
        fresh = np.zeros(len(self), bool)
        fresh[rows] = True
        members = np.empty(starts[-1], np.intp)
        members[fresh[owner]] = new.members
        members[~fresh[owner]] = self.members[~fresh[np.repeat(np.arange(len(self)), self.sizes)]]
        return Sets(starts, members)

    def mean(self, tokens: FloatArray, counts: IntArray) -> FloatArray:
        """c_i, the mean of C_i with multiplicities: shape (rows, d)."""
        means = tokens.take(self.targets, axis=0)
        for i in self.tied:
            means[i] = np.average(tokens[self[i]], axis=0, weights=counts[self[i]])
        return means

    def shares(self, i: int | np.integer[Any], counts: IntArray) -> tuple[list[int], list[int], int]:
        """Members, their whole-number weights in lowest terms, and the sum of those: P_ij = weight / sum."""
        members = self[i].tolist()
        if len(members) == 1:
            return members, [1], 1
        weights = counts[self[i]].tolist()
        common = gcd(*weights)
        weights = [w // common for w in weights]
        return members, weights, sum(weights)

    def denominator(self, counts: IntArray) -> int:
        """Least common multiple of the denominators of all means."""
        return lcm(*{self.shares(i, counts)[2] for i in self.tied})

    def matrix(self, counts: IntArray) -> sparse.csr_array:
        """Row-stochastic matrix P over classes, with weights by multiplicity."""
        weights = counts[self.members].astype(np.float64)
        totals = np.add.reduceat(weights, self.starts[:-1])
        return sparse.csr_array(
            (weights / np.repeat(totals, self.sizes), self.members, self.starts), shape=(len(self), len(counts))
        )
