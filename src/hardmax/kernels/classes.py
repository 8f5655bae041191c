"""Equal tokens as one class.

Equal tokens have equal C_i and stay equal, so the engine works on classes with multiplicities. The classes come in
lexicographic order, which makes every later number independent of the order of the tokens.
"""

from dataclasses import dataclass

import numpy as np

from hardmax._types import AnyArray, IntArray


@dataclass(frozen=True, eq=False)
class Classes:
    """The distinct tokens of a cloud, and which token is which."""

    rows: AnyArray  # (m, d) distinct tokens, sorted
    labels: IntArray  # (n,) class of every token
    first: IntArray  # (m,) lowest token index in each class
    counts: IntArray  # (m,) how many tokens are equal

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def distinct(self) -> bool:
        """True when no two tokens are equal."""
        return len(self.labels) == len(self.rows)

    @classmethod
    def singly(cls, tokens: AnyArray) -> "Classes":
        """Every token a class of its own, in the order given: for rules that know positions."""
        each = np.arange(len(tokens))
        return cls(tokens, each, each, np.ones_like(each))

    @classmethod
    def of(cls, tokens: AnyArray) -> "Classes":
        """Group equal rows of `tokens`, shape (n, d). Zero and minus zero are equal."""
        if tokens.dtype != object:
            tokens = tokens + 0.0  # turns -0.0 into 0.0
        order = np.lexsort(tokens.T[::-1])  # (n,) stable, so the first of a run has the lowest index
        ranked = tokens[order]
        starts = np.r_[True, (ranked[1:] != ranked[:-1]).any(axis=1)]  # (n,)
        labels = np.empty(len(tokens), np.intp)
        labels[order] = np.cumsum(starts) - 1
        return cls(ranked[starts], labels, order[starts], np.bincount(labels))
