"""Removed commands and options, each with a sentence that names its replacement; kept for one release.

A key is a command ("topics") or a command and an option ("explain --html"). `main` prints the sentence where the
command line contains the key and the command or option does not exist.
"""

from collections.abc import Sequence
from typing import Any

REMOVED: dict[str, str] = {
    "limit --cloud": "Use --batch-index.",
    "simulate --cloud": "Use --batch-index.",
    "verify --cloud": "Use --batch-index.",
    "control --cloud": "Use --batch-index.",
    "cluster --cloud": "Use --batch-index.",
    "explain --heads": "Use `--out FILE.html` or `--json`, which have the leaders of every head.",
    "explain --html": "Use `--out FILE.html`.",
    "explain --leave-one-out": "Use `classifier.explain(text).leave_one_out()` in Python.",
    "explain --terms": "Use `--out FILE.html` or `--json`, which have every term.",
    "inspect-model": "Use `hardmax predict --card --model MODEL`, or read README.md in its folder.",
    "sweep --NAME": "Write parameters of a cell as --set NAME=VALUES.",
    "evaluate --count": "Run `python -m studies explanations --count N` in a clone of the repository.",
    "evaluate --explanations": "Run `python -m studies explanations` in a clone of the repository.",
    "evaluate --method": "Run `python -m studies explanations --method NAME` in a clone of the repository.",
    "evaluate --rationales": "Run `python -m studies explanations --rationales FILE` in a clone of the repository.",
    "study": "Run `python -m studies paper`, `ablations` or `small` in a clone of the repository.",
    "topics": (
        "Embed the texts with `hardmax.transformers.embed` and cluster the vectors with "
        "`HardmaxClustering(metric='cosine')`: docs/how-to/cluster-embeddings.md."
    ),
}


def find_removed(command: Any, arguments: Sequence[str]) -> str | None:
    """Return an error message if the arguments name a removed command or option, else None."""
    path: list[str] = []
    words = list(arguments)
    while words and not words[0].startswith("-") and hasattr(command, "commands"):
        path.append(words.pop(0))
        if path[-1] not in command.commands:
            return _describe("command", [" ".join(path)])
        command = command.commands[path[-1]]
    known = {flag for parameter in command.params for flag in (*parameter.opts, *parameter.secondary_opts)}
    for word in words[: words.index("--") if "--" in words else None]:
        flag = word.partition("=")[0]
        if flag.startswith("--") and flag not in known:
            prefixes = [" ".join(path[: k + 1]) for k in range(len(path))]
            message = _describe("option", [f"{prefix} {flag}" for prefix in prefixes])
            if message:
                return message
    return None


def _describe(kind: str, keys: list[str]) -> str | None:
    for key in keys:
        if key in REMOVED:
            name = key.split()[-1] if kind == "option" else f"hardmax {key}"
            return f"The {kind} `{name}` was removed. {REMOVED[key]}"
    return None
