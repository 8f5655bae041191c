"""What each token adds to the logits of its text, for heads on a line or in the plane, in one pass.

The same as `stack.shares` times scores, without arrays in between. A text with a near-tie anywhere, be it by the
rounding of earlier layers, is left out: here rounding decides nothing.
"""

from typing import Any

import numpy as np
from numba import njit

from hardmax._integers import UNIT
from hardmax._types import AnyArray, BoolArray, FloatArray, IntArray
from hardmax.kernels.compiled import entry, share
from hardmax.kernels.lanes import FLAGS
from hardmax.kernels.plane import BLOCK, FAINT, _best, _slack, outer

DEEP = 1e-9  # how deep inside a key must be to be left out where positions have errors of 1e-14 or so ...
FAR = 1e-4  # ... for queries of at least this size: DEEP * FAR is far more than those
PRODUCTS = 60.0  # multiplications for each token, head and layer, about


@njit(fastmath=FLAGS)
def _followed(x: FloatArray, y: FloatArray, error: float, space: Any, follows: IntArray) -> bool:
    """Write whom each token follows; whether no other was near, for positions that may be wrong by `error`."""
    kx, ky, kept, depth, path, qx, qy, best, second, at = space
    n = len(x)
    few, highest = outer(x, y, path, depth, kx, ky, kept, DEEP if error > 0 else 84 * UNIT)
    clear = True
    for top in range(0, n, BLOCK):
        these = min(BLOCK, n - top)
        for i in range(these):
            qx[i], qy[i] = x[top + i], y[top + i]
        _best(kx[:few], ky[:few], qx, qy, best, second, at)
        for i in range(these):
            follows[top + i] = kept[int(at[i])]
            size = abs(qx[i]) + abs(qy[i])
            moved = 2.02 * error * (size + 2 * highest + 2 * error)  # by errors of positions; see `engine.adaptive`
            clear &= second[i] < best[i] - _slack(qx[i], qy[i], highest) - moved
            clear &= size * highest >= FAINT and (error == 0 or size > FAR * highest)
    return clear


@njit
def _followed_on_line(x: FloatArray, error: float, follows: IntArray) -> bool:
    """As `_followed` for heads with one coordinate: the largest or the smallest, without products."""
    high = low = 0
    for j in range(len(x)):
        high = j if x[j] > x[high] else high
        low = j if x[j] < x[low] else low
    clear = True
    for j in range(len(x)):
        clear &= (x[high] - x[j] > 2 * error or j == high) and (x[j] - x[low] > 2 * error or j == low)
        clear &= abs(x[j]) > error
        follows[j] = high if x[j] > 0.0 else low
    return clear


@njit
def settled(follows: IntArray) -> bool:
    """Whether everyone follows somebody who follows himself."""
    all_led = True
    for j in follows:
        all_led &= follows[j] == j
    return all_led


@njit(fastmath=FLAGS)
def _shares(
    x: FloatArray, y: FloatArray, d: int, step: float, follows: IntArray, space: Any, share: FloatArray
) -> bool:
    """Move tokens through all layers, x and y in place, and `share` of the outputs to that of the inputs.

    False where two tokens are as good or nearly so; then nothing is decided.
    """
    layers, n = follows.shape[0], len(x)
    steps, nx, ny = np.empty(layers), space[-3][:n], space[-2][:n]
    run, error, reach = 0, 0.0, 0.0
    for i in range(n):
        reach = max(reach, abs(x[i]) + abs(y[i]))
    while run < layers:
        if d == 1:
            clear = _followed_on_line(x, error, follows[run])
        else:
            clear = _followed(x, y, error, space[:-3], follows[run, :n])
        if not clear:
            return False
        error += 8 * UNIT * reach  # the layer itself brings positions no farther apart
        last = settled(follows[run, :n])
        b = 1 - (1 - step) ** (layers - run) if last else step
        steps[run] = b
        for i in range(n):
            j = follows[run, i]
            nx[i], ny[i] = x[i] + b * (x[j] - x[i]), y[i] + b * (y[j] - y[i])
        x[:], y[:] = nx, ny
        run += 1
        if last:
            break
    given = space[-1][:n]
    for k in range(run - 1, -1, -1):
        for i in range(n):
            given[i] = share[i] - steps[k] * share[i]
        for i in range(n):
            given[follows[k, i]] += steps[k] * share[i]
        share[:] = given
    return True


@njit
def _classes(x: FloatArray, y: FloatArray, counts: IntArray, member: IntArray, size: IntArray) -> int:
    """Bring one of each class of equal tokens to the front; `member` is the class of a token, `size` what it counts."""
    m = 0
    for i in range(len(x)):
        at = 0
        while at < m and not (x[at] == x[i] and y[at] == y[i]):
            at += 1
        if at == m:
            x[m], y[m], size[m] = x[i], y[i], 0
            m += 1
        member[i] = at
        size[at] += counts[i]
    return m


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
    longest, d = 1, embedding.shape[2]
    for t in texts:
        longest = max(longest, starts[t + 1] - starts[t])
    x, y, share, some = np.empty(longest), np.empty(longest), np.empty(longest), np.empty(longest)
    z = np.empty((embedding.shape[1], d, longest))  # a text's tokens, head by head
    member, size = np.empty(longest, np.intp), np.empty(longest, np.intp)
    follows = np.empty((layers, longest), np.intp)
    space = (
        np.empty(longest + 1),
        np.empty(longest + 1),
        np.empty(longest + 1, np.intp),
        np.empty(longest),
        np.zeros(8, np.intp),
        np.zeros(BLOCK),
        np.zeros(BLOCK),
        np.empty(BLOCK),
        np.empty(BLOCK),
        np.empty(BLOCK),
        np.empty(longest),
        np.empty(longest),
        np.empty(longest),
    )
    for t in texts:
        clear[t] = True
        tokens, many, said = (
            ids[starts[t] : starts[t + 1]],
            counts[starts[t] : starts[t + 1]],
            out[starts[t] : starts[t + 1]],
        )
        n, total = len(tokens), many.sum()
        said[:] = 0.0
        for i in range(n):
            for h in range(embedding.shape[1]):
                for r in range(d):
                    z[h, r, i] = embedding[tokens[i], h, r]
        for h in range(embedding.shape[1] if n else 0):
            for i in range(n):
                x[i], y[i], share[i] = z[h, 0, i], z[h, d - 1, i], many[i] / total
            if not _shares(x[:n], y[:n], d, step[h], follows[:, :n], space, share[:n]):
                # Equal tokens stay equal, so they are one that counts as often as all of them.
                for i in range(n):
                    x[i], y[i] = z[h, 0, i], z[h, d - 1, i]
                m = _classes(x[:n], y[:n], many, member, size)
                for c in range(m):
                    some[c] = size[c] / total
                clear[t] &= _shares(x[:m], y[:m], d, step[h], follows[:, :m], space, some[:m])
                for i in range(n):
                    share[i] = some[member[i]] * many[i] / size[member[i]]
            for c in range(len(decoder)):
                for r in range(d):
                    for i in range(n):
                        said[i, c] += share[i] * (decoder[c, h, r] * z[h, r, i])


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
    embedding : (tokens, heads, 1 or 2) array
    step : (heads,) array
    decoder : (outputs, heads, 1 or 2) array
    """
    out, clear = np.empty((len(ids), len(decoder))), np.empty(len(starts) - 1, np.bool_)

    def work(texts: IntArray) -> None:
        _voices(texts, ids, starts, counts, embedding, step, decoder, layers, out, clear)

    share(work, len(clear), PRODUCTS * len(ids) * len(step) * max(1, layers))
    return out, clear
