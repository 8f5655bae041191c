"""What a rule is: how tokens start, and thereby how they go on."""

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from hardmax._types import AnyArray

if TYPE_CHECKING:
    from hardmax.run import Run


class Rule(ABC):
    """One kind of layer. `simulate` asks it for a `Run` on each cloud and advances that layer by layer."""

    @abstractmethod
    def start(self, tokens: AnyArray) -> "Run":
        """Place checked tokens of shape (n, d) at layer 0."""
