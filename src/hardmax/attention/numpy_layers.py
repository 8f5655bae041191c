"""Several hardmax layers on batches of clouds: one pass forward, and its transpose.

A layer moves z_i to z_i + b (mean of C_i - z_i) with b = alpha / (1 + alpha). When each token of a cloud follows one
leader, the sets never change again (Theorem 1), so m layers are one with the step 1 - (1 - b)^m: clouds leave as soon
as they are decided.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from hardmax._types import AnyArray, BoolArray, FloatArray, IntArray
from hardmax.kernels.batched import TINY, UNIT, choose
from hardmax.kernels.chosen import Chosen

PRODUCTS = 1 << 18  # held at a time


class Followed(NamedTuple):
    """Whom the tokens of some clouds follow, and how much each member of a tied set counts."""

    chosen: Chosen  # the sets C_i, clouds * n of them
    places: IntArray  # (clouds * n,) first member of C_i among all tokens of these clouds
    members: IntArray  # members of tied sets among all tokens of these clouds
    owners: IntArray  # the place among tied rows of each member
    parts: AnyArray  # its share of the mean of its set


class Layer(NamedTuple):
    """What one layer did to the clouds that were not decided before it."""

    clouds: IntArray | None  # (a,) which clouds; None for all
    followed: Followed
    step: AnyArray  # (a,) b, or that of all layers to come for clouds that are decided now
    ahead: IntArray  # (a,) of how many layers


def layers_of(
    tokens: AnyArray,
    step: AnyArray,
    count: int,
    *,
    A: AnyArray | None = None,
    counts: IntArray | None = None,
    sure: BoolArray | None = None,
) -> Iterator[tuple[Layer, AnyArray]]:
    """Run `count` layers in place, and yield each with c_i - z_i, which moved the tokens.

    Parameters
    ----------
    tokens : (batch, n, d) array
        Changed in place.
    step : (batch,) array
        b of each cloud, between 0 and 1.
    count : int
    A : (batch, d, d) array, optional
    counts : (batch, n) array, optional
        How many equal tokens each row stands for; 0 for padding, which nobody follows.
    sure : (batch,) boolean array, optional
        False is written where rounding of earlier layers may have decided a set; those clouds leave.
    """
    batch = len(tokens)
    clouds: IntArray | None = None
    error = np.zeros(batch)  # of each coordinate, by rounding
    reach = np.abs(tokens).max(axis=(1, 2), initial=0)  # no layer goes beyond the hull
    for k in range(count):
        some: slice | IntArray = slice(None) if clouds is None else clouds
        z = tokens[some]  # (a, n, d)
        if not z.size:
            return
        seen = None if counts is None else counts[some]
        followed = follow(z if A is None else z @ A[some], z, seen)
        if sure is not None and (k > 0 or A is not None):  # positions of the first layer are exact, their A z is not
            good = is_sure(z, None if A is None else A[some], seen, followed, error[some])
            if not good.all():
                everyone = np.arange(batch) if clouds is None else clouds
                sure[everyone[~good]] = False
                some = clouds = everyone[good]
                z, seen = z[good], None if seen is None else seen[good]
                if not len(z):
                    return
                followed = follow(z if A is None else z @ A[some], z, seen)
        error[some] += (8 + 2 * followed.chosen.sizes.reshape(z.shape[:2]).max(axis=1, initial=0)) * UNIT * reach[some]
        settled = decided(followed, len(z))
        ahead = np.where(settled, count - k, 1)
        b = np.where(settled, 1 - (1 - step[some]) ** ahead, step[some]).astype(tokens.dtype)
        pull = gather(followed, z)
        pull -= z
        tokens[some] = z + b[:, None, None] * pull
        yield Layer(clouds, followed, b, ahead), pull
        clouds = (np.arange(batch) if clouds is None else clouds)[~settled] if settled.any() else clouds


def shares(
    tokens: AnyArray,
    step: AnyArray,
    count: int,
    *,
    A: AnyArray | None = None,
    counts: IntArray | None = None,
    sure: BoolArray | None = None,
) -> FloatArray:
    """(batch, n) how much of each input token is in the mean of the outputs: the mean row of M, where z^K = M z^0.

    `tokens` is changed in place to z^K; parameters as in `layers_of`. Clouds that are not sure have no meaning.
    """
    weights = np.ones(tokens.shape[:2]) if counts is None else counts.astype(np.float64)
    total = (weights / np.maximum(1, weights.sum(axis=1, keepdims=True)))[..., None]
    for layer, _ in reversed(list(layers_of(tokens, step, count, A=A, counts=counts, sure=sure))):
        some = slice(None) if layer.clouds is None else layer.clouds
        total[some] = back(layer, total[some])
    return np.asarray(total[..., 0])


def is_sure(
    z: AnyArray, A: AnyArray | None, counts: IntArray | None, followed: Followed, error: FloatArray
) -> BoolArray:
    """(batch,) whether positions that are off by up to `error` would have had the same sets.

    So it is where no key that is elsewhere has a product within twice the bound of `kernels.floating.slack_of`. Keys at
    one place are equal tokens, which stay equal.
    """
    batch, n, d = z.shape
    first = followed.places.reshape(batch, n) - np.arange(batch)[:, None] * n
    real = np.ones((batch, n), bool) if counts is None else counts > 0
    good = np.ones(batch, bool)
    step = max(1, PRODUCTS // max(1, n * n))
    for top in range(0, batch, step):
        some = slice(top, min(top + step, batch))
        points = np.where(real[some, :, None], z[some], 0).astype(np.float64)  # (a, n, d)
        e = error[some, None]  # (a, 1)
        highest = np.abs(points).max(axis=(1, 2), initial=0)[:, None]
        widest = np.abs(points).sum(axis=2).max(axis=1, initial=0)[:, None]
        queries, query_error = points, e
        if A is not None:
            queries = points @ A[some]
            query_error = np.abs(A[some]).sum(axis=1).max(axis=1)[:, None] * (e + (d + 1) * UNIT * highest)
        sums = np.abs(queries).sum(axis=2)  # (a, n)
        slack = 2.02 * (sums * ((d + 4) * UNIT * highest + e) + query_error * (widest + d * e) + d * TINY)
        products = queries @ points.transpose(0, 2, 1)  # (a, n, n)
        if not real[some].all():
            products[np.broadcast_to(~real[some, None], products.shape)] = -np.inf
        near = products >= (products.max(axis=2, initial=-np.inf) - slack)[..., None]
        cloud, row = np.nonzero((np.count_nonzero(near, axis=2) > 1) & real[some])
        at, column = np.nonzero(near[cloud, row])
        apart = (points[cloud, first[some][cloud, row]][at] != points[cloud[at], column]).any(axis=1)
        good[top + cloud[at[apart]]] = False
    return good


def follow(queries: AnyArray, keys: AnyArray, counts: IntArray | None) -> Followed:
    """C_i = argmax_j <q_i, k_j> in every cloud."""
    n = keys.shape[1]
    chosen = choose(queries, keys, None if counts is None else counts > 0)
    owners = np.repeat(np.arange(len(chosen.tied)), np.diff(chosen.starts))
    members = chosen.members + (chosen.tied // n * n)[owners]
    weight = np.ones(len(members)) if counts is None else counts.reshape(-1)[members].astype(np.float64)
    parts = weight / np.bincount(owners, weight, len(chosen.tied))[owners]
    places = np.maximum(chosen.first, 0) + np.arange(len(chosen.first)) // n * n
    return Followed(chosen, places, members, owners, parts)


def back(layer: Layer, g: AnyArray) -> AnyArray:
    """Transpose of a layer: (1 - b) g_i stays, and b g_i goes to C_i."""
    moved = layer.step[:, None, None] * g
    return np.asarray(g - moved + spread(layer.followed, moved))


def gather(followed: Followed, values: AnyArray) -> AnyArray:
    """(batch, n, dv) mean of the values of each C_i; 0 for an empty set."""
    chosen, dv = followed.chosen, values.shape[-1]
    flat = values.reshape(-1, dv)
    out = flat[followed.places]
    if len(chosen.tied):
        parts = followed.parts[:, None] * flat[followed.members]
        out[chosen.tied] = _sums(followed.owners, parts, len(chosen.tied))
    out[chosen.sizes == 0] = 0
    return out.reshape(values.shape)


def spread(followed: Followed, g: AnyArray) -> AnyArray:
    """(batch, n, dv) transpose of `gather`: each g_i goes to the members of C_i, by their parts."""
    chosen, flat = followed.chosen, g.reshape(-1, g.shape[-1])
    single = np.where(chosen.sizes[:, None] == 1, flat, 0)
    places = followed.places
    if len(chosen.tied):
        parts = followed.parts[:, None] * flat[chosen.tied][followed.owners]
        single, places = np.concatenate([single, parts]), np.concatenate([places, followed.members])
    return _sums(places, single, len(flat)).astype(g.dtype).reshape(g.shape)


def decided(followed: Followed, batch: int) -> BoolArray:
    """(batch,) whether every token of a cloud has a single leader, which follows itself alone."""
    places, alone = followed.places, followed.chosen.sizes == 1
    good = alone & alone[places] & (places[places] == places)
    return np.asarray(good.reshape(batch, -1).all(axis=1))


def _sums(owners: IntArray, values: AnyArray, count: int) -> AnyArray:
    """(count, dv) sums of the rows of each owner, in the order of the rows."""
    return np.stack([np.bincount(owners, values[:, c], count) for c in range(values.shape[1])], axis=1)
