"""From text to words: the first thing a classifier does, and the last thing an explanation undoes."""

import re
import unicodedata
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from hardmax._errors import ParameterError, needed_for
from hardmax.text.tokenizers import Tokenizer, check_tokenizer, own_words, placed

MARKUP = re.compile(r"<[A-Za-z/!][^<>]*>|&#?\w{1,31};")
SIGNS = r"""!?.,;:()\""""
ASCII = {  # several times as fast as the pattern for all scripts
    True: re.compile(rf"[a-z0-9]+(?:'[a-z0-9]+)*|[{SIGNS}]"),
    False: re.compile(r"[a-z0-9]+(?:'[a-z0-9]+)*"),
}
# Function words, which say nothing of sentiment. Negations ("not") and degrees ("very") are not among them.
ENGLISH = frozenset(Path(__file__).with_name("stop_words.txt").read_text(encoding="utf-8").split())
# Thai and Lao, Burmese, Khmer, Japanese and Chinese, which are written without spaces between words.
UNSPACED = (
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"
)
MIN_UNSPACED, MAX_SPACED = 0.2, 0.1  # of a warning: share of these characters, and of those that a space follows
MAX_SAMPLE = 1000  # texts that are read for it
EMOJI = "\u2600-\u27bf\U0001f000-\U0001faff"


class Word(NamedTuple):
    """A word of a text and where it stands: `text[start:end]`, before lower-casing."""

    word: str
    start: int
    end: int


@dataclass(frozen=True)
class Splitter:
    """Split texts into words.

    Tags and character references of HTML are skipped, letters become lower-case and composed (NFC), an emoji is a word
    of its own, and words hold letters, digits and marks of any script, with apostrophes inside: "don't". A
    `tokenizer` splits in its own way instead, and its words are taken as they come.

    The fields are those of `ModelSettings`, which says what each is.

    Examples
    --------
    >>> Splitter().words("Don't miss it!<br />A <b>naïve</b> film 🙂")
    ["don't", 'miss', 'it', '!', 'a', 'naïve', 'film', '🙂']
    """

    stop_words: str | Collection[str] | None = None
    lemmas: str | None = None
    max_words: int | None = None
    punctuation: bool = True
    tokenizer: Tokenizer | None = None

    def __post_init__(self) -> None:
        _ = self._left_out  # an unknown list is said at once
        if self.lemmas is not None:
            _lemma("test", self.lemmas)  # a missing package or language is said at once
        if self.max_words is not None and self.max_words < 1:
            raise ParameterError("max_words", "be at least 1, or None for all", self.max_words)
        if self.tokenizer is not None:
            check_tokenizer(self.tokenizer, "tokenizer")

    def words(self, text: str) -> list[str]:
        found = self._split(text) if self.tokenizer is None else own_words(self.tokenizer, text)
        if self._left_out or self.lemmas is not None:
            found = [word for word in map(self._changed, found) if word is not None]
        return found[: self.max_words]

    def spans(self, text: str) -> list[Word]:
        found = self._split_where(text) if self.tokenizer is None else self._own_where(text, self.tokenizer)
        pairs = zip((self._changed(word) for word, _, _ in found), found, strict=True)
        return [Word(new, old.start, old.end) for new, old in pairs if new is not None][: self.max_words]

    @property
    def is_plain(self) -> bool:
        """Whether every word that is found is a word of the text."""
        return self.tokenizer is None and self.lemmas is None and not self._left_out

    def plain(self, text: str) -> str:
        """The text without markup."""
        return MARKUP.sub(" ", text) if "<" in text or "&" in text else text

    def _split(self, text: str) -> list[str]:
        plain = self.plain(text)
        if plain.isascii():
            return ASCII[self.punctuation].findall(plain.lower())
        found = _pattern(self.punctuation).findall(plain.replace("_", " "))
        return [word.lower() if word.isascii() else _normal(word) for word in found]

    def _split_where(self, text: str) -> list[Word]:
        plain = MARKUP.sub(lambda tag: " " * len(tag[0]), text)
        if plain.isascii():
            return [Word(match[0], *match.span()) for match in ASCII[self.punctuation].finditer(plain.lower())]
        found = _pattern(self.punctuation).finditer(plain.replace("_", " "))
        return [Word(_normal(match[0]), *match.span()) for match in found]

    def _own_where(self, text: str, tokenizer: Tokenizer) -> list[Word]:
        words = own_words(tokenizer, text)
        return [Word(word, *place) for word, place in zip(words, placed(words, text), strict=True)]

    @cached_property
    def _left_out(self) -> frozenset[str]:
        if self.stop_words is None or self.stop_words == "english":
            return frozenset() if self.stop_words is None else ENGLISH
        if isinstance(self.stop_words, str):
            raise ParameterError("stop_words", 'be "english" or a list of words', f"{self.stop_words!r}")
        return frozenset(self.stop_words if self.tokenizer is not None else map(_normal, self.stop_words))

    def _changed(self, word: str) -> str | None:
        """The word as it is counted; None if it is left out, itself or its lemma."""
        if word in self._left_out:
            return None
        if self.lemmas is None:
            return word
        lemma = _lemma(word, self.lemmas)
        return None if lemma in self._left_out else lemma


def unspaced_note(texts: Sequence[str]) -> str:
    """Return a sentence about texts in a script without spaces between words, or nothing."""
    sample = texts[:: -(-len(texts) // MAX_SAMPLE)]
    others = "\0".join(text for text in sample if not text.isascii())
    count = len(re.findall(UNSPACED, others))
    spaced = len(re.findall(rf"{UNSPACED}\s", others))
    if count < MIN_UNSPACED * sum(map(len, sample)) or spaced > MAX_SPACED * count:
        return ""
    return (
        "Many texts are in a script without spaces between words, and all characters between two spaces count as one "
        "word. Pass a `tokenizer` in Python, such as `tokenizer=list` for single characters, or put spaces between "
        "the words."
    )


def _normal(word: str) -> str:
    """Lower-case, composed, with one kind of apostrophe."""
    return unicodedata.normalize("NFC", word.lower()).replace("\u2019", "'")


@cache
def _pattern(punctuation: bool) -> re.Pattern[str]:
    """Words, emoji and signs of texts without "_". Combining marks are parts of words, which they are not for `re`."""
    marks = [code for code in range(0x300, 0x11FFF) if unicodedata.category(chr(code))[0] == "M"]
    runs = (list(run) for _, run in groupby(enumerate(marks), lambda pair: pair[1] - pair[0]))
    kept = [(run[0][1], run[-1][1]) for run in runs]
    ranges = "".join(f"{chr(first)}-{chr(last)}" for first, last in kept if not first <= 0xFE0F <= last)
    letter = rf"[\w{ranges}]"
    signs = SIGNS if punctuation else ""
    return re.compile(rf"{letter}+(?:['\u2019]{letter}+)*|[{EMOJI}{signs}]")


@lru_cache(maxsize=200_000)
def _lemma(word: str, language: str) -> str:
    with needed_for("`lemmas`", "simplemma", "text"):
        import simplemma
    try:
        lemma: str = simplemma.lemmatize(word, lang=language).lower()
    except ValueError:
        must = 'be a language that simplemma knows, such as "en" or "de"'
        raise ParameterError("lemmas", must, f"{language!r}") from None
    return lemma
