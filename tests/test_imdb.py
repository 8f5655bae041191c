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
import pytest

from hardmax.text import datasets
from hardmax.text.datasets import FILE, load_imdb

REVIEWS = {
    f"{split}/{label}/{number}_{rating}.txt": f"{split} {label} {number} caf\u00e9<br />"
    for split in ("train", "test")
    for label, rating in (("pos", 9), ("neg", 2))
    for number in (10, 2, 0)
}
TEXTS = [f"{label} {number} caf\u00e9<br />" for label in ("neg", "pos") for number in (0, 2, 10)]
EXTRA = {"README": "about", "train/unsup/0_0.txt": "no label", "imdb.vocab": "the", "train/pos/notes.txt": "no number"}
WHOLE = {"train": [f"train {text}" for text in TEXTS], "test": [f"test {text}" for text in TEXTS]}


def write_archive(path: Path, files: dict[str, bytes], mode: Any = "w:gz") -> Path:
    with tarfile.open(path, mode) as archive:
        link = tarfile.TarInfo("aclImdb/train/pos/7_7.txt")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/hostname"  # a link must not be followed
        archive.addfile(link)
        for name, content in files.items():
            member = tarfile.TarInfo(f"aclImdb/{name}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return path


def encoded(files: dict[str, str]) -> dict[str, bytes]:
    return {name: text.encode() for name, text in files.items()}


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    return write_archive(tmp_path / "home.tar.gz", encoded(REVIEWS | EXTRA))


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def check(loaded: dict[str, Any]) -> None:
    assert {split: table.texts for split, table in loaded.items()} == WHOLE
    assert all(table.labels == ["neg"] * 3 + ["pos"] * 3 for table in loaded.values())
    assert list(loaded) == ["train", "test"]


def test_ratings_instead_of_labels(archive: Path, tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    loaded = load_imdb(source=archive, ratings=True)
    assert {split: table.texts for split, table in loaded.items()} == WHOLE
    assert loaded["train"].labels == ["2"] * 3 + ["9"] * 3
    for split in ("train", "test"):
        frame = pandas.DataFrame({"text": ["a", "b"], "label": [0, 1], "rating": [3, 10]})
        frame.to_parquet(tmp_path / f"{split}.parquet")
    assert load_imdb(source=tmp_path, ratings=True)["test"].labels == ["3", "10"]


class Handler(http.server.BaseHTTPRequestHandler):
    content, promised, with_length, status = b"", 0, True, 200

    def do_GET(self) -> None:
        self.send_response(self.status)
        if self.with_length:
            self.send_header("Content-Length", str(self.promised))
        self.end_headers()
        self.wfile.write(self.content)

    def log_message(self, *args: Any) -> None:
        pass


@pytest.fixture
def server(archive: Path) -> Iterator[tuple[type[Handler], str]]:
    data = archive.read_bytes()
    handler = type("Home", (Handler,), {"content": data, "promised": len(data)})
    with http.server.HTTPServer(("127.0.0.1", 0), handler) as home:
        thread = threading.Thread(target=home.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield handler, f"http://127.0.0.1:{home.server_port}/{FILE}"
        home.shutdown()
        thread.join()


def test_download_progress_and_reuse(
    archive: Path, server: tuple[type[Handler], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, url = server
    monkeypatch.setattr(datasets, "CHUNK", 100)
    calls: list[tuple[int, int | None]] = []
    cache = tmp_path / "new" / "cache"
    check(load_imdb(cache=cache, url=url, sha256=sha256(archive), progress=lambda *call: calls.append(call)))
    size = archive.stat().st_size
    assert sorted({done for done, _ in calls}) == [*range(100, size, 100), size]
    assert {total for _, total in calls} == {size}
    assert [file.name for file in cache.iterdir()] == [FILE]  # nothing unpacked, no temporary file left
    check(load_imdb(cache=cache, url="nowhere", sha256=sha256(archive).upper()))  # the network is not used again


def test_a_server_that_does_not_say_the_length(
    archive: Path, server: tuple[type[Handler], str], tmp_path: Path
) -> None:
    handler, url = server
    handler.with_length = False
    calls: list[tuple[int, int | None]] = []
    check(load_imdb(cache=tmp_path / "c", url=url, sha256=sha256(archive), progress=lambda *call: calls.append(call)))
    assert calls[-1][0] >= archive.stat().st_size
    assert {total for _, total in calls} == {None}


def test_an_interrupted_download(archive: Path, server: tuple[type[Handler], str], tmp_path: Path) -> None:
    handler, url = server
    whole, handler.content = handler.content, handler.content[:50]
    must = rf"must be downloaded once. Got from {url}: .*50 bytes read, .* Try again, or download it"
    with pytest.raises(OSError, match=must):
        load_imdb(cache=tmp_path / "c", url=url, sha256=sha256(archive))
    assert list((tmp_path / "c").iterdir()) == []
    handler.content = whole
    check(load_imdb(cache=tmp_path / "c", url=url, sha256=sha256(archive)))


def test_a_stop_by_the_user_leaves_nothing(archive: Path, server: tuple[type[Handler], str], tmp_path: Path) -> None:
    def stop(done: int, total: int | None) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        load_imdb(cache=tmp_path / "c", url=server[1], sha256=sha256(archive), progress=stop)
    assert list((tmp_path / "c").iterdir()) == []


def test_no_network(tmp_path: Path, server: tuple[type[Handler], str]) -> None:
    handler, url = server
    handler.status, handler.content, handler.promised = 404, b"", 0
    with pytest.raises(
        OSError, match=f"404 Client Error: Not Found .* Try again, .* put it at {tmp_path / FILE}, or pass .*`source`"
    ):
        load_imdb(cache=tmp_path, url=url)
    with pytest.raises(OSError, match=r"must be downloaded once. Got from http://127.0.0.1:9/x: "):
        load_imdb(cache=tmp_path, url="http://127.0.0.1:9/x")
    with pytest.raises(OSError, match=r"must be downloaded once. Got from nowhere: Invalid URL"):
        load_imdb(cache=tmp_path, url="nowhere")
    assert not (tmp_path / FILE).exists()


def test_a_wrong_hash_leaves_nothing(archive: Path, server: tuple[type[Handler], str], tmp_path: Path) -> None:
    cache, url = tmp_path / "c", server[1]
    must = rf"Got from {url}: .* expected {datasets.SHA256} but got {sha256(archive)}.* Try again, or download it"
    with pytest.raises(OSError, match=must):
        load_imdb(cache=cache, url=url)
    assert list(cache.iterdir()) == []
    (cache / FILE).write_bytes(b"half")
    check(load_imdb(cache=cache, url=url, sha256=sha256(archive)))  # a damaged file is downloaded again


def test_a_cache_that_cannot_be_written(server: tuple[type[Handler], str], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(OSError, match=r"must be downloaded once. Got .*Not a directory"):
        load_imdb(cache=tmp_path / "file", url=server[1])


def test_where_the_cache_is(
    archive: Path, server: tuple[type[Handler], str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(pooch, "os_cache", lambda name: tmp_path / "usual" / name)
    monkeypatch.delenv("HARDMAX_CACHE", raising=False)
    load_imdb(url=server[1], sha256=sha256(archive))
    assert (tmp_path / "usual" / "hardmax" / FILE).is_file()
    monkeypatch.setenv("HARDMAX_CACHE", str(tmp_path / "mine"))
    load_imdb(url=server[1], sha256=sha256(archive))
    assert (tmp_path / "mine" / FILE).is_file()


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:xz"])
def test_a_local_archive(tmp_path: Path, mode: str) -> None:
    check(load_imdb(source=write_archive(tmp_path / "copy.tar", encoded(REVIEWS | EXTRA), mode)))


@pytest.mark.parametrize("inner", ["", "aclImdb"])
def test_an_unpacked_folder(tmp_path: Path, inner: str) -> None:
    for name, text in (REVIEWS | EXTRA).items():
        path = tmp_path / inner / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())
    check(load_imdb(source=str(tmp_path)))


def write_parquet(folder: Path, labels: list[Any]) -> None:
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    for split in ("train", "test"):
        texts = [f"{split} {TEXTS[i]}" for i in (0, 3, 1, 4, 2, 5)]
        parquet.write_table(
            arrow.table({"text": texts, "label": labels, "rating": [1] * 6}), folder / f"{split}.parquet"
        )


@pytest.mark.parametrize("labels", [[0, 1] * 3, ["neg", "pos"] * 3])
def test_parquet_files(tmp_path: Path, labels: list[Any]) -> None:
    write_parquet(tmp_path, labels)
    check(load_imdb(source=tmp_path))


def test_bad_copies(tmp_path: Path, archive: Path) -> None:
    with pytest.raises(ValueError, match=r"`source` must be an archive or a folder. Got nothing at '.*nowhere'"):
        load_imdb(source=tmp_path / "nowhere")
    (tmp_path / "text.tar.gz").write_text("not an archive")
    with pytest.raises(ValueError, match=r"must be an archive such as aclImdb_v1.tar.gz. Got: .* Download it again"):
        load_imdb(source=tmp_path / "text.tar.gz")
    (tmp_path / "cut.tar.gz").write_bytes(archive.read_bytes()[:150])
    with pytest.raises(ValueError, match=r"must be an archive such as"):
        load_imdb(source=tmp_path / "cut.tar.gz")
    part = {name: text for name, text in REVIEWS.items() if not name.startswith("test/neg")}
    with pytest.raises(ValueError, match=r"must hold reviews in train/neg, .* Got none in test/neg. Download"):
        load_imdb(source=write_archive(tmp_path / "part.tar.gz", encoded(part)))
    odd = encoded(REVIEWS) | {"test/neg/4_1.txt": b"caf\xe9"}
    with pytest.raises(
        ValueError, match=r"must hold reviews in UTF-8. Got another byte in test/neg/4_1.txt at offset 3"
    ):
        load_imdb(source=write_archive(tmp_path / "odd.tar.gz", odd))
    write_parquet(tmp_path, [0, 1, 2] * 2)
    with pytest.raises(ValueError, match=r"The labels of .* must be 0 or 1. Got '2'. Write 0 for neg"):
        load_imdb(source=tmp_path)
