"""A topic: who leads it, which texts stand for it, and which words tell it from the others."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from hardmax._types import FloatArray, IntArray
from hardmax.cluster.telling import TellingWord

SHOWN = 60  # letters of a text in a sentence


@dataclass(frozen=True, repr=False)
class Topic:
    """Texts that gather around one of them.

    Attributes
    ----------
    number : int
        Its label; topics are numbered by size, the largest is 0.
    size : int
        How many texts it has.
    leader : str
        The text that the others follow.
    exemplars : tuple of str
        Texts that stand for it: the leader, and those whose tokens have the largest products with the leader's. Equal
        texts are there once.
    words : tuple of TellingWord
        Its telling words with their scores, the best first.
    strength : float
        How sure its texts' labels are: the mean of `strengths_`, from 0 to 1.

    Examples
    --------
    >>> from hardmax import HardmaxTopics
    >>> texts = [f"{taste} {fruit}" for fruit in ("apple", "pear") for taste in ("sweet", "sour", "ripe", "green")]
    >>> ends = [[4 * ("apple" in text), 4 * ("pear" in text), len(text) / 10] for text in texts]
    >>> topic = HardmaxTopics(2, n_neighbors=3).fit(texts, vectors=ends).topics_[0]
    >>> topic.name, topic.size, topic.leader in texts
    ('apple', 4, True)
    """

    number: int
    size: int
    leader: str
    exemplars: tuple[str, ...]
    words: tuple[TellingWord, ...]
    strength: float

    def __repr__(self) -> str:
        texts = f"{self.size:,} text{'s' * (self.size != 1)}"
        words = ", ".join(word for word, _ in self.words[:5])
        return f"<Topic {self.number}: {texts}; {f'{words}; ' if words else ''}led by {shortened(self.leader)!r}>"

    @property
    def name(self) -> str:
        """Its first telling word, or how its leader begins."""
        return self.words[0].word if self.words else shortened(self.leader, 20)


def shortened(text: str, most: int = SHOWN) -> str:
    """The beginning of a text on one line."""
    plain = " ".join(text[: 4 * most].split())
    return plain if len(plain) <= most else f"{plain[: most - 1]}…"


class Standing(NamedTuple):
    """The rows that stand for each cluster, the leader's first."""

    rows: list[IntArray]

    @classmethod
    def of(cls, tokens: FloatArray, leaders: IntArray, labels: IntArray, texts: Sequence[str], most: int) -> "Standing":
        """Texts come in the order of the alphabet, so that nothing depends on theirs; of equal tokens the first."""
        order = sorted(range(len(texts)), key=texts.__getitem__)
        ranked = np.array(order)
        return cls([_rows(tokens, leader, ranked[labels[ranked] == c], most) for c, leader in enumerate(leaders)])


def _rows(tokens: FloatArray, leader: int, members: IntArray, most: int) -> IntArray:
    equal = members[(tokens[members] == tokens[leader]).all(axis=1)]
    found = [int(equal[0]) if len(equal) else int(leader)]  # a leader may itself be noise
    products = tokens[members] @ tokens[leader]
    for i in members[np.argsort(-products, kind="stable")]:
        if len(found) == most:
            break
        if not (tokens[i] == tokens[found]).all(axis=1).any():
            found.append(int(i))
    return np.array(found)
