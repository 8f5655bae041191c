"""
Train queries and keys through hard attention
=============================================

The sets of hard attention do not change under small changes of queries and keys, so
those have no gradient. ``gradient="straight-through"`` and ``gradient="softmax"``
replace it by that of softmax attention, at a temperature; the forward pass stays exact.
Which of them learns? The task is retrieval: a query is a rotated, noisy copy of one of
16 keys, and the output must be the value of that key. What has to be learnt is the
inverse rotation, a matrix that acts on the queries.
"""

import matplotlib.pyplot as plt
import torch

import hardmax as hm

BATCH, KEYS, D, STEPS = 64, 16, 8, 100
torch.manual_seed(0)
rotation = torch.linalg.qr(torch.randn(D, D))[0]


def draw() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return a query, keys and values for each sequence, and the index of the key that
    the query matches.
    """
    keys, values, asked = (
        torch.randn(BATCH, KEYS, D),
        torch.randn(BATCH, KEYS, 4),
        torch.randint(KEYS, (BATCH,)),
    )
    chosen = keys / keys.norm(dim=-1, keepdim=True)
    query = chosen[torch.arange(BATCH), asked] @ rotation + 0.05 * torch.randn(BATCH, D)
    return query[:, None], chosen, values, asked


# %%
# One training loop for all. The accuracy is that of hard attention, whatever the
# gradient was: how many queries get exactly the value they ask for. The last curve is
# trained with softmax attention forwards, too.


def train(gradient: str, temperature: float) -> list[float]:
    torch.manual_seed(1)
    turn = torch.nn.Linear(D, D, bias=False)
    optimizer, accuracies = torch.optim.Adam(turn.parameters(), lr=0.02), []
    for _ in range(STEPS):
        query, keys, values, asked = draw()
        q, wanted = turn(query), values[torch.arange(BATCH), asked]
        hard = hm.hardmax_attention(q, keys, values, gradient="none" if gradient == "soft" else gradient,
                                    temperature=temperature)  # fmt: skip
        accuracies.append((hard[:, 0] == wanted).all(-1).float().mean().item())
        out = hard
        if gradient == "soft":
            out = torch.nn.functional.scaled_dot_product_attention(
                q, keys, values, scale=D**-0.5 / temperature
            )
        loss = (out[:, 0] - wanted).square().mean()
        if loss.requires_grad:
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return accuracies


runs = {
    "none": ("none", 1.0),
    "straight-through, temperature 1": ("straight-through", 1.0),
    "straight-through, temperature 0.1": ("straight-through", 0.1),
    "softmax, temperature 0.1": ("softmax", 0.1),
    "softmax attention in training, temperature 0.1": ("soft", 0.1),
}
curves = {name: torch.tensor(train(*options)) for name, options in runs.items()}
for name, curve in curves.items():
    print(f"{name:48} accuracy in the last 20 steps {curve[-20:].mean():.3f}")
assert curves["none"][-20:].mean() < 0.2
assert curves["straight-through, temperature 0.1"][-20:].mean() > 0.9

# %%
# Without a gradient nothing is learnt. With one, the matrix turns towards the inverse
# rotation. The values are inputs here, so "softmax" and "straight-through", which
# differ in the gradient of the values alone, have the same curve.

figure, axes = plt.subplots(figsize=(7, 4))
styles = ["-", "-", "-", ":", "--"]
for number, (name, curve) in enumerate(curves.items()):
    smooth = curve.unfold(0, 5, 1).mean(-1)
    axes.plot(
        torch.arange(len(smooth)) + 2,
        smooth,
        styles[number],
        color=f"C{number}",
        label=name,
    )
axes.set(xlabel="step", ylabel="queries with the right value", ylim=(0, 1.02))
axes.legend(fontsize=8, loc="center right")
figure.tight_layout()

# %%
# What to try
# -----------
# A larger temperature makes the gradients smoother and the first steps faster. More
# keys per sequence make the task harder: which gradient still learns it?
