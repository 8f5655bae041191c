"""Files that are written whole or not at all."""

import os
import tempfile
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
        handle, name = tempfile.mkstemp(prefix=f".{target.stem}-", suffix=target.suffix, dir=target.parent)
    except OSError as error:
        if isinstance(error, FileExistsError | NotADirectoryError):
            error.strerror = "Its folder is a file"
        raise OSError(
            f"`{target}` must be a file that can be written. Got: {error.strerror}. Choose another path."
        ) from None
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        temporary.chmod(0o666 & ~_umask())  # mkstemp makes files private
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
