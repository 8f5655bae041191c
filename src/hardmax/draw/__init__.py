"""Everything that uses Matplotlib or HTML: pictures, movies and pages of computed
results.

The public functions are imported lazily, at first access.
"""

from importlib import import_module
from typing import Any

MODULES = {
    "control": ["plot_control"],
    "flows": ["plot_attention"],
    "transformers": ["plot_inspection"],
    "movies": ["Movie", "movie"],
    "pages": ["Page", "interactive"],
    "projection": ["Projection"],
    "sweeps": ["plot_sweep"],
    "tokens": ["Palette", "plot_layers", "plot_limit", "plot_tokens"],
}
PUBLIC = {name: module for module, names in MODULES.items() for name in names}
__all__ = sorted(PUBLIC)


def __getattr__(name: str) -> Any:
    if name in PUBLIC:
        return getattr(import_module(f"hardmax.draw.{PUBLIC[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
