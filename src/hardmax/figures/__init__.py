"""Figures of the papers, one file each: `compute()` gives the numbers, `draw(numbers)` the figure.

A figure's name on the command line is the part of its file's name before the first underscore. A figure that shows
tokens on their way has `movie_of(numbers)` too, the trajectory to play, and in `PLAYED` which of several that is. One
whose movie shows more than tokens has `scene(numbers)`, which draws itself.
"""

from types import ModuleType

from hardmax.figures import (
    accuracy_by_dimension,
    attention_rank,
    codimension_k,
    connections_leaders,
    coordinates_128,
    fig1_half_space,
    fig2_clusters,
    fig4_attracting_set,
    fig5_separation,
    hyperplanes_2d3d,
    leaders_histogram,
    losses_softmax_hardmax,
    phase_sphere,
    polytope_2d3d,
    product_polytope_subspace,
    reviews_evolution,
    spectra_heads,
    table1_leaders,
)

FIGURES: dict[str, ModuleType] = {
    module.__name__.rsplit(".", 1)[-1].split("_")[0]: module
    for module in (
        fig1_half_space,
        fig2_clusters,
        fig4_attracting_set,
        fig5_separation,
        accuracy_by_dimension,
        losses_softmax_hardmax,
        table1_leaders,
        reviews_evolution,
        leaders_histogram,
        polytope_2d3d,
        hyperplanes_2d3d,
        codimension_k,
        product_polytope_subspace,
        attention_rank,
        connections_leaders,
        coordinates_128,
        spectra_heads,
        phase_sphere,
    )
}
