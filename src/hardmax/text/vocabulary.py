"""Tokens of a classifier: words and n-grams of words, each with an index."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, repeat
from typing import NamedTuple

import numpy as np

from hardmax._errors import InputError, ParameterError
from hardmax._types import AnyArray, FloatArray, IntArray
from hardmax.text.parameters import Parameters
from hardmax.text.tokenizer import Splitter

UNKNOWN = (
    -1
)  # index of an unknown word; it also separates texts, and fills up shorter n-grams
FREQUENT_SHARE = 10  # at least one in 10 tokens is a frequent word


class Encoded(NamedTuple):
    """Distinct tokens of many texts, one text after another: those of text t are
    `ids[starts[t]:starts[t + 1]]`.
    """

    ids: IntArray  # (m,) in the order of their first occurrence in a text
    starts: IntArray  # (texts + 1,)
    counts: IntArray  # (m,) multiplicity of a token in its text

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def sizes(self) -> IntArray:
        return np.diff(self.starts)

    def take(self, texts: IntArray) -> "Encoded":
        """Return some of the texts."""
        places = self.places(texts)
        return Encoded(
            self.ids[places],
            np.concatenate([[0], np.cumsum(self.sizes[texts])]),
            self.counts[places],
        )

    def places(self, texts: IntArray) -> IntArray:
        """Return the indices in `ids` of the tokens of some texts."""
        sizes = self.sizes[texts]
        before = np.cumsum(sizes) - sizes
        return np.repeat(self.starts[:-1][texts] - before, sizes) + np.arange(
            sizes.sum()
        )

    def padded(self) -> tuple[IntArray, IntArray]:
        """Return (texts, longest) token indices and multiplicities.

        Padding has the multiplicity 0 and repeats the first token of a text, as a zero
        vector would tie with all.
        """
        sizes = self.sizes
        real = np.arange(max(1, sizes.max(initial=0))) < sizes[:, None]
        ids, counts = np.zeros(real.shape, np.int64), np.zeros(real.shape, np.int64)
        ids[real], counts[real] = self.ids, self.counts
        return np.where(real, ids, ids[:, :1]), counts


class Data(NamedTuple):
    """Texts as tokens, with the indices of their classes and their weights in the loss."""

    texts: Encoded
    labels: IntArray  # (texts,)
    weights: AnyArray  # (texts,)


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """Tokens that a classifier knows."""

    splitter: Splitter
    words: tuple[str, ...]  # of all tokens
    ngrams: IntArray  # (tokens, max_ngram) word indices of each token
    distinct: bool = (
        True  # whether a token that occurs several times in a text counts once
    )

    def __len__(self) -> int:
        return len(self.ngrams)

    @classmethod
    def build(
        cls,
        texts: Iterable[str],
        parameters: Parameters,
        labels: IntArray | None = None,
        *,
        ngram_range: tuple[int, int] = (1, 3),
        min_df: int = 1,
    ) -> "Vocabulary":
        """Return n-grams that occur in enough texts; `ngram_range` and `min_df` are
        used if `parameters` have None.

        Of more than `max_features` the most discriminative ones are kept, or without
        labels the most frequent ones. A tenth of them are the most frequent words, so
        that common words such as "good" are known.
        """
        splitter = Splitter.of(parameters)
        shortest, longest = ngram_range = parameters.ngram_range or ngram_range
        min_df, most = parameters.min_df or min_df, parameters.max_features
        labels = labels if parameters.select == "discriminative" else None
        documents = [splitter.words(text) for text in texts]
        counts = Counter(chain.from_iterable(map(set, documents)))
        words = sorted(
            (w for w, count in counts.items() if count >= min_df),
            key=lambda w: (-counts[w], w),
        )
        stream, owner = _to_stream(
            documents, dict(zip(words, range(len(words)), strict=True))
        )
        if len(words) ** longest >= 2**62:
            must, got = (
                f"be smaller for a vocabulary of {len(words):,} words",
                f"n-grams of {longest} words",
            )
            raise ParameterError(
                "ngram_range",
                must,
                f"{got}, too many to index",
                "Use 1, 3, or raise `min_df`.",
            )
        ngrams, frequency = _count_ngrams(
            stream, owner, len(words), ngram_range, min_df, labels
        )
        if not len(ngrams):
            must = f"At least one word must occur in {min_df} texts."
            raise InputError(f"{must} Got none. Pass more texts, or lower `min_df`.")
        if most is not None and len(ngrams) > most:
            value = (
                frequency.sum(axis=1).astype(np.float64)
                if labels is None
                else _discriminative_scores(frequency)
            )
            if shortest == 1:  # the most frequent words are first
                value[: min(len(words), most // FREQUENT_SHARE)] = np.inf
            ngrams = ngrams[np.sort(np.argsort(-value, kind="stable")[:most])]
        used = np.unique(ngrams[ngrams != UNKNOWN])
        ngrams = np.where(ngrams == UNKNOWN, UNKNOWN, np.searchsorted(used, ngrams))
        return cls(splitter, tuple(words[w] for w in used), ngrams, parameters.distinct)

    @property
    def max_ngram(self) -> int:
        return self.ngrams.shape[1]

    def names(self, tokens: IntArray) -> list[str]:
        """Return the words of each token, separated by spaces."""
        return [
            " ".join([self.words[w] for w in ngram if w != UNKNOWN])
            for ngram in self.ngrams[tokens].tolist()
        ]

    def encode(self, texts: Sequence[str]) -> Encoded:
        """Return the tokens of texts."""
        return self.encode_words(map(self.splitter.words, texts), len(texts))

    def encode_words(self, documents: Iterable[Sequence[str]], count: int) -> Encoded:
        """Return the tokens of texts that are already split. No n-gram contains an
        unknown word, such as "".
        """
        stream, owner = _to_stream(documents, self._word_indices)
        _, places, tokens = zip(*self._occurrences(stream), strict=True)
        at, ids = np.concatenate(places), np.concatenate(tokens)
        _, first, counts = np.unique(
            owner[at] * len(self) + ids, return_index=True, return_counts=True
        )
        order = np.argsort(at[first], kind="stable")
        first, counts = (
            first[order],
            np.ones_like(order) if self.distinct else counts[order],
        )
        sizes = np.bincount(owner[at[first]], minlength=count)
        return Encoded(ids[first], np.concatenate([[0], np.cumsum(sizes)]), counts)

    def occurrences(
        self, words: Sequence[str]
    ) -> Iterator[tuple[int, IntArray, IntArray]]:
        """Yield for each n the index of the first word of every n-gram in a split text,
        and the tokens.
        """
        return self._occurrences(_to_stream([words], self._word_indices)[0])

    @cached_property
    def single_words(self) -> dict[str, int]:
        """Return the token of each word that is a token by itself."""
        alone = np.flatnonzero((self.ngrams != UNKNOWN).sum(axis=1) == 1)
        return {
            self.words[w]: t
            for w, t in zip(self.ngrams[alone, 0].tolist(), alone.tolist(), strict=True)
        }

    @cached_property
    def _word_indices(self) -> dict[str, int]:
        return dict(zip(self.words, range(len(self.words)), strict=True))

    @cached_property
    def _tables(self) -> dict[int, tuple[IntArray, IntArray]]:
        """Return for each n the sorted keys of the n-grams, with a sentinel at the end,
        and their tokens.
        """
        sizes = (self.ngrams != UNKNOWN).sum(axis=1)
        tables = {}
        for size in range(1, self.max_ngram + 1):
            tokens = np.flatnonzero(sizes == size)
            keys = _to_keys(self.ngrams[tokens, :size].T, len(self.words))
            order = np.argsort(keys)
            tables[size] = np.append(keys[order], np.iinfo(np.int64).max), tokens[order]
        return tables

    def _occurrences(
        self, stream: IntArray
    ) -> Iterator[tuple[int, IntArray, IntArray]]:
        for size, (keys, tokens) in self._tables.items():
            starts = _find_ngrams(stream, size)
            wanted = _to_keys(
                [stream[starts + k] for k in range(size)], len(self.words)
            )
            at = np.searchsorted(keys, wanted)
            known = np.flatnonzero(keys[at] == wanted)
            yield size, starts[known], tokens[at[known]]


def _to_stream(
    documents: Iterable[Sequence[str]], indices: dict[str, int]
) -> tuple[IntArray, IntArray]:
    """Return the word indices of all texts in one array, `UNKNOWN` after each text; and
    the text of each entry.
    """
    stream: list[int] = []
    lengths: list[int] = []
    for words in documents:
        stream += map(indices.get, words, repeat(UNKNOWN))
        stream.append(UNKNOWN)
        lengths.append(len(words) + 1)
    return np.array(stream, np.int64), np.repeat(np.arange(len(lengths)), lengths)


def _find_ngrams(stream: IntArray, size: int) -> IntArray:
    """Return the indices at which n-grams of `size` known words start."""
    complete = stream != UNKNOWN
    for k in range(1, size):
        complete = complete & np.append(
            stream[k:] != UNKNOWN, np.zeros(min(k, len(stream)), bool)
        )
    return np.flatnonzero(complete)


def _to_keys(words: Iterable[IntArray], base: int) -> IntArray:
    """Return one integer for each n-gram, whose digits to the given base are word
    indices.
    """
    keys = np.zeros((), np.int64)
    for digit in words:
        keys = keys * base + digit
    return keys


def _count_ngrams(
    stream: IntArray,
    owner: IntArray,
    base: int,
    ngram_range: tuple[int, int],
    min_df: int,
    labels: IntArray | None,
) -> tuple[IntArray, IntArray]:
    """Return (tokens, max_ngram) word indices of n-grams in `min_df` texts, and
    (tokens, classes) numbers of texts.
    """
    kind = (
        np.zeros(int(owner.max(initial=0)) + 1, np.int64) if labels is None else labels
    )
    classes = int(kind.max(initial=0)) + 1
    shortest, longest = ngram_range
    ngrams, frequency = list[IntArray](), list[IntArray]()
    for size in range(shortest, longest + 1):
        starts = _find_ngrams(stream, size)
        keys, at = np.unique(
            _to_keys([stream[starts + k] for k in range(size)], base),
            return_inverse=True,
        )
        pairs = np.unique(owner[starts] * len(keys) + at)  # each n-gram once per text
        cells = pairs % len(keys) * classes + kind[pairs // len(keys)]
        counts = np.bincount(cells, minlength=len(keys) * classes).reshape(-1, classes)
        total = counts.sum(axis=1)
        kept = np.flatnonzero(total >= min_df)
        kept = kept[np.lexsort((keys[kept], -total[kept]))]  # the most frequent first
        table = np.full((len(kept), longest), UNKNOWN)
        for k in range(size):
            table[:, k] = keys[kept] // base ** (size - 1 - k) % base
        ngrams.append(table)
        frequency.append(counts[kept])
    return np.concatenate(ngrams), np.concatenate(frequency)


def _discriminative_scores(frequency: IntArray) -> FloatArray:
    """Return (tokens,) |log ratio| sqrt(texts), the largest over classes, from (tokens,
    classes) numbers of texts.

    The ratio is that of naive Bayes between a class and all others, with one text added
    to every count.
    """
    of_class, of_all = frequency.sum(axis=0), frequency.sum()
    total = frequency.sum(axis=1, keepdims=True)
    inside = np.log((frequency + 1) / np.maximum(1, of_class))
    outside = np.log((total - frequency + 1) / np.maximum(1, of_all - of_class))
    return np.asarray(np.abs(inside - outside).max(axis=1) * np.sqrt(total[:, 0]))
