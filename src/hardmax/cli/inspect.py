"""`hardmax inspect`."""

from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.table import Table

from hardmax import draw
from hardmax.cli import options, output

if TYPE_CHECKING:
    from hardmax.transformers import Inspection

MAX_PIECES = 12  # in a cell of a table
MODEL = "A folder with config.json and safetensors weights, a name in the cache of transformers, or minilm."


def inspect(
    model: Annotated[str, typer.Argument(metavar="MODEL", help=MODEL)],
    text: Annotated[str, typer.Argument(metavar="TEXT", help="A sentence, in quotes.")],
    layers: Annotated[
        list[int] | None, options.option("--layer", "Layer, counted from 1; repeat it for several.")
    ] = None,
    json: options.Json = False,
    out: options.Out = None,
) -> None:
    """Measure a trained transformer on a sentence: spectra, attention, clusters and leaders by layer.

    Models: ALBERT, BERT (such as MiniLM), DistilBERT, GPT-2, RoBERTa, XLM-RoBERTa. Nothing is downloaded. --out writes
    a figure (.png, .svg, .pdf) or all measures (.json).
    """
    files = output.check_files(out, (*output.PICTURES, ".json"))
    from hardmax import transformers

    result = transformers.inspect(model, text, layers=layers or None)
    output.write(files, result, plot=partial(draw.plot_inspection, result))
    if json:
        print(result.to_json())
        return
    output.say(result.status)
    output.show(_tabulate_heads(result) if len(result.layers) == 1 else _tabulate_attention(result))
    output.show(_tabulate_states(result))
    output.say_written(files)


def _tabulate_attention(result: "Inspection") -> Table:
    names = ("layer", "rank", "effective rank", "Boolean distance", "most attended")
    grid = output.table("Attention: mean over heads (minimum to maximum)", *names)
    for at, k in enumerate(result.layers):
        rank, effective, distance = result.rank[at], result.effective_rank[at], result.boolean_distance[at]
        ranks = f"{rank.min()} to {rank.max()}" if rank.min() < rank.max() else str(rank.max())
        effective_ranks = f"{effective.mean():.1f} ({effective.min():.1f} to {effective.max():.1f})"
        distances = f"{distance.mean():.2f} ({distance.min():.2f} to {distance.max():.2f})"
        grid.add_row(str(k), ranks, effective_ranks, distances, _list_attended(result, k))
    return grid


def _tabulate_heads(result: "Inspection") -> Table:
    k = result.layers[0]
    names = ("head", "rank", "effective rank", "Boolean distance")
    spectra = ("largest eigenvalue of V", "symmetric part of query-key")
    grid = output.table(f"Heads of layer {k}; most attended: {_list_attended(result, k)}", *names, *spectra)
    weights = result.heads(k)
    for a, leading in enumerate(weights.value_eigenvalues[:, 0]):
        symmetric = weights.symmetric_eigenvalues[a]
        grid.add_row(
            str(a + 1),
            str(result.rank[0, a]),
            f"{result.effective_rank[0, a]:.1f}",
            f"{result.boolean_distance[0, a]:.2f}",
            f"{leading.real:.3f}" if leading.imag == 0 else f"{leading.real:.3f} ± {abs(leading.imag):.3f}i",
            f"{symmetric[0]:.3f} to {symmetric[-1]:.3f}",
        )
    return grid


def _tabulate_states(result: "Inspection") -> Table:
    grid = output.table("Hidden states", "layer", "effective clusters", "mean cosine", "leaders", "leading tokens")
    for at, k in enumerate((0, *result.layers)):
        leaders = [result.pieces[i] for i in result.leaders[at]]
        more = f" and {len(leaders) - MAX_PIECES} more" if len(leaders) > MAX_PIECES else ""
        names = "all" if len(leaders) == len(result.pieces) else " ".join(leaders[:MAX_PIECES]) + more
        clusters, cosine = f"{result.effective_clusters[at]:.2f}", f"{result.mean_cosine[at]:.2f}"
        grid.add_row(str(k), clusters, cosine, str(len(leaders)), escape(names))  # [CLS] is a word piece, not a style
    return grid


def _list_attended(result: "Inspection", layer: int) -> str:
    return escape(", ".join(f"{result.pieces[j]} {share:.0%}" for j, share in result.most_attended(layer)))
