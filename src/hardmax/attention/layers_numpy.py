"""Several hardmax layers on a batch, in NumPy: one pass forward, and its transpose.

A layer moves z_i to z_i + b (mean of C_i - z_i) with b = alpha / (1 + alpha). When each
token of a set follows one leader, the sets never change again (Theorem 1), so m layers
are one with the step 1 - (1 - b)^m: batch elements leave as soon as they are decided.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from hardmax._exact import TINY, UNIT
from hardmax._types import AnyArray, BoolArray, FloatArray, IntArray
from hardmax.exact.argmax import (
    compare_open_rows,
    exact_sets_of_batch,
    near_maxima_of_batch,
    slack_of,
)
from hardmax.sets import Sets


def join_steps(step: AnyArray, count: IntArray) -> FloatArray:
    """Return 1 - (1 - b)^count, the step of `count` layers; by products, as powers
    differ in bits between machines.
    """
    rest, power = 1 - step.astype(np.float64), np.ones(len(step))
    for m in range(1, count.max(initial=1)):
        power[count > m] *= rest[count > m]
    return np.where(count == 1, step, 1 - power * rest)


class Layer(NamedTuple):
    """Record of one layer, for the batch elements that were not decided before it."""

    elements: IntArray  # (a,) which batch elements
    sets: Sets  # C_i, a * n of them
    counts: IntArray  # (a * n,) multiplicity of each token
    decided: (
        BoolArray  # (a,) whether every token has a single leader, which follows itself
    )
    # (a,) b, or that of all remaining layers for elements that are decided now
    step: AnyArray
    ahead: IntArray  # (a,) number of layers in the step
    pull: AnyArray  # (a, n, d) c_i - z_i, which moved the tokens

    def back(self, g: AnyArray) -> AnyArray:
        """Apply the transpose of the layer to (a, n, d) gradients: (1 - b) g_i stays,
        and b g_i goes to C_i.
        """
        moved = self.step[:, None, None] * g
        return np.asarray((g - moved + self.scatter(moved)).astype(g.dtype))

    def scatter(self, g: AnyArray) -> FloatArray:
        """Return the sum of the shares of g_i that each token gets as a member of C_i,
        in float64 in the order of i.
        """
        P = self.sets.flatten(g.shape[1], g.shape[1]).matrix(self.counts)
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
    """Run (batch, n, d) tokens through `count` layers in place, and yield each; `step`
    (batch,) is b.

    `A` has shape (batch, d, d). `counts` (batch, n) are multiplicities of tokens; 0 is
    padding, which no token follows. False is written into `sure` (batch,) where
    rounding of earlier layers may have decided a set; those elements leave.
    """
    batch, n, _ = tokens.shape
    active = np.arange(batch)
    many = np.ones((batch, n), np.intp) if counts is None else counts
    error = np.zeros(batch)  # of each coordinate, by rounding
    reach = np.abs(tokens).max(axis=(1, 2), initial=0)  # no layer goes beyond the hull
    for k in range(count):
        z = tokens[active]  # (a, n, d)
        if not z.size:
            return
        forms, seen = (
            None if A is None else A[active],
            None if counts is None else counts[active] > 0,
        )
        if sure is None or k == 0:  # positions of the first layer are exact
            sets = (
                exact_sets_of_batch(z, z, seen)
                if forms is None
                else _sets_under(z, forms, seen)
            )
        else:
            queries = z if forms is None else z @ forms
            sets, same = near_maxima_of_batch(
                queries, z, _slack(z, forms, seen, error[active]).reshape(-1), seen
            )
            good = (same.reshape(len(z), n) | (many[active] == 0)).all(axis=1)
            sure[active[~good]] = False
            sets, z, active = (
                sets.take(np.flatnonzero(np.repeat(good, n))),
                z[good],
                active[good],
            )
            if not len(z):
                return
        error[active] += (
            (8 + 2 * sets.sizes.reshape(-1, n).max(axis=1)) * UNIT * reach[active]
        )
        flat, everywhere = many[active].reshape(-1), sets.flatten(n, n)
        places, alone = everywhere.targets, everywhere.sizes == 1
        decided = (
            (alone & alone[places] & (places[places] == places))
            .reshape(-1, n)
            .all(axis=1)
        )
        ahead = np.where(decided, count - k, 1)
        b = join_steps(step[active], ahead).astype(tokens.dtype)
        pull = everywhere.mean(z.reshape(-1, z.shape[2]), flat).reshape(z.shape) - z
        tokens[active] = z + b[:, None, None] * pull
        yield Layer(active, sets, flat, decided, b, ahead, pull)
        active = active[~decided]


def shares(layers: Iterable[Layer], counts: AnyArray) -> FloatArray:
    """Return the share of each input token in the mean of the outputs: the mean row of
    M with z^K = M z^0, (batch, n).

    `counts` (batch, n) are multiplicities. Batch elements that are not sure have no
    meaning.
    """
    total = (counts / np.maximum(1, counts.sum(axis=1, keepdims=True)))[..., None]
    for layer in reversed(list(layers)):
        some = total[layer.elements]
        total[layer.elements] = some + layer.step[:, None, None] * (
            layer.scatter(some) - some
        )  # as compiled code does
    return np.asarray(total[..., 0])


def _sets_under(z: AnyArray, A: AnyArray, seen: BoolArray | None) -> Sets:
    """Return C_i = argmax_j <z_i A, z_j>, as in real arithmetic on these floats:
    rounding of z A decides nothing.
    """
    points, slack = z.astype(np.float64), _slack(z, A, seen, np.zeros(len(z)))
    near, same = near_maxima_of_batch(points @ A, points, slack.reshape(-1), seen)
    return compare_open_rows(near, same, z, z, A)


def _slack(
    z: AnyArray, A: AnyArray | None, seen: BoolArray | None, e: FloatArray
) -> FloatArray:
    """Return `exact.argmax.slack_of` for positions that are off by up to e, shape
    (batch,): (batch, n).

    Where only keys at one place have products within it of the largest, exact positions
    have the same sets: keys at one place are equal tokens, which stay equal.
    """
    points, error = (
        (z if seen is None else np.where(seen[..., None], z, 0)).astype(np.float64),
        e[:, None],
    )
    if A is None:
        return slack_of(points, error, points, error)
    d, highest = z.shape[2], np.abs(points).max(axis=(1, 2))[:, None]
    row_sum = np.abs(A).sum(axis=1).max(axis=1)[:, None]
    return slack_of(
        points @ A,
        row_sum * (error + (d + 1) * UNIT * highest) + d * TINY,
        points,
        error,
    )
