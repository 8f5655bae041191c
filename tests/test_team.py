"""Threads of torch's OpenMP: the same bits as one thread has, also where there is no OpenMP, and after a fork."""

import os

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("numba")

from hardmax import ParameterError  # noqa: E402
from hardmax.attention.functional import hardmax_attention  # noqa: E402
from hardmax.search import team  # noqa: E402

CLOUDS, N, D = 24, 65, 16  # more products than one thread would be left alone with


@pytest.fixture
def threads():
    """As many as a test asks for, and then as before."""
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


@pytest.fixture
def started(monkeypatch):
    """Let all work be enough for several threads, and note how many were started, 1 where OpenMP was not asked."""
    counts, starter = [], team._starter

    def noted(threads, tasks, effort):
        address = starter(threads, tasks, effort)
        counts.append(threads if address else 1)
        return address

    monkeypatch.setattr(team, "ALONE", 0)
    monkeypatch.setattr(team, "_starter", noted)
    return counts


def step(tied=False):
    """Outputs and gradients of a layer; the compiled code has been loaded by then."""
    torch.manual_seed(3)
    tokens = torch.randn(CLOUDS, N, D)
    if tied:
        tokens[5, 7] = tokens[5, 8]
    queries, values = tokens @ torch.randn(D, D), tokens.clone().requires_grad_()
    for _ in range(40):  # as long as it takes until compiled code pays
        out = hardmax_attention(queries, tokens, values)
    out.square().sum().backward()
    return out.detach(), values.grad


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("count", [2, 3, 8])
def test_as_many_threads_as_torch_has_find_what_one_does(threads, started, count, tied):
    threads(1)
    alone = step(tied)
    assert set(started) == {1}
    threads(count)
    started.clear()
    together = step(tied)
    assert set(started) == ({count} if team._start() else {1})
    for one, other in zip(alone, together, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=0)


def test_without_openmp_it_is_the_same(threads, started, monkeypatch):
    threads(2)
    usual = step()
    started.clear()
    monkeypatch.setattr(team, "_start", lambda: 0)
    for one, other in zip(usual, step(), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=0)
    assert set(started) == {1}


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_one_cloud_that_is_not_finite_is_seen_by_any_thread(threads, started, bad):
    threads(2)
    step()
    tokens = torch.randn(CLOUDS, N, D)
    for cloud in (0, CLOUDS - 1):
        broken = tokens.clone()
        broken[cloud, 3, 1] = bad
        with pytest.raises(ParameterError, match="must be finite"):
            hardmax_attention(broken, tokens, tokens)
        with pytest.raises(ParameterError, match="must be finite"):
            hardmax_attention(tokens, broken, tokens)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_a_fork_waits_for_no_thread_of_its_parent(threads, started):
    threads(2)
    step()
    torch.manual_seed(0)
    tokens = torch.randn(CLOUDS, N, D)
    expected = hardmax_attention(tokens, tokens, tokens)
    child = os.fork()
    if not child:
        same = False
        try:
            same = torch.equal(hardmax_attention(tokens, tokens, tokens), expected) and started[-1] == 1
        finally:
            os._exit(0 if same else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
