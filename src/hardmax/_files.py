"""Files that are written whole or not at all."""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from errno import EISDIR
from os import PathLike
from pathlib import Path


@contextmanager
def written_whole(path: str | PathLike[str]) -> Iterator[Path]:
    """Give a temporary path beside `path`, with its ending; rename it when the block ends well, else remove it."""
    target = Path(path)
    try:
        if target.is_dir():
            raise IsADirectoryError(EISDIR, "It is a folder")
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = target.parent / f".{target.stem}-{secrets.token_hex(8)}{target.suffix}"
        os.close(
            os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666)
        )  # less the user's mask, as `open` does
    except OSError as error:
        if isinstance(error, FileExistsError | NotADirectoryError):
            error.strerror = "Its folder is a file"
        raise OSError(
            f"`{target}` must be a file that can be written. Got: {error.strerror}. Choose another path."
        ) from None
    try:
        yield temporary
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)
