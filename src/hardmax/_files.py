"""Files: suffixes, paths that can be written, and atomic writes."""

import os
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from errno import EISDIR
from os import PathLike
from pathlib import Path

from hardmax._errors import ParameterError


def check_ending(
    path: str | PathLike[str], endings: Sequence[str], name: str = "path"
) -> str:
    """Return the suffix of a file in lower case, one of `endings`; `name` is the
    parameter that holds the path.
    """
    ending = Path(path).suffix.lower()
    if ending not in endings:
        which = (
            " or ".join(endings) if len(endings) < 3 else f"one of {', '.join(endings)}"
        )
        raise ParameterError(
            name, f"end in {which}", f"{str(path)!r}", "Change the ending."
        )
    return ending


def save_text(text: str, path: str | PathLike[str]) -> None:
    """Write text atomically; what is no character, such as bytes of a command line,
    becomes a question mark.
    """
    with written_whole(path) as temporary:
        temporary.write_text(text, encoding="utf-8", errors="replace")


def check_writable(path: str | PathLike[str], *, folder: bool = False) -> None:
    """Refuse a file, or a folder, that cannot be written, before the work for it
    starts.
    """
    target = Path(path)
    if target.exists() and target.is_dir() != folder:
        raise _not_writable(
            target, "It is a file" if folder else "It is a folder", folder
        )
    above = target if folder else target.parent
    while not above.exists():
        above = above.parent
    if not above.is_dir():
        raise _not_writable(target, "Its folder is a file", folder)
    try:
        from tempfile import TemporaryFile  # takes a while to load

        with TemporaryFile(
            dir=above
        ):  # permissions do not show every folder that cannot be written
            pass
    except OSError as error:
        raise _not_writable(target, error.strerror, folder) from None


def _not_writable(path: Path, reason: str | None, folder: bool = False) -> OSError:
    kind = "a folder" if folder else "a file"
    return OSError(
        f"`{path}` must be {kind} that can be written. Got: {reason}. Choose another"
        " path."
    )


@contextmanager
def written_whole(path: str | PathLike[str], *, once: bool = False) -> Iterator[Path]:
    """Yield a temporary path beside `path`, with its suffix; rename it when the block
    succeeds, else remove it.

    With `once`, a file that another process wrote first is kept.
    """
    target = Path(path)
    try:
        if target.is_dir():
            raise IsADirectoryError(EISDIR, "It is a folder")
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = (
            target.parent / f".{target.stem}-{secrets.token_hex(8)}{target.suffix}"
        )
        os.close(
            os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666)
        )  # less the user's mask
    except OSError as error:
        if isinstance(error, FileExistsError | NotADirectoryError):
            error.strerror = "Its folder is a file"
        raise _not_writable(target, error.strerror) from None
    try:
        yield temporary
        if once:
            _keep_first(temporary, target)
        else:
            temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)


def _keep_first(temporary: Path, target: Path) -> None:
    try:
        os.link(
            temporary, target
        )  # unlike a rename, it fails where there is such a file
    except FileExistsError:
        return
    except OSError:  # a file system without links: another process may write in between
        if not target.exists():
            temporary.replace(target)
