"""Figures of the papers, one file per figure: `compute()` returns the data, `draw(data)` the Matplotlib figure.

A figure's name on the command line is the part of its file name before the first underscore.
"""

from importlib import import_module
from types import ModuleType

NAMES = (
    *("fig1_half_space", "fig2_clusters", "fig4_attracting_set", "fig5_separation"),  # arXiv 2407.01602
    *("accuracy_by_dimension", "losses_softmax_hardmax", "table1_leaders", "reviews_evolution", "leaders_histogram"),
    *("polytope_2d3d", "hyperplanes_2d3d", "codimension_k", "product_polytope_subspace"),  # arXiv 2305.05465
    *("attention_rank", "connections_leaders", "coordinates_128", "spectra_heads"),
    "phase_sphere",  # arXiv 2312.10794
)
FIGURES: dict[str, ModuleType] = {name.split("_")[0]: import_module(f"{__name__}.{name}") for name in NAMES}
