"""A hardmax transformer that classifies given sequences exactly: a construction after
arXiv 2502.02270.

It memorises: nothing is learned, and what it returns for other sequences means nothing.
`docs/newer-models.md` proves each step. Tokens carry (s, code, 0, ...): s > 0 names the
token, the code its sequence, all in rational numbers.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate, count, islice, pairwise
from typing import Any

import numpy as np

from hardmax import _validation
from hardmax._errors import ParameterError
from hardmax._exact import dot, over_one_denominator, to_fractions
from hardmax._types import AnyArray, Array
from hardmax.rules.base import Layered

WIDTH = 4  # ReLUs per block
N_DIRECTIONS = 32  # that are tried of each kind for the projection of tokens
Relu = tuple[
    dict[int, Any], Any, dict[int, Any]
]  # weights, bias and out in x[r] += out[r] relu(⟨weights, x⟩ + bias)


@dataclass(frozen=True, eq=False, repr=False)
class Block(Layered):
    """A block of the constructed classifier: hardmax attention with B = e_2 e_1^T and V
    = e_2 e_2^T, then ReLUs.

    z_2 <- z_2 + max_j z_j2 if `attends_here`, as every token attends to the largest
    z_j2, and then z <- z + W2 relu(W1 z + b).

    Attributes
    ----------
    attends_here : bool
        Whether the block has attention.
    W1, b, W2 : arrays of Fractions
        Its feed-forward part, of shapes (width, d), (width,) and (d, width).

    Examples
    --------
    >>> import hardmax as hm
    >>> model = hm.construct_classifier([[[0, 1], [1, 0]], [[0, 1], [1, 1]]], ["a", "b"])
    >>> model.blocks[1].attends_here, model.blocks[1].W1.shape
    (False, (3, 2))
    """

    attends_here: bool
    W1: AnyArray
    b: AnyArray
    W2: AnyArray
    is_exact = True

    @classmethod
    def _of(cls, d: int, relus: Sequence[Relu], attends_here: bool = False) -> "Block":
        W1, b, W2 = (
            np.full(shape, Fraction(0))
            for shape in ((len(relus), d), len(relus), (d, len(relus)))
        )
        for h, (weights, bias, out) in enumerate(relus):
            W1[h, list(weights)], b[h], W2[list(out), h] = (
                list(weights.values()),
                bias,
                list(out.values()),
            )
        return cls(attends_here, W1, b, W2)

    def attention(self, tokens: Array, at: float, keys: Array | None = None) -> Array:
        code = _code(tokens, keys)
        P = np.broadcast_to(
            (code == code.max(axis=-1, keepdims=True))[..., None, :],
            (*code.shape, code.shape[-1]),
        )
        return P / P.sum(axis=-1, keepdims=True)

    def layer(self, tokens: Array, k: int, keys: Array | None = None) -> Array:
        exact = tokens.dtype == object
        W1, b, W2 = (
            x if exact else x.astype(np.float64) for x in (self.W1, self.b, self.W2)
        )
        z = tokens.copy()
        if self.attends_here:
            z[..., 1] += _code(tokens, keys).max(axis=-1, keepdims=True)
        hidden = z @ W1.T + b
        return z + hidden * (hidden > 0) @ W2.T


@dataclass(frozen=True, eq=False, repr=False)
class ConstructedClassifier(Layered):
    """The transformer that `construct_classifier` returns. It memorises, and prints its
    size.

    It is a rule that runs block k at layer k: `hm.simulate(sequence, model,
    layers=len(model.blocks))` computes with Fractions and rounds the tokens that it
    returns. Blocks alone, or in `Compose` with each other, are exact, too; beside other
    rules, or in a run that starts from rounded tokens, rounding errors grow by the
    largest coefficient.

    Attributes
    ----------
    blocks : tuple of Block
        Rules with layers.
    labels : tuple
        The distinct labels, in the order of their first sequence.
    counts : dict
        Sequences, rounds, blocks, parameters that are not 0, and the largest
        coefficient; for comparison `paper_blocks`, 2 sum_j m_j + 2 N + 1 in the paper
        for N sequences of m_j tokens, and `paper_parameters`, d sum_j m_j, to which the
        paper's number of parameters is proportional.

    Examples
    --------
    >>> import hardmax as hm
    >>> model = hm.construct_classifier([[[0, 1], [1, 0]], [[0, 1], [1, 1]], [[1, 1]]], ["a", "b", "a"])
    >>> model
    Classifies 3 sequences exactly by 6 blocks with 72 parameters. It memorises them.
    >>> model.predict([[[1, 0], [0, 1]], [[1, 1]]])
    ['a', 'a']
    """

    blocks: tuple[Block, ...]
    labels: tuple[Hashable, ...]
    counts: dict[str, Any]
    is_exact = True

    def __repr__(self) -> str:
        size = (
            f"{self.counts['blocks']} blocks with {self.counts['parameters']}"
            " parameters"
        )
        return (
            f"Classifies {self.counts['sequences']} sequences exactly by {size}. It"
            " memorises them."
        )

    def attention(self, tokens: Array, at: float, keys: Array | None = None) -> Array:
        return self.blocks[min(int(at), len(self.blocks) - 1)].attention(
            tokens, at, keys
        )

    def layer(self, tokens: Array, k: int, keys: Array | None = None) -> Array:
        return self.blocks[k].layer(tokens, k, keys) if k < len(self.blocks) else tokens

    @property
    def dimension(self) -> int:
        return self.blocks[0].W1.shape[1]

    def run(self, sequence: Array) -> list[AnyArray]:
        """Return the tokens of a sequence before the first and after each block, as
        Fractions.
        """
        tokens = to_fractions(_check_sequence(sequence))
        self.check(tokens)
        return list(accumulate(range(len(self.blocks)), self.layer, initial=tokens))

    def predict(self, sequences: Sequence[Array]) -> list[Hashable]:
        """Return the label of each sequence, in rational arithmetic; that of a new
        sequence means nothing.
        """
        outputs = [
            round(self.run(sequence)[-1][0, 0])
            for sequence in _check_list(sequences, "sequences")
        ]
        return [
            self.labels[min(max(output, 0), len(self.labels) - 1)] for output in outputs
        ]


def construct_classifier(
    sequences: Sequence[Array], labels: Sequence[Hashable]
) -> ConstructedClassifier:
    """Construct a transformer that classifies given sequences exactly.

    Parameters
    ----------
    sequences : sequence of (m_j, d) arrays
        Floats, integers or Fractions with d of at least 2; different as sets of tokens
        where labels differ.
    labels : sequence
        One label per sequence.

    Returns
    -------
    ConstructedClassifier

    Examples
    --------
    >>> import hardmax as hm
    >>> model = hm.construct_classifier([[[0, 1], [1, 0]], [[0, 1], [1, 1]]], ["yes", "no"])
    >>> model.predict([[[0, 1], [1, 1]], [[0, 1], [1, 0]]])
    ['no', 'yes']
    >>> model.counts["blocks"], model.counts["paper_blocks"]
    (4, 13)
    """
    arrays = [
        to_fractions(_check_sequence(sequence))
        for sequence in _check_list(sequences, "sequences")
    ]
    if not arrays or len(arrays) != len(_check_list(labels, "labels")):
        raise ParameterError(
            "labels",
            f"be one for each of {len(arrays)} sequences, at least one",
            f"{len(labels)}",
        )
    if not all(isinstance(label, Hashable) for label in labels):
        raise ParameterError(
            "labels", "be hashable, such as texts or integers", f"{labels!r:.60}"
        )
    d = arrays[0].shape[1]
    if any(array.shape[1] != d for array in arrays) or d < 2:
        raise ParameterError(
            "sequences",
            "have tokens of one dimension, at least 2",
            [x.shape[1] for x in arrays],
        )
    label_of: dict[frozenset[Any], Hashable] = {}
    for array, label in zip(arrays, labels, strict=True):
        tokens = frozenset(map(tuple, array))
        if label_of.setdefault(tokens, label) != label:
            got = f"the labels {label_of[tokens]!r} and {label!r} for the same tokens"
            raise ParameterError(
                "sequences", "differ as sets of tokens where labels differ", got
            )
    points = sorted(set().union(*label_of))
    v = _choose_direction(points)
    least = min(dot(v, x) for x in points)
    s = {x: Fraction(dot(v, x) - least + 1) for x in points}  # positive, distinct
    values = sorted(s.values())
    width, M = (
        min([(b - a) / 2 for a, b in pairwise(values)], default=Fraction(1)),
        2 * (values[-1] - values[0]) + 1,
    )

    def tent(
        at: Fraction, height: Fraction
    ) -> list[Relu]:  # added to z_2 where z_1 + M z_2 is `at`
        corners = ((-at + width, 1), (-at, -2), (-at - width, 1))
        return [
            ({0: Fraction(1), 1: M}, bias, {1: height * a / width})
            for bias, a in corners
        ]

    # x <- (s, 0, ...), by x = relu(x) - relu(-x); 1 - least is added by a ReLU of a
    # constant
    project: list[Relu] = [({}, Fraction(1), {0: 1 - least})]
    for r in range(d):
        out = {q: Fraction(v[r] * (q == 0) - (q == r)) for q in {0, r}}
        project += [
            ({r: Fraction(sign)}, Fraction(0), {q: sign * x for q, x in out.items()})
            for sign in (1, -1)
        ]
    blocks, sets = [Block._of(d, project)], list(label_of)
    codes, K = dict.fromkeys(sets, 0), 1
    while len(sets) > K:
        seen: dict[int, frozenset[Any]] = {}
        one, other = next(
            (seen[codes[x]], x) for x in sets if seen.setdefault(codes[x], x) is not x
        )
        x, g = min(one ^ other), codes[one]
        H = Fraction(2 * (K - g))
        blocks.append(Block._of(d, tent(s[x] + M * g, H)))
        halve: Relu = ({1: Fraction(1, 2)}, Fraction(0), {1: Fraction(-1)})
        blocks.append(
            Block._of(
                d, [halve, *tent(s[x] + M * (2 * g + 2 * H), -H / 2)], attends_here=True
            )
        )
        codes |= {tokens: K for tokens in sets if codes[tokens] == g and x in tokens}
        K += 1
    names = tuple(dict.fromkeys(labels))
    y = [
        names.index(label_of[tokens]) for tokens in sorted(sets, key=codes.__getitem__)
    ]
    slopes = [0, *(b - a for a, b in pairwise(y))]
    read: list[Relu] = [
        ({0: Fraction(1)}, Fraction(0), {0: Fraction(-1)}),
        ({}, Fraction(1), {0: Fraction(y[0])}),
    ]
    read += [
        ({1: Fraction(1)}, Fraction(-k), {0: Fraction(b - a)})
        for k, (a, b) in enumerate(pairwise(slopes))
    ]
    blocks += [Block._of(d, read[k : k + WIDTH]) for k in range(0, len(read), WIDTH)]
    entries = [
        x
        for block in blocks
        for part in (block.W1, block.b, block.W2)
        for x in part.flat
        if x
    ]
    n_parameters = len(entries) + 2 * sum(
        block.attends_here for block in blocks
    )  # B and V have one entry each
    counts = {
        "sequences": len(arrays),
        "rounds": K - 1,
        "blocks": len(blocks),
        "parameters": n_parameters,
    }
    m = sum(map(len, arrays))
    counts |= {
        "largest": max(map(abs, entries)),
        "paper_blocks": 2 * (m + len(arrays)) + 1,
        "paper_parameters": d * m,
    }
    return ConstructedClassifier(tuple(blocks), names, counts)


def _code(tokens: AnyArray, keys: Array | None) -> AnyArray:
    return np.asarray(
        tokens[..., 1]
        if keys is None
        else np.where(keys[..., 0, :], tokens[..., 1], -np.inf)
    )


def _choose_direction(points: Sequence[tuple[Fraction, ...]]) -> list[int]:
    """Return the integers v, among some, whose products with the points have the
    largest gap for their range.

    Coefficients grow with range / gap. Mere distinctness may rest on the rounding of
    the input: 0.1 + 0.2 and 0.3.
    """
    rows, _ = over_one_denominator(np.array(points, object))

    def quality(v: list[int]) -> Fraction:
        values = sorted(dot(v, row) for row in rows)
        return Fraction(
            min([b - a for a, b in pairwise(values)], default=1),
            values[-1] - values[0] or 1,
        )

    powers = ([b**r for r in range(len(rows[0]))] for b in count(2))
    drawn = (
        np.random.default_rng(0).integers(-9, 10, (N_DIRECTIONS, len(rows[0]))).tolist()
    )
    best = max([*islice(powers, N_DIRECTIONS), *drawn], key=quality)
    return best if quality(best) else next(filter(quality, powers))


def _check_list(value: Any, name: str) -> Any:
    _validation.refuse_gaps(value, name)
    is_list = np.iterable(value) and hasattr(value, "__len__")
    if not is_list or isinstance(value, bytes):
        must = "be a list with one item per sequence"
        raise ParameterError(name, must, _validation.shortened(value))
    return value


def _check_sequence(sequence: Array) -> AnyArray:
    array, _ = _validation.check_tokens(sequence)
    if array.ndim != 2:
        raise ParameterError(
            "sequences", "hold arrays of shape (m, d)", f"one of shape {array.shape}"
        )
    return array
