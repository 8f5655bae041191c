"""From tokens to words: whose contribution is that of "not good"?"""

from collections.abc import Sequence

import numpy as np

from hardmax._types import FloatArray, IntArray
from hardmax.sentiment.inference import Weights
from hardmax.sentiment.vocabulary import Vocabulary


def by_word(
    vocabulary: Vocabulary,
    weights: Weights,
    words: Sequence[str],
    ids: IntArray,
    terms: FloatArray,
    *,
    even: bool = False,
) -> FloatArray:
    """(words, outputs) parts of the logits that belong to each word of a text, where it stands; their sum is the same.

    A token that occurs several times is shared evenly by its places. A run of words falls when one of them is erased,
    so its part goes to a single word: the one whose own score v . z, as a token by itself, speaks most for that side.

    Parameters
    ----------
    words : sequence of str
        The text, split.
    ids : (n,) array
        Its distinct tokens.
    terms : (n, outputs) array
        Contribution of each.
    even : bool
        Share each run evenly by its words instead: better to show phrases, worse to find what a text stands on.
    """
    parts, scores = np.zeros((2, len(words), terms.shape[1]))
    order, columns = np.argsort(ids), np.arange(terms.shape[1])
    for size, places, tokens in vocabulary.occurrences(words):
        if not len(places):
            continue
        at = order[np.searchsorted(ids[order], tokens)]  # places of the tokens in ids
        times = np.bincount(at, minlength=len(ids))[at]
        part = terms[at] / times[:, None]  # (m, outputs)
        if size == 1:
            scores[places] = np.einsum("mhd,ohd->mo", weights.tokens(tokens), weights.decoder)
        window = places[:, None] + np.arange(size)  # (m, size)
        if even:
            np.add.at(parts, window, part[:, None] / size)
            continue
        speaker = (scores[window] * np.sign(part)[:, None]).argmax(axis=1)  # (m, outputs)
        np.add.at(parts, (places[:, None] + speaker, columns), part)
    return parts
