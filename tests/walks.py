"""Print the files that five calls run through: `python tests/walks.py`.
docs/developers.md lists the same files.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any
from unittest.mock import patch

import torch

import hardmax as hm

PACKAGE = Path(hm.__file__).parent


def files_of(call: Callable[[], Any]) -> list[str]:
    """Return the files whose functions run in a call, in the order in which they are
    reached.
    """
    call()
    reached: dict[str, None] = {}

    def note(frame: FrameType, event: str, argument: Any) -> None:
        if (
            event == "call"
            and frame.f_code.co_name != "<module>"
            and frame.f_code.co_filename.startswith(str(PACKAGE))
        ):
            reached[str(Path(frame.f_code.co_filename).relative_to(PACKAGE))] = None

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(before)
    return list(reached)


def walks() -> dict[str, list[str]]:
    """Return the files of each of the five calls."""
    from hardmax.text.datasets import reviews

    texts, labels, _ = reviews(300, seed=3)  # no argmax set of these texts nearly ties
    classifier = hm.HardmaxClassifier(device="cpu")
    plane, space = (
        hm.configuration("gaussian", n=10_000),
        hm.configuration("gaussian", n=1000, d=16),
    )
    rule, flow, start = (
        hm.Hardmax(0.5),
        hm.SelfAttention(),
        hm.configuration("gaussian", n=50),
    )
    x, attend = torch.randn(8, 64, 16), hm.hardmax_attention
    calls: dict[str, Callable[[], Any]] = {
        "limit": lambda: hm.limit(plane, rule),
        "simulate": lambda: hm.simulate(space, rule, layers=10),
        "attention": lambda: attend(x, x, x),
        "flow": lambda: hm.simulate(start, flow, times=[0, 1, 5]),
        "fit": lambda: classifier.fit(texts, labels),
    }
    with patch(
        "hardmax.search.dispatch.is_loaded", lambda kernel: True
    ):  # as after many calls
        return {name: files_of(call) for name, call in calls.items()}


if __name__ == "__main__":
    for name, files in walks().items():
        print(f"{name}, {len(files)} files: {', '.join(files)}")
