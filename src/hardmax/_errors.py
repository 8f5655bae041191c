"""Errors for users: what must hold, what was given, what to do.

Any other exception is a bug. Texts mention parameters in backticks, `alpha` or
`any_A=True`, so that each interface can spell them as its users write them
(`app/problems.py`): `--alpha` and `--any-A` on the command line.
"""

import shlex
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from os import PathLike
from pathlib import Path


class InputError(ValueError):
    """Invalid input. It is a `ValueError`, and the base class of the other errors
    except `MissingExtra`.

    Examples
    --------
    >>> import hardmax as hm
    >>> try:
    ...     hm.simulate([[1.0, 2.0]], hm.Hardmax(alpha=-1), layers=3)
    ... except hm.InputError as error:
    ...     print(error)
    `alpha` must be a positive finite number, or a sequence of such, one per layer. Got -1. Typical values lie between
    0.1 and 5.
    """


class ParameterError(InputError):
    """An invalid parameter.

    Parameters
    ----------
    name : str, path or sequence of str
        The parameter or file, or parameters that do not go together.
    must : str
        What must hold, as it follows the word "must".
    got : object
        What was given.
    advice : str
        What to do; may be empty.

    Attributes
    ----------
    names : tuple of str
        `name`, as a tuple.
    must, got, advice : str
        What must hold, what was given, and what to do.

    Examples
    --------
    >>> raise ParameterError("alpha", "be positive", "-1", "A step of 0.5 is usual.")
    Traceback (most recent call last):
    hardmax.ParameterError: `alpha` must be positive. Got -1. A step of 0.5 is usual.
    """

    def __init__(
        self,
        name: str | PathLike[str] | Sequence[str],
        must: str,
        got: object,
        advice: str = "",
    ) -> None:
        self.names = (str(name),) if isinstance(name, str | PathLike) else tuple(name)
        try:
            text = str(got)
        except ValueError:  # Python prints integers of at most 4,300 digits
            text = "a number of too many digits to print"
        self.must, self.got, self.advice = must, " ".join(text.split()), advice
        super().__init__(
            name, must, got, advice
        )  # so that pickling, which worker processes need, finds them again

    @property
    def problem(self) -> str:
        """What must hold and what was given, without the advice."""
        named = " and ".join(f"`{name}`" for name in self.names)
        return f"{named} must {self.must}. Got {self.got}."

    def __str__(self) -> str:
        return f"{self.problem} {self.advice}".rstrip()


class ParameterTypeError(ParameterError, TypeError):
    """A parameter of an invalid type: a `ParameterError` that is a `TypeError`, too.

    Examples
    --------
    >>> import hardmax as hm
    >>> hm.simulate([[1.0, 2.0]], "hardmax", layers=3)
    Traceback (most recent call last):
    hardmax.ParameterTypeError: `rule` must be a rule such as hm.Hardmax(alpha=0.5). Got str.
    """


class ParameterIndexError(ParameterError, IndexError):
    """An index out of range: a `ParameterError` that is an `IndexError`, too.

    Examples
    --------
    >>> import hardmax as hm
    >>> hm.simulate([[1.0, 2.0]], hm.Hardmax(0.5), layers=3).attention(7)
    Traceback (most recent call last):
    hardmax.ParameterIndexError: `k` must be a saved layer: layers 0 to 3. Got 7. Simulate more layers.
    """


class MissingExtra(ImportError):
    """A missing optional package: an `ImportError` that says how to install it.

    Parameters
    ----------
    what : str
        What needs the package.
    package : str
        The package.
    extra : str
        The extra of hardmax that brings it.

    Examples
    --------
    >>> raise MissingExtra("`hardmax.control`", "CVXPY", "control")
    Traceback (most recent call last):
    hardmax.MissingExtra: `hardmax.control` needs CVXPY: pip install ...
    """

    def __init__(self, what: str, package: str, extra: str) -> None:
        super().__init__(what, package, extra, name=package)

    def __str__(self) -> str:
        what, package, extra = self.args
        return f"{what} needs {package}: {install_command(extra)}."


def install_command(extra: str) -> str:
    """Return the pip command that installs an extra from the source tree.

    The name hardmax is on no package index: `pip install hardmax[...]` finds nothing,
    or a package that another author registered there.
    """
    root = Path(__file__).parents[2]
    if (root / "pyproject.toml").is_file():  # this file is in a clone
        return f"pip install -e {shlex.quote(f'{root}[{extra}]')}"
    return f"pip install '.[{extra}]' in a clone of the repository"


@contextmanager
def needed_for(what: str, package: str | None, extra: str) -> Iterator[None]:
    """Turn an ImportError in the block into a `MissingExtra` that names the package."""
    try:
        yield
    except ImportError as error:
        missing = (error.name or "").split(".")[0]
        if missing == "hardmax":
            raise
        raise MissingExtra(what, package or missing, extra) from error


def did_you_mean(
    word: str, names: Iterable[str], otherwise: str = "Check the spelling."
) -> str:
    """Return advice on an unknown name: the nearest one, if one is near."""
    known = {name.casefold(): name for name in names}
    near = get_close_matches(word.casefold(), known, n=1)
    return f"Did you mean {known[near[0]]!r}?" if near else otherwise


for _error in (
    InputError,
    ParameterError,
    ParameterTypeError,
    ParameterIndexError,
    MissingExtra,
):
    _error.__module__ = (  # where people import them from, and what a traceback shows
        "hardmax"
    )
