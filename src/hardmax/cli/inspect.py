"""`hardmax inspect`."""

from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from rich.markup import escape

from hardmax import draw
from hardmax.cli import options, output

if TYPE_CHECKING:
    from hardmax.transformers import Inspection

MAX_PIECES = 12  # in a cell of a table
MODEL = (
    "A folder with config.json and safetensors weights, a name in the cache of"
    " transformers, or minilm."
)


def inspect(
    model: Annotated[str, typer.Argument(metavar="MODEL", help=MODEL)],
    text: Annotated[str, typer.Argument(metavar="TEXT", help="A sentence, in quotes.")],
    layers: Annotated[
        list[int] | None,
        options.option("--layer", "Layer, counted from 1; repeat it for several."),
    ] = None,
    hard: Annotated[
        list[str] | None,
        options.option(
            "--hard",
            "Replace softmax by hardmax in a layer, 3, or head, 3:0; repeat it for"
            " several.",
        ),
    ] = None,
    json: options.Json = False,
    out: options.Out = None,
) -> None:
    """Measure a trained transformer on a sentence: spectra, attention, clusters and
    leaders by layer.

    Layers count from 1, heads from 0. With --hard the changes of hidden states and
    predictions are measured, too.

    Models: ALBERT, BERT (such as MiniLM), DistilBERT, GPT-2, RoBERTa, XLM-RoBERTa.
    Nothing is downloaded. --out writes a figure (.png, .svg, .pdf) or all measures
    (.json).
    """
    files = output.check_files(out, (*output.PICTURES, ".json"))
    from hardmax import transformers

    result = transformers.inspect(model, text, layers=layers or None)
    soft = result if hard else None
    if hard:
        chosen = [
            pair
            for entry in hard
            for pair in _read_heads(entry, result.attention.shape[1])
        ]
        result = transformers.inspect(model, text, layers=layers or None, hard=chosen)
    to_json = partial(result.to_json, soft)
    output.write(
        files, result, plot=partial(draw.plot_inspection, result), to_json=to_json
    )
    if json:
        print(to_json())
        return
    output.say(result.status)
    if soft is not None:
        output.say(_describe_changes(result.changes_from(soft)))
    if len(result.layers) == 1:
        _print_heads(result)
    else:
        _print_attention(result)
    _print_states(result)
    output.say_written(files)


def _read_heads(entry: str, n_heads: int) -> list[tuple[Any, ...]]:
    """Return pairs of layer and head; what is not two integers stays a text, which
    `inspect` refuses.
    """
    layer, _, head = entry.partition(":")
    if not layer.isdecimal() or not (head.isdecimal() or entry == layer):
        return [(entry,)]
    return (
        [(int(layer), int(head))] if head else [(int(layer), a) for a in range(n_heads)]
    )


def _describe_changes(changes: dict[str, Any]) -> str:
    cosine = f"{changes['cosines'][-1]:.3f}"
    words = (
        f"With hard heads the last hidden states have a mean cosine of {cosine} with"
        " those of softmax"
    )
    if "top_changed" in changes:
        words += (
            f", {changes['top_changed']:.0%} of the rows have another top prediction, "
        )
        words += (
            f"and distributions differ by {changes['distance']:.3f} (mean total"
            " variation)"
        )
    return f"{words}."


def _print_attention(result: "Inspection") -> None:
    rows, top = [], result.top_choices()
    sinks = (top["special"] + top["first"] > 0.9).sum(axis=1)  # heads
    for at, k in enumerate(result.layers):
        rank, effective, distance = (
            result.rank[at],
            result.effective_rank[at],
            result.boolean_distance[at],
        )
        ranks = (
            f"{rank.min()} to {rank.max()}"
            if rank.min() < rank.max()
            else str(rank.max())
        )
        effective_ranks = (
            f"{effective.mean():.1f} ({effective.min():.1f} to {effective.max():.1f})"
        )
        distances = (
            f"{distance.mean():.2f} ({distance.min():.2f} to {distance.max():.2f})"
        )
        rows.append(
            (
                str(k),
                ranks,
                effective_ranks,
                distances,
                str(sinks[at]),
                _list_attended(result, k),
            )
        )
    names = (
        "layer",
        "rank",
        "effective rank",
        "Boolean distance",
        "sinks",
        "most attended",
    )
    output.show_table(
        "Attention: mean over heads (minimum to maximum)", *names, rows=rows
    )


def _print_heads(result: "Inspection") -> None:
    k, rows = result.layers[0], []
    weights, margins, top = result.heads(k), result.margins()[0], result.top_choices()
    for a, leading in enumerate(weights.value_eigenvalues[:, 0]):
        symmetric = weights.symmetric_eigenvalues[a]
        row = (
            str(a),
            str(result.rank[0, a]),
            f"{result.effective_rank[0, a]:.1f}",
            f"{result.boolean_distance[0, a]:.2f}",
            f"{np.median(margins[a]):.2f}",
            ", ".join(
                f"{kind} {shares[0, a]:.0%}"
                for kind, shares in top.items()
                if shares[0, a]
            ),
            (
                f"{leading.real:.3f}"
                if leading.imag == 0
                else f"{leading.real:.3f} ± {abs(leading.imag):.3f}i"
            ),
            f"{symmetric[0]:.3f} to {symmetric[-1]:.3f}",
        )
        rows.append(row)
    names = (
        "head",
        "rank",
        "effective rank",
        "Boolean distance",
        "median margin",
        "top choices",
    )
    spectra = ("largest eigenvalue of V", "symmetric part of query-key")
    title = f"Heads of layer {k}; most attended: {_list_attended(result, k)}"
    output.show_table(title, *names, *spectra, rows=rows)


def _print_states(result: "Inspection") -> None:
    rows = []
    for at, k in enumerate((0, *result.layers)):
        leaders = [result.pieces[i] for i in result.leaders[at]]
        more = (
            f" and {len(leaders) - MAX_PIECES} more"
            if len(leaders) > MAX_PIECES
            else ""
        )
        names = (
            "all"
            if len(leaders) == len(result.pieces)
            else " ".join(leaders[:MAX_PIECES]) + more
        )
        clusters, cosine = (
            f"{result.effective_clusters[at]:.2f}",
            f"{result.mean_cosine[at]:.2f}",
        )
        rows.append(
            (str(k), clusters, cosine, str(len(leaders)), escape(names))
        )  # [CLS] is a word piece, not a style
    columns = (
        "layer",
        "effective clusters",
        "mean cosine",
        "leaders",
        "leading tokens",
    )
    output.show_table("Hidden states", *columns, rows=rows)


def _list_attended(result: "Inspection", layer: int) -> str:
    return escape(
        ", ".join(
            f"{result.pieces[j]} {share:.0%}"
            for j, share in result.most_attended(layer)
        )
    )
