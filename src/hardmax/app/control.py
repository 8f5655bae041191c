"""Choosing A in the playground: which A makes the wanted tokens lead, or why there is none."""

from dataclasses import dataclass

import hardmax as hm
from hardmax._errors import InputError
from hardmax._types import FloatArray
from hardmax.app.scene import Scene

MOST_TOKENS = 500  # for which a search takes a moment
MOST_CLASHES = 6


@dataclass(frozen=True)
class Found:
    """What the search says, the A if there is one, and tokens that conflict if not."""

    status: str
    A: FloatArray | None
    clashes: tuple[str, ...]


def find(scene: Scene, leaders: list[int]) -> Found:
    """The A of largest margin under which these tokens lead."""
    if not leaders:
        raise InputError("Some tokens must be asked to lead. None is. Select one, then press the button.")
    if scene.n > MOST_TOKENS:
        raise InputError(f"A is chosen for up to {MOST_TOKENS} tokens here. These are {scene.n:,}. Take fewer.")
    result = hm.control.choose_A(scene.tokens, leaders=leaders)
    return Found(result.status, result.A, tuple(map(str, result.conflict[:MOST_CLASHES])))
