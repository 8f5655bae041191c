"""Torch in, torch out: the same numbers, the dtype and device of the input, no
gradient.
"""

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
