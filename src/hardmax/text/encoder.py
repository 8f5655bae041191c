"""Vectors of the words of a text from a pretrained encoder, a function, or the caller.

The tokens of a model with an encoder are the words of its splitter: the vector of a
word is the mean of those of its word pieces, and word pieces outside all words are not
read. So every vector has a word of the text to explain.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from warnings import warn
from zipfile import BadZipFile

import numpy as np

from hardmax._errors import InputError, ParameterError
from hardmax._files import written_whole
from hardmax._types import AnyArray, IntArray, Progress
from hardmax.text.tokenizer import MARKUP, Splitter, full_name

if TYPE_CHECKING:
    from hardmax.transformers.embedding import TokenEncoder

GIVEN = "vectors"  # name of the encoder of a model whose X are vectors
PACKAGED = "minilm"  # the only name of an encoder that is followed when a model is read
HASHES = ("weights", "tokenizer")


class VectorText(str):
    """Vectors that a caller passes in place of a text; as a text they are the numbers
    of their rows.
    """

    vectors: AnyArray  # (n, d) float32
    digest: str

    @classmethod
    def of(cls, vectors: AnyArray) -> "VectorText":
        made = cls(" ".join(map(str, range(len(vectors)))))
        made.vectors = np.ascontiguousarray(vectors, np.float32)
        made.digest = sha256(made.vectors.tobytes()).hexdigest()
        return made


class Words(NamedTuple):
    """The words of a text that have a vector."""

    rows: IntArray  # (m,) among the words of the splitter, in increasing order
    vectors: AnyArray  # (m, d) float32


@dataclass(frozen=True, eq=False)
class Encoder:
    """The source of vectors of a classifier: a transformer, a function, or None for
    vectors that are passed as X.
    """

    source: Any
    cut: bool = False
    cache: str | PathLike[str] | None = None
    device: str = "cpu"
    dtype: str = "float64"

    @cached_property
    def tokens(self) -> "TokenEncoder":
        from hardmax.transformers.embedding import TokenEncoder

        return TokenEncoder(
            self.source, cut=self.cut, device=self.device, dtype=self.dtype
        )

    @property
    def is_transformer(self) -> bool:
        return self.source is not None and not callable(self.source)

    @property
    def layers(self) -> int:
        """Return the number of hidden states that make up a vector."""
        return len(self.tokens.layers) if self.is_transformer else 1

    @cached_property
    def identity(self) -> dict[str, str]:
        """Return the name, and the hashes of a transformer: what a saved model stores
        of its encoder.
        """
        if self.source is None:
            return {"name": GIVEN}
        if callable(self.source):
            return {"name": full_name(self.source)}
        name = (
            str(self.source)
            if isinstance(self.source, str | PathLike)
            else self.tokens.name
        )
        return {"name": name, **self.tokens.digests()}

    def __getstate__(self) -> dict[str, Any]:
        return {
            name: value for name, value in self.__dict__.items() if name != "tokens"
        }

    def read(
        self, texts: Sequence[str], splitter: Splitter, progress: Progress | None = None
    ) -> Iterator[tuple[int, Words]]:
        """Yield index and words of each text, in any order."""
        for i, offsets, vectors in self.pieces(texts, splitter, progress):
            yield i, _gather(offsets, vectors, splitter.spans(texts[i]))

    def pieces(
        self, texts: Sequence[str], splitter: Splitter, progress: Progress | None = None
    ) -> Iterator[tuple[int, IntArray, AnyArray]]:
        """Yield index, offsets and vectors of the word pieces of each text, in any
        order.
        """
        missing, paths = [], [self._path(text, splitter) for text in texts]
        for i, path in enumerate(paths):
            found = None if path is None else _read_cached(path)
            if found is None:
                missing.append(i)
            else:
                yield i, *found
        for k, offsets, vectors in self._encode(
            [texts[i] for i in missing], splitter, progress
        ):
            path = paths[missing[k]]
            if path is not None:
                path.parent.mkdir(parents=True, exist_ok=True)
                with written_whole(path) as temporary, temporary.open("wb") as file:
                    np.savez(file, offsets=offsets, vectors=vectors)
            yield missing[k], offsets, vectors

    def warn_of_cut(self, texts: Sequence[str]) -> None:
        """Warn of texts of which only the first window is read."""
        if (
            self.cut
            and self.is_transformer
            and (number := sum(map(self.tokens.is_long, texts)))
        ):
            read = f"only their first {self.tokens.window} are read"
            advice = 'Use `long_texts="windows"` to read all of them.'
            found = (
                f"{number} of {len(texts)} texts have more word pieces than a window of"
                f" the encoder; {read}."
            )
            warn(f"{found} {advice}", UserWarning, stacklevel=4)

    def _encode(
        self, texts: list[str], splitter: Splitter, progress: Progress | None
    ) -> Iterator[tuple[int, IntArray, AnyArray]]:
        if self.source is None:
            for i, text in enumerate(texts):
                if not isinstance(text, VectorText):
                    must = "be vectors, as the model was trained on vectors"
                    raise ParameterError(
                        "X", must, "a text", "Pass arrays of shape (n, d)."
                    )
                ends = np.cumsum(
                    [len(number) + 1 for number in text.split(" ")][
                        : len(text.vectors)
                    ],
                    dtype=np.intp,
                )
                starts = np.concatenate([[0], ends[:-1]])[: len(ends)].astype(np.intp)
                yield i, np.stack([starts, ends - 1], axis=1), text.vectors
        elif callable(self.source):
            results = list(self.source(texts) or ()) if texts else []
            if len(results) != len(texts):
                must = (
                    f"return (tokens, offsets, vectors) for each of the {len(texts)}"
                    " texts"
                )
                raise ParameterError(
                    "encoder", must, f"{len(results)} results", "Check that function."
                )
            for i, (text, found) in enumerate(zip(texts, results, strict=True)):
                yield i, *_check_tokens(found, text)
        else:
            plain = texts
            if splitter.tokenizer is None:
                plain = [
                    MARKUP.sub(lambda tag: " " * len(tag[0]), text) for text in texts
                ]
            for i, found in self.tokens.encode(plain, progress=progress):
                yield i, *found

    def _path(self, text: str, splitter: Splitter) -> Path | None:
        if self.cache is None or not self.is_transformer:
            return None
        has_markup = splitter.tokenizer is not None  # else it is removed
        key = repr(
            (sorted(self.identity.items()), self.cut, self.dtype, has_markup, text)
        )
        name = sha256(key.encode("utf-8", "surrogatepass")).hexdigest()
        return Path(self.cache, name[:2], f"{name}.npz")


def _read_cached(path: Path) -> tuple[IntArray, AnyArray] | None:
    """Return offsets and vectors from a file of the cache, or None if it is missing or
    damaged.
    """
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            return arrays["offsets"], arrays["vectors"]
    except (OSError, ValueError, KeyError, EOFError, BadZipFile):
        return None


def _gather(offsets: IntArray, vectors: AnyArray, spans: Sequence[Any]) -> Words:
    """Return the mean vector of the word pieces that begin in each word."""
    starts, ends = (np.array([span[k] for span in spans], np.intp) for k in (1, 2))
    at = np.searchsorted(starts, offsets[:, 0], side="right") - 1
    inside = np.flatnonzero(
        (at >= 0) & (offsets[:, 0] < ends[at] if len(ends) else False)
    )
    if not len(inside):
        return Words(np.empty(0, np.intp), np.empty((0, vectors.shape[1]), np.float32))
    index, first, counts = np.unique(at[inside], return_index=True, return_counts=True)
    sums = np.add.reduceat(vectors[inside].astype(np.float64), first)
    return Words(index, (sums / counts[:, None]).astype(np.float32))


def _check_tokens(found: Any, text: str) -> tuple[IntArray, AnyArray]:
    """Return offsets and vectors that a function computed for a text; raise an error if
    they do not fit together.
    """
    must = (
        "return (tokens, offsets, vectors) for each text: n strings, (n, 2) offsets in"
        " order, (n, d) finite numbers"
    )
    try:
        tokens, given, values = found
        offsets = np.asarray(given, np.intp).reshape(len(tokens), 2)
        vectors = np.asarray(values, np.float32).reshape(
            len(tokens), -1 if len(tokens) else 0
        )
        inside = ((offsets >= 0) & (offsets <= len(text))).all() and (
            vectors.shape[1] > 0 or not len(tokens)
        )
        fits = bool(
            inside
            and np.isfinite(vectors).all()
            and (np.diff(offsets[:, 0]) >= 0).all()
        )
    except (TypeError, ValueError):
        fits = False
    if not fits:
        raise ParameterError(
            "encoder",
            must,
            f"something else for {text[:40]!r}",
            "Check its shapes and offsets.",
        )
    return offsets, vectors


def check_encoder(value: Any, name: str) -> None:
    """Raise an error unless the value may be an encoder."""
    pair = isinstance(value, tuple | list) and len(value) == 2
    if not (isinstance(value, str | PathLike) or callable(value) or pair):
        must = (
            'be "minilm", the folder or name of a transformer, a pair (model,'
            " tokenizer), or a function"
        )
        raise ParameterError(name, must, repr(value)[:60])


def restore_encoder(stored: Mapping[str, Any], given: Any) -> Encoder:
    """Return the encoder of a saved model; raise an error if the given one is another.

    Of the names in the file only that of the packaged encoder is followed, as a path
    must not come from data.
    """
    name = stored["name"]
    if given is None and name not in (GIVEN, PACKAGED):
        must = f"be given for a model that was trained with {name[:200]!r}"
        advice = (
            "Pass it in Python, HardmaxClassifier.load(path, encoder=...), or a folder"
            " as --encoder."
        )
        raise ParameterError("encoder", must, "none", advice)
    source = PACKAGED if given is None and name == PACKAGED else given
    encoder = Encoder(source, stored["cut"], None, find_device("auto"), stored["dtype"])
    own = encoder.identity
    keys = HASHES if encoder.is_transformer else ("name", *HASHES)
    if any(own.get(key) != stored.get(key) for key in keys):
        raise InputError(
            "The encoder must be the one that the model was trained with,"
            f" {name[:200]!r}. Its name, weights or vocabulary differ. Pass the same"
            " version as `encoder`, or train the model again."
        )
    return encoder


def make_encoder(parameters: Any) -> Encoder:
    """Return the encoder of a classifier; without a name, that of vectors in place of
    texts.
    """
    cut, device = parameters.long_texts == "cut", find_device(parameters.device)
    return Encoder(
        parameters.encoder,
        cut,
        parameters.encoder_cache,
        device,
        parameters.encoder_dtype,
    )


def find_device(name: str) -> str:
    """Return the device for "auto": a GPU if there is one that torch can use."""
    if name != "auto":
        return name
    try:
        import torch
    except ImportError:
        return "cpu"
    return "cuda" if torch.cuda.is_available() else "cpu"
