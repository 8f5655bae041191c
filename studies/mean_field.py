"""The study "mean_field": empirical measures of n tokens against that of the largest n,
over n and t.

`python -m studies.mean_field --run` measures with up to 30,000 tokens on the CPU, or
10^6 on a GPU where torch finds one, and writes docs/studies/mean_field.json, the figure
and the table. Without --run the record is drawn again.
"""

import argparse
import json
import time
from typing import TYPE_CHECKING, Any

import numpy as np
from benchmarks import report

import hardmax as hm
from hardmax._arrays import unit_rows
from hardmax._files import save_text
from hardmax._types import FloatArray
from hardmax.rules.base import Flow
from studies.study import DOCS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RECORD, PICTURE = (
    DOCS / "studies" / "mean_field.json",
    DOCS / "images" / "study-mean_field.png",
)
MARK = "<!-- made by python -m studies.pages: mean_field -->"
FLOWS: dict[str, tuple[int, Flow]] = {  # dimension and rule
    "V = -I": (2, hm.SelfAttention(V=-np.eye(2))),
    "sphere, beta = 4": (3, hm.Sphere(4.0)),
}
LARGEST = {"cpu": 30_000, "cuda": 1_000_000}
SIZES = [m * 10**k for k in range(2, 6) for m in (1, 2, 5)][:-1]
TIMES, RTOL, DIRECTIONS, MIN_RUNS, MAX_RUNS = (0.0, 1.0, 2.0, 4.0), 1e-4, 64, 4, 20


def draw_tokens(flow: str, n: int, seed: int) -> FloatArray:
    """Draw tokens uniform in a square, or around (1/2, 0, 0) from a normal distribution
    and divided by their norms.
    """
    rng, d = np.random.default_rng([n, seed]), FLOWS[flow][0]
    return (
        rng.uniform(-2, 2, (n, d))
        if d == 2
        else unit_rows(rng.normal(size=(n, d)) + np.array([0.5, 0, 0]))
    )


def run(flow: str, n: int, seed: int, device: str) -> FloatArray:
    """Return the tokens at `TIMES`, (times, n, d)."""
    tokens: Any = draw_tokens(flow, n, seed)
    if device != "cpu":
        import torch

        tokens = torch.tensor(tokens, dtype=torch.float32, device=device)
    return np.asarray(
        hm.simulate(tokens, FLOWS[flow][1], times=TIMES, rtol=RTOL).array, np.float64
    )


def project(tokens: FloatArray) -> FloatArray:
    """Return the sorted coordinates of tokens (times, n, d) along random directions,
    (times, directions, n).
    """
    directions = unit_rows(
        np.random.default_rng(0).normal(size=(DIRECTIONS, tokens.shape[-1]))
    )
    return np.sort(directions @ np.swapaxes(tokens, 1, 2))


def average_blocks(many: FloatArray, n: int) -> tuple[FloatArray, FloatArray]:
    """Return the means over n blocks of sorted coordinates (times, directions, N), and
    the mean squares of all.
    """
    return many.reshape(*many.shape[:2], n, -1).mean(axis=3), np.mean(many**2, axis=2)


def sliced_distances(
    few: FloatArray, many: tuple[FloatArray, FloatArray]
) -> FloatArray:
    """Return the sliced Wasserstein distances of order 2 of tokens (times, n, d) to the
    blocks of others.
    """
    own, (blocks, squares) = project(few), many
    return np.sqrt(
        np.maximum(
            np.mean(np.mean(own * (own - 2 * blocks), axis=2) + squares, axis=1), 0
        )
    )


def measure(largest: int, device: str = "cpu") -> dict[str, Any]:
    """Return the mean distances for each flow and n."""
    rows, began = [], time.perf_counter()
    for flow in FLOWS:
        many = project(run(flow, largest, 0, device))
        for n in (n for n in SIZES if n < largest and largest % n == 0):
            runs, blocks = (
                min(MAX_RUNS, max(MIN_RUNS, largest // (2 * n))),
                average_blocks(many, n),
            )
            found = [
                sliced_distances(run(flow, n, seed, device), blocks)
                for seed in range(runs)
            ]
            rows.append(
                {
                    "flow": flow,
                    "n": n,
                    "runs": runs,
                    "distances": np.mean(found, axis=0).round(6).tolist(),
                }
            )
            print(
                f"{flow}, n = {n}: {rows[-1]['distances']},"
                f" {time.perf_counter() - began:.0f} s",
                flush=True,
            )
    seconds = round(time.perf_counter() - began)
    return {
        "device": device,
        "largest": largest,
        "seconds": seconds,
        "times": list(TIMES),
        "rows": rows,
    }


def fit_exponents(found: dict[str, Any], flow: str) -> FloatArray:
    """Fit distance = C m^exponent at each time, with m = 1 / (1/n + 1/N): both samples
    are random.
    """
    rows = [row for row in found["rows"] if row["flow"] == flow]
    m = [1 / (1 / row["n"] + 1 / found["largest"]) for row in rows]
    return np.polyfit(np.log(m), np.log([row["distances"] for row in rows]), 1)[0]


def markdown(found: dict[str, Any]) -> str:
    columns = ["flow", "n", "runs", *(f"t = {t:g}" for t in found["times"])]
    body: list[list[Any]] = []
    for flow in FLOWS:
        rows = [row for row in found["rows"] if row["flow"] == flow]
        body += [
            [
                flow,
                f"{row['n']:,}",
                row["runs"],
                *(f"{x:.4f}" for x in row["distances"]),
            ]
            for row in rows
        ]
        body.append(
            [
                f"{flow}: exponent",
                "",
                "",
                *(f"{x:.2f}" for x in fit_exponents(found, flow)),
            ]
        )
    processor = "CPU" if found["device"] == "cpu" else "GPU"
    note = (
        f"N = {found['largest']:,}; all runs took {found['seconds']:,} s on one"
        f" {processor}."
    )
    return f"{report.lines(columns, body)}\n\n{note}"


def draw(found: dict[str, Any]) -> "Figure":
    import matplotlib.pyplot as plt

    from hardmax.draw.style import COLOURS

    figure, axes = plt.subplots(
        1, len(FLOWS), figsize=(9, 3.6), layout="constrained", sharex=True
    )
    for ax, flow in zip(axes, FLOWS, strict=True):
        rows = [row for row in found["rows"] if row["flow"] == flow]
        n, distances = (
            np.array([row["n"] for row in rows]),
            np.array([row["distances"] for row in rows]),
        )
        for t, column, colour in zip(
            found["times"], distances.T, COLOURS, strict=False
        ):
            ax.loglog(n, column, "o-", ms=4, color=colour, label=f"t = {t:g}")
        noise = np.sqrt(1 / n + 1 / found["largest"])
        ax.loglog(
            n, distances[0, 0] * noise / noise[0], "k:", label="$(1/n + 1/N)^{1/2}$"
        )
        ax.set(xlabel="n", title=flow)
    axes[0].set_ylabel(f"distance to {found['largest']:,} tokens")
    figure.legend(
        *axes[0].get_legend_handles_labels(),
        loc="outside upper center",
        ncols=5,
        fontsize=9,
        frameon=False,
    )
    return figure


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m studies.mean_field", description=__doc__
    )
    parser.add_argument(
        "--run", action="store_true", help="Measure, and replace the record."
    )
    parser.add_argument(
        "--device", choices=LARGEST, help="By default a GPU where there is one."
    )
    parser.add_argument(
        "--largest",
        type=int,
        help="By default 30,000 tokens on the CPU and 10^6 on a GPU.",
    )
    given = parser.parse_args(arguments)
    if given.run:
        import torch

        device = given.device or ("cuda" if torch.cuda.is_available() else "cpu")
        save_text(
            json.dumps(measure(given.largest or LARGEST[device], device), indent=1)
            + "\n",
            RECORD,
        )
    found = json.loads(RECORD.read_text(encoding="utf-8"))
    draw(found).savefig(PICTURE, dpi=150)
    report.fill_file(DOCS / "studies" / "mean_field.md", markdown(found), MARK)


if __name__ == "__main__":
    main()
