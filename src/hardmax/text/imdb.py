"""The Large Movie Review Dataset of Maas et al. (ACL 2011), from its public home or from a copy."""

import lzma
import os
import re
import tarfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from os import PathLike
from pathlib import Path

from hardmax._errors import InputError, ParameterError, needed_for
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
        The folder to keep the archive in: `$HARDMAX_CACHE`, or `hardmax` in the user's cache folder, unless said.
    url, sha256 : str
        Where the archive comes from, and what it must be.
    ratings : bool
        Label reviews "1" to "4" and "7" to "10" instead.
    progress : callable, optional
        Called with the number of bytes that have come, and of all bytes (None where the server does not say).
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
    pooch.get_logger().setLevel("WARNING")  # a bar says what goes on, or nothing does
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
    """What pooch moves, as a function of the bytes that have come and of all bytes."""

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
