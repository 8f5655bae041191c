"""Results of a batch one by one, each made when it is first asked for."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import TypeVar, overload

Result = TypeVar("Result")


class OnDemand(Sequence[Result]):
    """A sequence whose members `_make` makes, each once; those in `_made` are there already."""

    _made: dict[int, Result]

    @abstractmethod
    def _make(self, b: int) -> Result:
        """Member b."""

    @overload
    def __getitem__(self, b: int) -> Result: ...

    @overload
    def __getitem__(self, b: slice) -> Sequence[Result]: ...

    def __getitem__(self, b: int | slice) -> Result | Sequence[Result]:
        if isinstance(b, slice):
            return [self[each] for each in range(len(self))[b]]
        b = range(len(self))[b]  # negative ones count from the last, and others are refused
        if b not in self._made:
            self._made[b] = self._make(b)
        return self._made[b]
