"""The Large Movie Review Dataset of Maas et al. (ACL 2011), from its public home or from a copy."""

import hashlib
import http.client
import lzma
import os
import re
import sys
import tarfile
import urllib.error
import urllib.request
import zlib
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing
from os import PathLike
from pathlib import Path

from hardmax._errors import InputError, ParameterError
from hardmax._files import written_whole
from hardmax.sentiment.tables import Table, read_texts

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
    progress: Progress | None = None,
) -> dict[str, Table]:
    """Load 25,000 reviews to train on and 25,000 to test on, labelled "neg" and "pos".

    The first use downloads 84 MB and checks their SHA-256; later ones need no network. Reviews are read from within
    the archive, and nothing in it is written to disk. They come ordered by label, then by number.

    Parameters
    ----------
    source : str or path, optional
        A copy to read instead: the archive, a folder that it was unpacked to, or a folder with `train.parquet` and
        `test.parquet` whose columns are `text` and `label` (0 and 1). Its hash is not checked.
    cache : str or path, optional
        The folder to keep the archive in: `$HARDMAX_CACHE`, or `hardmax` in the user's cache folder, unless said.
    url, sha256 : str
        Where the archive comes from, and what it must be.
    progress : callable, optional
        Called with the number of bytes that have come, and of all bytes (None where the server does not say).

    Returns
    -------
    dict of Table
        "train" and "test".

    Raises
    ------
    OSError
        If it cannot be downloaded or kept; the sentence says what to download by hand, and where to put it.
    ValueError
        If what was found is something else.

    Examples
    --------
    >>> reviews = load_imdb()  # doctest: +SKIP
    >>> len(reviews["train"].texts), reviews["train"].labels[0]  # doctest: +SKIP
    (25000, 'neg')
    """
    path = _cached(cache_folder(cache) / FILE, url, sha256, progress) if source is None else Path(source)
    if not path.exists():
        raise FileNotFoundError(
            f"`source` must be an archive or a folder. Got nothing at {str(path)!r}. Leave it out to download {FILE}."
        )
    if all((path / f"{split}.parquet").is_file() for split in SPLITS):
        return {split: _from_parquet(path / f"{split}.parquet") for split in SPLITS}
    return _tables(_folder_reviews(path) if path.is_dir() else _archive_reviews(path), path)


def cache_folder(cache: str | PathLike[str] | None = None) -> Path:
    """The folder for downloads: `cache`, else `$HARDMAX_CACHE`, else `hardmax` in the user's cache folder."""
    chosen = cache or os.environ.get("HARDMAX_CACHE")
    if chosen:
        return Path(chosen).expanduser()
    home = {"win32": "AppData/Local", "darwin": "Library/Caches"}.get(sys.platform, ".cache")
    given = os.environ.get("LOCALAPPDATA" if sys.platform == "win32" else "XDG_CACHE_HOME")
    return (Path(given) if given else Path.home() / home) / "hardmax"


def _cached(path: Path, url: str, sha256: str, progress: Progress | None) -> Path:
    if path.is_file():
        _check_hash(path, path, sha256)
        return path
    with written_whole(path) as temporary:
        with temporary.open("wb") as file, closing(_download(url, path)) as chunks:
            for chunk, total in chunks:
                file.write(chunk)
                if progress is not None:
                    progress(file.tell(), total)
        _check_hash(temporary, url, sha256)
    return path


def _download(url: str, path: Path) -> Generator[tuple[bytes, int | None], None, None]:
    done, total = 0, None
    try:
        with urllib.request.urlopen(url, timeout=TIMEOUT) as response:
            length = response.headers.get("Content-Length")
            total = int(length) if length else None
            while chunk := response.read(CHUNK):
                yield chunk, total
                done += len(chunk)
        problem = f"only {done} of {total} bytes" if total is not None and done < total else ""
    except (OSError, http.client.HTTPException, ValueError) as error:
        problem = str(getattr(error, "reason", error)) or type(error).__name__
        if isinstance(error, urllib.error.HTTPError):
            problem = f"{error.code} {problem}"
            error.close()
    if problem:
        raise OSError(
            f"The Large Movie Review Dataset must be downloaded once. Got from {url}: {problem}. Try again, or "
            f"download it by hand and put it at {path}, or pass the path of a copy as `source`."
        )


def _check_hash(path: Path, origin: str | Path, sha256: str) -> None:
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != sha256.lower():
        path.unlink()
        raise InputError(
            f"{FILE} must have the SHA-256 {sha256}. Got {found} from {origin}, so it is damaged or another file, and "
            "was deleted. Download it again."
        )


def _archive_reviews(path: Path) -> Iterator[tuple[Key, bytes]]:
    try:
        with tarfile.open(path, "r:*") as archive:  # members are read, never extracted; a cut file is noticed
            for member in archive:
                match = MEMBER.fullmatch(member.name)
                content = archive.extractfile(member) if match and member.isreg() else None
                if match and content:
                    yield _key(match), content.read()
    except (tarfile.TarError, EOFError, zlib.error, lzma.LZMAError, OSError) as error:
        reason = str(error).partition("\n")[0].rstrip(":")
        raise InputError(
            f"`{path}` must be an archive such as {FILE}. Got: {reason}. Download it again from {URL}."
        ) from None


def _folder_reviews(path: Path) -> Iterator[tuple[Key, bytes]]:
    for root in (path, path / "aclImdb"):
        for file in root.glob("t*/[np]*/*.txt"):  # train and test, neg and pos; MEMBER decides
            match = MEMBER.fullmatch(file.relative_to(root).as_posix())
            if match:
                yield _key(match), file.read_bytes()


def _key(match: re.Match[str]) -> Key:
    split, label, number, rating = match.groups()
    return split, label, int(number), int(rating)


def _tables(reviews: Iterable[tuple[Key, bytes]], path: Path) -> dict[str, Table]:
    ordered = sorted(reviews)
    found = {key[:2] for key, _ in ordered}
    missing = [f"{split}/{label}" for split in SPLITS for label in LABELS if (split, label) not in found]
    if missing:
        raise ParameterError(
            path,
            "hold reviews in train/neg, train/pos, test/neg and test/pos, named such as 12_7.txt",
            f"none in {', '.join(missing)}",
            f"Download {URL}.",
        )
    return {split: _table([pair for pair in ordered if pair[0][0] == split], path) for split in SPLITS}


def _table(reviews: list[tuple[Key, bytes]], path: Path) -> Table:
    return Table([_text(key, data, path) for key, data in reviews], [key[1] for key, _ in reviews], "text", "label")


def _text(key: Key, data: bytes, path: Path) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        name = "{}/{}/{}_{}.txt".format(*key)
        raise ParameterError(
            path, "hold reviews in UTF-8", f"another byte in {name} at offset {error.start}", f"Download {URL} again."
        ) from None


def _from_parquet(path: Path) -> Table:
    table = read_texts(path, text="text", label="label")
    wrong = sorted(set(table.labels or ()) - set(NUMBERS))
    if wrong:
        raise InputError(f"The labels of `{path}` must be 0 or 1. Got {wrong[0]!r}. Write 0 for neg and 1 for pos.")
    labels = [NUMBERS[label] for label in table.labels or ()]
    order = sorted(range(len(labels)), key=labels.__getitem__)  # stable: as in the archive, if each label is in order
    return Table([table.texts[i] for i in order], [labels[i] for i in order], "text", "label", table.skipped)
