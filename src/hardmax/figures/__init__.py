"""Figures of the papers, one file each: `compute()` gives the numbers, `draw(numbers)` the figure.

A figure's name on the command line is the part of its file's name before the first underscore.
"""

from types import ModuleType

from hardmax.figures import fig1_half_space, fig2_clusters, fig4_attracting_set, fig5_separation

FIGURES: dict[str, ModuleType] = {
    module.__name__.rsplit(".", 1)[-1].split("_")[0]: module
    for module in (fig1_half_space, fig2_clusters, fig4_attracting_set, fig5_separation)
}
