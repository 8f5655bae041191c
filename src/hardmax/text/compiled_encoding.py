"""Texts to tokens in one compiled pass over their bytes: the same as `Vocabulary.encode_words` of split texts.

Words are found in a hash table by their bytes, runs of words in another by their numbers. Only ASCII is split here, by
the pattern of `text.ASCII`; the words of other texts come split.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numba import njit

from hardmax._types import AnyArray, BoolArray, IntArray
from hardmax.search.threads import entry
from hardmax.text.text import ASCII

NOTHING = -1
SPACE, APOSTROPHE, CAPITAL = ord(" "), ord("'"), ord("a") - ord("A")
LETTER, SIGN = 1, 2
KINDS = np.zeros(256, np.uint8)  # of bytes
KINDS[[code for code in range(128) if ASCII[True].match(chr(code).lower())]] = SIGN
KINDS[[code for code in range(128) if chr(code).isalnum()]] = LETTER
ODD = np.uint64(0x9E3779B97F4A7C15)  # 2^64 over the golden ratio: its products spread over all bits


class Table(NamedTuple):
    """What a vocabulary knows, in hash tables with open addresses."""

    letters: AnyArray  # bytes of all words
    ends: IntArray  # (words + 1,) where they start and end
    words: IntArray  # numbers of words at their addresses
    singles: IntArray  # (words,) tokens of one word
    keys: IntArray  # of tokens of several words, at their addresses
    tokens: IntArray


class Options(NamedTuple):
    """How texts become tokens; see `ModelSettings`."""

    signs: bool  # whether they are words
    most: int  # words of a text
    longest: int  # words of a token
    distinct: bool


def table_of(words: Sequence[str], runs: IntArray) -> Table | None:
    """A table of words, and of the runs of them, as in `Vocabulary`; None where runs are too many to number."""
    if (len(words) + 1) ** runs.shape[1] >= 2**63:
        return None
    spelled = [word.encode() for word in words]
    letters = np.frombuffer(b"".join(spelled), np.uint8)
    ends = np.cumsum([0, *map(len, spelled)])
    singles, long = np.full(len(words), NOTHING), runs[:, 1:].max(axis=1, initial=NOTHING) != NOTHING
    singles[runs[~long, 0]] = np.flatnonzero(~long)
    places, numbers = (np.full(_room_for(count), NOTHING) for count in (len(words), int(long.sum())))
    table = Table(letters, ends, places, singles, numbers, np.empty_like(numbers))
    _fill(table, np.flatnonzero(long), runs)
    return table


def _room_for(count: int) -> int:
    return 1 << (2 * count + 1).bit_length()


@njit(inline="always")
def _mixed(value: np.uint64, mask: int) -> np.int64:
    """An address for a key."""
    spread = value * ODD
    return np.int64((spread ^ (spread >> np.uint64(32))) & np.uint64(mask))


@njit(inline="always")
def _small(letter: int) -> int:
    return letter + CAPITAL if 65 <= letter <= 90 else letter


@njit
def _address(text: AnyArray, start: int, end: int, table: Table) -> np.int64:
    """Where a word stands among the words, or the empty place where it would."""
    total, mask = np.uint64(end - start), len(table.words) - 1
    for i in range(start, end):
        total = (total ^ np.uint64(_small(text[i]))) * np.uint64(0x100000001B3)  # by Fowler, Noll and Vo
    at = _mixed(total, mask)
    while table.words[at] != NOTHING:
        word = table.words[at]
        first = table.ends[word]
        if table.ends[word + 1] - first == end - start:
            i = 0
            while i < end - start and table.letters[first + i] == _small(text[start + i]):
                i += 1
            if i == end - start:
                return at
        at = (at + 1) & mask
    return at


@njit(inline="always")
def _address_of_key(key: int, keys: IntArray) -> np.int64:
    """Where a key stands among the keys, or the empty place where it would."""
    mask = len(keys) - 1
    at = _mixed(np.uint64(key), mask)
    while keys[at] != NOTHING and keys[at] != key:
        at = (at + 1) & mask
    return at


@entry()
def _fill(table: Table, long: IntArray, runs: IntArray) -> None:
    base = len(table.singles) + 1
    for word in range(base - 1):
        table.words[_address(table.letters, table.ends[word], table.ends[word + 1], table)] = word
    for token in long:
        key = 0
        for word in runs[token]:
            key = key * base + word + 1 if word != NOTHING else key
        at = _address_of_key(key, table.keys)
        table.keys[at], table.tokens[at] = key, token


@njit(inline="always")
def _next_word(text: AnyArray, at: int, end: int, split: bool, signs: bool, kinds: AnyArray) -> tuple[int, int]:
    """Start and end of the first word from `at` on; both are `end` where there is none."""
    if split:
        while at < end and text[at] == SPACE:
            at += 1
        start = at
        while at < end and text[at] != SPACE:
            at += 1
        return start, at
    while at < end and kinds[text[at]] != LETTER and not (signs and kinds[text[at]] == SIGN):
        at += 1
    start = at
    if at < end and kinds[text[at]] == SIGN:
        return start, at + 1
    while at < end and (
        kinds[text[at]] == LETTER
        or (text[at] == APOSTROPHE and at > start and at + 1 < end and kinds[text[at + 1]] == LETTER)
    ):
        at += 1
    return start, at


@entry()
def _encode(
    text: AnyArray,
    ends: IntArray,
    split: BoolArray,
    kinds: AnyArray,
    table: Table,
    options: Options,
    ids: IntArray,
    counts: IntArray,
    starts: IntArray,
) -> None:
    """Write tokens and counts of texts that end at `ends`; those that are `split` have spaces between words."""
    signs, most, longest, distinct = options
    base, used = len(table.singles) + 1, 0
    place, row = np.full(base - 1 + len(table.keys), NOTHING), np.empty(len(text) + longest, np.int64)
    here = np.empty(longest, np.int64)
    for t in range(len(split)):
        first, n, at, end = used, 0, ends[t], ends[t + 1]
        while n < most:
            start, at = _next_word(text, at, end, split[t], signs, kinds)
            if start == at:
                break
            row[n] = table.words[_address(text, start, at, table)]
            n += 1
        for i in range(n):
            key = found = 0
            for k in range(min(longest, n - i)):
                word = row[i + k]
                if word == NOTHING:
                    break
                key = key * base + word + 1
                token = table.singles[word]
                if k > 0:
                    there = _address_of_key(key, table.keys)
                    token = table.tokens[there] if table.keys[there] == key else NOTHING
                if token != NOTHING:
                    j = found  # in the order of their numbers
                    while j > 0 and here[j - 1] > token:
                        here[j] = here[j - 1]
                        j -= 1
                    here[j] = token
                    found += 1
            for j in range(found):
                token = here[j]
                old = place[token]
                if old >= first and ids[old] == token:
                    counts[old] += 0 if distinct else 1
                else:
                    place[token], ids[used], counts[used] = used, token, 1
                    used += 1
        starts[t + 1] = used


def encode(
    texts: Sequence[bytes], split: Sequence[bool], table: Table, options: Options
) -> tuple[IntArray, IntArray, IntArray]:
    """Tokens, where texts start, and how often each counts, as in `Encoded`.

    `texts` are ASCII without markup, or words with spaces between where they are `split` already.
    """
    ends = np.cumsum([0, *map(len, texts)])
    room = ends[-1] * options.longest  # of which few pages are touched
    ids, counts, starts = np.empty(room, np.int64), np.empty(room, np.int64), np.zeros(len(texts) + 1, np.int64)
    text = np.frombuffer(b"".join(texts), np.uint8)
    _encode(text, ends, np.array(split, bool), KINDS, table, options, ids, counts, starts)
    used = starts[-1]
    return ids[:used].copy(), starts, counts[:used].copy()
