"""Errors that a person is meant to read: what must hold, what came, what to do.

Everything else that is raised is a bug. A text mentions parameters in backticks, `alpha` or `any_A=True`, so that each
surface can spell them as its users write them: `--alpha` and `--any-A` on the command line.
"""

import re
from collections.abc import Callable, Sequence
from os import PathLike

MENTION = re.compile(r"`([A-Za-z_]\w*)(?:=([^`]*))?`")


class InputError(ValueError):
    """Input without a meaning, in a sentence."""

    def spelled(self, spell: Callable[[str, str | None], str]) -> str:
        """The sentence with every mention of a parameter, and the value it shall have if any, spelled by a function."""
        return respelled(str(self), spell)


class ParameterError(InputError):
    """A parameter without a meaning.

    Attributes
    ----------
    names : tuple of str
        The parameter or file, or parameters that do not go together.
    must, got, advice : str
        What must hold, what came, and what to do.

    Examples
    --------
    >>> raise ParameterError("alpha", "be positive", "-1", "A step of 0.5 is usual.")
    Traceback (most recent call last):
    hardmax.ParameterError: `alpha` must be positive. Got -1. A step of 0.5 is usual.
    """

    def __init__(self, name: str | PathLike[str] | Sequence[str], must: str, got: object, advice: str = "") -> None:
        self.names = (str(name),) if isinstance(name, str | PathLike) else tuple(name)
        self.must, self.got, self.advice = must, str(got), advice
        super().__init__(name, must, got, advice)  # so that pickling, which worker processes need, finds them again

    def __str__(self) -> str:
        named = " and ".join(f"`{name}`" for name in self.names)
        return f"{named} must {self.must}. Got {self.got}. {self.advice}".rstrip()


class ParameterTypeError(ParameterError, TypeError):
    """A parameter of a kind without a meaning."""


class ParameterIndexError(ParameterError, IndexError):
    """An index that nothing has."""


class MissingExtra(ImportError):
    """A package that is optional and not installed."""

    def __init__(self, what: str, package: str, extra: str) -> None:
        super().__init__(f"{what} needs {package}: pip install 'hardmax[{extra}]'.", name=package)


def respelled(sentence: str, spell: Callable[[str, str | None], str]) -> str:
    """A sentence with every mention of a parameter spelled by a function of its name and value."""
    return MENTION.sub(lambda mention: spell(mention[1], mention[2]), sentence)


for _error in (InputError, ParameterError, ParameterTypeError, ParameterIndexError, MissingExtra):
    _error.__module__ = "hardmax"  # where people import them from, and what a traceback shows
