"""What each token adds to the logits of its text, for heads in the plane: search, layers and transpose in one pass.

The same as `stack.shares` times scores, without arrays in between. A text with a near-tie anywhere is left to that:
here rounding decides nothing.
"""

from typing import Any

import numpy as np
from numba import njit

from hardmax._types import AnyArray, BoolArray, FloatArray, IntArray
from hardmax.exact import UNIT
from hardmax.kernels.blocks import FLAGS
from hardmax.kernels.compiled import entry, share
from hardmax.kernels.plane import BLOCK, FAINT, TINIEST, _best, _disc, _farthest, _slack

PRODUCTS = 60.0  # multiplications for each token, head and layer, about


@njit(fastmath=FLAGS)
def _followed(x: FloatArray, y: FloatArray, space: Any, follows: IntArray) -> bool:
    """Write whom each token follows; whether no other was near."""
    kx, ky, kept, path, qx, qy, best, second, at = space
    n = len(x)
    _farthest(x, y, path)
    cx, cy, radius, highest = _disc(x, y, path)
    inner = max(radius - 20 * UNIT * highest, 0.0) if highest > TINIEST else 0.0
    inner *= inner * (1 - 1e-14)
    few = 0
    for j in range(n):  # keys in the middle are never followed; see `plane`
        kx[few], ky[few], kept[few] = x[j], y[j], j
        few += (x[j] - cx) * (x[j] - cx) + (y[j] - cy) * (y[j] - cy) >= inner
    clear = True
    for top in range(0, n, BLOCK):
        these = min(BLOCK, n - top)
        for i in range(these):
            qx[i], qy[i] = x[top + i], y[top + i]
        _best(kx[:few], ky[:few], qx, qy, best, second, at)
        for i in range(these):
            follows[top + i] = kept[int(at[i])]
            clear &= second[i] < best[i] - _slack(qx[i], qy[i], highest)
            clear &= (abs(qx[i]) + abs(qy[i])) * highest >= FAINT
    return clear


@njit
def _settled(follows: IntArray) -> bool:
    """Whether everyone follows somebody who follows himself."""
    settled = True
    for j in follows:
        settled &= follows[j] == j
    return settled


@entry(fastmath=FLAGS)
def _voices(
    texts: IntArray,
    ids: IntArray,
    starts: IntArray,
    counts: IntArray,
    embedding: AnyArray,
    step: FloatArray,
    decoder: FloatArray,
    layers: int,
    out: FloatArray,
    clear: BoolArray,
) -> None:
    """Contributions of some texts; `clear` tells whether they are decided."""
    longest = 0
    for t in texts:
        longest = max(longest, starts[t + 1] - starts[t])
    x, y, nx, ny = np.empty(longest), np.empty(longest), np.empty(longest), np.empty(longest)
    share, given = np.empty(longest), np.empty(longest)
    follows, steps = np.empty((max(1, layers), longest), np.intp), np.empty(max(1, layers))
    space = (
        np.empty(longest + 1),
        np.empty(longest + 1),
        np.empty(longest + 1, np.intp),
        np.zeros(8, np.intp),
        np.zeros(BLOCK),
        np.zeros(BLOCK),
        np.empty(BLOCK),
        np.empty(BLOCK),
        np.empty(BLOCK),
    )
    for t in texts:
        first, n = starts[t], starts[t + 1] - starts[t]
        clear[t] = True
        total = 0
        for i in range(n):
            total += counts[first + i]
            for c in range(len(decoder)):
                out[first + i, c] = 0.0
        if n == 0:
            continue
        for h in range(embedding.shape[1]):
            for i in range(n):
                x[i], y[i] = embedding[ids[first + i], h, 0], embedding[ids[first + i], h, 1]
                share[i] = counts[first + i] / total
            run = 0
            while run < layers:
                if not _followed(x[:n], y[:n], space, follows[run, :n]):
                    clear[t] = False
                    break
                last = _settled(follows[run, :n])
                b = 1 - (1 - step[h]) ** (layers - run) if last else step[h]
                steps[run] = b
                for i in range(n):
                    j = follows[run, i]
                    nx[i], ny[i] = x[i] + b * (x[j] - x[i]), y[i] + b * (y[j] - y[i])
                x[:n], y[:n] = nx[:n], ny[:n]
                run += 1
                if last:
                    break
            if not clear[t]:
                break
            for k in range(run - 1, -1, -1):
                for i in range(n):
                    given[i] = share[i] - steps[k] * share[i]
                for i in range(n):
                    given[follows[k, i]] += steps[k] * share[i]
                share[:n] = given[:n]
            for i in range(n):
                zx, zy = embedding[ids[first + i], h, 0], embedding[ids[first + i], h, 1]
                for c in range(len(decoder)):
                    out[first + i, c] += share[i] * (decoder[c, h, 0] * zx + decoder[c, h, 1] * zy)


def voices(
    ids: IntArray,
    starts: IntArray,
    counts: IntArray,
    embedding: AnyArray,
    step: FloatArray,
    decoder: FloatArray,
    layers: int,
) -> tuple[FloatArray, BoolArray]:
    """(tokens, outputs) contributions of every text, and (texts,) which of them are decided; the others are undefined.

    Parameters
    ----------
    ids, starts, counts : arrays
        Tokens of each text; see `sentiment.vocabulary.Encoded`.
    embedding : (tokens, heads, 2) array
    step : (heads,) array
    decoder : (outputs, heads, 2) array
    """
    out, clear = np.empty((len(ids), len(decoder))), np.empty(len(starts) - 1, np.bool_)

    def work(texts: IntArray) -> None:
        _voices(texts, ids, starts, counts, embedding, step, decoder, layers, out, clear)

    share(work, len(clear), PRODUCTS * len(ids) * len(step) * max(1, layers))
    return out, clear
