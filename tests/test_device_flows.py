"""Flows on the device of a tensor, against the CPU and, for the kernel, a dense product
in float64.
"""

import sys
from importlib.util import find_spec

import numpy as np
import pytest

import hardmax as hm
from hardmax.flows.integrate import Method

torch = pytest.importorskip("torch", reason="needs torch")
from hardmax.flows import device  # noqa: E402

NEEDS_GPU = pytest.mark.skipif(
    not torch.cuda.is_available() or find_spec("triton") is None,
    reason="needs a CUDA device and triton",
)
JORDAN = np.array([[0.5, 1, 0], [0, 0.5, 0], [0, 0, 0.1]])
RULES = [
    hm.SelfAttention(),
    hm.SelfAttention(V=JORDAN),
    hm.SelfAttention(V=-np.eye(3), causal=True),
    hm.SelfAttention(Q=lambda t: np.eye(3) * (1 + t), V=np.diag([1, 0.5, -0.3])),
    hm.Sphere(4.0),
    hm.Sphere(4.0, causal=True),
    hm.Sphere(lambda t: 4.0 + t),
]


def draw(rule, n, d=3, seed=0):
    tokens = np.random.default_rng(seed).normal(size=(n, d))
    return (
        tokens / np.linalg.norm(tokens, axis=1, keepdims=True)
        if isinstance(rule, hm.Sphere)
        else tokens
    )


def dense(queries, keys, causal):
    """Return the means of (d, n) tensors in float64, with the scores in powers of two."""
    scores = queries.double().T @ keys.double() * np.log(2)
    if causal:
        scores.masked_fill_(
            ~torch.ones_like(scores, dtype=torch.bool).tril(), -torch.inf
        )
    return (scores.softmax(-1) @ keys.double().T).T


@pytest.fixture
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # small products
    yield
    torch.set_num_threads(threads)


@pytest.mark.parametrize("rule", RULES, ids=range(len(RULES)))
@pytest.mark.parametrize("name", ["RK45", "DOP853"])
def test_steps_in_torch_equal_those_in_numpy(rule, name, one_thread):
    tokens, times = draw(rule, 12), np.array([0, 0.4, 0.5])
    method = Method.from_arguments(name, 1e-7, None, None, None)
    found = device.integrate_on_device(
        rule, tokens, torch.zeros(1).double(), times, method, lambda: None
    )
    run = hm.simulate(tokens, rule, times=times, method=name, rtol=1e-7)
    np.testing.assert_allclose(found.tokens, run.tokens, rtol=0, atol=1e-11)
    assert (found.steps, found.rejected) == (run.stats["steps"], run.stats["rejected"])


def test_single_precision_loosens_the_tolerance(one_thread):
    method = Method.from_arguments("RK45", 1e-9, None, None, None)
    tokens = draw(RULES[0], 10).astype(np.float32).astype(np.float64)
    found = device.integrate_on_device(
        RULES[0], tokens, torch.zeros(1), np.array([0.0, 1.0]), method, lambda: None
    )
    assert found.rtol == device.MIN_SINGLE_RTOL
    exact = hm.simulate(tokens, RULES[0], times=[0, 1]).tokens
    assert 0 < np.abs(found.tokens - exact).max() < 1e-4


def test_the_status_names_the_reason_of_a_larger_tolerance(one_thread, monkeypatch):
    monkeypatch.setattr(
        sys.modules["hardmax._simulate"], "runs_on_device", lambda *given: True
    )
    tokens = torch.tensor(draw(RULES[0], 10))
    single, double = (
        hm.simulate(each, RULES[0], times=[0, 1]).status
        for each in (tokens.float(), tokens)
    )
    assert single.endswith(
        "The error control was loosened to 1e-06 for single precision."
    )
    assert "loosened" not in double


@pytest.mark.parametrize("causal", [False, True])
def test_blocks_of_rows_equal_a_dense_product(causal, monkeypatch):
    monkeypatch.setattr(device, "BLOCK", 70)
    queries, keys = torch.randn(
        2, 3, 23, dtype=torch.float64, generator=torch.Generator().manual_seed(0)
    ).unbind()
    found = device._means_by_blocks(queries, keys, 23, causal)
    np.testing.assert_allclose(found, dense(queries, keys, causal), rtol=0, atol=1e-13)


def test_tensors_of_the_cpu_and_few_tokens_stay_there():
    method = Method.from_arguments(None, None, None, None, None)
    assert not device.runs_on_device(RULES[0], torch.zeros(5000, 3), method)
    assert (
        "device"
        not in hm.simulate(
            torch.zeros(2, 3) + torch.eye(2, 3), RULES[0], times=[0, 1]
        ).stats
    )


@pytest.mark.gpu
@NEEDS_GPU
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    ("d", "n"),
    [(1, 1), (1, 70), (2, 31), (2, 1000), (3, 33), (5, 257), (8, 129), (16, 400)],
)
@pytest.mark.parametrize("causal", [False, True])
def test_the_kernel_equals_a_dense_product(dtype, d, n, causal):
    generator = torch.Generator("cuda").manual_seed(n)
    width = -(-n // device.TILE) * device.TILE
    queries, keys = torch.randn(
        2, d, width, device="cuda", dtype=dtype, generator=generator
    ).unbind()
    for scale in (1, 100):
        found = device._means_by_kernel(scale * queries, keys, n, causal)[:, :n]
        error = (
            (found.double() - dense(scale * queries[:, :n], keys[:, :n], causal))
            .abs()
            .max()
        )
        assert error < (1e-5 * scale if dtype == torch.float32 else 1e-12 * scale)


@pytest.mark.gpu
@NEEDS_GPU
@pytest.mark.parametrize("rule", RULES, ids=range(len(RULES)))
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_cuda_tensors_are_integrated_there(rule, dtype):
    tokens = torch.tensor(draw(rule, 1200)).to(dtype)
    tokens = (
        tokens / tokens.norm(dim=1, keepdim=True)
        if isinstance(rule, hm.Sphere)
        else tokens
    )
    on_gpu = hm.simulate(tokens.cuda(), rule, times=[0, 0.5], rtol=1e-7)
    on_cpu = hm.simulate(tokens.double(), rule, times=[0, 0.5], rtol=1e-10)
    assert on_gpu.stats["device"] == "cuda:0"
    assert (on_gpu.tokens.device.type, on_gpu.tokens.dtype) == ("cuda", dtype)
    assert (on_gpu.tokens.cpu().double() - on_cpu.tokens).abs().max() < (
        1e-4 if dtype == torch.float32 else 1e-6
    )
