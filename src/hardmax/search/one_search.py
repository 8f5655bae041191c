"""One search for a whole run of rules that ask for their sets themselves, so that the run can say what ran and why."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from hardmax.search.dispatch import Search

_shared: ContextVar[Search | None] = ContextVar("the search of a run", default=None)


@contextmanager
def one_search() -> Iterator[Search]:
    """A search that all layers inside ask, whichever rule they belong to."""
    search = Search()
    token = _shared.set(search)
    try:
        yield search
    finally:
        _shared.reset(token)


def the_search() -> Search:
    """That of the run, or, outside of one, a new search."""
    return _shared.get() or Search()
