"""The wheel in an environment without extras: commands that need none, and the error
for each missing extra.

    python -m venv fresh && fresh/bin/pip install hardmax-*.whl && fresh/bin/python
    tests/wheel.py

Run outside the repository; it uses nothing but the installed package.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from subprocess import run
from tempfile import TemporaryDirectory

import hardmax as hm

SQUARE = [[1, 1], [1, -1], [-1, 1], [-1, -1], [0.5, 0]]
EXTRAS: dict[str, tuple[str, Callable[[], object]]] = {
    "classifier": ("text", lambda: hm.HardmaxClassifier()),
    "pretrained": ("text", lambda: hm.pretrained("imdb")),
    "torch": ("torch", lambda: hm.hardmax_attention),
    "clustering": ("cluster", lambda: hm.HardmaxClustering()),
    "control": ("control", lambda: hm.control.choose_A(SQUARE, leaders=[0])),
    "exact": ("exact", lambda: hm.limit(SQUARE, hm.Hardmax(1, exact=True))),
    "numba": ("fast", lambda: hm.limit(SQUARE, hm.Hardmax(1), kernel="hull")),
    "playground": ("notebook", lambda: hm.playground(SQUARE)),
    "sweep": ("scale", lambda: hm.sweep("leaders", {"n": [5]}, out="sweep")),
    "inspect": ("encoders", lambda: hm.inspect("minilm", "a sentence")),
}
COMMANDS = {  # arguments, the exit code, and a part of the output
    "demo": (("demo", "--out", "demo"), 0, "Wrote demo/index.html"),
    "limit": (("limit", "triangle"), 0, "Certified at layer 0. 3 leaders"),
    "page": (("simulate", "triangle", "--out", "page.html"), 0, "Wrote page.html"),
    "app": (("app", "--no-browser"), 2, "pip install '.[app]' in a clone"),
    "reproduce": (("reproduce", "fig2", "--out", "fig2.png"), 0, "Wrote fig2.png"),
    "train": (
        ("train", "--data", "imdb", "--out", "m"),
        2,
        "pip install '.[text]' in a clone",
    ),
    "explain": (("explain", "a text"), 2, "pip install '.[text]' in a clone"),
    "inspect": (
        ("inspect", "minilm", "a text"),
        2,
        "pip install '.[encoders]' in a clone",
    ),
    "compile": (("compile",), 2, "pip install '.[fast]' in a clone"),
    "verify": (("verify", "ball"), 0, "Theorem 1 holds"),
    "movie": (
        ("simulate", "triangle", "--out", "a.mp4"),
        2,
        "pip install '.[movies]' in a clone",
    ),
    "cluster": (("cluster", "ball"), 2, "pip install '.[cluster]' in a clone"),
    "predict": (("predict", "a text"), 2, "pip install '.[text]' in a clone"),
    "evaluate": (("evaluate", "--data", "imdb"), 2, "pip install '.[text]' in a clone"),
    "control": (
        ("control", "ball", "--leaders", "1"),
        2,
        "pip install '.[control]' in a clone",
    ),
    "sweep": (
        ("sweep", "leaders", "--out", "sweep"),
        2,
        "pip install '.[scale]' in a clone",
    ),
    "exact": (("limit", "ball", "--exact"), 2, "pip install '.[exact]' in a clone"),
}


def check_extra(extra: str, use: Callable[[], object]) -> str:
    """Return what is wrong with the error for a missing extra, or an empty string."""
    try:
        use()
    except ImportError as error:
        message = str(error)
        return (
            ""
            if message.endswith(
                f"pip install '.[{extra}]' in a clone of the repository."
            )
            and " needs " in message
            else message
        )
    return "it ran without the extra"


def check_command(
    arguments: tuple[str, ...], code: int, message: str, folder: str
) -> str:
    """Return what is wrong with a command, or an empty string."""
    command = [str(Path(sys.executable).parent / "hardmax"), *arguments]
    done = run(command, cwd=folder, capture_output=True, text=True, check=False)
    answer = " ".join((done.stdout + done.stderr).split())
    return (
        ""
        if done.returncode == code and message in answer
        else f"exit code {done.returncode}: {answer[-500:]}"
    )


def main() -> int:
    """Run all checks, print what failed, and return how many failed."""
    place = Path(hm.__file__)
    if "site-packages" not in place.parts:
        print(f"hardmax must be installed from the wheel. Got {place}.")
        return 1
    with TemporaryDirectory() as folder:
        found = {f"extra {name}": check_extra(*each) for name, each in EXTRAS.items()}
        found |= {
            f"hardmax {name}": check_command(*each, folder)
            for name, each in COMMANDS.items()
        }
        page = Path(folder, "demo", "index.html")
        found["demo page"] = (
            ""
            if page.exists() and page.stat().st_size > 100_000
            else "no page of some size"
        )
    failed = {name: problem for name, problem in found.items() if problem}
    for name, problem in failed.items():
        print(f"{name}: {problem}")
    print(f"wheel: {len(found) - len(failed)} passed, {len(failed)} failed")
    return len(failed)


if __name__ == "__main__":
    sys.exit(main())
