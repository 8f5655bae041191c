"""Torch in, torch out: the same numbers, the dtype and device of the input, no
gradient.
"""

import os
import subprocess
import sys

import numpy as np
import pytest
import torch

import hardmax as hm
from hardmax.draw.tokens import plot_limit, plot_tokens

RULE = hm.Hardmax(0.5)
TOKENS = np.random.default_rng(0).normal(size=(12, 3))


@pytest.mark.parametrize(
    "dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16]
)
def test_the_same_numbers_as_numpy(dtype):
    tensor = torch.tensor(TOKENS, dtype=dtype)
    ours, theirs = (
        hm.simulate(tensor, RULE, layers=4),
        hm.simulate(tensor.double().numpy(), RULE, layers=4),
    )
    assert isinstance(ours.tokens, torch.Tensor)
    assert ours.tokens.dtype == dtype
    assert torch.equal(ours.tokens, torch.tensor(theirs.tokens).to(dtype))
    assert torch.equal(ours.attention(2), torch.tensor(theirs.attention(2)).to(dtype))
    assert ours.leaders.tolist() == theirs.leaders.tolist()
    assert isinstance(theirs.tokens, np.ndarray)
    matrix = hm.simulate(tensor, hm.Hardmax(0.5, torch.eye(3)), layers=4)
    assert torch.equal(matrix.tokens, ours.tokens)
    assert (
        hm.simulate(torch.tensor([[1, 2], [3, 4]]), RULE, layers=1).tokens.dtype
        == torch.float64
    )


def test_limits_and_batches_and_masks():
    tensor = torch.tensor(TOKENS, requires_grad=True)
    limit = hm.limit(tensor, RULE)
    assert isinstance(limit.tokens, torch.Tensor)
    assert not limit.tokens.requires_grad
    np.testing.assert_array_equal(limit.tokens.numpy(), hm.limit(TOKENS, RULE).tokens)
    mask = torch.ones(2, 12, dtype=torch.bool)
    mask[1, 8:] = False
    batch = hm.simulate(torch.stack([tensor, tensor]), RULE, layers=3, mask=mask)
    assert batch.tokens.shape == (4, 2, 12, 3)
    assert torch.equal(
        batch[1].tokens[:, :8], hm.simulate(tensor[:8], RULE, layers=3).tokens
    )


@pytest.mark.usefixtures("headless")
def test_everything_that_takes_a_trajectory_takes_this_one(tmp_path):
    tensor = torch.tensor(TOKENS)
    trajectory = hm.simulate(tensor, RULE, layers=6)
    assert all(verdict.holds is not False for verdict in hm.theorems.check(trajectory))
    assert hm.leader_table(trajectory)
    plot_tokens(trajectory)
    plot_limit(hm.limit(tensor, RULE))
    trajectory.to_npz(tmp_path / "run.npz")
    np.testing.assert_array_equal(
        hm.Trajectory.from_npz(tmp_path / "run.npz").tokens, trajectory.tokens.numpy()
    )
    assert hm.limit(tensor, RULE).to_json() == hm.limit(TOKENS, RULE).to_json()


@pytest.mark.parametrize(
    "call",
    [
        lambda z: hm.limit(z, RULE),
        lambda z: hm.limit(z[None], RULE),
        lambda z: hm.limit(z, hm.Hardmax(1, exact=True)),
        lambda z: hm.simulate(z, RULE, layers=1),
        lambda z: hm.simulate(z[None], RULE, layers=1),
        hm.argmax_sets,
        lambda z: hm.argmax_sets(z[None]),
        lambda z: hm.HullCache().append(z, z),
        lambda z: hm.hardmax_attention(*[torch.tensor(z)] * 3),
        lambda z: hm.hardmax_layers(torch.tensor(z[None]), torch.ones(1), 1),
    ],
)
def test_flushed_subnormals_are_refused(call):
    tokens = np.array([[5e-324, 0.0], [1e-323, 0.0], [0.0, 5e-324]])
    if not torch.set_flush_denormal(True):
        pytest.skip("this processor does not flush subnormal numbers")
    try:
        with pytest.raises(hm.InputError, match="set_flush_denormal"):
            call(tokens)
    finally:
        torch.set_flush_denormal(False)
    call(tokens)


ONE_THREAD = """
import os
import time
import torch
import hardmax as hm
from hardmax.search import dispatch

torch.manual_seed(0)
model = torch.nn.Sequential(
    torch.nn.Linear(16, 32), torch.nn.GELU(), torch.nn.Linear(32, 16)
)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
tokens = torch.randn(8, 32, 16)


class Tokens(torch.utils.data.Dataset):
    def __len__(self):
        return len(tokens)

    def __getitem__(self, i):
        large = torch.randn(300, 64)  # beyond the size from which threads are used
        assert hm.hardmax_attention(large, large, large).isfinite().all()
        return tokens[i]


def train(steps):
    start = time.process_time()
    for _ in range(steps):
        q = model(tokens)
        out = hm.hardmax_attention(q, q, q, gradient="straight-through")
        loss = (out - tokens).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return (time.process_time() - start) / steps


def count_threads():
    return len(os.listdir("/proc/self/task"))


train(5)
before = train(50)
threads = count_threads()
dispatch.is_loaded = lambda kernel: True  # no NumPy from now on
large = torch.randn(64, 200, 16)
hm.hardmax_attention(large, large, large)  # compiles, and would use several threads
train(5)
after = train(500)
assert count_threads() == threads, (count_threads(), threads)
assert after < 5 * before + 0.01, (after, before)
loader = torch.utils.data.DataLoader(Tokens(), batch_size=4, num_workers=2)
for _ in range(2):
    assert sum(map(len, loader)) == 8
train(5)
assert train(50) < 5 * before + 0.01
assert count_threads() == threads
print("same")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="counts threads in /proc")
def test_compiled_code_starts_no_threads_beside_those_of_torch():
    """A pool that OpenMP starts spins, and slows down all operations of torch."""
    pytest.importorskip("numba")
    environment = {
        name: value for name, value in os.environ.items() if "_NUM_THREADS" not in name
    } | {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "2"}
    del environment["NUMBA_THREADING_LAYER"]
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", ONE_THREAD],
        env=environment,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.stdout == "same\n", done.stderr[-2000:]
