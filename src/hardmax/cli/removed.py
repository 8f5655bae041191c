"""Commands and options that were removed, each with what replaces it in this release."""

from collections.abc import Sequence

REMOVED = {  # "command" or "command --option" to the sentence that is printed
    "study": "Run `python -m studies paper`, `ablations` or `small` in a clone of the repository.",
    "inspect-model": "Use `hardmax predict --card --model MODEL`, or read README.md in its folder.",
    "explain --html": "Use `--out FILE.html`.",
    "explain --terms": "Use `--out FILE.html` or `--json`, which have every term.",
    "explain --heads": "Use `--out FILE.html` or `--json`, which have the leaders of every head.",
    "explain --leave-one-out": "Use `classifier.explain(text).leave_one_out()` in Python.",
    "evaluate --explanations": "Run `python -m studies explanations` in a clone of the repository.",
    "evaluate --method": "Run `python -m studies explanations --method NAME` in a clone of the repository.",
    "evaluate --count": "Run `python -m studies explanations --count N` in a clone of the repository.",
    "evaluate --rationales": "Run `python -m studies explanations --rationales FILE` in a clone of the repository.",
}


def find_replacement(arguments: Sequence[str]) -> str | None:
    """Return a sentence if the arguments name a removed command or option, else None."""
    command, *rest = arguments or [""]
    options = [argument.partition("=")[0] for argument in rest if argument.startswith("--")]
    for name in (command, *(f"{command} {option}" for option in options)):
        if name in REMOVED:
            return f"hardmax {name} was removed. {REMOVED[name]}"
    return None
