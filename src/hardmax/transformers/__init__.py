"""Trained transformers seen as the dynamics of the papers: spectra, attention, clusters and leaders by layer."""

from hardmax.transformers.inspect import inspect
from hardmax.transformers.result import Inspection
from hardmax.transformers.sentences import embed

__all__ = ["Inspection", "embed", "inspect"]
