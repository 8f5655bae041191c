"""Everything that touches Matplotlib, Plotly or HTML. Nothing here decides anything: it shows what was computed.

The public functions can be had from here, each loading what it needs when it is first asked for.
"""

from importlib import import_module
from typing import Any

PUBLIC = {
    "interactive": "pages",
    "movie": "movies",
    "plot_attention": "flows",
    "plot_connections": "flows",
    "plot_control": "control",
    "plot_flow": "flows",
    "plot_half_space": "tokens",
    "plot_inspection": "inspection",
    "plot_layers": "tokens",
    "plot_limit": "tokens",
    "plot_spectra": "inspection",
    "plot_times": "flows",
    "plot_tokens": "tokens",
    "trajectory_page": "report",
}
__all__ = list(PUBLIC)


def __getattr__(name: str) -> Any:
    if name in PUBLIC:
        return getattr(import_module(f"hardmax.draw.{PUBLIC[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
