"""Overlays that are asked for and have nothing to show: which, and what they are for."""

from collections.abc import Container

from hardmax.app.scene import Scene

MOST_MATRIX = 80  # tokens whose attention is shown as a matrix
MOST_NUMBERS = 200  # tokens whose numbers are written beside them
MOST_HULLS = 2000  # tokens whose hulls are drawn
NEEDS = {  # an overlay, under which name an answer holds it, and what must be
    "hulls": ("hulls", f"hulls are those of 2 to 16 dimensions and up to {MOST_HULLS:,} tokens"),
    "limit": ("limit", "where each token ends is known for hardmax, of 1 or 2 dimensions, not causal"),
    "half-space": ("normals", "the half-space is that of a selected token under hardmax in the plane"),
    "cells": ("cells", "cells are those of hardmax in the plane"),
    "ellipse": ("ellipse", "the ellipse is that of a positive definite A in the plane"),
    "attention": ("attention", f"the attention matrix is that of up to {MOST_MATRIX} tokens"),
}


def unshown(scene: Scene, held: Container[str]) -> str:
    """What cannot be shown of a scene, where an answer holds so much; nothing where it shows all."""
    said = [why for name, (key, why) in NEEDS.items() if name in scene.overlays and key not in held]
    if "numbers" in scene.overlays and scene.n > MOST_NUMBERS:
        said.append(f"numbers are those of up to {MOST_NUMBERS} tokens")
    return f"Not shown: {'; '.join(said)}." if said else ""
