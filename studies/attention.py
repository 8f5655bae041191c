"""The study "attention": heads on the same vectors of MiniLM, with and without
movement.

`python -m studies.attention --data-source DATA` encodes all IMDb reviews (the first 254
word pieces) and 14,000 of their sentences, trains every head with three seeds, and
writes docs/studies/attention.csv; a GPU takes two minutes. `--quick` takes 2,500
reviews, for two cores. Without --data-source the recorded table is drawn again.
Settings were chosen on 5,000 of the training reviews; the test reviews are measured
here alone.
"""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn

from hardmax.text.datasets import load_imdb
from hardmax.transformers.embedding import TokenEncoder
from studies.small_files import Kind, drawn, pool
from studies.study import DOCS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TABLE, PICTURE = (
    DOCS / "studies" / "attention.csv",
    DOCS / "images" / "study-attention.png",
)
SIZES = {"sentences": (10_000, 4000), "reviews": (25_000, 25_000)}
QUICK, SEEDS, LONGEST = 2500, 3, 254
EPOCHS, RATE, DECAY, BATCH, DROPOUT = 4, 2e-3, 0.05, 128, 0.2
OFFSET, KEPT = 8.0, 0.004  # of heads on a line: (1 / (1 + alpha))^K
VARIANTS: dict[str, dict[str, Any]] = {
    "mean and linear": {"kind": "mean", "heads": 1, "d": 1},
    "heads without movement": {"kind": "still", "heads": 8, "d": 16},
    "softmax layers": {"kind": "softmax", "heads": 8, "d": 16},
    "hardmax layers, d = 16": {"kind": "hardmax", "heads": 8, "d": 16},
    "hardmax on a line, 32 heads": {"kind": "line", "heads": 32, "d": 1},
    "hardmax on a line, 512 heads": {"kind": "line", "heads": 512, "d": 1},
    "attention pooling": {"kind": "attention", "heads": 8, "d": 16},
    "max pooling": {"kind": "max", "heads": 512, "d": 1},
}
COLOURS = {"hardmax": "#0072b2"}


class Heads(nn.Module):
    """logit = b + w . mean of x + v . f, with f the pooled tokens z = P x + c of every
    head.
    """

    def __init__(
        self, width: int, kind: str, heads: int, d: int, layers: int = 2
    ) -> None:
        super().__init__()
        self.kind, self.heads, self.d, self.layers = kind, heads, d, layers
        self.P = nn.Parameter(torch.randn(width, heads * d) / width**0.5)
        self.query = nn.Parameter(torch.randn(width, heads) / width**0.5)
        self.v, self.w = (
            nn.Parameter(0.05 * torch.randn(heads * d)),
            nn.Parameter(torch.zeros(width)),
        )
        self.b, self.log_alpha = (
            nn.Parameter(torch.zeros(1)),
            nn.Parameter(torch.zeros(heads)),
        )

    def forward(self, x: Tensor, real: Tensor) -> Tensor:
        """Return (texts,) logits of (texts, n, width) vectors; `real` is False for
        padding.
        """
        n = real.sum(1, keepdim=True)
        linear = self.b + (x.sum(1) / n) @ self.w
        if self.kind == "mean":
            return linear
        pooled = nn.functional.dropout(self.pool(x, real, n), DROPOUT, self.training)
        return linear + pooled @ self.v

    def pool(self, x: Tensor, real: Tensor, n: Tensor) -> Tensor:
        """Return (texts, heads * d) pooled tokens."""
        z, mask = x @ self.P, real[..., None]
        if self.kind == "max":
            return z.masked_fill(~mask, -torch.inf).amax(1)
        if self.kind == "line":  # the closed form of hardmax layers with d = 1
            z = z + OFFSET
            above = ((z > 0) & mask).sum(1) / n
            top, low = (
                z.masked_fill(~mask, -1e4).amax(1),
                z.masked_fill(~mask, 1e4).amin(1),
            )
            return (
                KEPT * (z * mask).sum(1) / n
                + (1 - KEPT) * (above * top + (1 - above) * low)
                - OFFSET
            )
        if self.kind == "attention":
            weights = (x @ self.query).masked_fill(~mask, -torch.inf).softmax(1)
            return torch.einsum(
                "tnh,tnhd->thd", weights, z.unflatten(2, (self.heads, self.d))
            ).flatten(1)
        z = (
            z.unflatten(2, (self.heads, self.d)).transpose(1, 2).flatten(0, 1)
        )  # (texts * heads, n, d)
        seen = real.repeat_interleave(self.heads, 0)
        step = torch.sigmoid(self.log_alpha).repeat(len(x))[:, None, None]
        for _ in range(self.layers if self.kind != "still" else 0):
            scores = (z @ z.mT).masked_fill(~seen[:, None], -torch.inf)
            if self.kind == "softmax":
                leaders = scores.softmax(-1) @ z
            else:
                leaders = torch.gather(
                    z, 1, scores.detach().argmax(-1)[..., None].expand_as(z)
                )
            z = z + step * (leaders - z)
        mean = (z * seen[..., None]).sum(1) / seen.sum(1, keepdim=True)
        return mean.unflatten(0, (-1, self.heads)).flatten(1)


def encode(texts: list[str], device: str) -> tuple[Tensor, Tensor]:
    """Return (texts, n, width) vectors of the first word pieces as float16, and the
    mask of these.
    """
    encoder = TokenEncoder("minilm", cut=True, device=device)
    vectors = torch.zeros(
        len(texts), LONGEST, encoder.width, dtype=torch.float16, device=device
    )
    real = torch.zeros(len(texts), LONGEST, dtype=torch.bool, device=device)
    for i, found in encoder.encode(texts):
        vectors[i, : len(found.vectors)] = torch.from_numpy(found.vectors).to(device)
        real[i, : len(found.vectors)] = True
    return vectors, real


def accuracy(train: Any, test: Any, seed: int, **variant: Any) -> tuple[float, float]:
    """Train a head on (vectors, mask, labels, mean, scale); return accuracy and log
    loss on others.
    """
    vectors, real, labels, mean, scale = train
    torch.manual_seed(seed)
    head = Heads(vectors.shape[2], **variant).to(vectors.device)
    optimiser = torch.optim.AdamW(head.parameters(), RATE, weight_decay=DECAY)
    steps = EPOCHS * -(-len(labels) // BATCH)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimiser, RATE, total_steps=steps + 1
    )

    def logits(vectors: Tensor, real: Tensor) -> Tensor:
        found: Tensor = head((vectors.float() - mean) / scale * real[..., None], real)
        return found

    for _ in range(EPOCHS):
        for rows in torch.randperm(len(labels), device=vectors.device).split(BATCH):
            loss = nn.functional.binary_cross_entropy_with_logits(
                logits(vectors[rows], real[rows]), labels[rows]
            )
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            schedule.step()
    head.eval()
    with torch.no_grad():
        pairs = zip(test[0].split(BATCH), test[1].split(BATCH), strict=True)
        found = torch.cat([logits(*pair) for pair in pairs])
        loss = nn.functional.binary_cross_entropy_with_logits(found, test[2])
    return float(((found > 0) == (test[2] > 0)).float().mean()), float(loss)


def measure(source: str, *, quick: bool) -> pd.DataFrame:
    """Return a row for each kind of texts, head and seed."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    splits, rows = load_imdb(source=source, ratings=True), []
    for name, sizes in SIZES.items():
        parts, kind = list[Any](), Kind(name, 2, False)
        for split, size in zip(("train", "test"), sizes, strict=True):
            texts, labels = drawn(
                pool(splits[split], kind),
                kind,
                QUICK if quick else size,
                np.random.default_rng(len(parts)),
            )
            parts.append(
                (
                    *encode(texts, device),
                    torch.tensor(labels == "pos", device=device).float(),
                )
            )
        words = parts[0][0][parts[0][1]][:500_000].double()
        scale = words.std(0)
        train = (
            *parts[0],
            words.mean(0).float(),
            torch.maximum(scale, 0.05 * scale.median()).float(),
        )
        for seed in range(SEEDS):
            for head, variant in VARIANTS.items():
                right, loss = accuracy(train, parts[1], seed, **variant)
                rows.append(
                    {
                        "texts": name,
                        "head": head,
                        "seed": seed,
                        "accuracy": right,
                        "log_loss": loss,
                    }
                )
                print(rows[-1], flush=True)
    return pd.DataFrame(rows)


def markdown(table: pd.DataFrame) -> str:
    """Return the table of the page: means over seeds."""
    means = table.groupby(["head", "texts"])[["accuracy", "log_loss"]].mean()
    lines = [
        (
            "| head | whole reviews: accuracy | log loss | sentences: accuracy | log"
            " loss |"
        ),
        "|---|---:|---:|---:|---:|",
    ]
    for head in VARIANTS:
        cells = [
            f"{value:.3f}".removeprefix("0")
            for texts in ("reviews", "sentences")
            for value in means.loc[(head, texts)]
        ]
        lines.append(f"| {head} | {' | '.join(cells)} |")
    return "\n".join(lines)


def draw(table: pd.DataFrame) -> "Figure":
    """Draw the accuracies of every seed, hardmax heads in blue."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(
        1, 2, figsize=(10, 3.6), sharey=True, layout="constrained"
    )
    names = list(VARIANTS)[::-1]
    for ax, (texts, title) in zip(
        axes, (("reviews", "whole reviews"), ("sentences", "sentences")), strict=True
    ):
        own = table[table["texts"] == texts]
        for y, name in enumerate(names):
            values = own.loc[own["head"] == name, "accuracy"]
            colour = COLOURS.get(name.split()[0], "#777777")
            ax.plot(values, [y] * len(values), "o", color=colour, alpha=0.6)
            ax.annotate(
                f"{values.mean():.3f}",
                (values.max(), y),
                (8, -3),
                textcoords="offset points",
                fontsize=8,
            )
        ax.set(
            title=title,
            xlabel="accuracy on test texts",
            yticks=range(len(names)),
            yticklabels=names,
        )
        ax.margins(x=0.3)
        ax.grid(axis="x", alpha=0.3)
    return figure


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m studies.attention", description=__doc__
    )
    parser.add_argument("--data-source", help="Archive or folder of the IMDb reviews.")
    parser.add_argument("--quick", action="store_true", help="Train on 2,500 texts.")
    parser.add_argument("--out", type=Path, default=TABLE, help="File of the rows.")
    given = parser.parse_args()
    if given.data_source:
        measure(given.data_source, quick=given.quick).round(4).to_csv(
            given.out, index=False
        )
    found = pd.read_csv(given.out)
    if given.out == TABLE:
        draw(found).savefig(PICTURE, dpi=150)
    print(markdown(found))


if __name__ == "__main__":
    main()
