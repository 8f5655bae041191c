"""The Large Movie Review Dataset, on a small archive of the same shape."""

import hashlib
import http.server
import io
import tarfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pooch
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hardmax.text import datasets
from hardmax.text.datasets import FILE, load_imdb

REVIEWS = {
    f"{split}/{label}/{number}_{rating}.txt": (
        f"{split} {label} {number} caf\u00e9<br />".encode()
    )
    for split in ("train", "test")
    for label, rating in (("pos", 9), ("neg", 2))
    for number in (10, 2, 0)
}
TEXTS = [
    f"{label} {number} caf\u00e9<br />"
    for label in ("neg", "pos")
    for number in (0, 2, 10)
]
OTHER = dict.fromkeys(
    ("README", "train/unsup/0_0.txt", "imdb.vocab", "train/pos/notes.txt"), b"no review"
)


def write_archive(
    path: Path, files: dict[str, bytes] = REVIEWS | OTHER, mode: Any = "w:gz"
) -> Path:
    with tarfile.open(path, mode) as archive:
        link = tarfile.TarInfo("aclImdb/train/pos/7_7.txt")
        link.type, link.linkname = (
            tarfile.SYMTYPE,
            "/etc/hostname",
        )  # a link must not be followed
        archive.addfile(link)
        for name, content in files.items():
            member = tarfile.TarInfo(f"aclImdb/{name}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return path


def write_parquet(folder: Path, labels: list[Any]) -> Path:
    for split in ("train", "test"):
        texts = [f"{split} {TEXTS[i]}" for i in (0, 3, 1, 4, 2, 5)]
        columns = {"text": texts, "label": labels, "rating": [3, 10] * 3}
        pq.write_table(pa.table(columns), folder / f"{split}.parquet")
    return folder


def check(loaded: dict[str, Any], labels: tuple[str, str] = ("neg", "pos")) -> None:
    """Check all texts of both splits in order, and the labels of negative and positive
    ones.
    """
    assert list(loaded) == ["train", "test"]
    for split, table in loaded.items():
        assert table.texts == [f"{split} {text}" for text in TEXTS]
        assert table.labels == [labels[0]] * 3 + [labels[1]] * 3


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:xz"])
def test_an_archive(tmp_path: Path, mode: str) -> None:
    archive = write_archive(tmp_path / "copy.tar", mode=mode)
    check(load_imdb(source=archive))
    check(load_imdb(source=archive, ratings=True), ("2", "9"))


@pytest.mark.parametrize("inner", ["", "aclImdb"])
def test_an_unpacked_folder(tmp_path: Path, inner: str) -> None:
    for name, content in (REVIEWS | OTHER).items():
        path = tmp_path / inner / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    check(load_imdb(source=str(tmp_path)))


@pytest.mark.parametrize("labels", [[0, 1] * 3, ["neg", "pos"] * 3])
def test_parquet_files(tmp_path: Path, labels: list[Any]) -> None:
    write_parquet(tmp_path, labels)
    check(load_imdb(source=tmp_path))
    assert load_imdb(source=tmp_path, ratings=True)["test"].labels == ["3", "10"] * 3


def test_invalid_copies(tmp_path: Path) -> None:
    def refused(source: Path, match: str) -> None:
        with pytest.raises(ValueError, match=match):
            load_imdb(source=source)

    refused(tmp_path / "nowhere", r"`source` must be an archive or a folder")
    (tmp_path / "text.tar.gz").write_text("not an archive")
    refused(
        tmp_path / "text.tar.gz",
        r"must be an archive such as aclImdb_v1.tar.gz. Got: .* Download it again",
    )
    (tmp_path / "cut.tar.gz").write_bytes(
        write_archive(tmp_path / "whole.tar.gz").read_bytes()[:150]
    )
    refused(tmp_path / "cut.tar.gz", r"must be an archive such as")
    some = {
        name: text for name, text in REVIEWS.items() if not name.startswith("test/neg")
    }
    refused(
        write_archive(tmp_path / "some.tar.gz", some),
        r"must hold reviews in train/neg, .* Got none in test/neg",
    )
    latin = REVIEWS | {"test/neg/4_1.txt": b"caf\xe9"}
    refused(
        write_archive(tmp_path / "latin.tar.gz", latin),
        r"in UTF-8. Got .* in test/neg/4_1.txt at offset 3",
    )
    refused(
        write_parquet(tmp_path, [0, 1, 2] * 2),
        r"The labels of .* must be 0 or 1. Got '2'",
    )


class Handler(http.server.BaseHTTPRequestHandler):
    content, promised, status = b"", 0, 200

    def do_GET(self) -> None:
        self.send_response(self.status)
        if self.promised:
            self.send_header("Content-Length", str(self.promised))
        self.end_headers()
        self.wfile.write(self.content)

    def log_message(self, *args: Any) -> None:
        pass


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HARDMAX_CACHE", str(tmp_path / "new" / "cache"))
    return tmp_path / "new" / "cache"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A server of the archive; its attributes can be changed."""
    data = write_archive(tmp_path / "home.tar.gz").read_bytes()
    monkeypatch.setattr(datasets, "SHA256", hashlib.sha256(data).hexdigest())
    handler: Any = type("Home", (Handler,), {"content": data, "promised": len(data)})
    with http.server.HTTPServer(("127.0.0.1", 0), handler) as server:
        monkeypatch.setattr(
            datasets, "URL", f"http://127.0.0.1:{server.server_port}/{FILE}"
        )
        thread = threading.Thread(
            target=server.serve_forever, kwargs={"poll_interval": 0.01}
        )
        thread.start()
        yield handler
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("with_length", [True, False])
def test_download_progress_and_reuse(
    home: Any, cache: Path, monkeypatch: pytest.MonkeyPatch, with_length: bool
) -> None:
    monkeypatch.setattr(datasets, "CHUNK", 100)
    calls: list[tuple[int, int | None]] = []
    size = len(home.content)
    home.promised = size * with_length
    check(load_imdb(progress=lambda *call: calls.append(call)))
    assert {total for _, total in calls} == {size if with_length else None}
    assert calls[-1][0] >= size
    if with_length:
        assert sorted({done for done, _ in calls}) == [*range(100, size, 100), size]
    assert [file.name for file in cache.iterdir()] == [
        FILE
    ]  # nothing unpacked, no temporary file left
    with monkeypatch.context() as patch:
        patch.setattr(datasets, "URL", "nowhere")
        check(load_imdb())  # the network is not used again
    (cache / FILE).write_bytes(b"half")
    check(load_imdb())  # a damaged file is downloaded again


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"content": b"x" * 50}, "50 bytes read, .* Try again, or download it"),
        (
            {"status": 404, "content": b"", "promised": 0},
            "404 Client Error: Not Found .* or pass .*`source`",
        ),
        ({"SHA256": "0" * 64}, "expected 0+ but got .* Try again, or download it"),
        ({"URL": "http://127.0.0.1:9/x"}, "from http://127.0.0.1:9/x: "),
        ({"URL": "nowhere"}, "from nowhere: Invalid URL"),
    ],
)
def test_a_failed_download_leaves_nothing(
    home: Any,
    cache: Path,
    monkeypatch: pytest.MonkeyPatch,
    changes: dict[str, Any],
    match: str,
) -> None:
    for name, value in changes.items():
        monkeypatch.setattr(datasets if name.isupper() else home, name, value)
    with pytest.raises(OSError, match=f"must be downloaded once. Got .*{match}"):
        load_imdb()
    assert not any(cache.glob("*"))


@pytest.mark.usefixtures("home")
def test_an_interrupt_leaves_nothing(cache: Path) -> None:
    def stop(done: int, total: int | None) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        load_imdb(progress=stop)
    assert list(cache.iterdir()) == []


@pytest.mark.usefixtures("home")
def test_the_cache_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(pooch, "os_cache", lambda name: tmp_path / "usual" / name)
    monkeypatch.delenv("HARDMAX_CACHE", raising=False)
    load_imdb()
    assert (tmp_path / "usual" / "hardmax" / FILE).is_file()
    monkeypatch.setenv("HARDMAX_CACHE", str(tmp_path / "mine"))
    load_imdb()
    assert (tmp_path / "mine" / FILE).is_file()
    monkeypatch.setenv("HARDMAX_CACHE", str(tmp_path / "home.tar.gz"))
    with pytest.raises(
        OSError, match=r"must be downloaded once. Got .*Not a directory"
    ):
        load_imdb()
