"""Labelled texts: the Large Movie Review Dataset of Maas et al. (ACL 2011), and
synthetic reviews.
"""

import lzma
import os
import re
import tarfile
import tomllib
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from os import PathLike
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np

from hardmax._errors import InputError, ParameterError, needed_for
from hardmax._validation import check_count, check_range
from hardmax.text.tables import TextTable, read_texts

URL = "https://ai.stanford.edu/~amaas/data/sentiment/aclImdb_v1.tar.gz"
SHA256 = "c40f74a18d3b61f90feba1e17730e0d38e8b97c05fde7008942e91923d1658fe"
FILE = "aclImdb_v1.tar.gz"
SPLITS, LABELS = ("train", "test"), ("neg", "pos")
MEMBER = re.compile(r"(?:\./)?(?:[^/]+/)?(train|test)/(neg|pos)/(\d+)_(\d+)\.txt")
LABEL_OF = {"0": "neg", "1": "pos", "neg": "neg", "pos": "pos"}
CHUNK = 2**18  # bytes between two calls of `progress`
TIMEOUT = 60  # seconds without a byte

Progress = Callable[[int, int | None], None]
with Path(__file__).with_name("reviews.toml").open("rb") as _file:
    LANGUAGE = tomllib.load(_file)
GAPS = LANGUAGE["gaps"] | {
    "aspect": LANGUAGE["gaps"]["first"] + LANGUAGE["gaps"]["second"]
}
OTHER = {"positive": "negative", "negative": "positive"}
MAX_SENTENCE = 15  # words of the longest sentence with a sentiment word
MIN_WORDS_FOR_TWO = 22  # words of a review that may hold two such sentences
PROBABILITY_OF_TWO = 0.4  # unless it holds a contrast
MAX_DRAWS = 100  # of a review that equals an earlier one


def load_imdb(
    *,
    source: str | PathLike[str] | None = None,
    ratings: bool = False,
    progress: Progress | None = None,
) -> dict[str, TextTable]:
    """Load "train" and "test", 25,000 reviews each, labelled "neg" and "pos", or with
    `ratings` "1" to "10".

    The first use downloads 84 MB to `$HARDMAX_CACHE`, or `hardmax` in the user's cache
    folder, and every use checks their SHA-256. Nothing in the archive is written to
    disk. Reviews are ordered by label, then by number. `progress` is called with the
    number of bytes received, and of all bytes (None if unknown).

    `source` is a copy to read instead, without a check: the archive, a folder that it
    was unpacked to, or a folder with `train.parquet` and `test.parquet` whose columns
    are `text`, `label` (0 and 1) and, for ratings, `rating`.
    """
    path = _download(progress) if source is None else Path(source)
    if not path.exists():
        advice = f"Leave it out to download {FILE}."
        raise ParameterError(
            "source", "be an archive or a folder", f"nothing at {str(path)!r}", advice
        )
    if all((path / f"{split}.parquet").is_file() for split in SPLITS):
        return {
            split: _read_split(path / f"{split}.parquet", ratings=ratings)
            for split in SPLITS
        }
    return _make_tables(
        _read_folder(path) if path.is_dir() else _read_archive(path),
        path,
        ratings=ratings,
    )


def _download(progress: Progress | None) -> Path:
    with needed_for("Downloading reviews", "pooch", "text"):
        import pooch
    pooch.get_logger().setLevel("WARNING")  # the progress bar replaces its messages
    folder = Path(
        os.environ.get("HARDMAX_CACHE") or pooch.os_cache("hardmax")
    ).expanduser()
    bar = progress and _make_bar(progress)
    download = pooch.HTTPDownloader(progressbar=bar, chunk_size=CHUNK, timeout=TIMEOUT)
    try:
        return Path(pooch.retrieve(URL, SHA256, FILE, folder, downloader=download))
    except (OSError, ValueError) as error:  # of the network, the disk, or the hash
        raise OSError(
            f"The Large Movie Review Dataset must be downloaded once. Got from {URL}:"
            f" {str(error).rstrip('.')}. Try again, or download it by hand and put it"
            f" at {folder / FILE}, or pass the path of a copy as `source`."
        ) from None


def _make_bar(progress: Progress) -> SimpleNamespace:
    """Return a progress bar for pooch that calls a function with the bytes received and
    all bytes.
    """
    done = 0

    def update(more: int) -> None:
        nonlocal done
        done = min(done + more, bar.total) if bar.total else done + more
        progress(done, bar.total or None)

    bar = SimpleNamespace(
        total=0, update=update, reset=lambda: None, close=lambda: None
    )
    return bar


def _read_archive(path: Path) -> Iterator[tuple[re.Match[str], bytes]]:
    try:
        with tarfile.open(
            path, "r:*"
        ) as archive:  # members are read, never extracted; a cut file is noticed
            for member in archive:
                match = MEMBER.fullmatch(member.name)
                content = (
                    archive.extractfile(member) if match and member.isreg() else None
                )
                if match and content:
                    yield match, content.read()
    except (tarfile.TarError, EOFError, zlib.error, lzma.LZMAError, OSError) as error:
        reason = str(error).partition("\n")[0].rstrip(":")
        must = f"`{path}` must be an archive such as {FILE}."
        raise InputError(
            f"{must} Got: {reason}. Download it again from {URL}."
        ) from None


def _read_folder(path: Path) -> Iterator[tuple[re.Match[str], bytes]]:
    for file in path.glob("**/[np]*/*.txt"):  # neg and pos; MEMBER decides
        if match := MEMBER.fullmatch(file.relative_to(path).as_posix()):
            yield match, file.read_bytes()


def _make_tables(
    reviews: Iterable[tuple[re.Match[str], bytes]], path: Path, *, ratings: bool
) -> dict[str, TextTable]:
    texts: dict[str, list[str]] = {split: [] for split in SPLITS}
    labels: dict[str, list[str]] = {split: [] for split in SPLITS}
    folders = {f"{split}/{label}" for split in SPLITS for label in LABELS}
    for split, label, number, rating, data in sorted(
        (m[1], m[2], int(m[3]), int(m[4]), data) for m, data in reviews
    ):
        folders.discard(f"{split}/{label}")
        try:
            texts[split].append(data.decode("utf-8"))
        except UnicodeDecodeError as error:
            got = (
                f"another byte in {split}/{label}/{number}_{rating}.txt at offset"
                f" {error.start}"
            )
            raise ParameterError(
                path, "hold reviews in UTF-8", got, f"Download {URL} again."
            ) from None
        labels[split].append(str(rating) if ratings else label)
    if folders:
        must = (
            "hold reviews in train/neg, train/pos, test/neg and test/pos, named such as"
            " 12_7.txt"
        )
        raise ParameterError(
            path, must, f"none in {', '.join(sorted(folders))}", f"Download {URL}."
        )
    return {
        split: TextTable(texts[split], labels[split], "text", "label")
        for split in SPLITS
    }


def _read_split(path: Path, *, ratings: bool) -> TextTable:
    table = read_texts(path, text="text", label="rating" if ratings else "label")
    if ratings:
        return table
    labels = table.labels or []
    if wrong := sorted(set(labels) - set(LABEL_OF)):
        raise InputError(
            f"The labels of `{path}` must be 0 or 1. Got {wrong[0]!r}. Write 0 for neg"
            " and 1 for pos."
        )
    rows = sorted(
        range(len(labels)), key=lambda row: LABEL_OF[labels[row]]
    )  # stable: as in the archive, if in order
    found = [table.texts[row] for row in rows], [LABEL_OF[labels[row]] for row in rows]
    return TextTable(*found, "text", "label", table.skipped)


class Corpus(NamedTuple):
    """Reviews, their labels, and the words that carry the label."""

    texts: list[str]
    labels: list[str]  # "negative" or "positive"
    planted: list[
        tuple[str, ...]
    ]  # for each text the words, or pairs such as "not good", that carry its label


def reviews(
    n: int,
    *,
    seed: int = 0,
    negation: float = 0.2,
    contrast: float = 0.2,
    length: tuple[int, int] = (6, 30),
) -> Corpus:
    """Return synthetic reviews whose sentiment depends on known words; the same
    arguments give the same reviews.

    A sentiment word carries the label. A negation in front of it reverses it: "not
    good". In a contrast, what follows "but" wins: "the acting is fine but the story is
    awful". All other words are neutral. No two reviews are equal. Use it to test a
    classifier and its explanations; for real text use `load_imdb`.

    Parameters
    ----------
    n : int
        Number of reviews; half of them are positive, and one more if n is odd.
    seed : int
        0 or larger.
    negation, contrast : float
        Probability that a sentiment word is negated, and that a review holds a
        contrast.
    length : pair of int
        Smallest and largest number of words of a review; the largest is at least 15.

    Returns
    -------
    Corpus
        `texts`, `labels` and `planted`, the words that carry the labels: lists of n.

    Examples
    --------
    >>> corpus = reviews(4, seed=3, length=(6, 15))
    >>> for label, words, text in zip(corpus.labels, corpus.planted, corpus.texts):
    ...     print(label, words, text)
    negative ('horrible',) The score was likeable but horrible is what I call the story.
    positive ('hardly clumsy',) The dialogue was hardly clumsy from start to end. It has subtitles.
    negative ('hardly funny',) Again, this time the camera work looks hardly funny.
    positive ('clever',) Again, a pianist narrates. Everyone around me said the lighting was clever.
    """
    n = check_count(n, "n", least=1)
    rng = np.random.default_rng(check_count(seed, "seed", least=0))
    for name, share in (("negation", negation), ("contrast", contrast)):
        check_range(share, name, 0, 1, "Try 0.2.")
    pair = np.asarray(length)
    if (
        pair.shape != (2,)
        or pair.dtype.kind != "i"
        or not 1 <= pair[0] <= pair[1]
        or pair[1] < MAX_SENTENCE
    ):
        must = (
            "be two integers, the smallest and the largest number of words, the"
            f" largest at least {MAX_SENTENCE}"
        )
        raise ParameterError("length", must, f"{length!r}", "Try (6, 30).")
    low, high = pair.tolist()
    labels = [("positive", "negative")[i % 2] for i in rng.permutation(n)]
    made = [_make_review(rng, label, negation, contrast, low, high) for label in labels]
    known, again = (
        set[str](),
        np.random.default_rng([seed, 1]),
    )  # of its own: other texts stay as they are
    for i, label in enumerate(labels):
        for _ in range(MAX_DRAWS):
            if made[i][0] not in known:
                break
            made[i] = _make_review(again, label, negation, contrast, low, high)
        known.add(made[i][0])
    return Corpus([text for text, _ in made], labels, [words for _, words in made])


def _make_review(
    rng: np.random.Generator,
    label: str,
    negation: float,
    contrast: float,
    low: int,
    high: int,
) -> tuple[str, tuple[str, ...]]:
    """Return a review of `low` to `high` words, and the words that carry its label."""
    target = int(rng.integers(low, high + 1))
    planted = [_draw_phrase(rng, label, negation)]
    if rng.random() < contrast:
        lost = _draw_phrase(rng, OTHER[label], negation, strongest=1)
        sentences = [
            _fill(rng, _draw(rng, LANGUAGE["contrasts"]), word=planted[0], lost=lost)
        ]
    else:
        sentences = [_fill(rng, _draw(rng, LANGUAGE["plain"]), word=planted[0])]
        if target >= MIN_WORDS_FOR_TWO and rng.random() < PROBABILITY_OF_TWO:
            planted.append(_draw_phrase(rng, label, negation))
            sentences.append(_fill(rng, _draw(rng, LANGUAGE["plain"]), word=planted[1]))
    sentences = _lengthen(rng, sentences, target)
    return " ".join(
        f"{sentence[0].upper()}{sentence[1:]}." for sentence in sentences
    ), tuple(planted)


def _draw_phrase(
    rng: np.random.Generator, label: str, negation: float, strongest: int = 3
) -> str:
    """Return a word of that sentiment, or a negation and a word of the other sentiment,
    but not a strong one.
    """
    if rng.random() < negation:
        denied = LANGUAGE["words"][OTHER[label]][: min(strongest, 2)]
        return f"{_draw(rng, LANGUAGE['negations'])} {_draw(rng, list(chain(*denied)))}"
    return _draw(rng, list(chain(*LANGUAGE["words"][label][:strongest])))


def _lengthen(rng: np.random.Generator, sentences: list[str], target: int) -> list[str]:
    """Add neutral sentences before and after, and an opener of the one or two words
    that are missing.
    """
    room = target - sum(len(sentence.split()) for sentence in sentences)
    fillers, openers = LANGUAGE["fillers"], LANGUAGE["openers"]
    while room > len(openers):
        for i in rng.permutation(len(fillers)):
            filler = _fill(rng, fillers[i])
            if len(filler.split()) <= room:
                sentences.insert(int(rng.integers(len(sentences) + 1)), filler)
                room -= len(filler.split())
    return (
        [f"{_draw(rng, openers[room - 1])} {sentences[0]}", *sentences[1:]]
        if room > 0
        else sentences
    )


def _fill(rng: np.random.Generator, template: str, **words: str) -> str:
    """Fill each gap of a template with the given word, or with a random word of its
    kind.
    """
    gaps = ((part, part[1:-1]) for part in template.split())
    return " ".join(
        (words.get(gap) or _draw(rng, GAPS[gap])) if part[0] == "{" else part
        for part, gap in gaps
    )


def _draw(rng: np.random.Generator, choices: Sequence[str]) -> str:
    return choices[int(rng.integers(len(choices)))]
