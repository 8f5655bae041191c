"""What every state can do. To add an arithmetic: say how sets are chosen, how a layer is taken, and the error kept."""

from abc import ABC, abstractmethod
from fractions import Fraction

from hardmax._types import FloatArray, IntArray
from hardmax.classes import Classes
from hardmax.exact import History
from hardmax.sets import Sets


class State(ABC):
    """Distinct tokens at one layer. `history` holds exact positions; None where the arithmetic keeps none."""

    classes: Classes
    history: History | None
    layer: int
    exact_rows: int  # how many sets had to be compared in exact arithmetic

    @property
    @abstractmethod
    def tokens(self) -> FloatArray:
        """Positions, shape (m, d), in the units of the input."""

    @abstractmethod
    def choose(self, rows: IntArray) -> tuple[Sets, FloatArray]:
        """Return C_i for the given rows, and a lower bound of each one's gap to all others, for `radius`."""

    @abstractmethod
    def advance(self, sets: Sets, alpha: Fraction) -> None:
        """Move every class: z_i <- z_i + alpha/(1 + alpha) (c_i - z_i)."""

    @abstractmethod
    def sees(self, groups: list[IntArray]) -> list[bool]:
        """For each group: would a token at its centroid have the whole group among its maximisers?"""

    @abstractmethod
    def radius(self, gap: float) -> float:
        """How far each input row may move, in the units of the input, while all gaps of at least `gap` stay open."""
