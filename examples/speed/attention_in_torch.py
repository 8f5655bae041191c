"""
Hardmax attention as a layer of torch
=====================================

Hardmax attention as a layer of torch: exact sets forwards, a gradient for the values backwards.

An encoder is trained so that tokens, after eight hardmax layers, say which of two classes their cloud belongs to. The
sets C_i themselves have no gradient; the encoder learns through the values that tokens pass on to each other.
"""

import torch

from hardmax.kernels import HardmaxAttention

torch.manual_seed(0)
labels = torch.randint(0, 2, (64,))
clouds = torch.randn(64, 32, 4) + 0.5 * (2 * labels - 1)[:, None, None] * torch.tensor([1.0, -1.0, 0.0, 0.0])
real = torch.arange(32) < torch.randint(8, 33, (64, 1))  # clouds of different sizes: the rest is padding

attention = HardmaxAttention()
encoder, decoder = torch.nn.Linear(4, 8), torch.nn.Linear(8, 1)
optimizer = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()], lr=0.03)

for step in range(60):
    z = encoder(clouds)
    for _ in range(8):
        z = z + (attention(z, z, z, real) - z) / 3
    mean = (z * real[..., None]).sum(1) / real.sum(1, keepdim=True)
    logits = decoder(mean)[:, 0]
    loss = torch.nn.functional.binary_cross_entropy_with_logits(logits, labels.float())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        print(f"step {step:2d}   loss {loss.item():.3f}")

accuracy = ((logits > 0) == labels.bool()).float().mean().item()
print(f"accuracy {accuracy:.2f}")
assert accuracy > 0.9
