"""Studies: curves instead of ratios, each with its picture."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hardmax.bench import decided, scaling


@dataclass(frozen=True)
class Study:
    """What is measured, and the name of the function of `plots` that draws it."""

    title: str
    measure: Callable[..., dict[str, Any]]
    picture: str


STUDIES = {
    "scaling": Study("Seconds for one layer against n, for every kernel and FAISS", scaling.measure, "draw_scaling"),
    "decided": Study("Layers until all tokens are decided against n", decided.measure, "draw_decided"),
}
