"""Files that a visitor sends: in pieces, so that none is larger than the server takes at a time."""

from collections.abc import Callable
from typing import Any

import panel as pn

PIECE = 1_000_000  # bytes


def dropper(most: int, on_file: Callable[[str, bytes], None], **options: Any) -> Any:
    """A field for a file of at most so many bytes, which the page says and the server must check again."""
    field = pn.widgets.FileDropper(
        max_file_size=f"{most // 10**6}MB", previews=[], chunk_size=PIECE, sizing_mode="stretch_width", **options
    )

    def sent(event: Any) -> None:
        """Hand on the file that came, and forget it here: the next may have the same name."""
        files = dict(event.new)
        if files:
            field.value = {}
        for name, data in files.items():
            on_file(name, data.encode() if isinstance(data, str) else data)

    field.param.watch(sent, "value")
    return field
