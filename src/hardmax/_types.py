"""Names of types.

`n` tokens of dimension `d`; `m` classes of equal tokens, m <= n. A `Row` is one exact
token: d integers whose common denominator is kept elsewhere.
"""

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

FloatArray: TypeAlias = NDArray[np.float64]
IntArray: TypeAlias = NDArray[np.intp]
BoolArray: TypeAlias = NDArray[np.bool_]
ComplexArray: TypeAlias = NDArray[np.complex128]
AnyArray: TypeAlias = NDArray[
    Any
]  # floats of any width, or Fractions in an object array
Seen: TypeAlias = (
    AnyArray | None
)  # number of first keys that each query sees, mask of them (rows, m), or all
Matrix: TypeAlias = Any  # a dense array or a sparse matrix of SciPy, shape (n, d)
Array: TypeAlias = (
    Any  # of NumPy, or a tensor of torch: no checker follows operators between the two
)
Row: TypeAlias = tuple[int, ...]
Progress: TypeAlias = Callable[
    [int, int], None
]  # called with how much is done, and how much there is in all
