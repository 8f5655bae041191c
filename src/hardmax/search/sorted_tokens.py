"""Tokens by falling length, in panels of 16, as whole numbers of 16 bits where these tell who wins, else as float32.

Whole numbers take half the time, but are a coarser grid: among tokens that have gathered, products differ by less than
it. A few tokens are asked first whether they have several keys within its error, which decides about time alone.
"""

from functools import partial
from typing import NamedTuple

import numpy as np

from hardmax._types import AnyArray, FloatArray, IntArray
from hardmax.search.lanes import FLAGS, LANES, SMALLEST
from hardmax.search.threads import entry, share

TASK = 128  # tokens that are packed at a time
SINGLE = 2.0**-24  # rounding of one float32 operation, relative
TINY = 2.0**-125  # and absolute, with a factor to spare
LEVELS = 60_000  # of lengths, by which tokens are sorted
LONGEST = 32_000  # of a token of whole numbers: coordinates stay below 2^15, and products below 2^30 and some
MOST = 2.0**29  # what may be unsure of a product of them, so that what is above a cut stays in the range of 32 bits
ASKED, KEYS = 8, 512  # tokens and keys, spread over all lengths, that are asked first
CROWDED = 1 / 8  # of the tokens, up to which whole numbers are faster


class Sorted(NamedTuple):
    """Tokens by falling length, up to a level, in panels of 16; the last token fills up its panel.

    Numbers are float32, or whole; then lengths and products are in units.
    """

    order: IntArray  # (panels * 16,) which token stands where
    coarse: AnyArray  # (panels * rows * 16,): panel, coordinate or pair of them, token of the panel
    reach: AnyArray  # (panels,) float32, the largest length of a panel
    inverse: AnyArray  # (panels * 16,) float32, at most 1 / length
    unsure: AnyArray  # (panels * 16,) slack + 2 e
    cuts: AnyArray  # (panels * 16,) what a maximum has to exceed to matter; all threads raise it


def sorted_tokens(tokens: FloatArray, slack: FloatArray, whole: bool = True) -> Sorted:
    """Sort them, as whole numbers if these may be taken and may tell who wins."""
    n, d = tokens.shape
    lengths = np.sqrt(np.einsum("ij,ij->i", tokens, tokens))  # by no library whose threads would spin for a while
    longest = max(float(lengths.max()), SMALLEST)
    levels = (LEVELS * (1.0 - lengths / longest)).astype(np.uint16)
    order = np.argsort(levels, kind="stable")  # whole numbers of 16 bits are sorted in linear time
    order = np.r_[order, np.repeat(order[-1:], -n % LANES)]
    lengths, slack, unit = lengths[order], slack[order], longest / LONGEST
    unsure = _unsure_of_whole(d, lengths / unit, slack, unit)
    if whole and unsure.max() < MOST:
        some, keys = (np.arange(0, n, -(-n // count)) for count in (ASKED, KEYS))
        if not _crowded(tokens, order[some], order[keys], unsure[some] * unit * unit, int(CROWDED * len(some))):
            return _as_whole(tokens, order, lengths / unit, unsure, unit)
    return _as_floats(tokens, order, lengths, slack)


def _unsure_of_whole(d: int, lengths: FloatArray, slack: FloatArray, unit: float) -> FloatArray:
    """(n,) more than slack + 2 e, in units, for whole numbers v that are at most 1/2 away from the coordinates z.

    <z, z'> = <v + x, v' + x'> with |x_r| <= 1/2, so that <v, v'> is off by e = |v|_1 / 2 + |v'|_1 / 2 + d / 4 at most,
    and |v|_1 is at most sqrt(d) |v| and |v| at most |z| + sqrt(d) / 2. What float64 rounds here and in z / unit is less
    than the ten thousandth part of it.
    """
    sums = np.sqrt(d) * lengths + 0.5 * d  # at least |v|_1
    with np.errstate(over="ignore"):
        return np.asarray(1.0001 * (slack / unit / unit + sums + sums.max() + 0.5 * d) + 2)


@entry(fastmath=FLAGS)
def _crowded(tokens: FloatArray, some: IntArray, keys: IntArray, unsure: FloatArray, allowed: int) -> bool:
    """Whether for more tokens than allowed several of some keys are this close to the largest product."""
    products, crowded = np.empty(len(keys)), 0
    for i in range(len(some)):
        best, close = -np.inf, 0
        for j in range(len(keys)):
            products[j] = 0.0
            for r in range(tokens.shape[1]):
                products[j] += tokens[some[i], r] * tokens[keys[j], r]
            best = max(best, products[j])
        for j in range(len(keys)):
            close += products[j] >= best - unsure[i]
        crowded += close > 2
        if crowded > allowed:
            return True
    return False


def _as_whole(tokens: FloatArray, order: IntArray, lengths: FloatArray, unsure: FloatArray, unit: float) -> Sorted:
    """|v| is at most |z| + sqrt(d) / 2, in units.

    Also sums over some coordinates alone are at most |v| |v'|, so that none leaves the range of 32 bits.
    """
    d = tokens.shape[1]
    above = lengths + 0.5 * np.sqrt(d)
    numbers = np.zeros(len(order) * (d + d % 2), np.int16)
    _packed(tokens, order, 1.0 / unit, 2, numbers)
    return Sorted(
        order,
        numbers.view(np.int32),
        np.asarray(1.00001 * above.reshape(-1, LANES).max(axis=1), np.float32),
        np.asarray(0.99999 / above, np.float32),
        np.asarray(unsure, np.int32),
        np.full(len(order), np.iinfo(np.int32).min, np.int32),
    )


def _as_floats(tokens: FloatArray, order: IntArray, lengths: FloatArray, slack: FloatArray) -> Sorted:
    """With bounds that hold in float32.

    |fl(q k) - q k| <= (d + 3) u |q|_2 |k|_2 in any order of the sum: d for the sum, two for the rounded numbers, and
    one for what is left of higher order. The cuts are off by a few more units of the largest product.
    """
    d, longest = tokens.shape[1], lengths.max()
    unsure = 1.0001 * (slack + 2.02 * ((d + 8) * SINGLE * longest * lengths + d * TINY * max(1.0, longest)))
    numbers = np.empty(len(order) * d, np.float32)
    _packed(tokens, order, 1.0, 1, numbers)
    return Sorted(
        order,
        numbers,
        np.asarray(1.00001 * lengths.reshape(-1, LANES).max(axis=1) + 1e-30, np.float32),
        np.asarray(0.99999 / np.maximum(lengths, 1e-18), np.float32),
        np.asarray(unsure, np.float32),
        np.full(len(order), np.float32(-3e38)),
    )


def _packed(tokens: FloatArray, order: IntArray, scale: float, width: int, out: AnyArray) -> None:
    work = partial(_pack, tokens, order, scale, width, out)
    share(work, -(-len(order) // TASK), float(tokens.size * LANES))


@entry()
def _pack(tokens: FloatArray, order: IntArray, scale: float, width: int, out: AnyArray, tasks: IntArray) -> None:
    """Copy tokens into their panels, one or two coordinates of a token side by side; two are whole numbers."""
    d, second, row = tokens.shape[1], width - 1, LANES * width
    for task in tasks:
        for at in range(task * TASK, min(len(order), (task + 1) * TASK)):
            start, token = (at // LANES) * ((d + second) >> second) * row + at % LANES * width, tokens[order[at]]
            for r in range(d):
                value = token[r] * scale
                out[start + (r >> second) * row + (r & second)] = np.rint(value) if second else value
