"""Split texts into words, and find the offsets of words in their text."""

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, fields
from functools import cache, cached_property, lru_cache
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

from hardmax._errors import ParameterError, needed_for

Tokenizer = Callable[[str], list[str]]
Place = tuple[int, int]
LOOKAHEAD = 8  # following words that must not occur before a match
MARKUP = re.compile(r"<[A-Za-z/!][^<>]*>|&#?\w{1,31};")
PUNCTUATION = r"""!?.,;:()\""""
ASCII = {  # several times as fast as the pattern for all scripts
    True: re.compile(rf"[a-z0-9]+(?:'[a-z0-9]+)*|[{PUNCTUATION}]"),
    False: re.compile(r"[a-z0-9]+(?:'[a-z0-9]+)*"),
}
# Function words, which carry no sentiment. Negations ("not") and degrees ("very") are
# not among them.
ENGLISH = frozenset(
    Path(__file__).with_name("stop_words.txt").read_text(encoding="utf-8").split()
)
# Thai and Lao, Burmese, Khmer, Japanese and Chinese, which are written without spaces
# between words.
UNSPACED = "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"
MIN_UNSPACED, MAX_SPACED = (
    0.2,
    0.1,
)  # of a warning: share of these characters, and of those that a space follows
MAX_SAMPLE = 1000  # texts that are read for it
EMOJI = "\u2600-\u27bf\U0001f000-\U0001faff"


class Word(NamedTuple):
    """A word of a text and its offsets: `text[start:end]`, before lower-casing."""

    word: str
    start: int
    end: int


@dataclass(frozen=True)
class Splitter:
    """Split texts into words.

    HTML tags and character references are skipped, characters are lower-cased and
    composed (NFC), an emoji is one word, and words hold letters, digits and combining
    marks of any script, with apostrophes inside: "don't". A `tokenizer` replaces all of
    that. The fields are described in `Parameters`.
    """

    stop_words: str | Collection[str] | None = None
    lemmas: str | None = None
    max_words: int | None = None
    punctuation: bool = True
    tokenizer: Tokenizer | None = None

    def __post_init__(self) -> None:
        _ = self._stop_words  # raises for an unknown list
        if self.lemmas is not None:
            _lemma("test", self.lemmas)  # raises for a missing package or language
        if self.max_words is not None and self.max_words < 1:
            raise ParameterError(
                "max_words", "be at least 1, or None for all", self.max_words
            )
        if self.tokenizer is not None:
            check_tokenizer(self.tokenizer, "tokenizer")

    @classmethod
    def of(cls, parameters: Any) -> "Splitter":
        """Return the splitter of the parameters of a classifier."""
        return cls(
            **{each.name: getattr(parameters, each.name) for each in fields(cls)}
        )

    def words(self, text: str) -> list[str]:
        """Return the words of a text."""
        found = self._split(text)
        if self._stop_words or self.lemmas is not None:
            found = [
                word for word in map(self._normalise_word, found) if word is not None
            ]
        return found[: self.max_words]

    def spans(self, text: str) -> list[Word]:
        """Return the words of a text with their offsets."""
        pairs = (
            (self._normalise_word(span.word), span)
            for span in self._split_with_offsets(text)
        )
        return [
            Word(word, span.start, span.end) for word, span in pairs if word is not None
        ][: self.max_words]

    def _split(self, text: str) -> list[str]:
        if self.tokenizer is not None:
            return call_tokenizer(self.tokenizer, text)
        plain = MARKUP.sub(" ", text) if "<" in text or "&" in text else text
        if plain.isascii():
            return ASCII[self.punctuation].findall(plain.lower())
        found = _pattern(self.punctuation).findall(plain.replace("_", " "))
        return [word.lower() if word.isascii() else normalise(word) for word in found]

    def _split_with_offsets(self, text: str) -> list[Word]:
        if self.tokenizer is not None:
            words = call_tokenizer(self.tokenizer, text)
            return [
                Word(word, *place)
                for word, place in zip(words, find_offsets(words, text), strict=True)
            ]
        plain = MARKUP.sub(lambda tag: " " * len(tag[0]), text)
        if plain.isascii():
            return [
                Word(match[0], *match.span())
                for match in ASCII[self.punctuation].finditer(plain.lower())
            ]
        found = _pattern(self.punctuation).finditer(plain.replace("_", " "))
        return [Word(normalise(match[0]), *match.span()) for match in found]

    @cached_property
    def _stop_words(self) -> frozenset[str]:
        if self.stop_words is None:
            return frozenset()
        if isinstance(self.stop_words, str):
            if self.stop_words == "english":
                return ENGLISH
            raise ParameterError(
                "stop_words", 'be "english" or a list of words', f"{self.stop_words!r}"
            )
        return frozenset(
            self.stop_words
            if self.tokenizer is not None
            else map(normalise, self.stop_words)
        )

    def _normalise_word(self, word: str) -> str | None:
        """Return the word or its lemma; None for a stop word."""
        if word in self._stop_words:
            return None
        if self.lemmas is None:
            return word
        lemma = _lemma(word, self.lemmas)
        return None if lemma in self._stop_words else lemma


def unspaced_note(texts: Sequence[str]) -> str:
    """Return a sentence about texts in a script without spaces between words, or
    nothing.
    """
    sample = texts[:: -(-len(texts) // MAX_SAMPLE)]
    others = "\0".join(text for text in sample if not text.isascii())
    count = len(re.findall(UNSPACED, others))
    spaced = len(re.findall(rf"{UNSPACED}\s", others))
    if count < MIN_UNSPACED * sum(map(len, sample)) or spaced > MAX_SPACED * count:
        return ""
    return (
        "Many texts are in a script without spaces between words, and all characters"
        " between two spaces count as one word. Pass a `tokenizer` in Python, such as"
        " `tokenizer=list` for single characters, or put spaces between the words."
    )


def normalise(word: str) -> str:
    """Return the word lower-cased, composed, with one kind of apostrophe."""
    return unicodedata.normalize("NFC", word.lower()).replace("\u2019", "'")


@cache
def _pattern(punctuation: bool) -> re.Pattern[str]:
    """Return a pattern of words, emoji and punctuation for texts without "_"; `\\w` has
    no combining marks.
    """
    marks = [
        code
        for code in range(0x300, 0x11FFF)
        if unicodedata.category(chr(code))[0] == "M"
    ]
    runs = (
        list(run)
        for _, run in groupby(enumerate(marks), lambda pair: pair[1] - pair[0])
    )
    kept = [(run[0][1], run[-1][1]) for run in runs]
    ranges = "".join(
        f"{chr(first)}-{chr(last)}"
        for first, last in kept
        if not first <= 0xFE0F <= last
    )
    character = rf"[\w{ranges}]"
    single = EMOJI + PUNCTUATION if punctuation else EMOJI
    return re.compile(rf"{character}+(?:['\u2019]{character}+)*|[{single}]")


@lru_cache(maxsize=200_000)
def _lemma(word: str, language: str) -> str:
    with needed_for("`lemmas`", "simplemma", "text"):
        import simplemma
    try:
        lemma: str = simplemma.lemmatize(word, lang=language).lower()
    except ValueError:
        must = 'be a language that simplemma supports, such as "en" or "de"'
        raise ParameterError("lemmas", must, f"{language!r}") from None
    return lemma


def check_tokenizer(value: object, name: str) -> None:
    """Raise an error if the value cannot be called."""
    if not callable(value):
        raise ParameterError(
            name, "be a function from a text to a list of its words", repr(value)[:60]
        )


def call_tokenizer(tokenizer: Tokenizer, text: str) -> list[str]:
    """Return the words of a tokenizer; raise an error if they are not a list of
    strings.
    """
    words = tokenizer(text)
    must = "return a list of words, none of them empty"
    if not isinstance(words, list):
        raise ParameterError(
            "tokenizer",
            must,
            f"{type(words).__name__} for {text[:40]!r}",
            "Convert it with list.",
        )
    for i, word in enumerate(words):
        if not isinstance(word, str) or not word:
            got = (
                f"{type(word).__name__} {str(word)[:40]!r} at index {i} for"
                f" {text[:40]!r}"
            )
            raise ParameterError(
                "tokenizer", must, got, "Leave it out, or convert it with str."
            )
    return words


def full_name(tokenizer: Tokenizer) -> str:
    """Return the module and name of a function, or those of the class of a callable
    object.
    """
    named = tokenizer if hasattr(tokenizer, "__qualname__") else type(tokenizer)
    return ".".join(filter(None, (named.__module__, named.__qualname__)))


def find_offsets(words: Sequence[str], text: str) -> list[Place]:
    """Return the increasing offsets of words in a text, ignoring case if one is not
    found as it is.

    A word that does not occur, such as a lemma, gets an empty span at the end of the
    previous word.
    """
    places, at = [], 0
    for word in words:
        start = text.find(word, at)
        if start < 0:
            return _find_ignoring_case(words, text)
        at = start + len(word)
        places.append((start, at))
    return places


def _find_ignoring_case(words: Sequence[str], text: str) -> list[Place]:
    folded, keys = text.casefold(), [word.casefold() for word in words]
    origin = [
        i for i, each in enumerate(text) for _ in each.casefold()
    ]  # indices in `text`: ß becomes ss
    places, at = [], 0
    for k, key in enumerate(keys):
        start = folded.find(key, at)
        if start < 0 or _skips(folded[at:start], keys[k + 1 : k + 1 + LOOKAHEAD]):
            end = origin[at - 1] + 1 if at else 0
            places.append((end, end))
        else:
            last = origin[start + len(key) - 1]
            places.append((origin[start], last + 1))
            at = bisect_right(origin, last)
    return places


def _skips(between: str, later: Sequence[str]) -> bool:
    """Return whether later words occur in the skipped text: then the match is wrong,
    such as "be" in "better".
    """
    whole = set(
        re.findall(r"\w+", between)
    )  # "a" is not a word of "was"; scripts without spaces have no such edges
    return any(
        word in whole or (len(word) > 1 and not word.isascii() and word in between)
        for word in later
    )
