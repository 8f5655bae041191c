"""A tokenizer of one's own: what it returns is checked, and its words are looked for in the text they come from."""

import re
from bisect import bisect_right
from collections.abc import Callable, Sequence

from hardmax._errors import ParameterError

Tokenizer = Callable[[str], list[str]]
Place = tuple[int, int]
AHEAD = 8  # words behind one that must not stand before it


def check_tokenizer(value: object, name: str) -> None:
    """Refuse what cannot be called."""
    if not callable(value):
        raise ParameterError(name, "be a function from a text to a list of its words", repr(value)[:60])


def own_words(tokenizer: Tokenizer, text: str) -> list[str]:
    """What a tokenizer makes of a text, or a sentence about what came instead."""
    words = tokenizer(text)
    must = "return a list of words, none of them empty"
    if not isinstance(words, list):
        raise ParameterError("tokenizer", must, f"{type(words).__name__} for {text[:40]!r}", "Convert it with list.")
    for i, word in enumerate(words):
        if not isinstance(word, str) or not word:
            got = f"{type(word).__name__} {str(word)[:40]!r} at place {i} for {text[:40]!r}"
            raise ParameterError("tokenizer", must, got, "Leave it out, or convert it with str.")
    return words


def full_name(tokenizer: Tokenizer) -> str:
    """The module and the name of a function, for people; of an object that can be called those of its class."""
    named = tokenizer if hasattr(tokenizer, "__qualname__") else type(tokenizer)
    return ".".join(filter(None, (named.__module__, named.__qualname__)))


def placed(words: Sequence[str], text: str) -> list[Place]:
    """Where each word stands, `text[start:end]`, one behind the other.

    They are looked for as they are, and if that fails for one, all of them without regard to case. A word that does not
    stand in the text, a lemma say, gets an empty place where the word before it ends.
    """
    places, at = [], 0
    for word in words:
        start = text.find(word, at)
        if start < 0:
            return _placed_in_any_case(words, text)
        at = start + len(word)
        places.append((start, at))
    return places


def _placed_in_any_case(words: Sequence[str], text: str) -> list[Place]:
    folded, keys = text.casefold(), [word.casefold() for word in words]
    letter = [i for i, each in enumerate(text) for _ in each.casefold()]  # that each of `folded` comes from: ß is ss
    places, at = [], 0
    for k, key in enumerate(keys):
        start = folded.find(key, at)
        if start < 0 or _skips(folded[at:start], keys[k + 1 : k + 1 + AHEAD]):
            end = letter[at - 1] + 1 if at else 0
            places.append((end, end))
        else:
            last = letter[start + len(key) - 1]
            places.append((letter[start], last + 1))
            at = bisect_right(letter, last)
    return places


def _skips(between: str, later: Sequence[str]) -> bool:
    """Whether later words stand in what would be skipped: then the word was found by chance, as "be" in "better"."""
    whole = set(re.findall(r"\w+", between))  # "a" does not stand in "was"; scripts without spaces have no such edges
    return any(word in whole or (len(word) > 1 and not word.isascii() and word in between) for word in later)
