"""Compiled code on the disk, for every process and every installation of the same source.

numba keeps it beside the source, which another environment does not have and a new installation throws away. The name
of a stored function tells the whole source that it was compiled from, so that what one installation has compiled is
right for all others. For which processor it is, numba writes into the file.
"""

from collections.abc import Callable
from typing import Any

from numba.core import caching

from hardmax.search.ready import store


class _Shared(caching._CacheLocator):
    """Tells numba where to look, and that what is there is up to date."""

    def get_cache_path(self) -> str:
        return str(store())

    def get_source_stamp(self) -> str:
        return "as the name says"

    def get_disambiguator(self) -> str:
        return "0"

    @classmethod
    def from_function(cls, function: Callable[..., object], file: str) -> "_Shared | None":
        found = cls()
        try:
            found.ensure_cache_path()
        except OSError:  # cannot be written to
            return None
        return found


class _Files(caching.CompileResultCacheImpl):
    _locator_classes: list[Any] = [_Shared, *caching.CompileResultCacheImpl._locator_classes]


class _Functions(caching.FunctionCache):
    _impl_class = _Files


def keep(compiled: Any) -> None:
    """Keep what is compiled of a function in the shared folder; where that cannot be, as numba does by itself.

    Raises RuntimeError where there is no folder to write to.
    """
    compiled._cache = _Functions(compiled.py_func)
