"""Versions of other libraries whose private names this package uses; other versions get the documented, slower way."""

import re
from functools import cache
from importlib.metadata import PackageNotFoundError, version

TESTED_BELOW = {  # the first version that was not tested
    "numba": (0, 69),  # where compiled functions are stored, and what processor they are compiled for
    "torch": (2, 14),  # whether a transform of torch.func is active
}


@cache
def may_use_private(package: str) -> bool:
    """Return whether the installed version of a package is one whose private names were tested."""
    try:
        numbers = re.match(r"(\d+)\.(\d+)", version(package))
    except PackageNotFoundError:
        return False
    return numbers is not None and tuple(map(int, numbers.groups())) < TESTED_BELOW[package]
