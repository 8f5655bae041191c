"""How one layer moves tokens. One rule a file; a rule is immutable and holds no tokens."""

from hardmax.rules.hardmax import Hardmax

__all__ = ["Hardmax"]
