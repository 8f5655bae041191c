"""The sets C_i of many queries, in flat arrays that NumPy and torch share."""

from typing import Any, NamedTuple


class Chosen(NamedTuple):
    """C_i of every query, row after row; arrays of NumPy or tensors of torch, whole numbers throughout.

    Most sets have one member, so `first` nearly says it all, and only `tied` rows are written out.
    """

    first: Any  # (rows,) lowest member of C_i; -1 where a query sees no key
    sizes: Any  # (rows,) |C_i|
    tied: Any  # (t,) rows with more than one member, ascending
    starts: Any  # (t + 1,) where the members of each tied row start
    members: Any  # (sum of |C_i| over tied rows,) ascending within a row
