"""Causal hardmax in the plane: one layer against torch and FAISS, and the cost of
limits and streams over n.

python -m benchmarks.causal prints the tables of the page "Causal limits", for Gaussian
tokens and alpha = 1/2.
"""

from collections.abc import Callable
from time import process_time
from typing import Annotated, Any

import numpy as np
import typer

import hardmax as hm
from benchmarks import report
from hardmax._types import FloatArray, IntArray

RULE = hm.Hardmax(0.5, causal=True)
ROWS = 1024  # queries that torch multiplies with all keys at once
BLOCK = 1000  # tokens that a stream receives at once


def time_once(function: Callable[[], Any]) -> tuple[float, Any]:
    """Return the CPU seconds over all threads, and the result."""
    start = process_time()
    result = function()
    return process_time() - start, result


def ours(tokens: FloatArray) -> IntArray:
    return np.asarray(
        hm.simulate(tokens, RULE, layers=0, save="last").records[0].sets(0).targets
    )


def with_torch(tokens: FloatArray) -> IntArray:
    """Return the first of the largest products of each prefix, in float64, without the
    upper triangle of blocks.
    """
    import torch

    torch.set_num_threads(1)
    keys, found = torch.from_numpy(tokens), []
    for start in range(0, len(tokens), ROWS):
        stop = min(start + ROWS, len(tokens))
        products = keys[start:stop] @ keys[:stop].T
        products[:, start:].masked_fill_(
            torch.ones(stop - start, stop - start).triu(1).bool(), -torch.inf
        )
        found.append(products.argmax(dim=1))
    return np.asarray(torch.cat(found).numpy())


def with_faiss(tokens: FloatArray) -> IntArray:
    """Return the same by a flat index that grows by one token per query, in float32."""
    import faiss

    faiss.omp_set_num_threads(1)
    index, rows = faiss.IndexFlatIP(tokens.shape[1]), tokens.astype(np.float32)
    found = np.empty(len(rows), np.intp)
    for i in range(len(rows)):
        index.add(rows[i : i + 1])
        found[i] = index.search(rows[i : i + 1], 1)[1][0, 0]
    return found


METHODS = {
    "torch, `masked_fill` and `argmax` by blocks of rows, float64": with_torch,
    "FAISS, flat index extended token by token, float32": with_faiss,
}


def layer_table(n: int) -> str:
    """Return the seconds of one layer: the argmax sets of all prefixes."""
    tokens = np.random.default_rng(0).normal(size=(n, 2))
    seconds, expected = time_once(lambda: ours(tokens))
    rows: list[list[Any]] = [["hardmax, exact sets", seconds, 1, 0]]
    for name, method in METHODS.items():
        try:
            method(tokens[:2])  # loads the library
            other, found = time_once(lambda method=method: method(tokens))
            rows.append([name, other, other / seconds, int((found != expected).sum())])
        except ImportError:
            rows.append([name, "not installed", None, None])
    columns = (
        f"one causal layer, n = {n:,}, d = 2",
        "CPU seconds",
        "times ours",
        "rows with another answer",
    )
    return report.lines(columns, rows)


def limits_table(sizes: list[int]) -> str:
    """Return the seconds of a limit at once, and of a stream whose limit is taken after
    each block.
    """
    rows = []
    for n in sizes:
        tokens, stream = (
            np.random.default_rng(1).normal(size=(n, 2)),
            hm.CausalLimit(RULE),
        )
        seconds, limit = time_once(lambda tokens=tokens: hm.limit(tokens, RULE))
        start = process_time()
        for first in range(0, n, BLOCK):
            stream.append(tokens[first : first + BLOCK])
            last = stream.limit()
        streamed = process_time() - start
        assert last == limit
        stream.append(tokens[0] / 3)
        more, _ = time_once(stream.limit)
        rows.append([n, limit.layer, seconds, 1e6 * seconds / n, streamed, 1e3 * more])
    stream_column = f"stream in blocks of {BLOCK:,}, s"
    return report.lines(
        (
            "n",
            "layers",
            "limit, s",
            "µs per token",
            stream_column,
            "one more token, ms",
        ),
        rows,
    )


def main(
    n: Annotated[
        int, typer.Option(help="Tokens of the layer, and of the largest limit.")
    ] = 100_000,
) -> None:
    """Print both tables."""
    for size in (5000, 20_000):
        hm.limit(
            np.random.default_rng(2).normal(size=(size, 2)), RULE
        )  # loads compiled code
    print(
        layer_table(n),
        limits_table([size for size in (1000, 10_000, n) if size <= n]),
        sep="\n\n",
    )


if __name__ == "__main__":
    typer.run(main)
