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
    tokens: tuple[int, ...]  # those that conflict


def find(scene: Scene) -> Found:
    """The A of largest margin under which the tokens lead that shall."""
    if not scene.wanted:
        raise InputError("Some tokens must be asked to lead. None is. Select one, then press the button.")
    if scene.n > MOST_TOKENS:
        raise InputError(f"A is chosen for up to {MOST_TOKENS} tokens here. These are {scene.n:,}. Take fewer.")
    result = hm.control.choose_A(scene.tokens, leaders=list(scene.wanted))
    clashes = result.conflict[:MOST_CLASHES]
    tokens = {*result.cannot_lead, *(i for clash in clashes for i in (clash.token, clash.target, clash.rival))}
    return Found(result.status, result.A, tuple(map(str, clashes)), tuple(sorted(tokens)))
