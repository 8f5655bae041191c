"""Removed commands and options, each with a sentence that names its replacement; kept
for one release.

A key is a command ("topics") or a command and an option ("explain --html").
"""

from collections.abc import Sequence

STUDY = "Run `python -m studies explanations{}` in a clone of the repository."
REMOVED: dict[str, str] = {
    **{
        f"{name} --cloud": "Use --batch-index."
        for name in ("cluster", "control", "limit", "simulate", "verify")
    },
    **{
        f"{name} --ties": (
            "Leave it out for exact sets; for a tolerance use `hm.Localmax(alpha, eps)`"
            " in Python."
        )
        for name in ("limit", "simulate", "verify")
    },
    "app --allow-websocket-origin": "Use --allow-host NAME.",
    "evaluate --count": STUDY.format(" --count N"),
    "evaluate --explanations": STUDY.format(""),
    "evaluate --method": STUDY.format(" --method NAME"),
    "evaluate --rationales": STUDY.format(" --rationales FILE"),
    "explain --heads": (
        "Use `--out FILE.html` or `--json`, which have the leaders of every head."
    ),
    "explain --html": "Use `--out FILE.html`.",
    "explain --leave-one-out": (
        "Use `classifier.explain(text).leave_one_out()` in Python."
    ),
    "explain --terms": "Use `--out FILE.html` or `--json`, which have every term.",
    "inspect-model": (
        "Use `hardmax predict --card --model MODEL`, or read README.md in its folder."
    ),
    "study": (
        "Run `python -m studies paper`, `ablations` or `small` in a clone of the"
        " repository."
    ),
    "sweep --NAME": "Write parameters of a cell as --set NAME=VALUES.",
    "topics": (
        "Embed the texts with `hardmax.transformers.embed` and cluster the vectors with"
        " `HardmaxClustering(metric='cosine')`: docs/how-to/cluster-embeddings.md."
    ),
}


def find_removed(arguments: Sequence[str]) -> str | None:
    """Return an error message if the arguments name a removed command or option, else
    None.
    """
    command, *words = arguments or [""]
    flags = [
        word.partition("=")[0]
        for word in words[: words.index("--") if "--" in words else None]
    ]
    if command in REMOVED:
        return f"The command `hardmax {command}` was removed. {REMOVED[command]}"
    found = (flag for flag in flags if f"{command} {flag}" in REMOVED)
    return next(
        (
            f"The option `{flag}` was removed. {REMOVED[f'{command} {flag}']}"
            for flag in found
        ),
        None,
    )
