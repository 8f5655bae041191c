"""Trained transformers: weights, attention, hidden states and leaders by layer, and
sentence embeddings.
"""

from hardmax.transformers.embedding import embed
from hardmax.transformers.inspection import Inspection, inspect

__all__ = ["Inspection", "embed", "inspect"]
