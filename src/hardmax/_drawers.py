"""Who draws results. Rooms below `draw` ask here by name; the package, which knows all rooms, says who it is.

So a trajectory has a method `plot` and a card for notebooks, and imports go downwards all the same.
"""

from collections.abc import Callable
from typing import Any

_drawers: dict[str, Callable[..., Any]] = {}


def register(**drawers: Callable[..., Any]) -> None:
    """Say what draws; each loads Matplotlib or templates when it is first called."""
    _drawers.update(drawers)


def draw(name: str, *results: Any, **options: Any) -> Any:
    """What the drawer of that name makes of results."""
    return _drawers[name](*results, **options)
