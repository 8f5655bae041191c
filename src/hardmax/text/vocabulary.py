"""Tokens of a classifier: words, and runs of two or more words, each with a number."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from itertools import chain, repeat
from typing import NamedTuple

import numpy as np

from hardmax._errors import ParameterError
from hardmax._types import FloatArray, IntArray
from hardmax.text.parameters import Parameters
from hardmax.text.tokenizer import Splitter

UNKNOWN = -1
DEFAULT_NGRAMS, DEFAULT_MIN_DF = (1, 3), 1
FREQUENT_SHARE = 10  # at least one in 10 tokens is a frequent word


class Encoded(NamedTuple):
    """Distinct tokens of many texts, one text after another: those of text t are `ids[starts[t]:starts[t + 1]]`."""

    ids: IntArray  # (m,) in the order in which a text first has them
    starts: IntArray  # (texts + 1,)
    counts: IntArray  # (m,) how often a token counts in its text

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def sizes(self) -> IntArray:
        return np.diff(self.starts)

    def take(self, texts: IntArray) -> "Encoded":
        places = self.places(texts)
        return Encoded(self.ids[places], np.concatenate([[0], np.cumsum(self.sizes[texts])]), self.counts[places])

    def places(self, texts: IntArray) -> IntArray:
        sizes = self.sizes[texts]
        before = np.cumsum(sizes) - sizes
        return np.repeat(self.starts[:-1][texts] - before, sizes) + np.arange(sizes.sum())

    def padded(self) -> tuple[IntArray, IntArray]:
        """(texts, max_ngram) token numbers, and how often each counts: 0 behind the end of a text.

        There its first token is repeated: zeros would tie with everything.
        """
        sizes = self.sizes
        real = np.arange(max(1, sizes.max(initial=0))) < sizes[:, None]
        ids, counts = np.zeros(real.shape, np.int64), np.zeros(real.shape, np.int64)
        ids[real], counts[real] = self.ids, self.counts
        return np.where(real, ids, ids[:, :1]), counts


class Data(NamedTuple):
    """Texts as tokens, their classes as numbers from 0, and what each counts for in the loss."""

    texts: Encoded
    labels: IntArray
    weights: FloatArray | None = None  # None is 1 for each
    groups: IntArray | None = None  # rows that every split keeps together; None is a group for each


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """Numbers of the tokens that a classifier knows."""

    splitter: Splitter
    words: tuple[str, ...]  # that tokens are made of
    ngrams: IntArray  # (tokens, max_ngram) word indices of each token; -1 fills up shorter n-grams
    distinct: bool = True  # whether a token that occurs several times in a text counts once

    def __len__(self) -> int:
        return len(self.ngrams)

    @classmethod
    def build(cls, texts: Iterable[str], parameters: Parameters, labels: IntArray | None = None) -> "Vocabulary":
        """Tokens of as many words as `ngram_range` says that occur in at least `min_df` texts.

        Of more than `max_features` those are kept that tell most of the labels, or the most frequent ones without them.
        A tenth of the places is for the most frequent words: a classifier that does not know "good" surprises people.
        """
        splitter = Splitter(**{each.name: getattr(parameters, each.name) for each in fields(Splitter)})
        (shortest, max_ngram), most = parameters.ngram_range or DEFAULT_NGRAMS, parameters.max_features
        labels = labels if parameters.select == "discriminative" else None
        documents = [splitter.words(text) for text in texts]
        counts = Counter(chain.from_iterable(map(set, documents)))
        least = parameters.min_df or DEFAULT_MIN_DF
        words = sorted((w for w, count in counts.items() if count >= least), key=lambda w: (-counts[w], w))
        stream, owner = _stream(documents, dict(zip(words, range(len(words)), strict=True)))
        if len(words) ** max_ngram >= 2**62:
            must, got = f"be smaller for a vocabulary of {len(words):,} words", f"runs of {max_ngram} words"
            raise ParameterError("ngram_range", must, f"{got}, too many to number", "Use 1, 3, or raise `min_df`.")
        runs, frequency = count_ngrams(stream, owner, len(words), parameters, labels)
        if most is not None and len(runs) > most:
            value = frequency.sum(axis=1).astype(np.float64) if labels is None else discriminative_scores(frequency)
            if shortest == 1:  # the most frequent words come first in runs
                value[: min(len(words), most // FREQUENT_SHARE)] = np.inf
            runs = runs[np.sort(np.argsort(-value, kind="stable")[:most])]
        used = np.unique(runs[runs != UNKNOWN])
        runs = np.where(runs == UNKNOWN, UNKNOWN, np.searchsorted(used, runs))
        return cls(splitter, tuple(words[w] for w in used), runs, parameters.distinct)

    @property
    def max_ngram(self) -> int:
        return self.ngrams.shape[1]

    def name(self, token: int) -> str:
        """The token as text: a word, or words with spaces between."""
        return self.names(np.array([token]))[0]

    def names(self, tokens: IntArray) -> list[str]:
        """Tokens as text."""
        return [" ".join([self.words[w] for w in run if w != UNKNOWN]) for run in self.ngrams[tokens].tolist()]

    def encode(self, texts: Sequence[str]) -> Encoded:
        """Return the tokens of texts."""
        return self.encode_words(map(self.splitter.words, texts), len(texts))

    def encode_words(self, documents: Iterable[Sequence[str]], count: int) -> Encoded:
        """As `encode`, of texts that are split already. A word that is not known, "" say, ends all runs."""
        stream, owner = _stream(documents, self._numbers)
        _, places, tokens = zip(*self._occurrences(stream), strict=True)
        at, ids = np.concatenate(places), np.concatenate(tokens)
        _, first, counts = np.unique(owner[at] * len(self) + ids, return_index=True, return_counts=True)
        order = np.argsort(at[first], kind="stable")
        first, counts = first[order], np.ones_like(order) if self.distinct else counts[order]
        sizes = np.bincount(owner[at[first]], minlength=count)
        return Encoded(ids[first], np.concatenate([[0], np.cumsum(sizes)]), counts)

    def occurrences(self, words: Sequence[str]) -> Iterator[tuple[int, IntArray, IntArray]]:
        """For each number of words the first word of every known token in a split text, and the tokens."""
        return self._occurrences(_stream([words], self._numbers)[0])

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return dict(zip(self.words, range(len(self.words)), strict=True))

    @cached_property
    def _tables(self) -> dict[int, tuple[IntArray, IntArray]]:
        """For each length the keys of tokens in order, then one that no token has, and their numbers."""
        sizes = (self.ngrams != UNKNOWN).sum(axis=1)
        tables = {}
        for size in range(1, self.max_ngram + 1):
            which = np.flatnonzero(sizes == size)
            keys = _key(self.ngrams[which, :size].T, len(self.words))
            order = np.argsort(keys)
            tables[size] = np.append(keys[order], np.iinfo(np.int64).max), which[order]
        return tables

    def _occurrences(self, stream: IntArray) -> Iterator[tuple[int, IntArray, IntArray]]:
        for size, (keys, numbers) in self._tables.items():
            starts = _ngram_starts(stream, size)
            wanted = _key([stream[starts + k] for k in range(size)], len(self.words))
            at = np.searchsorted(keys, wanted)
            known = np.flatnonzero(keys[at] == wanted)
            yield size, starts[known], numbers[at[known]]


def _stream(documents: Iterable[Sequence[str]], numbers: dict[str, int]) -> tuple[IntArray, IntArray]:
    """Word numbers of all texts in one row, an unknown word between texts; and the text of each place."""
    stream: list[int] = []
    lengths: list[int] = []
    for words in documents:
        stream += map(numbers.get, words, repeat(UNKNOWN))
        stream.append(UNKNOWN)
        lengths.append(len(words) + 1)
    return np.array(stream, np.int64), np.repeat(np.arange(len(lengths)), lengths)


def _ngram_starts(stream: IntArray, size: int) -> IntArray:
    """Where runs of `size` known words start."""
    whole = stream != UNKNOWN
    for k in range(1, size):
        whole = whole & np.append(stream[k:] != UNKNOWN, np.zeros(min(k, len(stream)), bool))
    return np.flatnonzero(whole)


def _key(parts: Iterable[IntArray], base: int) -> IntArray:
    total = np.zeros((), np.int64)
    for part in parts:
        total = total * base + part
    return total


def count_ngrams(
    stream: IntArray, owner: IntArray, base: int, parameters: Parameters, labels: IntArray | None
) -> tuple[IntArray, IntArray]:
    """Runs of words in enough texts, by falling frequency within a length.

    They are (tokens, max_ngram) word numbers, and (tokens, classes) how many texts of each class have them.
    """
    kind = np.zeros(int(owner.max(initial=0)) + 1, np.int64) if labels is None else labels
    classes = int(kind.max(initial=0)) + 1
    shortest, max_ngram = parameters.ngram_range or DEFAULT_NGRAMS
    runs, frequency = [np.empty((0, max_ngram), np.int64)], [np.empty((0, classes), np.int64)]
    for size in range(shortest, max_ngram + 1):
        starts = _ngram_starts(stream, size)
        if not len(starts):
            break
        names, place = np.unique(_key([stream[starts + k] for k in range(size)], base), return_inverse=True)
        pairs = np.unique(owner[starts] * len(names) + place)  # each run once a text
        cells = pairs % len(names) * classes + kind[pairs // len(names)]
        counts = np.bincount(cells, minlength=len(names) * classes).reshape(-1, classes)
        total = counts.sum(axis=1)
        kept = np.flatnonzero(total >= (parameters.min_df or DEFAULT_MIN_DF))
        kept = kept[np.lexsort((names[kept], -total[kept]))]
        table = np.full((len(kept), max_ngram), UNKNOWN)
        for k in range(size):
            table[:, k] = names[kept] // base ** (size - 1 - k) % base
        runs.append(table)
        frequency.append(counts[kept])
    return np.concatenate(runs), np.concatenate(frequency)


def discriminative_scores(frequency: IntArray) -> FloatArray:
    """(tokens,) |log ratio| sqrt(texts): by how much a token tells one class from the others, the largest over classes.

    The ratio is that of naive Bayes, with one text added to every count.
    """
    of_class, of_all = frequency.sum(axis=0), frequency.sum()
    total = frequency.sum(axis=1, keepdims=True)
    inside = np.log((frequency + 1) / np.maximum(1, of_class))
    outside = np.log((total - frequency + 1) / np.maximum(1, of_all - of_class))
    return np.asarray(np.abs(inside - outside).max(axis=1) * np.sqrt(total[:, 0]))
