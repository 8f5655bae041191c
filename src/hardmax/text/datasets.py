"""Labelled texts: the Large Movie Review Dataset of Maas et al. (ACL 2011), and synthetic reviews."""

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
from typing import Any, NamedTuple

import numpy as np

from hardmax._errors import InputError, ParameterError, needed_for
from hardmax._validation import check_count
from hardmax.text.tables import TextTable, read_texts

URL = "https://ai.stanford.edu/~amaas/data/sentiment/aclImdb_v1.tar.gz"
SHA256 = "c40f74a18d3b61f90feba1e17730e0d38e8b97c05fde7008942e91923d1658fe"
FILE = "aclImdb_v1.tar.gz"
SPLITS, LABELS = ("train", "test"), ("neg", "pos")
MEMBER = re.compile(r"(?:\./)?(?:[^/]+/)?(train|test)/(neg|pos)/(\d+)_(\d+)\.txt")
NUMBERS = {"0": "neg", "1": "pos", "neg": "neg", "pos": "pos"}
CHUNK = 2**18  # bytes between two calls of `progress`
TIMEOUT = 60  # seconds without a byte

Progress = Callable[[int, int | None], None]
Key = tuple[str, str, int, int]  # split, label, id, rating
with Path(__file__).with_name("reviews.toml").open("rb") as _file:
    LANGUAGE = tomllib.load(_file)
GAPS = LANGUAGE["gaps"] | {"aspect": LANGUAGE["gaps"]["first"] + LANGUAGE["gaps"]["second"]}
OTHER = {"positive": "negative", "negative": "positive"}
MAX_SENTENCE = 15  # words of the longest sentence with a sentiment word
MIN_WORDS_FOR_TWO = 22  # words of a review that may hold two such sentences
PROBABILITY_OF_TWO = 0.4  # unless it holds a contrast
MAX_DRAWS = 100  # of a review that equals an earlier one


def load_imdb(
    *,
    source: str | PathLike[str] | None = None,
    cache: str | PathLike[str] | None = None,
    url: str = URL,
    sha256: str = SHA256,
    ratings: bool = False,
    progress: Progress | None = None,
) -> dict[str, TextTable]:
    """Load "train" and "test", 25,000 reviews each, labelled "neg" and "pos", or with their ratings.

    The first use downloads 84 MB and checks their SHA-256; later ones check it again and need no network, unless the
    file was damaged. Reviews are read from within the archive, and nothing in it is written to disk. They come ordered
    by label, then by number.

    Parameters
    ----------
    source : str or path, optional
        A copy to read instead: the archive, a folder that it was unpacked to, or a folder with `train.parquet` and
        `test.parquet` whose columns are `text`, `label` (0 and 1) and, for ratings, `rating`. Its hash is not checked.
    cache : str or path, optional
        Folder of the archive; `$HARDMAX_CACHE`, or `hardmax` in the user's cache folder, by default.
    url, sha256 : str
        Address and SHA-256 of the archive.
    ratings : bool
        Label reviews "1" to "4" and "7" to "10" instead.
    progress : callable, optional
        Called with the number of bytes received, and of all bytes (None if unknown).
    """
    path = _download(cache, url, sha256, progress) if source is None else Path(source)
    if not path.exists():
        advice = f"Leave it out to download {FILE}."
        raise ParameterError("source", "be an archive or a folder", f"nothing at {str(path)!r}", advice)
    if all((path / f"{split}.parquet").is_file() for split in SPLITS):
        return {split: _from_parquet(path / f"{split}.parquet", ratings=ratings) for split in SPLITS}
    return _tables(_folder_reviews(path) if path.is_dir() else _archive_reviews(path), path, ratings=ratings)


def _download(cache: str | PathLike[str] | None, url: str, sha256: str, progress: Progress | None) -> Path:
    with needed_for("Downloading reviews", "pooch", "text"):
        import pooch
    pooch.get_logger().setLevel("WARNING")  # the progress bar replaces its messages
    folder = Path(cache or os.environ.get("HARDMAX_CACHE") or pooch.os_cache("hardmax")).expanduser()
    bar = None if progress is None else _Bar(progress)
    download = pooch.HTTPDownloader(progressbar=bar, chunk_size=CHUNK, timeout=TIMEOUT)
    try:
        return Path(pooch.retrieve(url, sha256.lower(), FILE, folder, downloader=download))
    except (OSError, ValueError) as error:  # of the network, the disk, or the hash
        raise OSError(
            f"The Large Movie Review Dataset must be downloaded once. Got from {url}: {str(error).rstrip('.')}. Try "
            f"again, or download it by hand and put it at {folder / FILE}, or pass the path of a copy as `source`."
        ) from None


class _Bar:
    """Progress bar for pooch that calls a function with the bytes received and all bytes."""

    def __init__(self, progress: Progress) -> None:
        self.progress, self.done, self.total = progress, 0, 0

    def update(self, more: int) -> None:
        self.done = min(self.done + more, self.total) if self.total else self.done + more
        self.progress(self.done, self.total or None)

    def reset(self) -> None:
        pass

    close = reset


def _archive_reviews(path: Path) -> Iterator[tuple[re.Match[str], bytes]]:
    try:
        with tarfile.open(path, "r:*") as archive:  # members are read, never extracted; a cut file is noticed
            for member in archive:
                match = MEMBER.fullmatch(member.name)
                content = archive.extractfile(member) if match and member.isreg() else None
                if match and content:
                    yield match, content.read()
    except (tarfile.TarError, EOFError, zlib.error, lzma.LZMAError, OSError) as error:
        reason = str(error).partition("\n")[0].rstrip(":")
        must = f"`{path}` must be an archive such as {FILE}."
        raise InputError(f"{must} Got: {reason}. Download it again from {URL}.") from None


def _folder_reviews(path: Path) -> Iterator[tuple[re.Match[str], bytes]]:
    for root in (path, path / "aclImdb"):
        for file in root.glob("t*/[np]*/*.txt"):  # train and test, neg and pos; MEMBER decides
            match = MEMBER.fullmatch(file.relative_to(root).as_posix())
            if match:
                yield match, file.read_bytes()


def _tables(reviews: Iterable[tuple[re.Match[str], bytes]], path: Path, *, ratings: bool) -> dict[str, TextTable]:
    ordered = sorted(((name[1], name[2], int(name[3]), int(name[4])), data) for name, data in reviews)
    found = {key[:2] for key, _ in ordered}
    missing = [f"{split}/{label}" for split in SPLITS for label in LABELS if (split, label) not in found]
    if missing:
        must = "hold reviews in train/neg, train/pos, test/neg and test/pos, named such as 12_7.txt"
        raise ParameterError(path, must, f"none in {', '.join(missing)}", f"Download {URL}.")
    texts = {split: [_text(key, data, path) for key, data in ordered if key[0] == split] for split in SPLITS}
    labels = {split: [str(key[3]) if ratings else key[1] for key, _ in ordered if key[0] == split] for split in SPLITS}
    return {split: TextTable(texts[split], labels[split], "text", "label") for split in SPLITS}


def _text(key: Key, data: bytes, path: Path) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        got = "another byte in {}/{}/{}_{}.txt at offset {}".format(*key, error.start)
        raise ParameterError(path, "hold reviews in UTF-8", got, f"Download {URL} again.") from None


def _from_parquet(path: Path, *, ratings: bool) -> TextTable:
    if ratings:
        return read_texts(path, text="text", label="rating")
    table = read_texts(path, text="text", label="label")
    wrong = sorted(set(table.labels or ()) - set(NUMBERS))
    if wrong:
        raise InputError(f"The labels of `{path}` must be 0 or 1. Got {wrong[0]!r}. Write 0 for neg and 1 for pos.")
    labels = [NUMBERS[label] for label in table.labels or ()]
    order = sorted(range(len(labels)), key=labels.__getitem__)  # stable: as in the archive, if each label is in order
    return TextTable([table.texts[i] for i in order], [labels[i] for i in order], "text", "label", table.skipped)


class Corpus(NamedTuple):
    """Reviews, their labels, and the words that carry the label."""

    texts: list[str]
    labels: list[str]  # "negative" or "positive"
    planted: list[tuple[str, ...]]  # for each text the words, or pairs such as "not good", that carry its label


def reviews(
    n: int, *, seed: int = 0, negation: float = 0.2, contrast: float = 0.2, length: tuple[int, int] = (6, 30)
) -> Corpus:
    """Return synthetic reviews whose sentiment depends on known words; the same arguments give the same reviews.

    A sentiment word carries the label. A negation in front of it reverses it: "not good". In a contrast, what follows
    "but" wins: "the acting is fine but the story is awful". All other words are neutral. No two reviews are equal. Use
    it to test a classifier and its explanations; for real text use `load_imdb`.

    Parameters
    ----------
    n : int
        Number of reviews; half of them are positive, and one more if n is odd.
    seed : int
        0 or larger.
    negation, contrast : float
        Probability that a sentiment word is negated, and that a review holds a contrast.
    length : pair of int
        Smallest and largest number of words of a review; the largest is at least 15.

    Returns
    -------
    Corpus
        `texts`, `labels` and `planted`, the words that carry the labels: lists of n.

    Raises
    ------
    ParameterError
        If a number is out of range.

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
    low, high = _check_length(length)
    negation, contrast = _check_share(negation, "negation"), _check_share(contrast, "contrast")
    labels = [("positive", "negative")[i % 2] for i in rng.permutation(n)]
    made = [_review(rng, label, negation, contrast, int(rng.integers(low, high + 1))) for label in labels]
    known, again = set[str](), np.random.default_rng([seed, 1])  # of its own: other texts stay as they are
    for i, label in enumerate(labels):
        for _ in range(MAX_DRAWS):
            if made[i][0] not in known:
                break
            made[i] = _review(again, label, negation, contrast, int(again.integers(low, high + 1)))
        known.add(made[i][0])
    return Corpus([text for text, _ in made], labels, [words for _, words in made])


def _review(
    rng: np.random.Generator, label: str, negation: float, contrast: float, target: int
) -> tuple[str, tuple[str, ...]]:
    """Return a review of about `target` words, and the words that carry its label."""
    word = _phrase(rng, label, negation)
    if rng.random() < contrast:
        lost = _phrase(rng, OTHER[label], negation, strongest=1)
        sentences, planted = [_fill(rng, _one(rng, LANGUAGE["contrasts"]), word=word, lost=lost)], [word]
    else:
        sentences, planted = [_fill(rng, _one(rng, LANGUAGE["plain"]), word=word)], [word]
        if target >= MIN_WORDS_FOR_TWO and rng.random() < PROBABILITY_OF_TWO:
            planted.append(_phrase(rng, label, negation))
            sentences.append(_fill(rng, _one(rng, LANGUAGE["plain"]), word=planted[-1]))
    sentences = _lengthened(rng, sentences, target)
    return " ".join(f"{sentence[0].upper()}{sentence[1:]}." for sentence in sentences), tuple(planted)


def _phrase(rng: np.random.Generator, label: str, negation: float, strongest: int = 3) -> str:
    """Return a word of that sentiment, or a negation and a word of the other sentiment, but not a strong one."""
    if rng.random() < negation:
        denied = LANGUAGE["words"][OTHER[label]][: min(strongest, 2)]
        return f"{_one(rng, LANGUAGE['negations'])} {_one(rng, list(chain(*denied)))}"
    return _one(rng, list(chain(*LANGUAGE["words"][label][:strongest])))


def _lengthened(rng: np.random.Generator, sentences: list[str], target: int) -> list[str]:
    """Add neutral sentences before and after, and an opener of the one or two words that are missing."""
    room = target - sum(len(sentence.split()) for sentence in sentences)
    fillers, openers = LANGUAGE["fillers"], LANGUAGE["openers"]
    while room > len(openers):
        for i in rng.permutation(len(fillers)):
            filler = _fill(rng, fillers[i])
            if len(filler.split()) <= room:
                sentences.insert(int(rng.integers(len(sentences) + 1)), filler)
                room -= len(filler.split())
    return [f"{_one(rng, openers[room - 1])} {sentences[0]}", *sentences[1:]] if room > 0 else sentences


def _fill(rng: np.random.Generator, template: str, **words: str) -> str:
    """Fill each gap of a template with the given word, or with a random word of its kind."""

    def filled(word: str) -> str:
        return (words.get(word[1:-1]) or _one(rng, GAPS[word[1:-1]])) if word[0] == "{" else word

    return " ".join(map(filled, template.split()))


def _one(rng: np.random.Generator, choices: Sequence[str]) -> str:
    return choices[int(rng.integers(len(choices)))]


def _check_share(value: Any, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | np.number) or not 0 <= value <= 1:
        raise ParameterError(name, "be a number between 0 and 1", f"{value!r}", "Try 0.2.")
    return float(value)


def _check_length(length: Any) -> tuple[int, int]:
    pair = tuple(length) if isinstance(length, tuple | list) else ()
    whole = all(isinstance(number, int | np.integer) and not isinstance(number, bool) for number in pair)
    if len(pair) != 2 or not whole or not 1 <= pair[0] <= pair[1] or pair[1] < MAX_SENTENCE:
        must = f"be two integers, the smallest and the largest number of words, the largest at least {MAX_SENTENCE}"
        raise ParameterError("length", must, f"{length!r}", "Try (6, 30).")
    return int(pair[0]), int(pair[1])
