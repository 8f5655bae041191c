"""`hardmax topics`."""

import warnings
from typing import TYPE_CHECKING, Annotated

import typer

from hardmax._errors import ParameterError
from hardmax.cli import options, output, texts
from hardmax.cli.options import UNSAID, option

if TYPE_CHECKING:
    from hardmax.cluster.topics import HardmaxTopics


@options.with_options
def topics(
    how: texts.FileOptions,
    path: Annotated[
        str,
        typer.Argument(metavar="FILE", help="A .csv, .tsv, .jsonl, .parquet, .xlsx or .txt file of texts, or -."),
    ],
    n_topics: Annotated[
        int | None, option("--topics", "How many to look for. Left out: as many as there are.", **UNSAID)
    ] = None,
    noise: Annotated[
        float | None,
        option("--noise", "Leave out texts around which it is so many times emptier; try 20.", **UNSAID),
    ] = None,
    n_neighbors: Annotated[int, option("--neighbors", "How many nearest texts each is joined with.")] = 10,
    n_words: Annotated[int, option("--words", "Telling words of a topic, at most.")] = 8,
    n_exemplars: Annotated[int, option("--exemplars", "Texts that stand for a topic, at most.")] = 5,
    embed: Annotated[
        str, option("--model", "What embeds the texts: minilm, or a folder with a transformer.", metavar="MODEL")
    ] = "minilm",
    json: options.Json = False,
    out: options.Out = None,
) -> None:
    """Find the topics of texts: each is led by one of them, and told from the others by words.

    --out writes a page with a map of the texts (.html), a row for each text with its topic (.csv, .jsonl, .parquet,
    .xlsx) or everything (.json). A row without text has no topic, -1.
    """
    from hardmax.cluster import HardmaxTopics
    from hardmax.cluster.topic_output import ENDINGS

    files = output.check_files(out, ENDINGS, read=path)
    counts = {"n_neighbors": n_neighbors, "n_words": n_words, "n_exemplars": n_exemplars}
    finder = HardmaxTopics(n_topics, embed=embed, noise=noise, **counts, verbose=True)
    finder.check_settings()  # before anything is read
    table = how.read_file(path, labelled=False)
    texts.note_what_was_read(table)
    try:
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            found = finder.fit(table.texts)
    except ParameterError as problem:
        if problem.names != ("texts",):
            raise
        raise ParameterError(path, problem.must, problem.got, problem.advice) from None
    for warning in said:
        output.note(str(warning.message).replace("HardmaxClustering", "It").replace("clusters", "topics"))
    for file in files:
        found.save(file)
    if json:
        print(found.to_json())
        return
    _print(found)
    output.say_written(files)


def _print(found: "HardmaxTopics") -> None:
    from hardmax.cluster.topic_output import HEAD, rows

    output.say(repr(found))
    output.show(output.table("Topics", *HEAD, rows=rows(found, output.MOST_ROWS), total=len(found.topics_)))
