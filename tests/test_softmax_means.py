"""Means under softmax, some rows at a time: the same as with the whole matrix, which is never held."""

import tracemalloc

import numpy as np
import pytest

import hardmax as hm
from hardmax._arrays import softmax, softmax_means

pytestmark = pytest.mark.portable

RANDOM = np.random.default_rng(0)


@pytest.mark.parametrize("n", [1, 5, 181, 182, 200, 700])
@pytest.mark.parametrize("scale", [0.0, 1.0, 300.0, 1e9, 1e300])
def test_they_are_those_of_the_whole_matrix(n, scale):
    q, k, v = (RANDOM.standard_normal((n, 3)) for _ in range(3))
    expected = softmax(q @ k.T, None, scale) @ v
    np.testing.assert_allclose(softmax_means(q, k, v, None, scale), expected, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("shape", [(1, 300), (300, 300), (2, 1, 300), (2, 300, 300)])
def test_hidden_keys_have_no_part_in_them(shape):
    q, v = RANDOM.standard_normal((2, 300, 2)), RANDOM.standard_normal((2, 300, 2))
    seen = RANDOM.random(shape) < 0.5
    seen[..., -1, :] = len(shape) == 2 and shape[0] == 1  # a row that sees nobody, or all keys
    expected = softmax(q @ q.swapaxes(-1, -2), np.broadcast_to(seen, (2, 300, 300)).copy(), 2.0) @ v
    found = softmax_means(q, q, v, seen, 2.0)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-14)
    if len(shape) == 2:
        np.testing.assert_array_equal(softmax_means(q[0], q[0], v[0], seen, 2.0), found[0])


@pytest.mark.parametrize("n", [20, 400])
def test_a_cloud_of_a_batch_is_as_by_itself(n):
    q = RANDOM.standard_normal((3, n, 4))
    scale = np.array([1.0, 5.0, 70.0])[:, None, None]
    together = softmax_means(q, q, q, None, scale)
    for b in range(3):
        np.testing.assert_array_equal(together[b], softmax_means(q[b], q[b], q[b], None, scale[b]))


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_narrow_floats_keep_their_type(dtype):
    q = RANDOM.standard_normal((300, 2)).astype(dtype)
    found = softmax_means(q, q, q, None, 10.0)
    assert found.dtype == dtype
    wide = softmax(q.astype(float) @ q.T.astype(float), None, 10.0) @ q.astype(float)
    np.testing.assert_allclose(found, wide, atol=200 * np.finfo(dtype).eps)


def test_what_is_not_finite_stays_visible():
    q = RANDOM.standard_normal((500, 2))
    q[3, 0] = np.nan
    assert np.isnan(softmax_means(q, q, q)).all()  # everybody sees it


@pytest.mark.parametrize(
    ("rule", "options"),
    [
        (hm.SelfAttention(), {"times": [0, 0.2]}),
        (hm.Sphere(2.0), {"times": [0, 0.2]}),
        (hm.Softmax(1.0), {"layers": 3}),
    ],
    ids=["self-attention", "sphere", "softmax"],
)
def test_a_large_cloud_never_holds_its_matrix(rule, options):
    tokens = hm.configuration("sphere", n=3000, d=3)
    tracemalloc.start()
    try:
        hm.simulate(tokens, rule, **options)
        assert tracemalloc.get_traced_memory()[1] < 8 * 3000**2 / 10
    finally:
        tracemalloc.stop()
