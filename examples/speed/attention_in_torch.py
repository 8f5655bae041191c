"""
Hardmax attention as a layer of torch, trained through its leaders
==================================================================

The sets :math:`\\mathcal{C}_i` are piecewise constant and have no gradient, but the
values have one: a layer is :math:`z_i + b\\,(\\bar z_{\\mathcal{C}_i} - z_i)`, linear
in the tokens while the sets stay as they are. Here an encoder learns to place tokens so
that after eight layers their mean predicts which of two classes a token set belongs to.
Sets are exact in the forward pass, token sets have different sizes, and padding is
never selected.
"""

import matplotlib.pyplot as plt
import numpy as np
import torch

from hardmax.attention.functional import HardmaxAttention
from hardmax.draw.style import CLASSES, EDGE

torch.manual_seed(0)
labels = torch.randint(0, 2, (64,))
token_sets = torch.randn(64, 32, 4) + 0.5 * (2 * labels - 1)[
    :, None, None
] * torch.tensor([1.0, -1.0, 0.0, 0.0])
real = torch.arange(32) < torch.randint(8, 33, (64, 1))  # the rest is padding

# %%
# The encoder maps to the plane, so that it can be drawn. The layers have no weights:
# everything is learnt before them.

attention, encoder, decoder = (
    HardmaxAttention(),
    torch.nn.Linear(4, 2),
    torch.nn.Linear(2, 1),
)
optimizer = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()], lr=0.03)


def layers(z: torch.Tensor) -> torch.Tensor:
    for _ in range(8):
        z = z + (attention(z, z, z, mask=real) - z) / 3
    return z


def mean(z: torch.Tensor) -> torch.Tensor:
    return (z * real[..., None]).sum(1) / real.sum(1, keepdim=True)


losses, accuracies, shots = [], [], {}
for step in range(61):
    start = encoder(token_sets)
    means = mean(layers(start))
    logits = decoder(means)[:, 0]
    loss = torch.nn.functional.binary_cross_entropy_with_logits(logits, labels.float())
    losses.append(loss.item())
    accuracies.append(((logits > 0) == labels.bool()).float().mean().item())
    if step in (0, 60):
        shots[step] = means.detach().numpy()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        print(f"step {step:3d}   loss {losses[-1]:.3f}   accuracy {accuracies[-1]:.2f}")
assert accuracies[-1] > 0.9
assert losses[-1] < losses[0]

# %%
# The final means, one point for each token set, before and after training, with the two
# classes in two colours.

figure, axes = plt.subplots(1, 3, figsize=(11, 3.7), layout="constrained")
for ax, (step, means) in zip(axes, shots.items(), strict=False):
    for label, marker in ((0, "o"), (1, "s")):
        rows = means[labels.numpy() == label]
        ax.scatter(
            *rows.T,
            s=36,
            marker=marker,
            color=CLASSES[label],
            edgecolors=EDGE,
            linewidths=0.5,
            label=label,
        )
    ax.set(title=f"means after eight layers, step {step}", xlabel="$z_1$")
axes[0].set_ylabel("$z_2$")
axes[0].legend(title="class", fontsize=8)
axes[2].plot(losses, color=EDGE, label="loss")
axes[2].plot(np.array(accuracies), color=EDGE, ls="--", label="accuracy")
axes[2].set(xlabel="step", ylim=(0, None))
axes[2].legend(frameon=False)
plt.show()

# %%
# What to try
# -----------
# On a GPU, ``.to("cuda")`` is all there is to do, and the sets are the same. Compare
# with mean pooling, ``layers = lambda z: z``: for this easy task attention is not
# needed, so compare before you use it.
