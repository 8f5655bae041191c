"""How the largest products are found. This is the one place that picks a method.

Every method has the signature and the meaning of `reference.near_maxima`: it may be faster, and must return the same
sets. Callers name no method; they read from `METHOD` which one ran.
"""

from hardmax.kernels.reference import near_maxima

METHOD = "numpy"

__all__ = ["METHOD", "near_maxima"]
