"""Files that a visitor sends: in pieces, so that none is larger than the server takes at a time."""

from collections.abc import Callable
from typing import Any

import panel as pn

PIECE = 1_000_000  # bytes


class Dropper(pn.widgets.FileDropper):
    """A field for files whose pieces are counted here as well: a page that was changed may send them without end."""

    most = 0  # bytes of a file

    def _process_event(self, event: Any) -> None:
        name, piece = event.data.get("name"), event.data.get("data", b"")
        if event.event_name == "upload_event":
            waiting = sum(len(part) for parts in self._file_buffer.values() for part in parts)
            known = name in self._file_buffer or event.data.get("chunk") == 1
            if not known or waiting + len(piece) > self.most:
                self._file_buffer.clear()
                return
        super()._process_event(event)


def dropper(most: int, on_file: Callable[[str, bytes], None], **options: Any) -> Any:
    """A field for a file of at most so many bytes, which the page says and the server holds."""
    field = Dropper(
        max_file_size=f"{most // 10**6}MB", previews=[], chunk_size=PIECE, sizing_mode="stretch_width", **options
    )
    field.most = most + PIECE  # what is a little too large is answered in a sentence

    def sent(event: Any) -> None:
        """Hand on the file that came, and forget it here: the next may have the same name."""
        files = dict(event.new)
        if files:
            field.value = {}
        for name, data in files.items():
            on_file(name, data.encode() if isinstance(data, str) else data)

    field.param.watch(sent, "value")
    return field
