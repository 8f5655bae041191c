"""The wheel in an environment without extras: commands of the README that need none, and the sentence for each extra.

    python -m venv fresh && fresh/bin/pip install hardmax-*.whl && fresh/bin/python tests/wheel.py

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
    "torch": ("text", lambda: hm.hardmax_attention),
    "clustering": ("cluster", lambda: hm.HardmaxClustering()),
    "topics": ("topics", lambda: hm.HardmaxTopics()),
    "control": ("control", lambda: hm.control.choose_A(SQUARE, leaders=[0])),
    "exact": ("exact", lambda: hm.limit(SQUARE, hm.Hardmax(1, exact=True))),
    "numba": ("fast", lambda: hm.limit(SQUARE, hm.Hardmax(1), kernel="hull")),
    "page": ("app", lambda: hm.interactive(hm.simulate(SQUARE, hm.Hardmax(1), layers=1))),
    "playground": ("notebook", lambda: hm.playground(SQUARE)),
    "sweep": ("scale", lambda: hm.sweep("leaders", {"n": [5]}, out="sweep")),
    "inspect": ("transformers", lambda: hm.inspect("minilm", "a sentence")),
}
COMMANDS = {  # arguments, the exit code, and what is said
    "demo": (("demo", "--out", "demo"), 0, "Wrote demo/index.html"),
    "limit": (("limit", "triangle"), 0, "Certified at layer 0. 3 leaders"),
    "reproduce": (("reproduce", "all", "--out", "figures"), 0, "Left out reviews. `hardmax.HardmaxClassifier` needs"),
    "cluster": (("cluster", "ball"), 2, "pip install 'hardmax[cluster]'"),
    "topics": (("topics", "texts.csv"), 2, "pip install 'hardmax[topics]'"),
    "predict": (("predict", "a text"), 2, "pip install 'hardmax[text]'"),
    "evaluate": (("evaluate", "--data", "imdb"), 2, "pip install 'hardmax[text]'"),
    "control": (("control", "ball", "--leaders", "1"), 2, "pip install 'hardmax[control]'"),
    "sweep": (("sweep", "leaders", "--out", "sweep"), 2, "pip install 'hardmax[scale]'"),
    "exact": (("limit", "ball", "--exact"), 2, "pip install 'hardmax[exact]'"),
}


def check_extra(extra: str, use: Callable[[], object]) -> str:
    """What is wrong with the answer where an extra is missing; nothing if it is the sentence."""
    try:
        use()
    except ImportError as error:
        said = str(error)
        return "" if said.endswith(f"pip install 'hardmax[{extra}]'.") and " needs " in said else said
    return "it ran without the extra"


def check_command(arguments: tuple[str, ...], code: int, said: str, folder: str) -> str:
    """What is wrong with a command."""
    command = [str(Path(sys.executable).parent / "hardmax"), *arguments]
    done = run(command, cwd=folder, capture_output=True, text=True, check=False)
    answer = " ".join((done.stdout + done.stderr).split())
    return "" if done.returncode == code and said in answer else f"exit code {done.returncode}: {answer[-500:]}"


def main() -> int:
    """Run all checks, say what failed, and return how many."""
    place = Path(hm.__file__)
    if "site-packages" not in place.parts:
        print(f"hardmax must be installed from the wheel. Got {place}.")
        return 1
    with TemporaryDirectory() as folder:
        found = {f"extra {name}": check_extra(*each) for name, each in EXTRAS.items()}
        found |= {f"hardmax {name}": check_command(*each, folder) for name, each in COMMANDS.items()}
        page = Path(folder, "demo", "index.html")
        found["demo page"] = "" if page.exists() and page.stat().st_size > 100_000 else "no page of some size"
    failed = {name: problem for name, problem in found.items() if problem}
    for name, problem in failed.items():
        print(f"{name}: {problem}")
    print(f"wheel: {len(found) - len(failed)} passed, {len(failed)} failed")
    return len(failed)


if __name__ == "__main__":
    sys.exit(main())
