"""What commands print and write."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from hardmax._errors import ParameterError
from hardmax._files import written_whole

PICTURES = (".png", ".svg", ".pdf")
MOVIES = (".gif", ".mp4")
ENDINGS = (*PICTURES, *MOVIES, ".npz", ".json", ".html")
MOST_ROWS = 20


# The library speaks of its own parameters; here they are flags.
FLAGS = {
    "`any_A=True`": "--any-A",
    '`ties="exact"`': "--ties exact",
    "pass `tokens.reshape(-1, 1)`": "write one number a line in a CSV",
    ", and for padding pass `mask`": "",
    "`layers`": "`--layers`",
    "`max_layers`": "`--max-layers`",
    "`alpha`": "`--alpha`",
    "`seed`": "`--seed`",
    "`n` and `d`": "`--n` and `--d`",
    "`n`": "`--n`",
    "`kernel`": "`--kernel`",
    '`kernel="hull"`': "`--kernel hull`",
    'Use kernel="auto"': "Use --kernel auto",
    "`d`": "`--d`",
    "`A`": "`--A`",
    "`leaders`": "`--leaders`",
    "`followers`": "`--followers`",
    "`attempts`": "`--attempts`",
    "`evaluations`": "`--evaluations`",
    "`condition`": "`--condition`",
    "`margin` must": "`--margin` must",
    "`prefer`": "`--prefer`",
    'prefer="identity"': "--prefer identity",
    'prefer="margin"': "--prefer margin",
    "Pass other `solver_options`": "Try --prefer identity",
    "with `steer`": "with --limit",
    "`steer` looks": "--limit looks",
    "`Q` and `K`": "`--Q` and `--K`",
    "`V`": "`--V`",
    "`k` must be a saved layer": "`--layer` must be a saved layer",
    "`k` must lie between": "`--layer` must lie between",
    ', or with `save="all"`': "",
    "`max_steps": "`--max-steps",
    "`rtol`": "`--rtol`",
    "`times`": "`--time`",
    "`dt=": "`--dt ",
    "`beta`": "`--beta`",
    "`normalized=False`": "--unnormalized",
    "Use `normalized=True`": "Leave out --unnormalized",
    "`temperature`": "`--temperature`",
    "`method`": "`--method`",
    "`dt`": "`--dt`",
    "`causal=True`": "--causal",
    ": tokens / np.linalg.norm(tokens, axis=-1, keepdims=True)": "",
    "`trained_A`": "`--trained-a`",
    'training="softmax"': "--training softmax",
    'training="hardmax"': "--training hardmax",
    "`training`": "`--training`",
    "`heads`": "`--heads`",
    "`longest`": "`--longest`",
    "`min_texts`": "`--min-texts`",
    "`max_tokens`": "`--max-tokens`",
    "`max_words`": "`--max-words`",
    '`stop_words` must be "english", a list of words, or None': '`--stop-words` must be "english"',
    "`lemmas`": "`--lemmas`",
    "`epochs`": "`--epochs`",
    "`batch_size`": "`--batch-size`",
    "`learning_rate`": "`--learning-rate`",
    "`weight_decay`": "`--weight-decay`",
    "`dropout`": "`--dropout`",
    "`label_smoothing`": "`--label-smoothing`",
    "`groups`": "`--groups`",
    "Use groups=1": "Use --groups 1",
    "`select`": "`--select`",
    "`scale`": "`--scale`",
    "`alpha_rate`": "`--alpha-rate`",
    "`embedding_dropout`": "`--embedding-dropout`",
    "`validation`": "`--validation`",
    "`patience`": "`--patience`",
    "`random_state`": "`--seed`",
    "`device`": "`--device`",
    "`methods`": "`--method`",
    "`texts` must": "The texts must",
    "train without resuming": "leave out --resume",
    "`text` and `label`": "`--text` and `--label`",
    "`text` must name": "`--text` must name",
    "with `text`, or": "with `--text`, or",
    "`label`": "`--label`",
    "`labels`": "`--label`",
    "Name one, or add": "Name one with --text or --label, or add",
    "`path` must be a": "FILE must be a",
    ". Pass labelled=False to read the texts alone": ". Make one",
    "such as encoding='latin-1' (--encoding latin-1)": "such as --encoding latin-1",
    "such as encoding='utf-16' (--encoding utf-16)": "such as --encoding utf-16",
    "`encoding`": "`--encoding`",
    "`source`": "`--data-source`",
    "`name` must be one of": "`--model` must be a folder that hardmax train wrote, or one of",
    "For a folder use HardmaxClassifier.load": "Check the path",
    'Use hm.pretrained("imdb-2d"), or a classifier with d=2': "Use --model imdb-2d, or train with --d 2",
}


def in_flags(sentence: str) -> str:
    """A sentence of the library in the words of the command line."""
    for parameter, flag in FLAGS.items():
        sentence = sentence.replace(parameter, flag)
    return sentence


def console() -> Console:
    """Standard output, made anew so that it follows redirection."""
    return Console(highlight=False)


def say(sentence: str) -> None:
    """A sentence to standard output, on one line however narrow the terminal."""
    Console(highlight=False, markup=False, soft_wrap=True).print(in_flags(sentence))


def note(sentence: str) -> None:
    """A sentence to standard error, beside the result."""
    Console(stderr=True, highlight=False, markup=False, soft_wrap=True).print(sentence)


def error(message: str) -> None:
    """A sentence to standard error."""
    Console(stderr=True, highlight=False, soft_wrap=True).print("[bold red]Error:[/]", end=" ")
    Console(stderr=True, highlight=False, soft_wrap=True, markup=False).print(in_flags(message))


@contextmanager
def progress_bar(label: str) -> Iterator[Callable[[int, int], None]]:
    """A bar on a terminal, nothing in a pipe."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed}/{task.total}"),
        TimeRemainingColumn(),
    )
    if not sys.stderr.isatty():  # some versions of Rich end a disabled bar with an empty line
        yield lambda done, total: None
        return
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(label, total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)


def table(title: str, *columns: str) -> Table:
    """A plain table with a title."""
    grid = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False, padding=(0, 3, 0, 0))
    for name in columns:
        grid.add_column(name, overflow="fold")
    return grid


def check_endings(paths: list[Path] | None, endings: tuple[str, ...] = ENDINGS) -> list[Path]:
    """The files to write, refused before any work if an ending is unknown."""
    for path in paths or []:
        if path.suffix.lower() not in endings:
            raise ParameterError("--out", f"end in one of {', '.join(endings)}", f"{str(path)!r}", "Change the ending.")
    return list(paths or [])


def save_text(text: str, path: Path) -> None:
    """Write text whole or not at all."""
    with written_whole(path) as temporary:
        temporary.write_text(text, encoding="utf-8", errors="replace")  # bytes of the command line may be no letters


def save_figure(figure: object, path: Path) -> None:
    """Write a picture whole or not at all, and forget the figure."""
    import matplotlib.pyplot as plt

    plain = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}
    # The same bytes on every run, and fonts that journals take.
    with plt.rc_context({"svg.hashsalt": "hardmax", "pdf.fonttype": 42}), written_whole(path) as temporary:
        figure.savefig(temporary, dpi=150, metadata=plain.get(path.suffix.lower()))  # type: ignore[attr-defined]
    plt.close(figure)  # type: ignore[arg-type]
