"""Trained transformers seen as the dynamics of the papers: spectra, attention, clusters and leaders by layer."""

from hardmax.inspection.inspect import inspect
from hardmax.inspection.result import Inspection
from hardmax.inspection.sentences import embed

__all__ = ["Inspection", "embed", "inspect"]
