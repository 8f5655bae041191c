"""Problems in the words of a page."""

import logging

from hardmax._errors import InputError, MissingExtra, ParameterError, keep_followable

LOGGER = logging.getLogger(__name__)
BUG = "This did not work, which is a bug of this page. Change something, or load the page again."


def in_words(problem: Exception) -> str:
    """A problem as a page says it: without advice to pass parameters, which a page has not, and without backticks."""
    if isinstance(problem, ParameterError):
        advice = keep_followable(problem.advice, lambda name, value: None)
        return f"{problem.problem} {advice}".rstrip().replace("`", "")
    if isinstance(problem, InputError | MissingExtra | OSError):
        return str(problem).replace("`", "")
    LOGGER.error("A bug of the app", exc_info=problem)
    return BUG
