"""Messages of problems for a page or a command."""

import logging
import re
import reprlib
from collections.abc import Callable

from hardmax._errors import InputError, MissingExtra, ParameterError

# Returns the spelling of a parameter with this name and value in an interface; None if
# it has none.
Spell = Callable[[str, str | None], str | None]

MENTION = re.compile(r"`(?:([A-Za-z_]\w*)(?:=([^`]*))?|[^`]*)`")  # a parameter, or code
BETWEEN_SENTENCES = re.compile(r"(?<=\.) (?=[A-Z`])")
LOGGER = logging.getLogger(__name__)
BUG = (
    "This failed because of a bug in the app. Change the input, or load the page again."
)


def describe_value(value: object) -> str:
    """Return the beginning of an invalid value, which may be long or deeply nested."""
    return reprlib.repr(value)[:60]


def describe_problem(problem: Exception) -> str:
    """Return the message of a problem for a page: without advice on parameters of
    Python, and without backticks.
    """
    if isinstance(problem, ParameterError):
        advice = keep_followable(problem.advice, lambda name, value: None)
        return f"{problem.problem} {advice}".rstrip().replace("`", "")
    if isinstance(problem, InputError | MissingExtra | OSError):
        return str(problem).replace("`", "")
    LOGGER.error("Bug in the app", exc_info=problem)
    return BUG


def spell_problem(problem: Exception, spell: Spell) -> str:
    """Return the sentence of a problem as `spell` writes parameters, without advice on
    those that it has not.
    """
    if isinstance(problem, ParameterError):
        return (
            f"{respell(problem.problem, spell)}"
            f" {keep_followable(problem.advice, spell)}".rstrip()
        )
    return respell(str(problem), spell)


def respell(text: str, spell: Spell) -> str:
    """Return a text with every mention of a parameter as `spell` writes it; others
    stay.
    """
    return MENTION.sub(lambda mention: _spelled(mention, spell) or mention[0], text)


def keep_followable(text: str, spell: Spell) -> str:
    """Return the sentences of a text in which `spell` writes every mention."""
    sentences = BETWEEN_SENTENCES.split(text)
    kept = [
        one
        for one in sentences
        if all(_spelled(mention, spell) for mention in MENTION.finditer(one))
    ]
    return respell(" ".join(kept), spell)


def _spelled(mention: re.Match[str], spell: Spell) -> str | None:
    return spell(mention[1], mention[2]) if mention[1] else None
