"""Several hardmax layers on batches of clouds, in NumPy: one pass forward, and its transpose.

A layer moves z_i to z_i + b (mean of C_i - z_i) with b = alpha / (1 + alpha). When each token of a cloud follows one
leader, the sets never change again (Theorem 1), so m layers are one with the step 1 - (1 - b)^m: clouds leave as soon
as they are decided.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from hardmax._exact import TINY, UNIT, over_one_denominator
from hardmax._types import AnyArray, BoolArray, FloatArray, IntArray
from hardmax.exact.argmax import exact_rows, exact_sets_of_batch, near_maxima_of_batch
from hardmax.exact.comparison import compared
from hardmax.search.sets import Sets


def joined_step(step: AnyArray, count: IntArray) -> FloatArray:
    """1 - (1 - b)^count, the step of so many layers; multiplied out, as powers have not the same bits everywhere."""
    rest, power = 1 - step.astype(np.float64), np.ones(len(step))
    for m in range(1, count.max(initial=1)):
        power[count > m] *= rest[count > m]
    return np.where(count == 1, step, 1 - power * rest)


class Layer(NamedTuple):
    """What one layer did to the clouds that were not decided before it."""

    clouds: IntArray  # (a,) which clouds
    sets: Sets  # C_i, a * n of them
    counts: IntArray  # (a * n,) how much each token counts in the mean of a set
    decided: BoolArray  # (a,) whether every token of a cloud has a single leader, which follows itself alone
    step: AnyArray  # (a,) b, or that of all layers to come for clouds that are decided now
    ahead: IntArray  # (a,) of how many layers
    pull: AnyArray  # (a, n, d) c_i - z_i, which moved the tokens

    def back(self, g: AnyArray) -> AnyArray:
        """Transpose of the layer for (a, n, d) gradients: (1 - b) g_i stays, and b g_i goes to C_i."""
        moved = self.step[:, None, None] * g
        return np.asarray((g - moved + self.given(moved)).astype(g.dtype))

    def given(self, g: AnyArray) -> FloatArray:
        """What g_i, shared by C_i, gives to each token, summed in float64 in the order of i."""
        P = self.sets.flattened(g.shape[1], g.shape[1]).matrix(self.counts)
        return np.asarray(P.T @ g.reshape(-1, g.shape[2])).reshape(g.shape)


def layers_of(
    tokens: AnyArray,
    step: AnyArray,
    count: int,
    *,
    A: AnyArray | None = None,
    counts: IntArray | None = None,
    sure: BoolArray | None = None,
) -> Iterator[Layer]:
    """Run (batch, n, d) tokens through `count` layers in place, and yield each; `step` (batch,) is b of each cloud.

    `A` has shape (batch, d, d). `counts` (batch, n) tells how many equal tokens a row stands for; 0 is padding, which
    nobody follows. In `sure` (batch,) False is written where rounding of earlier layers may have decided a set; those
    clouds leave.
    """
    batch, n, _ = tokens.shape
    clouds = np.arange(batch)
    many = np.ones((batch, n), np.intp) if counts is None else counts
    error = np.zeros(batch)  # of each coordinate, by rounding
    reach = np.abs(tokens).max(axis=(1, 2), initial=0)  # no layer goes beyond the hull
    for k in range(count):
        z = tokens[clouds]  # (a, n, d)
        if not z.size:
            return
        forms, seen = None if A is None else A[clouds], None if counts is None else counts[clouds] > 0
        if sure is None or k == 0:  # positions of the first layer are exact
            sets = exact_sets_of_batch(z, z, seen) if forms is None else _sets_under(z, forms, seen)
        else:
            queries = z if forms is None else z @ forms
            sets, same = near_maxima_of_batch(queries, z, _slack(z, forms, seen, error[clouds]).reshape(-1), seen)
            good = (same.reshape(len(z), n) | (many[clouds] == 0)).all(axis=1)
            sure[clouds[~good]] = False
            sets, z, clouds = sets.take(np.flatnonzero(np.repeat(good, n))), z[good], clouds[good]
            if not len(z):
                return
        error[clouds] += (8 + 2 * sets.sizes.reshape(-1, n).max(axis=1)) * UNIT * reach[clouds]
        flat, everywhere = many[clouds].reshape(-1), sets.flattened(n, n)
        places, alone = everywhere.targets, everywhere.sizes == 1
        decided = (alone & alone[places] & (places[places] == places)).reshape(-1, n).all(axis=1)
        ahead = np.where(decided, count - k, 1)
        b = joined_step(step[clouds], ahead).astype(tokens.dtype)
        pull = everywhere.mean(z.reshape(-1, z.shape[2]), flat).reshape(z.shape) - z
        tokens[clouds] = z + b[:, None, None] * pull
        yield Layer(clouds, sets, flat, decided, b, ahead, pull)
        clouds = clouds[~decided]


def shares(layers: Iterable[Layer], counts: AnyArray) -> FloatArray:
    """(batch, n) how much of each input token is in the mean of the outputs: the mean row of M, where z^K = M z^0.

    Tokens count as often as `counts` (batch, n) says. Clouds that are not sure have no meaning.
    """
    total = (counts / np.maximum(1, counts.sum(axis=1, keepdims=True)))[..., None]
    for layer in reversed(list(layers)):
        some = total[layer.clouds]
        total[layer.clouds] = some + layer.step[:, None, None] * (layer.given(some) - some)  # as compiled code does
    return np.asarray(total[..., 0])


def _sets_under(z: AnyArray, A: AnyArray, seen: BoolArray | None) -> Sets:
    """C_i = argmax_j <z_i A, z_j>, as in real arithmetic on these floats: rounding of z A decides nothing."""
    (batch, n, _), points = z.shape, z.astype(np.float64)
    near, same = near_maxima_of_batch(points @ A, points, _slack(z, A, seen, np.zeros(batch)).reshape(-1), seen)
    rows = np.flatnonzero(~same)
    answers: list[IntArray] = []
    for b in np.unique(rows // n).tolist():
        some = rows[rows // n == b]
        asked, form = over_one_denominator(z[b, some % n])[0], over_one_denominator(A[b].T)[0]
        answers += compared(near.take(some), asked, exact_rows(z[b]), form)[0]
    return near.replace(rows, Sets.of(answers))


def _slack(z: AnyArray, A: AnyArray | None, seen: BoolArray | None, e: FloatArray) -> FloatArray:
    """(batch, n) as `kernels.floating.slack_of`, for clouds whose positions are off by up to e, shape (batch,).

    Where only keys at one place have products within it of the largest, exact positions have the same sets: keys at
    one place are equal tokens, which stay equal.
    """
    d = z.shape[2]
    points = (z if seen is None else np.where(seen[..., None], z, 0)).astype(np.float64)
    e = e[:, None]  # (batch, 1)
    highest = np.abs(points).max(axis=(1, 2))[:, None]
    widest = np.abs(points).sum(axis=2).max(axis=1)[:, None]
    queries, query_error = points, e
    if A is not None:
        queries = points @ A
        query_error = np.abs(A).sum(axis=1).max(axis=1)[:, None] * (e + (d + 1) * UNIT * highest) + d * TINY
    sums = np.abs(queries).sum(axis=2)  # (batch, n)
    return 2.02 * (sums * ((d + 4) * UNIT * highest + e) + query_error * (widest + d * e) + d * TINY)
