"""Which files of the package four calls run through: `python tests/walks.py`. docs/developers.md tells the same."""

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any
from unittest.mock import patch

import hardmax as hm
from hardmax.sentiment.corpus import reviews

PACKAGE = Path(hm.__file__).parent


def files_of(call: Callable[[], Any]) -> list[str]:
    """Files whose functions run in a call, in the order in which they are reached; modules are loaded before."""
    call()
    reached: dict[str, None] = {}

    def note(frame: FrameType, event: str, argument: Any) -> None:
        if event == "call" and frame.f_code.co_name != "<module>" and frame.f_code.co_filename.startswith(str(PACKAGE)):
            reached[str(Path(frame.f_code.co_filename).relative_to(PACKAGE))] = None

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(before)
    return list(reached)


def walks() -> dict[str, list[str]]:
    """The four calls, and the files of each."""
    tokens, rule = hm.configuration("edge-clusters"), hm.Hardmax(0.5)
    points, flow = [[1.0, 1.0], [-1.0, -1.0], [0.5, 0.0]], hm.SelfAttention()
    classifier, corpus = hm.pretrained("imdb"), reviews(200, seed=1)
    beginner = hm.HardmaxClassifier(n_heads=4, groups=2, epochs=2)
    calls: dict[str, Callable[[], Any]] = {
        "limit": lambda: hm.limit(tokens, rule),
        "simulate": lambda: hm.simulate(points, flow, times=[0, 1, 10]),
        "explain": lambda: classifier.explain("a wonderful film, not dull at all"),
        "fit": lambda: beginner.fit(corpus.texts, corpus.labels),
    }
    with patch("hardmax.search.dispatch.is_loaded", lambda kernel: True):  # as after many calls
        return {name: files_of(call) for name, call in calls.items()}


if __name__ == "__main__":
    for name, files in walks().items():
        print(f"{name}, {len(files)} files: {', '.join(files)}")
