"""Figures of the papers: for each, one function computes the data and one draws the
Matplotlib figure.

Importing a module registers its figures in FIGURES, in the order of `hardmax reproduce
--list`.
"""

from importlib import import_module

from hardmax.figures.shared import FIGURES

__all__ = ["FIGURES"]

for _module in (
    "hardmax_rule",
    "imdb",
    "value_spectrum",
    "attention_in_time",
    "spectra_heads",
    "phase_sphere",
):
    import_module(f"{__name__}.{_module}")
